import { IndexedHeap } from "../core/indexed-heap.js";
import { ANY_ACCELERATOR, type Arbiter, type CoreView, type QueueKey } from "../core/policy.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";

/**
 * Accelerators to which queues send their requests as they come (Nexus's backends, PARD's workers): each turns round the models for
 * ever, at most one batch a turn, and waits for nothing; an empty turn takes no time. An idle one looks again when something is
 * sent to it (OfferTable.pin). What a queue has for an accelerator is what `countAt` says.
 */
export class WorkerArbiter implements Arbiter {
  /** Accelerators that hold nothing. */
  private readonly idle: IndexedHeap;
  /** Those of them that have something to look at. */
  private readonly asked: IndexedHeap;
  /** Per accelerator, the model whose turn is next. */
  private readonly cursor: Int32Array;
  private queuesMax = 16;
  private readonly core: CoreView;
  private readonly onRemoved: (key: QueueKey) => void;

  constructor(core: CoreView, onRemoved: (key: QueueKey) => void = () => {}) {
    this.core = core;
    this.onRemoved = onRemoved;
    this.idle = new IndexedHeap(core.accelerators.capacity);
    this.asked = new IndexedHeap(core.accelerators.capacity);
    this.cursor = new Int32Array(core.accelerators.capacity);
  }

  queueAdded(key: QueueKey): void {
    while (this.queuesMax <= key) this.queuesMax *= 2;
  }

  queueRemoved(key: QueueKey): void {
    this.onRemoved(key);
  }

  offerChanged(key: QueueKey, _at: number): void {
    const { offers, accelerators } = this.core;
    if (offers.size[key] === 0) return;
    const pin = offers.pin[key]!;
    if (pin >= 0) this.ask(pin);
    else if (pin === ANY_ACCELERATOR) for (let id = 0; id < accelerators.capacity; id++) this.ask(id);
  }

  available(id: AcceleratorId, _at: number): void {
    if (this.core.accelerators.inFlight(id) > 0) return;
    this.idle.set(id, id);
    this.asked.set(id, id);
  }

  withdrawn(id: AcceleratorId, _at: number): void {
    this.idle.remove(id);
    this.asked.remove(id);
  }

  get nextWakeAt(): number {
    return this.asked.size > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }

  wake(at: number): void {
    while (this.asked.size > 0) this.turn(this.asked.pop(), at);
  }

  private ask(id: AcceleratorId): void {
    if (this.idle.has(id)) this.asked.set(id, id);
  }

  /** Round the models once, from the one after the last served, to the first that has a batch. */
  private turn(id: AcceleratorId, at: number): void {
    const { core, cursor } = this;
    const from = cursor[id]!;
    for (let step = 0; step < this.queuesMax; step++) {
      const key = (from + step) % this.queuesMax;
      if (core.offers.size[key] === 0 || core.countAt(key, id, at) === 0) continue;
      if (core.grant(key, id, at) < 0) continue;
      cursor[id] = (key + 1) % this.queuesMax;
      this.idle.remove(id);
      this.asked.remove(id);
      return;
    }
  }
}
