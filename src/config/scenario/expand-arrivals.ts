/** The load of a scenario: rates of models, steps of the total, or the requests of a replay. */
import type { DurationUs } from "../../core/time.js";
import { nearest } from "../config-error.js";
import type { IssueList } from "../source.js";
import type { TokenRows } from "./llm/expand-llm.js";
import type { Scenario, ScenarioModel } from "./scenario-schema.js";
import type { RateTrace, Replay } from "./traces.js";

/** A model's rate at t is rateRps * factor[i] for atUs[i] <= t < atUs[i + 1]; atUs[0] = 0. Mean over the duration: 1. */
export interface Modulation {
  readonly atUs: Float64Array;
  readonly factor: Float64Array;
}

export type ExpandedArrivals =
  | {
      readonly kind: "renewal";
      /** Gaps of unit mean: gamma of `shape` (1 = exponential), or all equal (the first request at 0). */
      readonly gaps: "gamma" | "equal";
      readonly shape: number;
      /** Of all models that have none of their own. Null: constant. */
      readonly modulation: Modulation | null;
      /** Arrivals of each model, counted from 0, that do not come; increasing. */
      readonly missing: readonly number[];
    }
  | {
      readonly kind: "replay";
      /** In order of arrival, all before the duration ends. */
      readonly atUs: Float64Array;
      /** Index of the model; beyond all models that of the pipeline. */
      readonly model: Int32Array;
      /** Index in the apps of its model, -1 where that has none; in appNames where no model has any. Null: apps are drawn. */
      readonly app: Int32Array | null;
      readonly appNames: readonly string[];
    };

/** What a scenario names but does not hold. */
export interface ScenarioData {
  readonly trace?: RateTrace;
  readonly replay?: Replay;
  /** Values (ms) of the files that apps name. */
  readonly times?: ReadonlyMap<string, readonly number[]>;
  /** Lengths of the files that models name. */
  readonly lengths?: ReadonlyMap<string, TokenRows>;
}

/** What says how much of the load is a model's or a pipeline's. */
export interface Rated {
  readonly share?: number | undefined;
  readonly rate_rps?: number | undefined;
}

/** Requests per second of each: its own, or its part of the total by share or popularity; 0 with a replay. */
export function loadRates(scenario: Scenario, of: readonly Rated[], totalRps: number): number[] {
  if (scenario.arrivals.process === "replay") return of.map(() => 0);
  if (of[0]?.rate_rps !== undefined) return of.map(({ rate_rps: rateRps }) => rateRps ?? 0);
  const { popularity } = scenario;
  const exponent = typeof popularity === "object" ? popularity.zipf : 0;
  const weights = of.map(({ share }, i) => share ?? (i + 1) ** -exponent);
  let sum = 0;
  for (const weight of weights) sum += weight;
  return weights.map((weight) => (totalRps * weight) / sum);
}

/** A model's own steps within the duration, and the mean of their factors; null if it has none. */
export function modelSteps(
  steps: ScenarioModel["steps"],
  duration: DurationUs,
): { readonly modulation: Modulation; readonly meanFactor: number } | null {
  if (steps === undefined) return null;
  const within = steps.filter(({ at_s }) => at_s * 1e6 < duration);
  const atUs = Float64Array.from(within, ({ at_s }) => Math.round(at_s * 1e6));
  let total = 0;
  within.forEach(({ factor }, i) => {
    total += factor * ((i + 1 < atUs.length ? atUs[i + 1]! : duration) - atUs[i]!);
  });
  const meanFactor = total / duration;
  return {
    modulation: {
      atUs,
      factor: Float64Array.from(within, ({ factor }) => (meanFactor === 0 ? 0 : factor / meanFactor)),
    },
    meanFactor,
  };
}

export interface RateSteps {
  readonly atUs: Float64Array;
  readonly rateRps: Float64Array;
  readonly meanRps: number;
}

/** The total rate as steps within the duration, from a trace or from `steps`; null if it is constant. */
export function rateSteps(scenario: Scenario, data: ScenarioData, duration: DurationUs): RateSteps | null {
  const { arrivals } = scenario;
  const at: number[] = [];
  const rate: number[] = [];
  if (data.trace !== undefined) {
    const scale = arrivals.scale ?? 1;
    data.trace.atS.forEach((second, i) => {
      at.push(Math.round(second * 1e6));
      rate.push(data.trace!.rateRps[i]! * scale);
    });
  } else if (arrivals.steps !== undefined) {
    if (arrivals.steps[0]!.at_s > 0) {
      at.push(0);
      rate.push(arrivals.rate_rps!);
    }
    for (const step of arrivals.steps) {
      at.push(Math.round(step.at_s * 1e6));
      rate.push(step.rate_rps);
    }
  } else return null;
  let size = at.length;
  while (size > 1 && at[size - 1]! >= duration) size--;
  let requests = 0;
  for (let i = 0; i < size; i++) requests += (rate[i]! * ((i + 1 < size ? at[i + 1]! : duration) - at[i]!)) / 1e6;
  return {
    atUs: Float64Array.from(at.slice(0, size)),
    rateRps: Float64Array.from(rate.slice(0, size)),
    meanRps: requests / (duration / 1e6),
  };
}

/** @param names of all models, then of all pipelines: what a replay may name. */
export function expandArrivals(
  scenario: Scenario,
  data: ScenarioData,
  steps: RateSteps | null,
  names: readonly string[],
  duration: DurationUs,
  issues: IssueList,
): ExpandedArrivals {
  const { arrivals } = scenario;
  if (arrivals.process === "replay") return expandReplay(data.replay, names, duration, issues);
  if (steps !== null && steps.meanRps <= 0) {
    const path = arrivals.process === "trace" ? ["arrivals", "trace"] : ["arrivals", "steps"];
    issues.add(path, `must have a rate greater than 0 within the first ${duration / 1e6} s; was 0 throughout`);
  }
  return {
    kind: "renewal",
    gaps: arrivals.process === "uniform" ? "equal" : "gamma",
    shape: arrivals.process === "uniform" ? 1 : (arrivals.shape ?? 1),
    modulation: steps === null ? null : { atUs: steps.atUs, factor: steps.rateRps.map((rate) => rate / steps.meanRps) },
    missing: [...new Set(arrivals.missing ?? [])].map((n) => n - 1).sort((a, b) => a - b),
  };
}

function expandReplay(
  replay: Replay | undefined,
  names: readonly string[],
  duration: DurationUs,
  issues: IssueList,
): ExpandedArrivals {
  if (replay === undefined) {
    issues.add(["arrivals", "replay"], "must be read before the scenario is expanded; was missing");
    return { kind: "replay", atUs: new Float64Array(), model: new Int32Array(), app: null, appNames: [] };
  }
  const indexOf = new Map(names.map((name, i) => [name, i]));
  const translate = replay.modelNames.map((name) => {
    const index = indexOf.get(name);
    if (index === undefined) {
      const near = nearest(name, indexOf.keys());
      const hint = near === null ? "" : `; did you mean ${near}?`;
      issues.add(["arrivals", "replay"], `${replay.file} must name models of the scenario; was "${name}"${hint}`);
    }
    return index ?? -1;
  });
  let size = replay.atUs.length;
  while (size > 0 && replay.atUs[size - 1]! >= duration) size--;
  return {
    kind: "replay",
    atUs: replay.atUs.slice(0, size),
    model: replay.model.slice(0, size).map((index) => translate[index]!),
    app: replay.app?.slice(0, size) ?? null,
    appNames: replay.appNames,
  };
}
