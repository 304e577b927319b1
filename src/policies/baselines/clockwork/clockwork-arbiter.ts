import { IndexedHeap } from "../../../core/indexed-heap.js";
import type { Arbiter, CoreView, QueueKey } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";

export interface ClockworkArbiterOptions {
  /** An accelerator is given work while its plan ends less than this ahead, µs; one that holds nothing always is. */
  readonly scheduleAheadUs: number;
  /** Batches that one may hold. */
  readonly depth: number;
  /** Which of them is given work first: the lowest id until its plan is full, or the one that is free first. */
  readonly first: "lowest-id" | "earliest-free";
}

/**
 * Clockwork's controller: accelerators are given work ahead of time, up to a fixed horizon, each batch that of the most
 * urgent model (smallest latest start).
 *
 * A round offers an accelerator to the most urgent model until one takes it; a model that took nothing stands in line
 * again with its smaller sizes.
 */
export class ClockworkArbiter implements Arbiter {
  /** Queues that wait, by latest start. */
  private readonly open = new IndexedHeap(16);
  private queuesMax = 16;
  /** Accelerators that may be given work now. */
  private readonly ready: IndexedHeap;
  /** Those whose plan is full, by when it is no longer. */
  private readonly full: IndexedHeap;
  private readonly core: CoreView;
  private readonly options: ClockworkArbiterOptions;

  constructor(core: CoreView, options: ClockworkArbiterOptions) {
    this.core = core;
    this.options = options;
    this.ready = new IndexedHeap(core.accelerators.capacity);
    this.full = new IndexedHeap(core.accelerators.capacity);
  }

  queueAdded(key: QueueKey): void {
    while (this.queuesMax <= key) this.queuesMax *= 2;
    this.open.grow(this.queuesMax);
  }

  queueRemoved(key: QueueKey): void {
    this.open.remove(key);
  }

  offerChanged(key: QueueKey, _at: number): void {
    const { offers } = this.core;
    if (offers.size[key] === 0) this.open.remove(key);
    else this.open.set(key, offers.rank[key]!);
  }

  available(id: AcceleratorId, at: number): void {
    const { accelerators } = this.core;
    const { scheduleAheadUs, depth, first } = this.options;
    this.withdrawn(id, at);
    const held = accelerators.inFlight(id);
    if (held >= depth) return;
    const freeAt = accelerators.freeAt[id]!;
    if (held === 0 || freeAt < at + scheduleAheadUs)
      this.ready.set(id, first === "lowest-id" ? id : held === 0 ? 0 : freeAt);
    // Times are whole: the first moment at which the plan ends less than the horizon ahead.
    else this.full.set(id, freeAt - scheduleAheadUs + 1);
  }

  withdrawn(id: AcceleratorId, _at: number): void {
    this.ready.remove(id);
    this.full.remove(id);
  }

  get nextWakeAt(): number {
    if (this.open.size === 0) return Number.POSITIVE_INFINITY;
    return this.ready.size > 0 ? Number.NEGATIVE_INFINITY : this.full.topPriority();
  }

  wake(at: number): void {
    while (this.open.size > 0) {
      if (this.full.topPriority() <= at) this.available(this.full.top(), at);
      else if (this.ready.size > 0) this.round(this.ready.top(), at);
      else return;
    }
  }

  private round(id: AcceleratorId, at: number): void {
    const tried: QueueKey[] = [];
    while (this.open.size > 0) {
      const key = this.open.top();
      if (this.core.grant(key, id, at) >= 0) break;
      tried.push(key);
    }
    this.available(id, at);
    // Who failed here stands in line with all sizes for the next accelerator.
    for (const key of tried) if (this.open.has(key)) this.core.expired(key, at);
  }
}
