import { IndexedHeap } from "../../core/indexed-heap.js";
import type { OfferTable, QueueKey } from "../../core/policy.js";

const KEYS_MAX = 16;

/**
 * The queues that wait, by when their first request can no longer finish: what the arbiters share whose queues are looked
 * at again then. Beside it stand the queues in an order of the arbiter's own; who offers nothing stands in neither.
 */
export class ExpiringQueues {
  readonly checks = new IndexedHeap(KEYS_MAX);
  /** In the arbiter's order. It puts queues there; here they are taken out. */
  readonly line = new IndexedHeap(KEYS_MAX);
  /** Keys are in [0, keysMax). */
  keysMax = KEYS_MAX;

  added(key: QueueKey): void {
    if (key < this.keysMax) return;
    while (this.keysMax <= key) this.keysMax *= 2;
    this.checks.grow(this.keysMax);
    this.line.grow(this.keysMax);
  }

  removed(key: QueueKey): void {
    this.checks.remove(key);
    this.line.remove(key);
  }

  /** @returns whether the queue offers anything. */
  changed(key: QueueKey, offers: OfferTable): boolean {
    if (offers.size[key] === 0) {
      this.removed(key);
      return false;
    }
    // Times are whole: the first moment that is too late.
    this.checks.set(key, offers.latestAt[key]! - offers.leadUs[key]! + 1);
    return true;
  }
}
