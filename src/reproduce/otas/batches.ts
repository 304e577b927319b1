/** Figures 11 and 12: what batches are like. */
import type { Finding, Table } from "../experiment.js";
import type { Figure } from "../figure.js";
import { type Case, caseName, type Measured, resultOf, STEPS } from "./runs.js";
import { OTAS, type OtasSystem } from "./systems.js";

/** "The average accuracy of our method is larger than 90 %" (§V). */
const PAPER_ACCURACY = 0.9;

export const accuracyFigure = (id: string, cases: readonly Case[], runs: readonly Measured[]): Figure => ({
  kind: "lines",
  id,
  title: "Batches by which part of them is right",
  caption: "Distribution over batches; small ones are all right or not at all.",
  panels: cases.map(caseName),
  columns: 2,
  shape: "step",
  x: { title: "right answers of a batch", percent: true, domain: [0.5, 1] },
  y: { title: "part of the batches", percent: true },
  series: [...new Set(runs.map(({ system }) => system.name))].map((name) => ({ name })),
  rows: runs.flatMap(({ at, system, result }) =>
    result.batches_up_to.flatMap((y, step) =>
      2 * step < STEPS ? [] : [{ x: step / STEPS, y, series: system.name, panel: caseName(at) }],
    ),
  ),
});

export const accuracyTable = (cases: readonly Case[], runs: readonly Measured[]): Table => ({
  title: "Right answers: of those in time, and part of the batches of which at least so many are right",
  columns: [
    { title: "workload" },
    { title: "system" },
    ...["of those in time", "80 %", "90 %", "all"].map((title) => ({ title, align: "right" as const })),
  ],
  rows: cases.flatMap((at) =>
    runs
      .filter((run) => caseName(run.at) === caseName(at))
      .map(({ system, result }) => {
        const atLeast = (part: number): number => 1 - result.batches_up_to[Math.round(part * STEPS) - 1]!;
        return [
          caseName(at),
          system.name,
          ...[result.accuracy.mean, atLeast(0.8), atLeast(0.9), atLeast(1)].map((part) => (100 * part).toFixed(1)),
        ];
      }),
  ),
});

export const accuracyFindings = (cases: readonly Case[], runs: readonly Measured[]): Finding[] =>
  cases.map((at) => {
    const { mean } = resultOf(runs, at, OTAS).result.accuracy;
    return {
      promise: `${caseName(at)}: OTAS is right in more than ${100 * PAPER_ACCURACY} % of what it serves`,
      found: `${(100 * mean).toFixed(1)} %`,
      holds: mean > PAPER_ACCURACY,
    };
  });

/** Gammas by number; then, by name, what is none. */
const byNumber = (a: string, b: string): number => Number(a) - Number(b);

export const gammaFigure = (
  id: string,
  cases: readonly Case[],
  runs: readonly Measured[],
  systems: readonly OtasSystem[],
): Figure => {
  const of = systems.flatMap((system) => cases.map((at) => resultOf(runs, at, system)));
  const names = [...new Set(of.flatMap(({ result }) => Object.keys(result.batches_by)))].sort(byNumber);
  return {
    kind: "bars",
    id,
    title: "Which gamma is chosen",
    caption: "Part of the batches.",
    panels: cases.map(caseName),
    columns: 2,
    groups: names,
    y: { title: "part of the batches", percent: true },
    series: systems.map(({ name }) => ({ name })),
    rows: of.flatMap(({ at, system, result }) =>
      names.map((group) => ({
        group,
        series: system.name,
        y: result.batches_by[group] ?? 0,
        panel: caseName(at),
      })),
    ),
  };
};
