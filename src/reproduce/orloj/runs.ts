/** Runs of ORLOJ's evaluation: a workload at an SLO, under a system, at all loads. */
import type { SeedStatistics } from "../../measure/report.js";
import { type GetResult, pick, type Size, seedsUpTo } from "../experiment.js";
import type { InTimePoint, ScenarioFields, SweepPoint, TimesKnownPoint } from "../point.js";
import { MINUTES, minuteFactors, WARMUP_MINUTES } from "./arrival-rates.js";
import { clairvoyantRps } from "./clairvoyant.js";
import { SLOS } from "./published.js";
import { PLUS_KNOWING, type Told, type ToldSystem } from "./systems.js";
import { ACCELERATORS, modelOf, type Workload } from "./workloads.js";

/** Of the clairvoyant capacity. */
export const LOADS = [0.8, 1, 1.2] as const;
/** Index of the one that stands beside the paper's numbers in figures: "the incoming rate matches the system load" (§5.2). */
export const FULL = LOADS.indexOf(1);

export interface Run {
  /** Counted requests at full load, nearly. */
  readonly requests: number;
  readonly seeds: readonly number[];
}

/** Five runs have the paper's error bars. */
export const runOf = (size: Size): Run => ({
  requests: pick(size, { tiny: 60, small: 3000, default: 3000, full: 10_000 }),
  seeds: seedsUpTo(pick(size, { tiny: 2, small: 2, default: 5, full: 10 })),
});

export const describeRun = ({ requests, seeds }: Run, loads: readonly number[] = LOADS): string =>
  `seeds ${seeds[0]} to ${seeds.at(-1)}, about ${requests.toLocaleString("en-US")} requests each; loads ${loads.join(", ")} of a clairvoyant worker's capacity`;

/** A row of a table. */
export interface Row {
  readonly workload: Workload;
  /** Multiple of the P99 of the time alone. */
  readonly slo: number;
  readonly systems: readonly {
    readonly system: ToldSystem;
    readonly runs: readonly { readonly told: Told; readonly point: SweepPoint }[];
  }[];
  /** What no scheduler exceeds. This and what follows are not of pointsOf: they are run where they are shown. */
  readonly bound: InTimePoint;
  /** Ours with times known, each variant. */
  readonly known: readonly TimesKnownPoint[];
}

export interface RowOptions {
  /** Of the scenario, beside those of the workload. */
  readonly fields?: ScenarioFields;
  readonly loads?: readonly number[];
  /** Of the bound. */
  readonly batches?: "whole";
}

export function rowOf(
  workload: Workload,
  slo: number,
  systems: readonly ToldSystem[],
  run: Run,
  options: RowOptions = {},
): Row {
  const { loads = LOADS, fields = {}, batches } = options;
  const rateRps = fullRpsOf(workload);
  const rates_rps = loads.map((load) => Number((load * rateRps).toPrecision(6)));
  const scenario = scenarioOf(workload, slo, run, rateRps);
  return {
    workload,
    slo,
    systems: systems.map((system) => ({
      system,
      runs: system.variants.map((told) => ({
        told,
        point: {
          kind: "sweep",
          scenario: {
            ...scenario,
            models: [{ ...scenario.models[0], ...told.model }],
            ...(told.learns ? { learn: true } : {}),
            ...fields,
          },
          choice: told.choice,
          seeds: run.seeds,
          rates_rps,
          tolerance: 0.01,
        },
      })),
    })),
    bound: {
      kind: "in-time",
      scenario: { ...scenario, ...fields },
      seeds: run.seeds,
      rates_rps,
      ...(batches === undefined ? {} : { batches }),
    },
    known: PLUS_KNOWING.variants.map(({ choice }) => ({
      kind: "times-known",
      scenario: { ...scenario, ...fields },
      choice,
      seeds: run.seeds,
      rates_rps,
    })),
  };
}

/** At load 1, of a case at any SLO: "the incoming rate trace is kept the same across all experiments" (§5.2). What the loosest SLO allows. */
export const fullRpsOf = (workload: Workload): number =>
  Number(clairvoyantRps(workload, sloMsOf(workload, Math.max(...SLOS))).toPrecision(6));

export const sloMsOf = ({ p99Ms }: Workload, slo: number): number => Number((slo * p99Ms).toFixed(3));

/** Without what a system is told. */
function scenarioOf(workload: Workload, slo: number, run: Run, rateRps: number) {
  const minuteS = run.requests / MINUTES / rateRps;
  const seconds = (minutes: number): number => Number((minutes * minuteS).toFixed(6));
  const factors = [...Array.from({ length: WARMUP_MINUTES }, () => 1), ...minuteFactors()];
  return {
    name: `orloj-${workload.name}-slo-${slo}`,
    duration_s: seconds(WARMUP_MINUTES + MINUTES),
    warmup_s: seconds(WARMUP_MINUTES),
    accelerators: ACCELERATORS,
    models: [modelOf(workload, sloMsOf(workload, slo))] as const,
    arrivals: {
      process: "poisson",
      rate_rps: rateRps,
      steps: factors.map((factor, minute) => ({
        at_s: seconds(minute),
        rate_rps: Number((factor * rateRps).toPrecision(6)),
      })),
    },
  };
}

export const pointsOf = (rows: readonly Row[]): SweepPoint[] =>
  rows.flatMap(({ systems }) => systems.flatMap(({ runs }) => runs.map(({ point }) => point)));

/** What a system's best variant does in a row. */
export interface Measured {
  readonly system: ToldSystem;
  readonly told: Told;
  /** Part of the requests that finished in time, for each of the row's loads; over seeds. */
  readonly finished: readonly SeedStatistics[];
}

export interface MeasuredRow {
  readonly workload: Workload;
  readonly slo: number;
  readonly systems: readonly Measured[];
}

/** With what no scheduler exceeds and what ours would finish with times known, by load. */
export interface BoundedRow extends MeasuredRow {
  readonly bound: readonly SeedStatistics[];
  readonly known: readonly SeedStatistics[];
}

/** The best variant has the highest mean finish rate over the row's loads and seeds. */
export const measuredRows = (rows: readonly Row[], get: GetResult): MeasuredRow[] =>
  rows.map(({ workload, slo, systems }) => ({
    workload,
    slo,
    systems: systems.map(({ system, runs }) =>
      runs
        .map(
          ({ told, point }): Measured => ({
            system,
            told,
            finished: get(point).loads.map(({ finish_rate }) => finish_rate),
          }),
        )
        .reduce((best, each) => (total(each.finished) > total(best.finished) ? each : best)),
    ),
  }));

export const boundedRows = (rows: readonly Row[], get: GetResult): BoundedRow[] =>
  measuredRows(rows, get).map((row, index) => ({
    ...row,
    bound: get(rows[index]!.bound).finish_rates,
    known: rows[index]!.known.map((point) => get(point).finish_rates).reduce((best, each) =>
      total(each) > total(best) ? each : best,
    ),
  }));

const total = (finished: readonly SeedStatistics[]): number => finished.reduce((sum, { mean }) => sum + mean, 0);

/** What a row's table needs beside pointsOf. */
export const referencesOf = (rows: readonly Row[]): (InTimePoint | TimesKnownPoint)[] =>
  rows.flatMap(({ bound, known }) => [bound, ...known]);

/** @param load index of one of the row's loads. */
export const finishedOf = (row: MeasuredRow, system: ToldSystem, load: number): SeedStatistics =>
  measuredIn(row, system).finished[load]!;

export const measuredIn = (row: MeasuredRow, system: ToldSystem): Measured =>
  row.systems.find((each) => each.system === system)!;

/** The best of some systems at a load. */
export const bestAt = (row: MeasuredRow, among: readonly ToldSystem[], load: number): Measured =>
  among
    .map((system) => measuredIn(row, system))
    .reduce((best, each) => (each.finished[load]!.mean > best.finished[load]!.mean ? each : best));

/** "0.973 ± 0.006": mean and standard deviation over seeds. */
export const formatFinished = ({ mean, sd }: SeedStatistics): string => `${mean.toFixed(3)} ± ${sd.toFixed(3)}`;
