import { IndexedHeap } from "../../../core/indexed-heap.js";
import { violated } from "../../../core/invariant.js";
import type { Arbiter, CoreView, QueueKey } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";

export interface ShepherdArbiterOptions {
  /** A running batch gives way to a candidate of at least this many times its size; Infinity: never. */
  readonly preemptionFactor: number;
}

/** Preemptions that one arrival may set off, far above what batches that grow threefold each time can: ends the process rather than hang it. */
const CHAIN_MAX = 100_000;

/**
 * Shepherd's Flex: whatever an accelerator can do at once that is largest.
 *
 * When one comes free it takes the largest candidate of all models. When a request arrives, every accelerator in turn
 * looks at the candidates of the request's model and of the model it runs: an idle one takes it, a busy one gives up its
 * batch for a candidate `preemptionFactor` times as large; all work on that batch is lost, and its model is looked at as
 * if its requests had just arrived. Nothing is committed behind a running batch.
 */
export class ShepherdArbiter implements Arbiter {
  /** Accelerators that came free and have not been looked at since. */
  private readonly freed: IndexedHeap;
  /** Queues with a request that has just arrived. */
  private readonly arrivals = new IndexedHeap(16);
  private queuesMax = 16;
  /** Offers that change while the arbiter acts are its own doing, not arrivals. */
  private isActing = false;
  private readonly core: CoreView;
  private readonly factor: number;

  constructor(core: CoreView, options: ShepherdArbiterOptions) {
    this.core = core;
    this.factor = options.preemptionFactor;
    this.freed = new IndexedHeap(core.accelerators.capacity);
  }

  queueAdded(key: QueueKey): void {
    while (this.queuesMax <= key) this.queuesMax *= 2;
    this.arrivals.grow(this.queuesMax);
  }

  queueRemoved(key: QueueKey): void {
    this.arrivals.remove(key);
  }

  offerChanged(key: QueueKey, _at: number): void {
    if (this.core.offers.size[key] === 0) this.arrivals.remove(key);
    else if (!this.isActing) this.arrivals.set(key, key);
  }

  available(id: AcceleratorId, _at: number): void {
    if (this.core.accelerators.inFlight(id) === 0) this.freed.set(id, id);
  }

  withdrawn(id: AcceleratorId, _at: number): void {
    this.freed.remove(id);
  }

  get nextWakeAt(): number {
    return this.freed.size > 0 || this.arrivals.size > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }

  wake(at: number): void {
    this.isActing = true;
    for (;;) {
      if (this.freed.size > 0) this.completed(this.freed.pop(), at);
      else if (this.arrivals.size > 0) this.arrived(this.arrivals.pop(), at);
      else break;
    }
    this.isActing = false;
  }

  private completed(id: AcceleratorId, at: number): void {
    const { core } = this;
    let best = -1;
    let most = 0;
    for (let key = 0; key < this.queuesMax; key++) {
      if (core.offers.size[key] === 0) continue;
      const count = core.countAt(key, id, at);
      if (count > most) {
        most = count;
        best = key;
      }
    }
    if (best >= 0) this.run(best, id, at);
  }

  private arrived(first: QueueKey, at: number): void {
    const { accelerators, offers } = this.core;
    const models = [first];
    for (let turn = 0; models.length > 0; turn++) {
      if (turn > CHAIN_MAX) violated(`preemption at ${at} did not come to rest after ${turn} models`);
      const key = models.shift()!;
      for (let id = 0; id < accelerators.capacity && offers.size[key] !== 0; id++) {
        if (accelerators.present[id] === 0) continue;
        if (accelerators.inFlight(id) === 0) {
          if (this.core.countAt(key, id, at) > 0) this.run(key, id, at);
          continue;
        }
        const preempted = this.tryPreempt(key, id, at);
        if (preempted >= 0 && offers.size[preempted] !== 0) models.push(preempted);
      }
    }
  }

  /** @returns the model whose batch was given up; -1: none was. */
  private tryPreempt(key: QueueKey, id: AcceleratorId, at: number): QueueKey {
    if (this.factor === Number.POSITIVE_INFINITY) return -1;
    const { core } = this;
    const running = core.accelerators.running[id]!;
    const own = core.batches.queue[running]!;
    let best = key;
    let most = core.countAt(key, id, at);
    // Who runs there may have gathered a larger candidate than who has just arrived.
    if (own !== key && core.offers.size[own] !== 0) {
      const count = core.countAt(own, id, at);
      if (count > most) {
        most = count;
        best = own;
      }
    }
    if (most < this.factor * core.batches.size[running]!) return -1;
    core.preempt(id, at);
    this.run(best, id, at);
    return own;
  }

  private run(key: QueueKey, id: AcceleratorId, at: number): void {
    this.freed.remove(id);
    if (this.core.grant(key, id, at) < 0) violated(`queue ${key} refused accelerator ${id} though it counted members`);
  }
}
