/** Tables and figures of finish rates by case, SLO and load. */
import type { Table } from "../experiment.js";
import type { Figure, LineRow } from "../figure.js";
import { publishedRate, SLOS } from "./published.js";
import {
  type BoundedRow,
  bestAt,
  FULL,
  finishedOf,
  formatFinished,
  LOADS,
  type Measured,
  type MeasuredRow,
  measuredIn,
} from "./runs.js";
import { FAIR, ORLOJ_FAIR, OURS, PLUS, PLUS_KNOWING, PUBLISHED, type ToldSystem } from "./systems.js";

/** Of those given equal information. */
export const BEST_FAIR = "best of the others";

const right = (title: string) => ({ title, align: "right" as const });
const PLACE = [{ title: "case" }, right("SLO"), right("load")];

const placeOf = ({ workload, slo }: MeasuredRow, load: number): string[] => [
  workload.label,
  String(slo),
  LOADS[load]!.toFixed(1),
];

/** A line for each row at each load. */
const lines = <R extends MeasuredRow>(
  rows: readonly R[],
  cellsOf: (row: R, load: number) => readonly string[],
): string[][] => rows.flatMap((row) => LOADS.map((_, load) => [...placeOf(row, load), ...cellsOf(row, load)]));

/** Ours beside the paper's. */
export const publishedTable = (rows: readonly MeasuredRow[]): Table => ({
  title: "As published: finish rate, mean and standard deviation over seeds, beside the paper's",
  columns: [...PLACE, ...PUBLISHED.flatMap(({ name }) => [right(name), right("paper")])],
  rows: lines(rows, (row, load) =>
    PUBLISHED.flatMap((system) => [
      formatFinished(finishedOf(row, system, load)),
      publishedRate(row.workload.caseId, row.slo, system.name)?.toFixed(2) ?? "",
    ]),
  ),
});

/** With the references where rows have them. */
export const fairTable = (rows: readonly (MeasuredRow | BoundedRow)[]): Table => {
  const isBounded = rows.every((row) => "bound" in row);
  return {
    title: "Equal information: finish rate, mean and standard deviation over seeds",
    columns: [
      ...PLACE,
      ...[...FAIR, ...OURS].map(({ name }) => right(name)),
      { title: "best of the others" },
      ...(isBounded ? [right(PLUS_KNOWING.name), right("bound")] : []),
    ],
    rows: lines(rows, (row, load) => [
      ...[...FAIR, ...OURS].map((system) => formatFinished(finishedOf(row, system, load))),
      bestAt(row, FAIR, load).system.name,
      ...("bound" in row ? [formatFinished(row.known[load]!), row.bound[load]!.mean.toFixed(3)] : []),
    ]),
  };
};

/** @param above what is asked for over the best of the others. */
export const reachTable = (rows: readonly BoundedRow[], above: number): Table => ({
  title: `What is asked for, ${above} above the best of the others, beside what no scheduler exceeds`,
  columns: [
    ...PLACE,
    ...[BEST_FAIR, PLUS.name, PLUS_KNOWING.name, "asked for", "bound"].map(right),
    { title: "beyond any scheduler" },
  ],
  rows: lines(rows, (row, load) => {
    const best = bestAt(row, FAIR, load).finished[load]!.mean;
    const bound = row.bound[load]!.mean;
    const means = [best, finishedOf(row, PLUS, load).mean, row.known[load]!.mean, best + above, bound];
    return [...means.map((mean) => mean.toFixed(3)), bound < best + above ? "yes" : "no"];
  }),
});

const SEVERAL = [...FAIR, ORLOJ_FAIR];
/** Which variant of each is shown. */
export const settingsTable = (rows: readonly MeasuredRow[]): Table => ({
  title: "Equal information: what each is told and by which rule it drops, the best over loads and seeds",
  columns: [{ title: "case" }, right("SLO"), ...SEVERAL.map(({ name }) => ({ title: name }))],
  rows: rows.map((row) => [
    row.workload.label,
    String(row.slo),
    ...SEVERAL.map((system) => measuredIn(row, system).told.label),
  ]),
});

const x = { title: "SLO", unit: "times P99" };
export const FINISH_RATE = { title: "finish rate", percent: true, domain: [0, 1] } as const;

const pointOf = (row: MeasuredRow, measured: Measured, series: string): LineRow => {
  const { mean, sd } = measured.finished[FULL]!;
  return {
    x: row.slo,
    y: mean,
    low: Math.max(0, mean - sd),
    high: Math.min(1, mean + sd),
    series,
    panel: row.workload.caseId,
  };
};

/** All cases at full load. */
export function tableFigure(id: string, title: string, rows: readonly MeasuredRow[]): Figure {
  const shown = [...PUBLISHED, PLUS];
  return {
    kind: "lines",
    id,
    title,
    caption: `Part of the requests in time at load ${LOADS[FULL]}. Vertical lines: one standard deviation over seeds. The best of the others: given equal information. The paper's numbers are in the table.`,
    panels: [...new Set(rows.map(({ workload }) => workload.caseId))],
    x,
    y: FINISH_RATE,
    series: [...shown.map(({ name }) => ({ name })), { name: BEST_FAIR }],
    rows: rows.flatMap((row) => [
      ...shown.map((system) => pointOf(row, measuredIn(row, system), system.name)),
      pointOf(row, bestAt(row, FAIR, FULL), BEST_FAIR),
    ]),
  };
}

/** Some cases as the paper draws them, above; the paper's numbers below. */
export function viewFigure(
  id: string,
  title: string,
  rows: readonly MeasuredRow[],
  systems: readonly ToldSystem[],
): Figure {
  const cases = [...new Set(rows.map(({ workload }) => workload.caseId))];
  const paper = (caseId: string): string => `${caseId}, paper`;
  return {
    kind: "lines",
    id,
    title,
    caption: `Part of the requests in time. Above: ours at load ${LOADS[FULL]}, vertical lines are one standard deviation over seeds. Below: the paper's.`,
    panels: [...cases, ...cases.map(paper)],
    columns: cases.length,
    x,
    y: FINISH_RATE,
    series: systems.map(({ name }) => ({ name })),
    rows: [
      ...rows.flatMap((row) => systems.map((system) => pointOf(row, measuredIn(row, system), system.name))),
      ...cases.flatMap((caseId) =>
        SLOS.flatMap((slo) =>
          systems.flatMap(({ name }): LineRow[] => {
            const theirs = publishedRate(caseId, slo, name);
            return theirs === undefined ? [] : [{ x: slo, y: theirs, series: name, panel: paper(caseId) }];
          }),
        ),
      ),
    ],
  };
}
