import type { Arbiter, CoreView, Policy, QueueKey } from "../core/policy.js";

/**
 * Knows since when each queue's offer could have gone, so that a request's wait splits into waiting for its batch and
 * waiting for an accelerator. It listens between queues and arbiter and changes nothing.
 */
export class WindowObserver {
  /** When the present offer opened or will open; Infinity without one. */
  private asksAt = new Float64Array(16).fill(Number.POSITIVE_INFINITY);
  /** The same just before the last change: at a dispatch, that of the batch that went. */
  private previous = new Float64Array(16).fill(Number.POSITIVE_INFINITY);

  /** When the batch dispatched at `at` could first have gone; `at` when it went before its window opened. */
  openedAt(key: QueueKey, at: number): number {
    return Math.min(this.previous[key]!, at);
  }

  observe(policy: Policy): Policy {
    return {
      name: policy.name,
      createQueue: (key, spec, core) => policy.createQueue(key, spec, core),
      createArbiter: (core) => this.between(policy.createArbiter(core), core),
    };
  }

  private between(arbiter: Arbiter, core: CoreView): Arbiter {
    return {
      queueAdded: (key) => {
        this.grow(key);
        arbiter.queueAdded(key);
      },
      queueRemoved: (key) => {
        this.asksAt[key] = Number.POSITIVE_INFINITY;
        arbiter.queueRemoved(key);
      },
      offerChanged: (key, at) => {
        const { offers } = core;
        const before = this.asksAt[key]!;
        this.previous[key] = before;
        const asksAt = offers.size[key] === 0 ? Number.POSITIVE_INFINITY : offers.opensAt[key]! - offers.leadUs[key]!;
        this.asksAt[key] = before <= at && asksAt <= at ? before : asksAt;
        arbiter.offerChanged(key, at);
      },
      accelerated: (id, at) => arbiter.accelerated(id, at),
      withdrawn: (id, at) => arbiter.withdrawn(id, at),
      get nextWakeAt() {
        return arbiter.nextWakeAt;
      },
      wake: (at) => arbiter.wake(at),
    };
  }

  private grow(key: QueueKey): void {
    if (key < this.asksAt.length) return;
    const capacity = this.asksAt.length * 2;
    for (const column of ["asksAt", "previous"] as const) {
      const grown = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
      grown.set(this[column]);
      this[column] = grown;
    }
  }
}
