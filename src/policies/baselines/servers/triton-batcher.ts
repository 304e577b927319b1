/** What the batcher decides when it looks at the queue. Reused: read it before the next look. */
export interface FormedSize {
  /** Requests to put into the batch now; 0: none. */
  readonly size: number;
  /** The batch, with these, must not grow any more. */
  readonly isSaturated: boolean;
  /** The oldest of those looked at has waited the delay. */
  readonly isDelayOver: boolean;
  /** When size is 0: when to look again; Infinity: after an arrival. */
  readonly waitUntil: number;
}

/**
 * How many of the waiting requests go into a batch now: Triton's rule for forming one, with requests of size 1.
 *
 * The delay is counted from the oldest request looked at. A preferred size is sent at once and the rest stays, unless
 * the oldest has waited the delay: then all goes that fits.
 *
 * Source: GetDynamicBatch of dynamic_batch_scheduler.cc in Triton's core.
 */
export class TritonBatcher {
  private readonly preferred: Uint8Array;
  private readonly preferredMax: number;
  private readonly batchMax: number;
  private readonly delayUs: number;
  private readonly decision = { size: 0, isSaturated: false, isDelayOver: false, waitUntil: 0 };

  /** @param preferredSizes those above batchMax are left out; null or none left: batchMax. */
  constructor(preferredSizes: readonly number[] | null, batchMax: number, delayUs: number) {
    const reachable = preferredSizes?.filter((size) => size <= batchMax) ?? [];
    const sizes = reachable.length > 0 ? reachable : [batchMax];
    this.preferred = new Uint8Array(batchMax + 1);
    for (const size of sizes) this.preferred[size] = 1;
    this.preferredMax = Math.max(...sizes);
    this.batchMax = batchMax;
    this.delayUs = delayUs;
  }

  prefers(size: number): boolean {
    return this.preferred[size] === 1;
  }

  /**
   * @param base size of the batch that is formed already and may grow; 0: a new one.
   * @param waiting requests that wait, at least 1. @param oldestAt when the oldest of them entered the queue.
   */
  look(base: number, waiting: number, oldestAt: number, at: number): FormedSize {
    const { batchMax, preferredMax, delayUs } = this;
    let taken = 0;
    let best = 0;
    let isFull = false;
    let isSaturated = false;
    while (taken < waiting) {
      const total = base + taken;
      if (total > 0 && total + 1 > preferredMax && best === 0) {
        // Only a batch that was formed before gets here with requests of size 1: new ones meet the size on their way.
        best = taken;
        isSaturated = true;
      }
      if (total + 1 > batchMax) {
        isFull = true;
        break;
      }
      taken++;
      if (this.preferred[base + taken] === 1) best = taken;
    }
    const isDelayOver = delayUs > 0 && at - oldestAt >= delayUs;
    if (best > 0 && !isDelayOver) return this.decide(best, isSaturated || delayUs === 0, false);
    if (isFull || base + taken >= preferredMax) return this.decide(taken, true, isDelayOver);
    // A batch that was formed without reaching a preferred size takes whatever comes while it waits.
    const isGrowing = base > 0 && this.preferred[base] === 0;
    if (isDelayOver || delayUs === 0 || isGrowing) return this.decide(taken, isSaturated, isDelayOver);
    return this.decide(0, isSaturated, false, oldestAt + delayUs);
  }

  private decide(size: number, isSaturated: boolean, isDelayOver: boolean, waitUntil = Infinity): FormedSize {
    const { decision } = this;
    decision.size = size;
    decision.isSaturated = isSaturated;
    decision.isDelayOver = isDelayOver;
    decision.waitUntil = waitUntil;
    return decision;
  }
}
