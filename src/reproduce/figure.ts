/** Figures as data: what is on which axis. chart.ts draws them. */

export interface Axis {
  readonly title: string;
  /** Shown with the title, in brackets. */
  readonly unit?: string;
  readonly scale?: "linear" | "log";
  readonly domain?: readonly [number, number];
  /** Ticks in per cent; values are fractions. */
  readonly percent?: boolean;
}

interface Common {
  /** Unique in a report; the name of its file. */
  readonly id: string;
  readonly title: string;
  /** What is seen; units and intervals. */
  readonly caption: string;
  /** Values of `panel`, in order: one panel each, beside each other. */
  readonly panels?: readonly string[];
  /** Panels in a row. Default: by their number. */
  readonly columns?: number;
  /** Each panel has its own vertical, horizontal scale. */
  readonly freeY?: boolean;
  readonly freeX?: boolean;
}

/** Series in the order of the legend. `published`: numbers of others (paper, public code), drawn in other marks. */
export interface SeriesStyle {
  readonly name: string;
  readonly kind?: "ours" | "published";
}

export interface BarRow {
  readonly group: string;
  readonly series: string;
  readonly y: number;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly panel?: string;
}

export interface LineRow {
  readonly x: number;
  readonly y: number;
  readonly series: string;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly panel?: string;
}

export interface SpanRow {
  readonly lane: string;
  readonly from: number;
  readonly to: number;
  readonly label: string;
  /** Chooses the colour. */
  readonly series: string;
  readonly panel?: string;
}

export interface MarkRow {
  readonly x: number;
  readonly lane: string;
  readonly series: string;
  readonly panel?: string;
}

export type Figure = Common &
  (
    | {
        readonly kind: "bars";
        readonly y: Axis;
        readonly groups: readonly string[];
        readonly series: readonly SeriesStyle[];
        readonly rows: readonly BarRow[];
      }
    | {
        readonly kind: "lines";
        readonly x: Axis;
        readonly y: Axis;
        readonly series: readonly SeriesStyle[];
        readonly rows: readonly LineRow[];
        /** step: a distribution; area: stacked. Default: straight lines with points. */
        readonly shape?: "line" | "step" | "area";
        /** Whether the numbers of others are a curve. Default: single points. */
        readonly publishedAs?: "points" | "line";
      }
    | {
        readonly kind: "spans";
        readonly x: Axis;
        readonly lanes: readonly string[];
        readonly series: readonly SeriesStyle[];
        readonly rows: readonly SpanRow[];
        readonly marks: readonly MarkRow[];
      }
  );
