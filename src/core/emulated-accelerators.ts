import { IndexedHeap } from "./indexed-heap.js";
import { violated } from "./invariant.js";
import type { BatchId } from "./tables/batch-table.js";

/**
 * Accelerators that take as long as they are told (Symphony §5's method): one batch runs, one may wait behind it, or
 * more where the policy commits further ahead. Asserts the scheduler's promise: never more than that, nothing on an
 * accelerator that is down.
 */
export class EmulatedAccelerators {
  readonly up: Uint8Array;
  /** True time relative to the profile: declared scale times the present fault factor. */
  readonly scale: Float64Array;
  readonly running: Int32Array;
  readonly waiting: Int32Array;
  readonly startedAt: Float64Array;
  private readonly waitingFrom: Float64Array;
  private readonly waitingUs: Float64Array;
  /** Per accelerator, what waits behind `waiting`, in order. */
  private readonly behind: { readonly batch: BatchId; readonly from: number; readonly us: number }[][];
  private readonly depth: number;
  private readonly ends: IndexedHeap;
  /** Time of executions that have ended. */
  private endedUs = 0;

  /** @param depth batches that one may hold. */
  constructor(count: number, depth = 2) {
    this.depth = depth;
    this.behind = Array.from({ length: count }, () => []);
    this.up = new Uint8Array(count);
    this.scale = new Float64Array(count).fill(1);
    this.running = new Int32Array(count).fill(-1);
    this.waiting = new Int32Array(count).fill(-1);
    this.startedAt = new Float64Array(count);
    this.waitingFrom = new Float64Array(count);
    this.waitingUs = new Float64Array(count);
    this.ends = new IndexedHeap(count);
  }

  /** When the next batch ends, and where. */
  get nextEndAt(): number {
    return this.ends.topPriority();
  }
  get nextToEnd(): number {
    return this.ends.top();
  }

  /** @param profiledUs time on an accelerator of scale 1. */
  run(id: number, batch: BatchId, earliestAt: number, profiledUs: number, at: number): void {
    if (this.up[id] === 0) violated(`batch ${batch} was sent to accelerator ${id}, which is down`);
    if (this.running[id]! < 0) this.start(id, batch, Math.max(earliestAt, at), profiledUs);
    else {
      const behind = this.behind[id]!;
      const held = 1 + (this.waiting[id]! >= 0 ? 1 : 0) + behind.length;
      if (held >= this.depth) violated(`accelerator ${id} was sent a batch beyond the ${this.depth} it may hold`);
      if (this.waiting[id]! >= 0) behind.push({ batch, from: earliestAt, us: profiledUs });
      else this.wait(id, batch, earliestAt, profiledUs);
    }
  }

  /** Batches that wait, the last first. */
  waitingFromLast(id: number): BatchId[] {
    const batches = this.behind[id]!.map(({ batch }) => batch).reverse();
    if (this.waiting[id]! >= 0) batches.push(this.waiting[id]!);
    return batches;
  }

  /** The running batch ended at `at`; the waiting one starts. */
  ended(id: number, at: number): void {
    this.endedUs += Math.max(0, at - this.startedAt[id]!);
    this.running[id] = -1;
    this.ends.remove(id);
    const following = this.waiting[id]!;
    if (following < 0) return;
    this.waiting[id] = -1;
    this.start(id, following, Math.max(at, this.waitingFrom[id]!), this.waitingUs[id]!);
    const next = this.behind[id]!.length > 0 ? this.behind[id]!.shift() : undefined;
    if (next !== undefined) this.wait(id, next.batch, next.from, next.us);
  }

  /** Everything on it is lost. */
  clear(id: number, at: number): void {
    if (this.running[id]! >= 0) this.endedUs += Math.max(0, at - this.startedAt[id]!);
    this.running[id] = -1;
    this.waiting[id] = -1;
    this.behind[id]!.length = 0;
    this.ends.remove(id);
  }

  /** Time spent executing on all of them since the start, what runs now included. */
  busyUs(at: number): number {
    let us = this.endedUs;
    for (let id = 0; id < this.running.length; id++)
      if (this.running[id]! >= 0) us += Math.max(0, at - this.startedAt[id]!);
    return us;
  }

  private wait(id: number, batch: BatchId, earliestAt: number, profiledUs: number): void {
    this.waiting[id] = batch;
    this.waitingFrom[id] = earliestAt;
    this.waitingUs[id] = profiledUs;
  }

  private start(id: number, batch: BatchId, at: number, profiledUs: number): void {
    this.running[id] = batch;
    this.startedAt[id] = at;
    this.ends.set(id, at + Math.ceil(profiledUs * this.scale[id]!));
  }
}
