import { invariant } from "./invariant.js";

/** Index of an accelerator in its scheduler; stable while it comes and goes. */
export type AcceleratorId = number;

/** Slower than the fastest present by more than this: used only when nothing faster can serve in time. */
const STRAGGLER = 1.5;
/** How long a straggler is believed without new evidence; doubles each time it disappoints again. */
const DOUBT_US = 1_000_000;
const DOUBT_US_MAX = 32_000_000;
const EWMA_WEIGHT = 0.2;

/**
 * The accelerators of one scheduler: who is here, how fast each is, and when each will be free.
 *
 * An accelerator holds at most two batches: one that runs and one committed behind it while the first is about to end.
 */
export class AcceleratorTable {
  readonly capacity: number;
  readonly present: Uint8Array;
  /** Leaving: finishes what it has, gets nothing more. */
  readonly leaving: Uint8Array;
  /** Time on it relative to the profile: 1 = as profiled, 5 = five times slower. Declared at join, learnt from batches. */
  readonly scale: Float64Array;
  /** Planned end of everything committed to it. */
  readonly freeAt: Float64Array;
  /** Batch that runs, then the one behind it; -1 = none. */
  readonly running: Int32Array;
  readonly waiting: Int32Array;
  private readonly declared: Float64Array;
  private readonly doubtUntil: Float64Array;
  private readonly doubtUs: Float64Array;
  private presentCount = 0;
  private fastest = 1;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.present = new Uint8Array(capacity);
    this.leaving = new Uint8Array(capacity);
    this.scale = new Float64Array(capacity).fill(1);
    this.freeAt = new Float64Array(capacity);
    this.running = new Int32Array(capacity).fill(-1);
    this.waiting = new Int32Array(capacity).fill(-1);
    this.declared = new Float64Array(capacity).fill(1);
    this.doubtUntil = new Float64Array(capacity);
    this.doubtUs = new Float64Array(capacity).fill(DOUBT_US);
  }

  get count(): number {
    return this.presentCount;
  }

  /** Scale of the fastest accelerator present; 1 when none is. Queues plan with it: never drop what it could still serve. */
  get fastestScale(): number {
    return this.fastest;
  }

  join(id: AcceleratorId, scale: number, at: number): void {
    invariant(id >= 0 && id < this.capacity, `accelerator must be in [0, ${this.capacity}); was ${id}`);
    invariant(scale > 0, `accelerator scale must be above 0; was ${scale}`);
    if (this.present[id] === 0) this.presentCount++;
    this.present[id] = 1;
    this.leaving[id] = 0;
    this.declared[id] = scale;
    this.scale[id] = scale;
    this.freeAt[id] = at;
    this.doubtUs[id] = DOUBT_US;
    this.refresh();
  }

  leave(id: AcceleratorId): void {
    if (this.present[id] === 1) this.presentCount--;
    this.present[id] = 0;
    this.leaving[id] = 0;
    this.refresh();
  }

  inFlight(id: AcceleratorId): number {
    return (this.running[id]! >= 0 ? 1 : 0) + (this.waiting[id]! >= 0 ? 1 : 0);
  }

  isStraggler(id: AcceleratorId): boolean {
    return this.scale[id]! > this.fastest * STRAGGLER;
  }

  /**
   * Learns from one execution: `ratio` = measured time over the profile's time for a batch of its size.
   * A surprise (a straggler, a stall) is believed at once, recovery too; small differences are averaged.
   * @returns true when the scale changed enough to matter.
   */
  observe(id: AcceleratorId, ratio: number, at: number): boolean {
    const old = this.scale[id]!;
    const surprise = ratio > old * STRAGGLER || ratio * STRAGGLER < old;
    const scale = surprise ? ratio : old + EWMA_WEIGHT * (ratio - old);
    if (!surprise && Math.abs(scale - old) < 0.02 * old) return false;
    this.scale[id] = scale;
    if (surprise && ratio > old) {
      this.doubtUntil[id] = at + this.doubtUs[id]!;
      this.doubtUs[id] = Math.min(DOUBT_US_MAX, this.doubtUs[id]! * 2);
    }
    this.refresh();
    return true;
  }

  /**
   * Forgets old disappointments, so that an accelerator that recovered is tried again: an estimate that is never
   * measured again must not lock it out for ever.
   */
  forgive(id: AcceleratorId, at: number): boolean {
    if (this.scale[id]! <= this.declared[id]! * STRAGGLER || at < this.doubtUntil[id]!) return false;
    this.scale[id] = this.declared[id]!;
    this.doubtUntil[id] = at + this.doubtUs[id]!;
    this.refresh();
    return true;
  }

  private refresh(): void {
    let fastest = Number.POSITIVE_INFINITY;
    for (let id = 0; id < this.capacity; id++) {
      if (this.present[id] === 1 && this.leaving[id] === 0 && this.scale[id]! < fastest) fastest = this.scale[id]!;
    }
    this.fastest = Number.isFinite(fastest) ? fastest : 1;
  }
}
