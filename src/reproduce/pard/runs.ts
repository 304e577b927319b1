/** Runs of PARD's evaluation: an application, a trace, workers by one rule, a load, a system. */
import { type GetResult, pick, type Size, seedsUpTo } from "../experiment.js";
import type { PipelinePoint, PipelineResult, ScenarioFields } from "../point.js";
import { type Application, type Mode, waysOf } from "./applications.js";
import { provision } from "./provisioning.js";
import type { PipelineSystem } from "./systems.js";
import { peakOver, type Trace, type Traces } from "./traces/rates.js";

/** "We virtualize the cluster into 64 worker containers". */
export const WORKERS = 64;
/** Of the compressed trace: its peak "minute". */
const PEAK_S = 10;
/** Estimates and priorities are learnt from nothing. */
const WARMUP_S = 10;

/**
 * What load 1 is, as workers are bought for a trace: what all of them do is the trace's mean (`mean`), or its peak minute (`peak`). Scaling is
 * not shown: a cold start is longer than a burst.
 */
export type Rule = "peak" | "mean";
export const RULES: readonly Rule[] = ["peak", "mean"];

export interface Run {
  /** Counted seconds. */
  readonly seconds: number;
  readonly workers: number;
  readonly seeds: readonly number[];
}

export const runOf = (size: Size): Run => ({
  seconds: pick(size, { tiny: 4, small: 60, default: 60, full: 300 }),
  workers: pick(size, { tiny: 6, small: 16, default: WORKERS, full: WORKERS }),
  seeds: seedsUpTo(pick(size, { tiny: 1, small: 2, default: 5, full: 5 })),
});

export function describeRun({ seconds, workers, seeds }: Run, traces: Traces): string {
  const files = traces.flatMap(({ name, file }) => (file === undefined ? [] : [`${name} from ${file}`]));
  return [
    `seeds 1 to ${seeds.length}, ${seconds} s after ${WARMUP_S} s at the mean rate, ${workers} workers`,
    ...files,
  ].join(", ");
}

export interface Case {
  readonly app: Application;
  /** Null: a constant rate. */
  readonly trace: Trace | null;
  readonly rule: Rule;
  readonly load: number;
  /** Position of the module that is short of workers; absent: none is. */
  readonly tight?: number;
}

export const workloadOf = ({ app, trace }: Case): string => `${app.name}-${trace?.name ?? "constant"}`;

export function pointOf(
  at: Case,
  system: PipelineSystem,
  run: Run,
  details: PipelinePoint["details"] = [],
): PipelinePoint {
  return { kind: "pipeline", scenario: scenarioOf(at, system, run), choice: system.choice, seeds: run.seeds, details };
}

function scenarioOf({ app, trace, rule, load, tight }: Case, system: PipelineSystem, run: Run): ScenarioFields {
  const { modules, capacityRps } = provision(app, run.workers, tight);
  const factors = trace?.factors(run.seconds) ?? [1];
  const meanRps = (load * capacityRps) / (rule === "peak" ? peakOver(PEAK_S, factors) : 1);
  const rate = (factor: number): number => Number((factor * meanRps).toPrecision(6));
  return {
    name: `pard-${app.name}-${trace?.name ?? "constant"}`,
    duration_s: WARMUP_S + run.seconds,
    warmup_s: WARMUP_S,
    groups: app.modules.map(({ name }, index) => ({ name, accelerators: modules[index]!.workers })),
    models: app.modules.map(({ name, alphaMs, betaMs }, index) => ({
      name,
      group: name,
      profile: { alpha_ms: alphaMs, beta_ms: betaMs },
      slo_ms: modules[index]!.sloMs,
      batch_max: modules[index]!.batch,
      ...(app.modes?.modules.includes(index)
        ? { apps: [{ name: "any", time: { modes: timesOf(app.modes.of, alphaMs + betaMs, modules[index]!.batch) } }] }
        : {}),
    })),
    pipelines: [
      {
        name: app.name,
        slo_ms: app.sloMs,
        budget: system.budget,
        ...(app.classes === undefined ? {} : { apps: Object.keys(app.classes).map((name) => ({ name })) }),
        modules: app.modules.map(({ name, subs }, id) => ({
          id,
          name,
          subs,
          pres: app.modules.flatMap((other, pre) => (other.subs.includes(id) ? [pre] : [])),
          ...(id === 0 && waysOf(app) !== undefined ? { branch: app.classes ?? app.branch } : {}),
          ...(id === app.parts?.from ? { fan_out: { counts: app.parts.counts } } : {}),
          ...(id === app.parts?.join ? { join: true } : {}),
        })),
      },
    ],
    arrivals: {
      process: "poisson",
      steps: [
        { at_s: 0, rate_rps: rate(1) },
        ...factors.map((factor, second) => ({ at_s: WARMUP_S + second, rate_rps: rate(factor) })),
      ],
    },
  };
}

/** Modes of the time alone such that planned batches, whose longest member counts, take in the mean what the profile says. */
function timesOf(modes: readonly Mode[], aloneMs: number, batch: number): Record<string, number>[] {
  const all = modes.reduce((sum, { weight }) => sum + weight, 0);
  let below = 0;
  let longest = 0;
  for (const { weight, factor } of modes.toSorted((a, b) => a.factor - b.factor)) {
    longest += factor * (((below + weight) / all) ** batch - (below / all) ** batch);
    below += weight;
  }
  return modes.map(({ weight, factor }) => ({
    weight,
    mean_ms: Number(((aloneMs * factor) / longest).toFixed(3)),
    sd_ms: 0,
  }));
}

/** Capacity of an application's workers, requests per second. */
export const capacityRps = (app: Application, run: Run): number => provision(app, run.workers).capacityRps;

export interface Measured {
  readonly at: Case;
  readonly system: PipelineSystem;
  readonly result: PipelineResult;
}

export interface Planned {
  readonly at: Case;
  readonly system: PipelineSystem;
  readonly point: PipelinePoint;
}

export const planned = (
  cases: readonly Case[],
  systems: readonly PipelineSystem[],
  run: Run,
  details: PipelinePoint["details"] = [],
): Planned[] =>
  cases.flatMap((at) => systems.map((system) => ({ at, system, point: pointOf(at, system, run, details) })));

/** With a bound on any scheduler. It is the case's, whoever serves: the first system's runs carry it. */
export const bounded = (cases: readonly Case[], systems: readonly PipelineSystem[], run: Run): Planned[] => [
  ...planned(cases, systems.slice(0, 1), run, ["bound"]),
  ...planned(cases, systems.slice(1), run),
];

export const measured = (runs: readonly Planned[], get: GetResult): Measured[] =>
  runs.map(({ at, system, point }) => ({ at, system, result: get(point) }));

/** "1.23 ± 0.04": per cent, mean and standard deviation over seeds. */
export const formatPercent = ({ mean, sd }: { readonly mean: number; readonly sd: number }): string =>
  `${(100 * mean).toFixed(2)} ± ${(100 * sd).toFixed(2)}`;
