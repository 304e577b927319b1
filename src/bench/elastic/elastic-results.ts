/** What runs on an elastic model say: the part of the ceiling that is earned, how queries ended, and gains over what never changes its gamma. */
import { mean, tInterval95 } from "../../measure/statistics.js";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import type { BenchResult } from "../bench-result.js";
import { type CasePlan, digestOf, type MeasuredCase } from "../default/kept-cases.js";
import { isComparable, type PairedRun } from "../default/paired-runs.js";
import { COMMON, type ElasticContender, JUDGED, PLAIN } from "./elastic-contenders.js";
import type { QueryType } from "./elastic-workload.js";
import type { ElasticCounts } from "./labelled-load.js";
import type { Accuracy } from "./served-elastic.js";

export type ElasticRun = PairedRun & ElasticCounts;

export interface ElasticCase extends MeasuredCase {
  readonly runs: readonly ElasticRun[];
  readonly accuracy: Accuracy;
  readonly types: readonly QueryType[];
}

export interface ElasticReport {
  readonly plan: CasePlan;
  readonly measured: ElasticCase;
}

/** Over the best fixed gamma, and over gamma 0 with dropping. */
export const GOAL = 0.15;

/** Pairs in which all that ran can be compared. */
export function validPairs(runs: readonly ElasticRun[]): (readonly ElasticRun[])[] {
  const pairs = [...new Set(runs.map(({ pair }) => pair))].map((pair) => runs.filter((run) => run.pair === pair));
  return pairs.filter((pair) => pair.length > 1 && isComparable(pair));
}

const runsOf = (runs: readonly ElasticRun[], name: string): ElasticRun[] =>
  validPairs(runs).flatMap((pair) => pair.filter(({ contender }) => contender === name));

const sumOf = <T>(items: readonly T[], of: (item: T) => number): number =>
  items.reduce((sum, item) => sum + of(item), 0);

/** By what they earned over the pairs that they all ran in: the most first. */
export function byEarned<T extends { readonly name: string }>(
  contenders: readonly T[],
  runs: readonly ElasticRun[],
): T[] {
  const common = validPairs(runs).filter((pair) =>
    contenders.every(({ name }) => pair.some(({ contender }) => contender === name)),
  );
  const earned = ({ name }: T): number => sumOf(common.flat(), (run) => (run.contender === name ? run.earned : 0));
  return [...contenders].sort((a, b) => earned(b) - earned(a));
}

/** Of the fixed ones, gamma 0 among them, that ran in every valid pair: the one that earned most, by hindsight. */
function bestFixed({ measured: { runs } }: ElasticReport): string {
  const pairs = validPairs(runs);
  const names = [...new Set(runs.map(({ contender }) => contender))].filter(
    (name) =>
      (name === PLAIN.name || !COMMON.some((each) => each.name === name)) &&
      pairs.every((pair) => pair.some(({ contender }) => contender === name)),
  );
  return (
    byEarned(
      names.map((name) => ({ name })),
      runs,
    )[0]?.name ?? PLAIN.name
  );
}

/** Of what one earned over another on the same arrivals, less 1, by pair. */
function gains(runs: readonly ElasticRun[], own: string, other: string): number[] {
  return validPairs(runs).flatMap((pair) => {
    const [a, b] = [own, other].map((name) => pair.find(({ contender }) => contender === name));
    return a === undefined || b === undefined || b.earned === 0 ? [] : [a.earned / b.earned - 1];
  });
}

/** A row for each load and contender that ran in more than its sweep, and for the best fixed gamma. */
export function loadResults(reports: readonly ElasticReport[]): BenchResult[] {
  return reports.flatMap((report) => {
    const fixed = bestFixed(report);
    const rows = COMMON.map(({ name }) => loadResult(report, name, name));
    return [...rows, loadResult(report, fixed, "best fixed gamma")];
  });
}

function loadResult(report: ElasticReport, contender: string, shown: string): BenchResult {
  const { plan, measured } = report;
  const runs = runsOf(measured.runs, contender);
  const arrived = sumOf(runs, (run) => run.arrived);
  const shares = runs.map(({ earned, ceiling }) => earned / ceiling);
  const part = (of: (run: ElasticRun) => number): number => sumOf(runs, of) / arrived;
  const lags = runs.map(({ lag_ms }) => lag_ms ?? 0);
  const voids = [
    ...new Set(measured.runs.flatMap((run) => (run.contender === contender ? (run.void_reason ?? []) : []))),
  ];
  const figures = {
    load: plan.load,
    offered_rps: measured.offered_rps,
    of_ceiling: shares.length === 0 ? Number.NaN : mean(shares),
    in_time: part((run) => run.in_time),
    right_in_time: part((run) => run.right),
    dropped: part((run) => run.dropped),
    late: part((run) => run.late),
  };
  return {
    name: `elastic at ${plan.load}, ${shown}`,
    value: 100 * figures.of_ceiling,
    unit: "% of the ceiling",
    detail: [
      `${shown === contender ? "" : `${contender}: `}in time and right ${percent(figures.right_in_time)}, in time ${percent(figures.in_time)}, ` +
        `dropped ${percent(figures.dropped)}, late ${percent(figures.late)}`,
      `by gamma ${mixText(runs)}`,
      `${runs.length} runs of ${(arrived / Math.max(1, runs.length)).toFixed(0)} queries${shares.length < 2 ? "" : `, ${intervalText(tInterval95(shares))}`}`,
      `sent ${Math.max(0, ...lags).toFixed(1)} ms late at most (p99)`,
      ...voids.map((reason) => `void: ${reason}`),
    ].join("; "),
    digest: digestOf(plan),
    figures,
  };
}

function mixText(runs: readonly ElasticRun[]): string {
  const counts = new Map<number, number>();
  for (const { gammas } of runs)
    for (const [gamma, count] of Object.entries(gammas))
      counts.set(Number(gamma), (counts.get(Number(gamma)) ?? 0) + count);
  const total = sumOf([...counts.values()], (count) => count);
  if (total === 0) return "none";
  const row = [...counts].sort(([a], [b]) => a - b);
  return row.map(([gamma, count]) => `${gamma}: ${percent(count / total)}`).join(", ");
}

/** What is gained at each load over the best fixed gamma and over gamma 0, and whether that is enough. */
export function gainResults(reports: readonly ElasticReport[]): BenchResult[] {
  return reports.flatMap((report) =>
    JUDGED.flatMap((contender) => [
      gainResult(report, contender, bestFixed(report), "the best fixed gamma"),
      gainResult(report, contender, PLAIN.name, "gamma 0 with dropping"),
    ]),
  );
}

function gainResult(
  { plan, measured }: ElasticReport,
  { name }: ElasticContender,
  other: string,
  shown: string,
): BenchResult {
  const own = gains(measured.runs, name, other);
  const value = own.length === 0 ? Number.NaN : mean(own);
  const verdict = Number.isNaN(value) ? "VOID" : value >= GOAL ? "MET" : "MISSED";
  const interval = own.length < 2 ? "" : ` ${intervalText(tInterval95(own))}`;
  return {
    name: `elastic gain at ${plan.load}, ${name} over ${shown}`,
    value: 100 * value,
    unit: "% utility",
    detail: `${verdict} ${100 * GOAL} %: over '${other}' in ${own.length} pairs${interval}`,
    digest: digestOf(plan),
  };
}

export function ceilingFigure(reports: readonly ElasticReport[]): Figure {
  const series = [...COMMON.map(({ name }) => name), "best fixed gamma"];
  const rows = reports.flatMap((report) =>
    series.flatMap((name): LineRow[] => {
      const contender = name === "best fixed gamma" ? bestFixed(report) : name;
      const shares = runsOf(report.measured.runs, contender).map(({ earned, ceiling }) => earned / ceiling);
      if (shares.length === 0) return [];
      const { low, high } = shares.length < 2 ? { low: null, high: null } : tInterval95(shares);
      return [{ x: report.plan.load, y: mean(shares), low, high, series: name }];
    }),
  );
  return {
    id: "elastic-live",
    title: "Utility earned on real images, live",
    caption:
      "Utility of queries answered in time with their true label, relative to all in time at the best gamma for their task; bursts of a trace scaled to each load. " +
      "Bars: 95 % intervals of the mean over runs.",
    kind: "lines",
    x: { title: "offered load", unit: "of the capacity at gamma 0" },
    y: { title: "utility", unit: "of the ceiling", percent: true },
    series: series.map((name) => ({ name })),
    rows,
  };
}

const percent = (part: number): string => (Number.isNaN(part) ? "–" : `${(100 * part).toFixed(1)} %`);
const intervalText = ({ low, high }: { readonly low: number; readonly high: number }): string =>
  `[${percent(low)}, ${percent(high)}]`;
