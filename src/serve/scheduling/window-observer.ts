import { OfferWindows } from "../../core/offer-windows.js";
import type { Arbiter, CoreView, Policy, QueueKey } from "../../core/policy.js";

/** Notes since when each queue's offer could have gone: it listens between queues and arbiter and changes nothing. */
export class WindowObserver {
  private readonly windows = new OfferWindows();

  /** When the batch dispatched at `at` could first have gone; `at` when it went before its window opened. */
  openedAt(key: QueueKey, at: number): number {
    return this.windows.openedAt(key, at);
  }

  observe(policy: Policy): Policy {
    const createArbiter = (core: CoreView): Arbiter => this.between(policy.createArbiter(core), core);
    return Object.create(policy, { createArbiter: { value: createArbiter } }) as Policy;
  }

  private between(arbiter: Arbiter, core: CoreView): Arbiter {
    const { windows } = this;
    return {
      queueAdded: (key) => {
        windows.reset(key);
        arbiter.queueAdded(key);
      },
      queueRemoved: (key) => arbiter.queueRemoved(key),
      offerChanged: (key, at) => {
        const { offers } = core;
        const isNone = offers.size[key] === 0;
        windows.changed(key, isNone ? Number.POSITIVE_INFINITY : offers.opensAt[key]! - offers.leadUs[key]!, at);
        arbiter.offerChanged(key, at);
      },
      available: (id, at) => arbiter.available(id, at),
      withdrawn: (id, at) => arbiter.withdrawn(id, at),
      get nextWakeAt() {
        return arbiter.nextWakeAt;
      },
      wake: (at) => arbiter.wake(at),
    };
  }
}
