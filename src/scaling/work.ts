/** What the arrivals of one queue cost, in accelerator time: the unit in which queues of different models add up. */
import { targetSize } from "../policies/deferred/target-size.js";

/**
 * Accelerator time per request in batches of the size that the scheduler aims for at this rate (policies/deferred/target-size.ts).
 *
 * @param execUs l(b), µs; see core/latency/latency.ts. @param sloUs the promise, µs; a batch takes at most half of it where the rate is unknown.
 * @param ratePerUs arrivals per microsecond; NaN: unknown. @returns µs, above 0.
 */
export function workPerRequestUs(execUs: Float64Array, sloUs: number, ratePerUs: number): number {
  const size = targetSize(execUs, sloUs, sloUs, 0, ratePerUs > 0 ? ratePerUs : Number.NaN);
  return execUs[size]! / size;
}

/** What happened to one queue since the last decision. */
export interface QueueCounts {
  readonly execUs: Float64Array;
  readonly sloUs: number;
  readonly arrived: number;
  /** Ended without having been executed, for lack of time or accelerators. */
  readonly dropped: number;
  /** Wait now. */
  readonly waiting: number;
  /** How long requests that wait may take in the mean, µs: a part of a pipeline's has more than its model promises. Absent: sloUs. */
  readonly allowedUs?: number;
}

/** Sums over the queues of a group, in accelerator time. */
export interface GroupWork {
  arrivedWorkUs: number;
  droppedWorkUs: number;
  /** Accelerators that would finish all that waits by its deadline. */
  queuedAccelerators: number;
}

/**
 * Adds one queue to the sums of its group.
 *
 * What waits has been promised within its time and some of that has passed, but the moment of each request is not looked
 * at: work over that time is what a burst needs that has just arrived, and less than the truth for an old one, whose
 * requests are dropped and counted there.
 *
 * @param scale mean execution time on the group's accelerators relative to the profile.
 */
export function addWork(sums: GroupWork, queue: QueueCounts, intervalUs: number, scale: number): void {
  const workUs = workPerRequestUs(queue.execUs, queue.sloUs, queue.arrived / intervalUs) * scale;
  sums.arrivedWorkUs += queue.arrived * workUs;
  sums.droppedWorkUs += queue.dropped * workUs;
  if (queue.waiting === 0) return;
  // A burst runs in the largest batches, whatever the rate was.
  const burstUs = workPerRequestUs(queue.execUs, queue.sloUs, Number.NaN) * scale;
  sums.queuedAccelerators += (queue.waiting * burstUs) / (queue.allowedUs ?? queue.sloUs);
}
