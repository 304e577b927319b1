/** Scenarios of Symphony's evaluation, as fields of a scenario file. */

import type { GetResult, Size } from "../experiment.js";
import { pick, seedsUpTo } from "../experiment.js";
import type { Choice, Estimate, PeakPoint, PeakResult, ScenarioFields } from "../point.js";
import type { System } from "../systems.js";

export interface Profile {
  readonly name: string;
  readonly alpha_ms: number;
  readonly beta_ms: number;
  readonly slo_ms: number;
}

/** Table 2's two models; in neither zoo. */
export const RESNET50: Profile = { name: "ResNet50", alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25 };
export const INCEPTION: Profile = { name: "InceptionResNetV2", alpha_ms: 5.09, beta_ms: 18.368, slo_ms: 70 };

/** Delays that the public code plans for: 100 µs of control, 50 µs of data per request, none for the answer. */
export const CODE_DELAYS = { control_us: 100, data_us_per_request: 50, response_us: 0 };

export interface Run {
  /** Counted seconds. */
  readonly seconds: number;
  readonly warmupS: number;
  readonly seeds: readonly number[];
  readonly tolerance: number;
  /** In tests: peaks are searched roughly wherever nothing of them is drawn but their height. */
  readonly isRough: boolean;
}

/** @param seconds counted, by size. */
export function runOf(
  size: Size,
  values: {
    readonly seconds: readonly [small: number, standard: number, full: number];
    readonly seeds: readonly [number, number, number];
  },
): Run {
  const [smallS, defaultS, fullS] = values.seconds;
  const [few, some, many] = values.seeds;
  return {
    seconds: pick(size, { tiny: 0.2, small: smallS, default: defaultS, full: fullS }),
    warmupS: pick(size, { tiny: 0.05, small: 2, default: 5, full: 5 }),
    seeds: seedsUpTo(pick(size, { tiny: 2, small: few, default: some, full: many })),
    tolerance: pick(size, { tiny: 0.09, small: 0.01, default: 0.01, full: 0.002 }),
    isRough: size === "tiny",
  };
}

/** "seeds 1 to 16, 30 s each" */
export function describeRun({ seeds, seconds, warmupS }: Run): string {
  return `seeds ${seeds[0]} to ${seeds.at(-1)}, ${seconds} s each after ${warmupS} s of warm-up`;
}

/** @param fields beside name, duration and warm-up. */
export function scenario(name: string, run: Run, fields: ScenarioFields, warmupS = run.warmupS): ScenarioFields {
  return { name, duration_s: run.seconds + warmupS, warmup_s: warmupS, ...fields };
}

/** A model of its own. */
export function model({ name, alpha_ms, beta_ms, slo_ms }: Profile, count?: number): object {
  return { name, profile: { alpha_ms, beta_ms }, slo_ms, ...(count === undefined ? {} : { count }) };
}

/** Peaks of a system on a scenario: one point per variant. */
export function peaksOf(
  system: System,
  name: string,
  run: Run,
  fields: ScenarioFields,
  options: { readonly details?: boolean } = {},
): PeakPoint[] {
  const warmupS = run.seconds < 1 ? run.warmupS : Math.max(run.warmupS, system.warmupS ?? 0);
  return system.variants.map((choice) => ({
    kind: "peak",
    scenario: scenario(name, run, fields, warmupS),
    choice,
    seeds: run.seeds,
    tolerance: run.tolerance,
    details: options.details ?? false,
    ...(run.isRough && options.details !== true ? { is_rough: true } : {}),
  }));
}

/** The best of a system's variants. */
export function bestOf(
  points: readonly PeakPoint[],
  get: GetResult,
): { readonly choice: Choice; readonly result: PeakResult } {
  let best = { choice: points[0]!.choice, result: get(points[0]!) };
  for (const point of points.slice(1)) {
    const result = get(point);
    if (result.peak_rps.mean > best.result.peak_rps.mean) best = { choice: point.choice, result };
  }
  return best;
}

/** "5,290 [5,271, 5,309]" */
export function formatEstimate({ mean, low, high }: Estimate): string {
  const interval = low === null || high === null ? "" : ` [${formatRate(low)}, ${formatRate(high)}]`;
  return `${formatRate(mean)}${interval}`;
}

export function formatRate(rps: number): string {
  if (rps < 10) return rps.toFixed(2);
  return (rps < 100 ? Math.round(rps * 10) / 10 : Math.round(rps)).toLocaleString("en-US");
}

/** Which variant was the best, where there was a choice: "plan epochs". */
export function describeChoice(system: System, choice: Choice): string {
  if (system.variants.length < 2) return "";
  const others = system.variants.filter((variant) => variant !== choice);
  return Object.entries(choice.options)
    .filter(([key, value]) => others.some((other) => other.options[key] !== value))
    .filter(([key]) => key !== "rate_margin" || choice.options.plan !== "static")
    .map(([key, value]) => `${key.replaceAll("_", " ")} ${String(value)}`)
    .join(", ");
}
