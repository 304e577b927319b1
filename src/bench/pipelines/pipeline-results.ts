/** What runs of a pipeline say: pages in time, where the others were dropped, what was done in vain; by load, and past capacity. */
import { mean, median, tInterval95 } from "../../measure/statistics.js";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import type { BenchResult } from "../bench-result.js";
import { type CasePlan, digestOf, type MeasuredCase } from "../default/kept-cases.js";
import { isComparable, type PairedRun } from "../default/paired-runs.js";
import { accountsTogether, droppedIn, type PipelineAccounts, wasted } from "./pipeline-accounts.js";
import { DEFAULT, modulesBeforeRead } from "./pipeline-contenders.js";
import type { PipelineRunCounts } from "./served-pipelines.js";

export type PipelineRun = PairedRun & PipelineRunCounts;

export interface PipelineCase extends MeasuredCase {
  readonly runs: readonly PipelineRun[];
}

export interface PipelineReport {
  readonly plan: CasePlan;
  readonly measured: PipelineCase;
}

/** Past capacity: goodput relative to its peak, part of the drops before recognition, part of accelerators' time in vain. */
export const GOALS = { goodput: 0.9, early: 0.8, wasted: 0.05 } as const;

interface AtLoad {
  readonly report: PipelineReport;
  /** Pages in time per second, by comparable pair. */
  readonly goodputs: readonly number[];
  readonly goodput: number;
  readonly accounts: PipelineAccounts;
  /** Median over pairs; NaN: no page was answered. */
  readonly p99Ms: number;
}

/** As a plan names those that run in each of its pairs. */
export const contendersOf = ({ policy }: Pick<CasePlan, "policy">): string[] => policy.split(",");
const namesOf = (reports: readonly PipelineReport[]): string[] => [
  ...new Set(reports.flatMap(({ plan }) => contendersOf(plan))),
];

/** Runs of the pairs in which all that ran can be compared. */
function comparable({ plan, measured: { runs } }: PipelineReport): PipelineRun[] {
  const count = contendersOf(plan).length;
  const pairs = [...new Set(runs.map(({ pair }) => pair))].map((pair) => runs.filter((run) => run.pair === pair));
  return pairs.filter((pair) => pair.length === count && isComparable(pair)).flat();
}

function atLoad(report: PipelineReport, contender: string): AtLoad {
  const runs = comparable(report).filter((run) => run.contender === contender);
  const goodputs = runs.map(({ in_time }) => in_time / report.measured.counted_s);
  const p99s = runs.flatMap(({ p99_ms }) => p99_ms ?? []);
  return {
    report,
    goodputs,
    goodput: goodputs.length === 0 ? Number.NaN : mean(goodputs),
    accounts: accountsTogether(runs.map(({ accounts }) => accounts)),
    p99Ms: p99s.length === 0 ? Number.NaN : median(p99s),
  };
}

/** Over all loads; NaN: no load has a comparable pair. */
function peakOf(loads: readonly AtLoad[]): number {
  const valid = loads.map(({ goodput }) => goodput).filter((goodput) => !Number.isNaN(goodput));
  return valid.length === 0 ? Number.NaN : Math.max(...valid);
}

/** A row for each load and contender. */
export function loadResults(reports: readonly PipelineReport[]): BenchResult[] {
  const peaks = new Map(namesOf(reports).map((name) => [name, peakOf(reports.map((report) => atLoad(report, name)))]));
  return reports.flatMap((report) =>
    namesOf(reports).map((name) => loadResult(atLoad(report, name), name, peaks.get(name)!)),
  );
}

function loadResult(own: AtLoad, name: string, peak: number): BenchResult {
  const { plan, measured } = own.report;
  const { accounts, goodput, p99Ms } = own;
  const early = droppedIn(accounts, modulesBeforeRead());
  const ofPeak = goodput / peak;
  const drops = Object.entries(accounts.drops).map(([module, count]) => `${module || "entrance"} ${count}`);
  const voids = [...new Set(measured.runs.flatMap(({ void_reason }) => void_reason ?? []))];
  const arrived = comparable(own.report)
    .filter((run) => run.contender === name)
    .map((run) => run.arrived);
  return {
    name: `${plan.setting} at ${plan.load}, ${name}`,
    value: goodput,
    unit: "pages in time/s",
    detail: [
      `${measured.offered_rps.toFixed(2)} pages/s offered, SLO ${measured.slo_ms.ocr} ms, ${own.goodputs.length} pairs` +
        `${arrived.length === 0 ? "" : ` of ${mean(arrived).toFixed(0)} pages`}`,
      `${percent(ofPeak)} of its peak${differenceText(own, name)}`,
      `dropped ${drops.length === 0 ? "none" : `${drops.join(", ")} (${percent(early)} before recognition)`}`,
      `${percent(wasted(accounts))} of accelerator time in vain, p99 ${p99Ms.toFixed(0)} ms`,
      ...voids.map((reason) => `void: ${reason}`),
    ].join("; "),
    digest: digestOf(plan),
    figures: {
      load: plan.load,
      offered_rps: measured.offered_rps,
      of_peak: ofPeak,
      dropped_early: early,
      wasted: wasted(accounts),
      p99_ms: p99Ms,
    },
  };
}

/** Of the goodput, to the default's on the same arrivals. */
function differenceText(own: AtLoad, name: string): string {
  if (name === DEFAULT.name || own.goodputs.length < 2) return "";
  const others = atLoad(own.report, DEFAULT.name).goodputs;
  const differences = own.goodputs.map((goodput, pair) => goodput - others[pair]!);
  const { low, high } = tInterval95(differences);
  return ` (to ${DEFAULT.name} ${signed(mean(differences))} [${signed(low)}, ${signed(high)}])`;
}

interface Finding {
  readonly name: string;
  readonly unit: string;
  readonly goal: string;
  readonly isHeld: (value: number) => boolean;
  /** NaN: nothing to say. @param past of loads past capacity. @param all of all loads. */
  readonly of: (past: readonly AtLoad[], all: readonly AtLoad[]) => number;
}

const together = (loads: readonly AtLoad[]): PipelineAccounts =>
  accountsTogether(loads.map(({ accounts }) => accounts));

const FINDINGS: readonly Finding[] = [
  {
    name: "goodput past capacity",
    unit: "of its peak, the least of loads",
    goal: `at least ${percent(GOALS.goodput)}`,
    isHeld: (value) => value >= GOALS.goodput,
    of: (past, all) => Math.min(...past.map(({ goodput }) => goodput)) / peakOf(all),
  },
  {
    name: "dropped before recognition",
    unit: "of the drops past capacity",
    goal: `at least ${percent(GOALS.early)}`,
    isHeld: (value) => value >= GOALS.early,
    of: (past) => droppedIn(together(past), modulesBeforeRead()),
  },
  {
    name: "accelerator time in vain",
    unit: "of it, past capacity",
    goal: `below ${percent(GOALS.wasted)}`,
    isHeld: (value) => value < GOALS.wasted,
    of: (past) => wasted(together(past)),
  },
];

/** A row for each contender and finding, over the loads past capacity. */
export function findingResults(reports: readonly PipelineReport[]): BenchResult[] {
  return namesOf(reports).flatMap((name) => {
    const all = reports.map((report) => atLoad(report, name));
    const past = all.filter(({ report }) => report.plan.load > 1);
    return FINDINGS.map(({ name: finding, unit, goal, isHeld, of }): BenchResult => {
      const value = of(past, all);
      const verdict = Number.isNaN(value) ? "void" : isHeld(value) ? "held" : "missed";
      return {
        name: `pipelines ${finding}, ${name}`,
        value,
        unit,
        detail: `${verdict}: wanted ${goal} at ${past.map(({ report }) => report.plan.load).join(", ")} of capacity`,
        digest: "-",
      };
    });
  });
}

export function goodputFigure(reports: readonly PipelineReport[]): Figure {
  const series = namesOf(reports).map((name) => ({ name }));
  const rows = reports.flatMap((report) =>
    series.flatMap(({ name }): LineRow[] => {
      const { goodput, goodputs } = atLoad(report, name);
      if (goodputs.length === 0) return [];
      const { low, high } = goodputs.length < 2 ? { low: null, high: null } : tInterval95(goodputs);
      return [{ x: report.plan.load, y: goodput, low, high, series: name }];
    }),
  );
  return {
    id: "pipelines-live",
    title: "Reading pages under load",
    caption:
      "Pages in time over offered load, the OCR pipeline that ships; bars: 95 % intervals of the mean over pairs.",
    kind: "lines",
    x: { title: "offered load", unit: "of the capacity" },
    y: { title: "pages in time", unit: "1/s" },
    series,
    rows,
  };
}

function percent(part: number): string {
  return Number.isNaN(part) ? "–" : `${(100 * part).toFixed(1)} %`;
}
const signed = (value: number): string => `${value < 0 ? "" : "+"}${value.toFixed(2)}`;
