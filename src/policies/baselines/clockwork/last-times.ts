import type { GivenBatch, LatencyModel } from "../../../core/latency/latency.js";

/** Measurements of a size that its estimate looks at. */
const LAST = 10;

/**
 * Clockwork's estimate of how long a batch takes: for each size the largest of its last ten times, of which the profile is the
 * first. (It asks for their 99th percentile.) Sizes know nothing of each other, so a larger one may be thought faster.
 */
export class LastTimes implements LatencyModel {
  readonly sizeMax: number;
  readonly execUs: Float64Array;
  version = 0;
  /** By size, oldest first. */
  private readonly last: number[][];

  constructor({ sizeMax, execUs }: LatencyModel) {
    this.sizeMax = sizeMax;
    this.execUs = Float64Array.from(execUs);
    this.last = Array.from(execUs, (us) => [us]);
  }

  /** Of the times that the estimate is made of. */
  quantileUs(size: number, q: number): number {
    const ascending = this.last[size]!.toSorted((a, b) => a - b);
    return ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]!;
  }

  measured({ batch, batches }: GivenBatch, us: number): boolean {
    const size = batches.executedSize[batch]!;
    const last = this.last[size]!;
    last.push(us);
    if (last.length > LAST) last.shift();
    const largest = Math.max(...last);
    if (largest === this.execUs[size]) return false;
    this.execUs[size] = largest;
    this.version++;
    return true;
  }
}
