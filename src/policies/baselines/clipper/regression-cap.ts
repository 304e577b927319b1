import type { BatchCap } from "./batch-cap.js";
import type { SeededNormal } from "./seeded-normal.js";

/** Samples that a size must have before a larger one is tried, and before its deviation counts. */
const SAMPLES_MIN = 5;
/** Below this size the next one is tried, from it on one that is larger by a random part. */
const PART_FROM = 10;
const PART_MEAN = 0.1;
const PART_DEVIATION = 0.05;
/** Standard deviations above the mean that a size is taken to need. */
const DEVIATIONS = 3;
/** So small that it decides only where there is but one size to go by. In ms². */
const RIDGE = 1e-9;

/** Latencies of one size. */
interface Samples {
  count: number;
  meanMs: number;
  /** Sum of squared differences from the mean. */
  squares: number;
}

/**
 * Clipper's code: sizes are tried out while the head has more time than any batch ever took, else the size is estimated from
 * the head's time by a line through what each size needed.
 *
 * Source: ModelContainer of Clipper. Its ridge parameter is found by cross-validation; here it is constant.
 */
export class RegressionCap implements BatchCap {
  /** By size; only sizes that were executed. */
  private readonly samples = new Map<number, Samples>();
  /** Largest size tried, longest latency seen. */
  private largest = 1;
  private longestUs = 0;
  private readonly sizeMax: number;
  private readonly slackFactor: number;
  private readonly random: SeededNormal;

  constructor(sizeMax: number, slackFactor: number, random: SeededNormal) {
    this.sizeMax = sizeMax;
    this.slackFactor = slackFactor;
    this.random = random;
  }

  explores(budgetUs: number): boolean {
    return budgetUs * this.slackFactor > this.longestUs;
  }

  next(budgetUs: number): number {
    const size = this.explores(budgetUs) ? this.tried() : this.estimate((budgetUs * this.slackFactor) / 1000);
    return Math.max(1, Math.min(this.sizeMax, Math.floor(size)));
  }

  ended(size: number, latencyUs: number): void {
    const ms = latencyUs / 1000;
    const samples = this.samples.get(size) ?? { count: 0, meanMs: 0, squares: 0 };
    this.samples.set(size, samples);
    const difference = ms - samples.meanMs;
    samples.count++;
    samples.meanMs += difference / samples.count;
    samples.squares += difference * (ms - samples.meanMs);
    this.largest = Math.max(this.largest, size);
    this.longestUs = Math.max(this.longestUs, latencyUs);
  }

  private tried(): number {
    const { largest } = this;
    const { count } = this.samples.get(largest) ?? { count: 0 };
    if (count > 0 && count < SAMPLES_MIN) return largest;
    if (largest < PART_FROM) return largest + 1;
    return largest * (1 + Math.max(0, this.random.next(PART_MEAN, PART_DEVIATION)));
  }

  /** Size on the line at this time: least squares over one point for each size. */
  private estimate(ms: number): number {
    const margin = DEVIATIONS * this.pooledDeviation();
    let x = 0;
    let y = 0;
    for (const [size, { meanMs }] of this.samples) {
      x += (meanMs + margin) / this.samples.size;
      y += size / this.samples.size;
    }
    let xx = 0;
    let xy = 0;
    for (const [size, { meanMs }] of this.samples) {
      const apart = meanMs + margin - x;
      xx += apart * apart;
      xy += apart * (size - y);
    }
    return y + (xy / (xx + RIDGE)) * (ms - x);
  }

  /** Of latencies (ms) about the means of their sizes. */
  private pooledDeviation(): number {
    let squares = 0;
    let degrees = 0;
    for (const samples of this.samples.values()) {
      if (samples.count < SAMPLES_MIN) continue;
      squares += samples.squares;
      degrees += samples.count - 1;
    }
    return degrees === 0 ? 0 : Math.sqrt(squares / degrees);
  }
}
