import type { AcceleratorId } from "../../core/accelerator-table.js";
import { IndexedHeap } from "../../core/indexed-heap.js";
import type { Arbiter, CoreView, QueueKey } from "../../core/policy.js";
import { ExpiringQueues } from "./expiring-queues.js";

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
  private readonly queues = new ExpiringQueues();
  /** Queues that wait, by latest start. */
  private readonly open = this.queues.line;
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
    this.queues.added(key);
  }

  queueRemoved(key: QueueKey): void {
    this.queues.removed(key);
  }

  offerChanged(key: QueueKey, _at: number): void {
    const { offers } = this.core;
    if (this.queues.changed(key, offers)) this.open.set(key, offers.rank[key]!);
  }

  accelerated(id: AcceleratorId, at: number): void {
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
    const { checks } = this.queues;
    if (this.open.size === 0) return checks.topPriority();
    if (this.ready.size > 0) return Number.NEGATIVE_INFINITY;
    return Math.min(checks.topPriority(), this.full.topPriority());
  }

  wake(at: number): void {
    const { checks } = this.queues;
    for (;;) {
      if (checks.topPriority() <= at) this.core.expired(checks.pop(), at);
      else if (this.open.size === 0) return;
      else if (this.full.topPriority() <= at) this.accelerated(this.full.top(), at);
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
    this.accelerated(id, at);
    // Who failed here stands in line with all sizes for the next accelerator.
    for (const key of tried) if (this.open.has(key)) this.core.expired(key, at);
  }
}
