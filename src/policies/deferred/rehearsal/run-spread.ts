import { binOf, nearestKnown } from "../../../core/latency/size-bins.js";

/** Ratios that are remembered of each power of two of sizes; none is drawn before there are LEAST. */
const MEMORY = 64;
const LEAST = 16;
/** A batch that took longer hung or was stopped: that is a fault, not what batches take. */
const RATIO_MAX = 4;

interface Ratios {
  readonly ring: Float64Array;
  count: number;
}

/**
 * What batches took of late over what was planned for them, by size (plans take the mean and one deviation for all sizes, and the longest of
 * many varies less), in the order in which they ran: spells of slow runs are played as spells. All queues of a scheduler together, as they
 * share what makes runs slow.
 */
export class RunSpread {
  /** By the power of two below the size. */
  private readonly bins: Ratios[] = [];

  /** @param size of the batch, at least 1. */
  ran(size: number, plannedUs: number, tookUs: number): void {
    if (plannedUs <= 0) return;
    const bin = binOf(size);
    while (this.bins.length <= bin) this.bins.push({ ring: new Float64Array(MEMORY), count: 0 });
    const { ring, count } = this.bins[bin]!;
    ring[count % MEMORY] = Math.min(RATIO_MAX, tookUs / plannedUs);
    this.bins[bin]!.count = count + 1;
  }

  /** Of the `number`th batch of somebody who plays what was seen; where none of that size ran, as of the nearest that did. */
  ratioOf(size: number, number: number): number {
    const { bins } = this;
    const near = nearestKnown(binOf(size), bins.length, (at) => bins[at]!.count >= LEAST);
    if (near < 0) return 1;
    const { ring, count } = bins[near]!;
    return ring[number % Math.min(count, MEMORY)]!;
  }
}
