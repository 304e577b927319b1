/**
 * Points: the least pieces of an experiment that are run, kept and resumed. A point says everything that its result
 * depends on, as plain JSON, so that a digest of it names the result.
 */
import { createHash } from "node:crypto";
import type { SeedStatistics } from "../measure/report.js";

/**
 * Version of what results hold and how they are measured. Raise it when either changes: results of other versions are
 * not read.
 */
export const RESULT_FORMAT = 3;

/** A scenario as in a scenario file. */
export type ScenarioFields = Readonly<Record<string, unknown>>;

export interface Choice {
  readonly policy: string;
  readonly options: Readonly<Record<string, unknown>>;
}

interface Simulated {
  /** Its rate is only a start where rates are searched. */
  readonly scenario: ScenarioFields;
  readonly choice: Choice;
  readonly seeds: readonly number[];
}

/** The highest rate with at most 1 % bad in every model, and how the system runs there. */
export interface PeakPoint extends Simulated {
  readonly kind: "peak";
  /** Relative precision for the given seeds. */
  readonly tolerance: number;
  /** Also: how requests spread over batch sizes and queueing delays at the peak. */
  readonly details: boolean;
  /** Fewer runs, no interval, no runs at the peak: where many cases count and not each of them. */
  readonly is_rough?: boolean;
}

/** What happens at given rates, or at multiples of the system's own peak. */
export interface SweepPoint extends Simulated {
  readonly kind: "sweep";
  readonly rates_rps?: readonly number[];
  readonly of_peak?: readonly number[];
  readonly tolerance: number;
  /** As for peaks. */
  readonly is_rough?: boolean;
  /** Also: what any schedule keeps busy at each rate. */
  readonly with_least?: boolean;
}

/** What no scheduler exceeds, whatever it knows (capacity/bounds.ts). */
export interface BoundPoint {
  readonly kind: "bound";
  readonly scenario: ScenarioFields;
  readonly seed: number;
}

/**
 * The part of requests that no scheduler exceeds at given rates, whatever it knows (capacity/in-time/in-time.ts); with whole batches nearer
 * to what can be had, and 50 times the work (capacity/priced).
 */
export interface InTimePoint {
  readonly kind: "in-time";
  readonly batches?: "whole";
  readonly scenario: ScenarioFields;
  readonly seeds: readonly number[];
  readonly rates_rps: readonly number[];
}

/** What a policy that plans by kinds does at given rates if it knows what each request takes (capacity/times-known.ts). */
export interface TimesKnownPoint extends Simulated {
  readonly kind: "times-known";
  readonly rates_rps: readonly number[];
}

/** The fewest accelerators that serve a rate with at most 1 % bad in every model. */
export interface AcceleratorsPoint extends Simulated {
  readonly kind: "accelerators";
  readonly rate_rps: number;
  /** No more are tried. */
  readonly accelerators_max: number;
}

/** Every batch and every drop of one short run. */
export interface TimelinePoint extends Simulated {
  readonly kind: "timeline";
}

/** A run in slices of time. */
export interface SeriesPoint extends Simulated {
  readonly kind: "series";
  readonly every_s: number;
}

/** A run of one pipeline. */
export interface PipelinePoint extends Simulated {
  readonly kind: "pipeline";
  /**
   * Also, of the first seed: counts by second; what modules took, by second; budgets that were left on the way; what requests spent their time on;
   * times in modules. bound: of all seeds, what no scheduler is below (capacity/in-time/pipeline-in-time.ts).
   */
  readonly details: readonly ("seconds" | "arrivals" | "modules" | "budgets" | "spent" | "stays" | "bound")[];
  /** Modules whose accelerator time counts for the invalid rate; absent: all. */
  readonly spent_in?: readonly string[];
}

/** A run of elastic models: what is earned. */
export interface ElasticPoint extends Simulated {
  readonly kind: "elastic";
  /** Of the distribution of batches by which part of each was right. */
  readonly steps: number;
}

/** One partitioning problem: the plan, greedy with swaps, random search. */
export interface PlanPoint {
  readonly kind: "plan";
  readonly seed: number;
  readonly time_limit_ms: number;
}

/** Arrivals that the scheduling core decides per CPU-second on one thread; measured, not simulated. */
export interface CorePoint {
  readonly kind: "core";
  readonly models: number;
  readonly accelerators: number;
  readonly requests: number;
}

export type Point =
  | PeakPoint
  | SweepPoint
  | BoundPoint
  | InTimePoint
  | TimesKnownPoint
  | AcceleratorsPoint
  | TimelinePoint
  | SeriesPoint
  | PipelinePoint
  | ElasticPoint
  | PlanPoint
  | CorePoint;

/** An estimate over seeds with its 95 % interval; low and high are null with one seed. */
export interface Estimate {
  readonly mean: number;
  readonly low: number | null;
  readonly high: number | null;
}

/** How a system runs at one offered rate. */
export interface LoadResult {
  readonly offered_rps: number;
  readonly goodput_rps: Estimate;
  /** Part of the requests that finished in time; over seeds. */
  readonly finish_rate: SeedStatistics;
  readonly bad_rate: number;
  /** Of the model that does worst, by its mean over seeds. */
  readonly worst_bad_rate: number;
  readonly utilization: number;
  /** The least utilization of any schedule with at most 1 % of each model bad; where it was asked for. */
  readonly least_utilization?: number;
  readonly batch_mean: number | null;
}

export interface PeakResult {
  readonly peak_rps: Estimate;
  readonly found: "root" | "below" | "above";
  /** Name of the model that limits the rate. */
  readonly worst_model: string;
  readonly runs: number;
  /** Null if the search was rough. */
  readonly at_peak: LoadResult | null;
  /** requests[b] = share of requests that were executed in a batch of b; [0] = 0. Null without details. */
  readonly requests_by_batch: readonly number[] | null;
  /** Milliseconds from arrival to the start of execution at the percentiles 0, 1, ..., 100. */
  readonly queue_delay_ms: readonly number[] | null;
}

export interface SweepResult {
  /** Null where rates were given. */
  readonly peak_rps: Estimate | null;
  readonly loads: readonly LoadResult[];
}

/** See fluidBoundRps, gatheringBoundRps, leastBusy. */
export interface BoundResult {
  readonly fluid_rps: number;
  readonly gathering_rps: number;
  /** Accelerators that any schedule keeps busy at the scenario's own rate. */
  readonly least_busy: number;
}

/** By rate; over seeds. */
export interface InTimeResult {
  readonly finish_rates: readonly SeedStatistics[];
}

export interface AcceleratorsResult {
  /** Null: more than accelerators_max. */
  readonly accelerators: number | null;
  readonly tried: readonly { readonly accelerators: number; readonly worst_bad_rate: number }[];
}

export interface TimelineResult {
  readonly batches: readonly {
    readonly accelerator: number;
    readonly start_us: number;
    readonly end_us: number;
    readonly size: number;
    /** Numbers of its requests, from 1 in order of arrival over all models. */
    readonly requests: readonly number[];
  }[];
  readonly arrivals: readonly { readonly request: number; readonly at_us: number; readonly dropped: boolean }[];
}

export interface SeriesResult {
  readonly models: readonly string[];
  readonly slices: readonly {
    readonly at_s: number;
    /** Per model, requests per second. */
    readonly offered_rps: readonly number[];
    readonly good_rps: readonly number[];
    readonly bad_rate: number;
    /** Accelerators that ran anything in the slice. */
    readonly used: number;
    /** Busy time of all of them together, in accelerators. */
    readonly busy: number;
  }[];
  /** Decisions of the scenario's autoscale; empty without it. */
  readonly advice: readonly { readonly at_s: number; readonly needed: number; readonly advice: number }[];
  readonly changes_of_direction: number;
  readonly load: LoadResult;
}

export interface PipelineResult {
  /** Requests that did not finish in time, of all; accelerator time that was spent on them, of all that was spent. */
  readonly drop_rate: SeedStatistics;
  readonly invalid_rate: SeedStatistics;
  /** Finished in time per second. */
  readonly goodput_rps: SeedStatistics;
  /** By module in the order of the pipeline: part of the lost requests that was lost there; over all seeds. */
  readonly lost_in: readonly { readonly module: string; readonly share: number }[];
  /** Least part of the requests that any scheduler loses; and any whose batches are always large enough for the pipeline's capacity. */
  readonly bound?: SeedStatistics;
  readonly keep_up_bound?: SeedStatistics;
  /** By second of arrival, after the warm-up. */
  readonly seconds?: { readonly offered: readonly number[]; readonly good: readonly number[] };
  /** Requests by fifth of a second of arrival, after the warm-up. */
  readonly arrivals?: readonly number[];
  /** By second, mean over parts: milliseconds from coming to a module to its batch's start, and to its end, by module. */
  readonly modules?: readonly {
    readonly module: string;
    readonly wait_ms: readonly (number | null)[];
    readonly stay_ms: readonly (number | null)[];
  }[];
  /**
   * Milliseconds that requests which finished in time spent over all modules of a chain (PARD Eq. 2), at the percentiles 0, 1, ..., 100: queueing
   * (until they entered a batch), waiting in it, execution.
   */
  readonly spent?: {
    readonly queue: readonly number[];
    readonly wait: readonly number[];
    readonly exec: readonly number[];
  };
  /** Milliseconds from coming to a module to the end there, of the parts that ran, at the percentiles 0, 5, ..., 100; none ran: empty. */
  readonly stays?: readonly { readonly module: string; readonly at_ms: readonly number[] }[];
  /** What was left of the SLO when each of the requests in the middle of the run came to a module, ms; null: it did not come there. */
  readonly budgets?: readonly { readonly module: string; readonly left_ms: readonly (number | null)[] }[];
}

export interface ElasticResult {
  /** Utility of all that arrived; earned by what was right in time. */
  readonly offered: SeedStatistics;
  readonly earned: SeedStatistics;
  /** The four types of OTAS §V, as parts of what arrived. */
  readonly right: SeedStatistics;
  readonly wrong: SeedStatistics;
  readonly late: SeedStatistics;
  readonly evicted: SeedStatistics;
  /** Of what was in time. */
  readonly accuracy: SeedStatistics;
  /** By gamma or model of a family: part of the batches, over all seeds. */
  readonly batches_by: Readonly<Record<string, number>>;
  /** Part of the batches of which less than (k + 1) / steps was right; the last, 1, has those with all right. */
  readonly batches_up_to: readonly number[];
}

export interface PlanImbalance {
  readonly load: number;
  readonly memory: number;
  readonly objective: number;
}

export interface PlanResult {
  readonly plan: PlanImbalance;
  readonly greedy: PlanImbalance;
  /** Null: no random partition kept the bounds. */
  readonly random: PlanImbalance | null;
  readonly random_drawn: number;
}

export interface CoreResult {
  readonly arrivals_per_cpu_s: number;
}

export type ResultOf<P extends Point> = P extends PeakPoint
  ? PeakResult
  : P extends SweepPoint
    ? SweepResult
    : P extends BoundPoint
      ? BoundResult
      : P extends InTimePoint | TimesKnownPoint
        ? InTimeResult
        : P extends AcceleratorsPoint
          ? AcceleratorsResult
          : P extends TimelinePoint
            ? TimelineResult
            : P extends SeriesPoint
              ? SeriesResult
              : P extends PipelinePoint
                ? PipelineResult
                : P extends ElasticPoint
                  ? ElasticResult
                  : P extends PlanPoint
                    ? PlanResult
                    : CoreResult;

export type PointResult = ResultOf<Point>;

/** Names a point: SHA-256 over its fields in sorted order and the format of results, 32 hexadecimal digits. */
export function digestOf(point: Point): string {
  return createHash("sha256")
    .update(canonical({ format: RESULT_FORMAT, point }))
    .digest("hex")
    .slice(0, 32);
}

/** JSON with sorted keys; absent and undefined fields are the same. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`);
  return `{${fields.join(",")}}`;
}
