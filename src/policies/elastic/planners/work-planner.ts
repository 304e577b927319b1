/** How much work the waiting batches get: what tells OTAS from its baselines. */
import type { PoolBatch } from "../pools/waiting-pool.js";

/** Batches that one accelerator is to run one after the other. */
export interface BatchLine {
  /** In deadline order; the first `count` of them. */
  readonly batches: readonly PoolBatch[];
  readonly count: number;
  /** By batch and way, [count x ways]: accelerator time with its delays, µs; Infinity: that way cannot run it. */
  readonly timeUs: Float64Array;
  /** By batch and way: what it is expected to earn. */
  readonly utility: Float64Array;
  /** By batch. */
  readonly dueAt: Float64Array;
  /** When the first may start. */
  readonly startAt: number;
  /** Of the accelerator. */
  readonly scale: number;
  /** Accelerators that share the load, this one counted. */
  readonly accelerators: number;
}

export interface WorkPlanner {
  /** A request came. */
  arrived(at: number): void;
  /** @param chosen written: by batch the way, or NOT_EXECUTED. */
  plan(line: BatchLine, chosen: Int32Array, at: number): void;
  /** What it takes a µs of an accelerator to be worth, as one of so many that share the load; absent: nothing. */
  price?(scale: number, accelerators: number, at: number): number;
  /** A batch leaves. */
  sent(at: number): void;
}

/** Every batch by the same way. */
export class FixedWork implements WorkPlanner {
  private readonly way: number;

  constructor(way: number) {
    this.way = way;
  }

  arrived(): void {}
  sent(): void {}

  plan({ count }: BatchLine, chosen: Int32Array): void {
    chosen.fill(this.way, 0, count);
  }
}
