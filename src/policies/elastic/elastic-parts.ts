/** What elastic queues of the policies here are made of. */
import type { QueueView } from "../../core/policy.js";
import type { OptionsOf } from "../options.js";
import { TimeDemand } from "./allocation/time-demand.js";
import type { POOL_OPTIONS } from "./elastic-options.js";
import type { ElasticTimes } from "./elastic-times.js";
import { ArrivalPool } from "./pools/arrival-pool.js";

export type PoolOptions = OptionsOf<typeof POOL_OPTIONS>;

/** By way: requests of a batch at most. */
export const sizesOf = (times: ElasticTimes, { memory_mb = Number.POSITIVE_INFINITY }: PoolOptions): Int32Array =>
  times.sizesWithin(memory_mb);

/** Requests of a batch at most, by whatever way. */
export const sizeMaxOf = (times: ElasticTimes, { epsilon }: PoolOptions): number => Math.min(epsilon, times.sizeMax);

/** Batches as Algorithm 1 has them. */
export const poolByArrival = (core: QueueView, times: ElasticTimes, options: PoolOptions): ArrivalPool =>
  new ArrivalPool(core, times, {
    waitUs: options.delta_ms * 1000,
    sizeMax: sizeMaxOf(times, options),
    deadlineUs: options.eta_ms * 1000,
    utility: options.mu,
  });

/** Nothing is asked for yet. Of a task that nobody knows all answers are right. @param forgetUs see TimeDemand. */
export function demandOf(times: ElasticTimes, options: PoolOptions, forgetUs: number): TimeDemand {
  const size = sizeMaxOf(times, options);
  const costUs = Float64Array.from({ length: times.count }, (_, way) => times.timeUs(way, size) / size);
  return new TimeDemand(times.accuracyTable(), costUs, forgetUs);
}
