/**
 * Figures as SVG, drawn by Vega-Lite without a browser.
 *
 * Colours are written as plain values, so that any viewer shows them; a style sheet inside the SVG replaces each by its
 * dark counterpart where the reader prefers dark.
 */
import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import type { Axis, Figure, SeriesStyle } from "./figure.js";

/** Light colour -> dark colour. Each light colour has one role only. */
const INK = ["#1f2933", "#e6e8eb"] as const;
const INK_SOFT = ["#52606d", "#a6b0ba"] as const;
const RULE = ["#9aa5b1", "#5b6672"] as const;
const GRID = ["#e4e7eb", "#30363d"] as const;
const OURS: readonly (readonly [string, string])[] = [
  ["#1d63d8", "#6ea8ff"],
  ["#e0552b", "#ff8f66"],
  ["#22915f", "#4fcf94"],
  ["#8e4fd6", "#c39bff"],
  ["#b98500", "#f0c04a"],
  ["#0b93a6", "#4fd3e6"],
  ["#cf3468", "#ff86ac"],
  ["#7a5c3e", "#c8a684"],
];
const PUBLISHED: readonly (readonly [string, string])[] = [
  ["#6b7785", "#98a3af"],
  ["#a9b1ba", "#6c7681"],
  ["#3f4a56", "#c3cad1"],
];
const COLOURS = [INK, INK_SOFT, RULE, GRID, ...OURS, ...PUBLISHED];

/** Of a figure, without titles and legend, in pixels. */
const WIDTH = 680;
const HEIGHT = 260;
const GAP = 56;
const LANE_HEIGHT = 26;

/** Style sheet that turns a figure's colours dark; for a page that holds many figures once, for a file each. */
export function darkStyle(scope = ""): string {
  const rules = COLOURS.flatMap(([light, dark]) => [
    `${scope}[fill="${light}"]{fill:${dark}}`,
    `${scope}[stroke="${light}"]{stroke:${dark}}`,
  ]);
  return `@media (prefers-color-scheme: dark){${rules.join("")}}`;
}

/** @returns one SVG element, without a style sheet: for a page. */
export async function renderFigure(figure: Figure): Promise<string> {
  const { spec } = compile(specOf(figure), { logger: silent });
  const view = new View(parse(spec), { renderer: "none" });
  const svg = await view.toSVG();
  view.finalize();
  // Clip paths are numbered from 0 in every figure: two on one page must not share names.
  return slimmed(svg)
    .replace(/(id="|url\(#)(clip|gradient_)(\d+)/g, `$1${figure.id.replace(/[^a-z0-9]+/gi, "-")}-$2$3`)
    .replace(/^<svg /, `<svg role="img" aria-label="${escapeXml(figure.title)}" `);
}

/** Half of what Vega writes is names of groups, invisible shapes and digits that no screen shows. */
function slimmed(svg: string): string {
  return svg
    .replace(/<path class="(?:fore|back)ground"[^>]*?(?:d=""|display="none")[^>]*\/>/g, "")
    .replace(/<path class="background" aria-hidden="true" d="[^"]*"\/>/g, "")
    .replace(/ (?:class|role|aria-[a-z]+)="[^"]*"/g, "")
    .replace(/ (?:d|transform|x1?|x2|y1?|y2|width|height)="[^"]*"/g, (attribute) =>
      attribute.replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Math.round(Number(digits) * 100) / 100)),
    );
}

/** The same as a file of its own. */
export function standalone(svg: string): string {
  return `${svg.replace(/>/, `><style>${darkStyle()}</style>`)}\n`;
}

const escapeXml = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

/** Vega-Lite warns of scales that it merges; there is nobody to read it. */
const silent = {
  level: () => silent,
  error: () => silent,
  warn: () => silent,
  info: () => silent,
  debug: () => silent,
} as never;

function specOf(figure: Figure): TopLevelSpec {
  const { panels } = figure;
  const layered = { layer: layersOf(figure), ...sizeOf(figure) };
  const rows = dataOf(figure);
  const common = {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    background: null,
    padding: 8,
    title: { text: figure.title, anchor: "start", color: INK[0], fontSize: 14, fontWeight: 600, offset: 12 },
    data: { values: rows },
    config: CONFIG,
  };
  const body =
    panels === undefined
      ? layered
      : {
          facet: {
            field: "panel",
            type: "nominal",
            sort: panels,
            title: null,
            // A name longer than its panel would push the panels apart.
            header: { labelExpr: "split(datum.label, ', ')" },
          },
          columns: columnsOf(figure),
          spacing: figure.kind === "spans" ? 12 : GAP / 2,
          spec: layered,
          resolve: {
            scale: {
              y: figure.freeY === true ? "independent" : "shared",
              x: figure.freeX === true ? "independent" : "shared",
            },
          },
        };
  return { ...common, ...body } as unknown as TopLevelSpec;
}

const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const CONFIG = {
  // A description of every bar would be most of the file; the table beside the figure says the same.
  aria: false,
  font: FONT,
  view: { stroke: null },
  axis: {
    labelColor: INK_SOFT[0],
    titleColor: INK_SOFT[0],
    titleFontWeight: "normal",
    gridColor: GRID[0],
    domainColor: RULE[0],
    tickColor: RULE[0],
    labelFontSize: 11,
    titleFontSize: 11,
    labelLimit: 200,
  },
  legend: {
    orient: "bottom",
    direction: "horizontal",
    title: null,
    labelColor: INK[0],
    labelFontSize: 11,
    labelLimit: 260,
    symbolStrokeWidth: 2,
    columnPadding: 14,
  },
  header: { labelColor: INK[0], labelFontSize: 12, labelFontWeight: 600, labelPadding: 6 },
};

function columnsOf({ kind, panels, columns }: Figure): number {
  if (columns !== undefined) return columns;
  const count = panels?.length ?? 1;
  if (kind === "spans") return 1;
  return count <= 3 ? count : count === 4 ? 2 : 3;
}

function sizeOf(figure: Figure): object {
  const columns = columnsOf(figure);
  const width = Math.floor((WIDTH - (columns - 1) * GAP) / columns);
  if (figure.kind === "spans") return { width, height: figure.lanes.length * LANE_HEIGHT };
  return { width, height: (figure.panels?.length ?? 1) > 3 ? HEIGHT * 0.75 : HEIGHT };
}

interface DrawnRow {
  readonly series: string;
  readonly panel?: string;
  readonly low?: number | null;
}

/** Rows with what Vega-Lite filters by. */
function dataOf(figure: Figure): object[] {
  const published = new Set(figure.series.filter(({ kind }) => kind === "published").map(({ name }) => name));
  const rows: readonly DrawnRow[] =
    figure.kind === "spans"
      ? [
          ...figure.rows.map((row) => ({ ...row, isSpan: true })),
          ...figure.marks.map((row) => ({ ...row, isSpan: false })),
        ]
      : figure.rows;
  const places = new Map(figure.series.map(({ name }, index) => [name, index]));
  return rows.map((row) => ({
    ...row,
    place: places.get(row.series),
    isPublished: published.has(row.series),
    hasInterval: row.low !== undefined && row.low !== null,
  }));
}

function colour(series: readonly SeriesStyle[]): object {
  let ours = 0;
  let published = 0;
  const range = series.map(({ kind }) =>
    kind === "published" ? PUBLISHED[published++ % PUBLISHED.length]![0] : OURS[ours++ % OURS.length]![0],
  );
  return {
    field: "series",
    type: "nominal",
    scale: { domain: series.map(({ name }) => name), range },
    legend: series.length < 2 ? null : { columns: legendColumns(series) },
  };
}

/** As many as fit under the figure, by Vega's own estimate of a letter's width. */
function legendColumns(series: readonly SeriesStyle[]): number {
  const longest = Math.max(...series.map(({ name }) => name.length));
  return Math.max(1, Math.min(series.length, Math.floor(WIDTH / (longest * 8.8 + 45))));
}

const titleOf = ({ title, unit }: Axis): string => (unit === undefined ? title : `${title} (${unit})`);

function quantitative(field: string, axis: Axis, zero: boolean): object {
  return {
    field,
    type: "quantitative",
    title: titleOf(axis),
    scale: {
      type: axis.scale ?? "linear",
      ...(axis.domain === undefined ? { zero: zero && axis.scale !== "log" } : { domain: axis.domain, nice: false }),
    },
    axis: {
      tickCount: 6,
      ...(axis.percent === true
        ? { format: "~%" }
        : {
            labelExpr:
              "abs(datum.value) >= 10000 ? format(datum.value / 1000, '~r') + 'k' : format(datum.value, ',~r')",
          }),
    },
  };
}

const onlyOurs = { filter: "!datum.isPublished" };
const onlyPublished = { filter: "datum.isPublished" };
const withInterval = { filter: "datum.hasInterval" };

function layersOf(figure: Figure): object[] {
  switch (figure.kind) {
    case "bars":
      return barLayers(figure);
    case "lines":
      return lineLayers(figure);
    case "spans":
      return spanLayers(figure);
  }
}

function barLayers({ y, groups, series, panels }: Extract<Figure, { kind: "bars" }>): object[] {
  const isWide = groups.join("").length * (panels?.length ?? 1) < 70;
  const names = series.map(({ name }) => name);
  const x = {
    field: "group",
    type: "nominal",
    sort: groups,
    title: null,
    axis: { labelAngle: isWide ? 0 : -35, grid: false },
  };
  const xOffset = { field: "series", type: "nominal", scale: { domain: names, paddingInner: 0.1 } };
  const value = quantitative("y", y, true);
  return [
    { mark: "bar", encoding: { x, xOffset, y: value, color: colour(series) } },
    {
      transform: [withInterval],
      mark: { type: "rule", color: INK[0], strokeWidth: 1.5 },
      encoding: { x, xOffset, y: { ...value, field: "low" }, y2: { field: "high" } },
    },
  ];
}

function lineLayers({
  x,
  y,
  series,
  shape = "line",
  publishedAs = "points",
  rows,
}: Extract<Figure, { kind: "lines" }>): object[] {
  const across = quantitative("x", x, false);
  const value = quantitative("y", y, true);
  const color = colour(series);
  if (shape === "area") {
    return [
      {
        mark: { type: "area", opacity: 0.85, interpolate: "step-after" },
        encoding: { x: across, y: { ...value, stack: "zero" }, color, order: { field: "place", type: "quantitative" } },
      },
    ];
  }
  const interpolate = shape === "step" ? "step-after" : "linear";
  const manyPoints = rows.length / Math.max(1, series.length) > 40;
  return [
    {
      transform: [withInterval],
      mark: { type: "rule", strokeWidth: 1.5, opacity: 0.6 },
      encoding: { x: across, y: { ...value, field: "low" }, y2: { field: "high" }, color },
    },
    {
      transform: [onlyOurs],
      mark: { type: "line", strokeWidth: 2, interpolate },
      encoding: { x: across, y: value, color },
    },
    ...(shape === "step" || manyPoints
      ? []
      : [
          {
            transform: [onlyOurs],
            mark: { type: "point", filled: true, size: 28, opacity: 1 },
            encoding: { x: across, y: value, color },
          },
        ]),
    ...(publishedAs === "points"
      ? []
      : [
          {
            transform: [onlyPublished],
            mark: { type: "line", strokeWidth: 1.5, strokeDash: [5, 4], interpolate },
            encoding: { x: across, y: value, color },
          },
        ]),
    ...(shape === "step" && publishedAs === "line"
      ? []
      : [
          {
            transform: [onlyPublished],
            mark: { type: "point", shape: "diamond", size: 60, filled: false, strokeWidth: 1.8, opacity: 1 },
            encoding: { x: across, y: value, color },
          },
        ]),
  ];
}

function spanLayers({ x, lanes, series }: Extract<Figure, { kind: "spans" }>): object[] {
  const y = {
    field: "lane",
    type: "nominal",
    sort: lanes,
    title: null,
    scale: { domain: lanes },
    axis: { grid: false },
  };
  const across = quantitative("from", x, true);
  const spans = { filter: "datum.isSpan" };
  const color = colour(series);
  return [
    {
      transform: [spans],
      mark: { type: "bar", height: { band: 0.8 } },
      encoding: { y, x: across, x2: { field: "to" }, color },
    },
    {
      transform: [spans, { calculate: "(datum.from + datum.to) / 2", as: "middle" }],
      mark: { type: "text", fontSize: 10, color: "white" },
      encoding: { y, x: { ...across, field: "middle" }, text: { field: "label" } },
    },
    {
      transform: [{ filter: "!datum.isSpan" }],
      mark: { type: "point", filled: true, size: 24, opacity: 1 },
      encoding: { y, x: { ...across, field: "x" }, color },
    },
  ];
}
