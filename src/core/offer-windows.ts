import type { QueueKey } from "./policy.js";

/**
 * Since when each queue's offer could have gone, so that a request's wait splits into waiting for its batch and waiting
 * for an accelerator.
 */
export class OfferWindows {
  /** When the present offer opened or will open; Infinity without one. */
  private asksAt = new Float64Array(16).fill(Number.POSITIVE_INFINITY);
  /** The same just before the last change: at a dispatch, that of the batch that went. */
  private previous = new Float64Array(16).fill(Number.POSITIVE_INFINITY);

  /** The queue is a new one. */
  reset(key: QueueKey): void {
    this.grow(key);
    this.asksAt[key] = Number.POSITIVE_INFINITY;
    this.previous[key] = Number.POSITIVE_INFINITY;
  }

  /** @param asksAt when the offer that stands now may first ask for an accelerator; Infinity: there is none. */
  changed(key: QueueKey, asksAt: number, at: number): void {
    const before = this.asksAt[key]!;
    this.previous[key] = before;
    this.asksAt[key] = before <= at && asksAt <= at ? before : asksAt;
  }

  /** When the batch dispatched at `at` could first have gone; `at` when it went before its window opened. */
  openedAt(key: QueueKey, at: number): number {
    return Math.min(this.previous[key]!, at);
  }

  private grow(key: QueueKey): void {
    if (key < this.asksAt.length) return;
    const capacity = Math.max(key + 1, this.asksAt.length * 2);
    for (const column of ["asksAt", "previous"] as const) {
      const grown = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
      grown.set(this[column]);
      this[column] = grown;
    }
  }
}
