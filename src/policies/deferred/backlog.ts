import type { OfferTable, QueueKey } from "../../core/policy.js";

/**
 * All that is offered, against the time it has and what it gains by waiting.
 *
 * Time. K batches of W accelerator time in all stand in the order of their latest starts. If those are spread evenly, the k-th may
 * wait k / K of twice the mean and has k / K of W / n before it on n accelerators: all are in time while
 * W / n <= 2 (mean latest - now). From then on an accelerator that idles is missing later.
 *
 * Gain. While all wait, r requests per µs join a batch of b, and each saves beta / b of an accelerator: together r beta / b, over all
 * batches. Above 1 that is more than the accelerator that idles for it.
 *
 * Sums are kept as offers change, so a look costs nothing, however many wait.
 */
export class Backlog {
  private readonly offers: OfferTable;
  private workUs = 0;
  private latestSum = 0;
  private gain = 0;
  private count = 0;
  /** What of each queue is in the sums; work 0: nothing. */
  private workSeen = new Float64Array(16);
  private latestSeen = new Float64Array(16);
  private gainSeen = new Float64Array(16);

  constructor(offers: OfferTable) {
    this.offers = offers;
  }

  grow(queues: number): void {
    for (const column of ["workSeen", "latestSeen", "gainSeen"] as const) {
      const grown = new Float64Array(queues);
      grown.set(this[column]);
      this[column] = grown;
    }
  }

  /** The offer changed. @param joining r beta of its queue. */
  note(key: QueueKey, joining: number): void {
    const { offers, workSeen, latestSeen, gainSeen } = this;
    const size = offers.size[key]!;
    const workUs = size > 0 ? offers.execUs[key]! : 0;
    const latestAt = size > 0 ? offers.latestAt[key]! : 0;
    const gain = size > 0 ? joining / size : 0;
    this.count += (size > 0 ? 1 : 0) - (workSeen[key]! > 0 ? 1 : 0);
    this.workUs += workUs - workSeen[key]!;
    this.latestSum += latestAt - latestSeen[key]!;
    this.gain += gain - gainSeen[key]!;
    workSeen[key] = workUs;
    latestSeen[key] = latestAt;
    gainSeen[key] = gain;
  }

  /** Accelerators that waiting saves. */
  get gains(): number {
    return this.gain;
  }

  /** When an accelerator should no longer idle; Infinity: nothing is offered. @param capacity accelerators, by speed. */
  pressesAt(capacity: number): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.latestSum / this.count - this.workUs / (2 * capacity);
  }
}
