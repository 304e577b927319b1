/** Runs the points of experiments that are not in the store yet, with progress. */
import type { ExperimentPlan, GetResult } from "./experiment.js";
import { digestOf, type Point, type PointResult, RESULT_FORMAT, type ResultOf } from "./point.js";
import type { ResultStore } from "./result-store.js";

export interface Progress {
  readonly done: number;
  readonly total: number;
  /** Found in the store. */
  readonly kept: number;
  /** Seconds until all is done, from the work done so far in this run; null before the first point is done. */
  readonly etaS: number | null;
  /** What was finished last. */
  readonly last: string;
}

export interface RunPointsOptions {
  readonly store: ResultStore;
  /** Runs a point, here or on a thread; may be called for several at once. */
  readonly execute: (point: Point) => Promise<PointResult>;
  /** Points whose result depends on the clock run alone, by this. Default: execute. */
  readonly executeAlone?: (point: Point) => Promise<PointResult>;
  /** Points at once. */
  readonly width: number;
  /** Seconds of a monotonic clock. */
  readonly nowS: () => number;
  readonly onProgress?: (progress: Progress) => void;
}

/**
 * Runs what is missing. A result is in the store as soon as its point is done, so ending the process loses only the
 * points that were running.
 *
 * @returns results by point.
 * @throws what a point threw, after the points that were running have ended.
 */
export async function runPoints(plans: readonly ExperimentPlan[], options: RunPointsOptions): Promise<GetResult> {
  const { store, nowS } = options;
  const wanted = new Map<string, Point>();
  for (const { points } of plans) for (const point of points) wanted.set(digestOf(point), point);
  const missing = [...wanted].filter(([digest]) => store.get(digest) === undefined);
  const kept = wanted.size - missing.length;
  const work = { left: 0, done: 0 };
  for (const [, point] of missing) work.left += costOf(point);
  const startS = nowS();
  let done = kept;
  const runOne = async (
    digest: string,
    point: Point,
    execute: (point: Point) => Promise<PointResult>,
  ): Promise<void> => {
    const fromS = nowS();
    const result = await execute(point);
    const toS = nowS();
    store.add({ digest, format: RESULT_FORMAT, point, result, wall_s: Math.round((toS - fromS) * 1000) / 1000 });
    done++;
    const cost = costOf(point);
    work.left -= cost;
    work.done += cost;
    const etaS = work.done === 0 ? null : ((toS - startS) * work.left) / work.done;
    options.onProgress?.({ done, total: wanted.size, kept, etaS, last: labelOf(point) });
  };
  options.onProgress?.({ done, total: wanted.size, kept, etaS: null, last: kept > 0 ? "kept results" : "starting" });

  const shared = missing.filter(([, point]) => !isAlone(point));
  const alone = missing.filter(([, point]) => isAlone(point));
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < shared.length) {
      const [digest, point] = shared[next++]!;
      try {
        await runOne(digest, point, options.execute);
      } catch (error) {
        next = shared.length;
        throw error;
      }
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: Math.max(1, options.width) }, lane));
  for (const ended of lanes) if (ended.status === "rejected") throw ended.reason;
  for (const [digest, point] of alone) await runOne(digest, point, options.executeAlone ?? options.execute);
  return resultsOf(store);
}

/** @throws Error if the point is not in the store: it was not one of the plan's. */
export function resultsOf(store: ResultStore): GetResult {
  return <P extends Point>(point: P): ResultOf<P> => {
    const stored = store.get(digestOf(point));
    if (stored === undefined) throw new Error(`no result of ${labelOf(point)}`);
    return stored.result as ResultOf<P>;
  };
}

/** Its result depends on how busy the machine is. */
const isAlone = (point: Point): boolean => point.kind === "plan" || point.kind === "core";

/** Runs that a search for a peak takes, per seed; measured. */
const SEARCH_RUNS = 9;
const ROUGH_RUNS = 6;

/** A bound's work, in simulations; measured. */
const IN_TIME_RUNS = 10;
const WHOLE_BATCHES_RUNS = 500;
/** Many kinds are weighed. */
const TIMES_KNOWN_RUNS = 10;
const BOUND_COST = 200_000;

/** Work of a point, in simulated requests or thereabouts: what the time left is estimated from. */
export function costOf(point: Point): number {
  switch (point.kind) {
    case "plan":
      return point.time_limit_ms * 2 * 500;
    case "core":
      return point.requests * 3;
    case "bound":
      return BOUND_COST;
    default: {
      const { arrivals, duration_s: durationS } = point.scenario as {
        readonly arrivals?: { readonly rate_rps?: number };
        readonly duration_s?: number;
      };
      const runs =
        point.kind === "peak"
          ? point.is_rough === true
            ? ROUGH_RUNS
            : SEARCH_RUNS
          : point.kind === "in-time"
            ? (point.batches === "whole" ? WHOLE_BATCHES_RUNS : IN_TIME_RUNS) * point.rates_rps.length
            : point.kind === "times-known"
              ? TIMES_KNOWN_RUNS * point.rates_rps.length
              : point.kind === "sweep"
                ? (point.rates_rps?.length ?? 0) +
                  (point.of_peak === undefined ? 0 : SEARCH_RUNS + point.of_peak.length)
                : point.kind === "accelerators"
                  ? SEARCH_RUNS
                  : 1;
      return runs * point.seeds.length * (arrivals?.rate_rps ?? 1000) * (durationS ?? 60);
    }
  }
}

/** For progress lines. */
export function labelOf(point: Point): string {
  switch (point.kind) {
    case "plan":
      return `plan, seed ${point.seed}`;
    case "core":
      return `core, ${point.models} models, ${point.accelerators} accelerators`;
    case "bound":
    case "in-time":
      return `${String(point.scenario.name ?? "scenario")}, bound`;
    case "times-known":
      return `${String(point.scenario.name ?? "scenario")}, ${point.choice.policy}, times known`;
    default:
      return `${String(point.scenario.name ?? "scenario")}, ${point.choice.policy}`;
  }
}
