import { InvariantViolation, invariant } from "../core/invariant.js";

/** 256 sub-buckets per power of two: a bucket is at most 1/256 of its lower edge wide. */
const SUB_BUCKET_BITS = 8;
const SUB_BUCKETS = 1 << SUB_BUCKET_BITS;
/** Below this every value has a bucket of its own. */
const EXACT_BELOW = SUB_BUCKETS * 2;
/** Values are clamped to this (12.7 days in microseconds); `max` and `mean` stay exact. */
export const HISTOGRAM_VALUE_MAX = 2 ** 40 - 1;
const BUCKETS_MAX = bucketOf(HISTOGRAM_VALUE_MAX) + 1;
/** What a new histogram holds without growing: a second, in microseconds. */
const BUCKETS_INITIAL = bucketOf(2 ** 20 - 1) + 1;

const SUM = 0;
const MIN = 1;
const MAX = 2;
const COUNT = 3;

export interface HistogramJson {
  readonly count: number;
  readonly sum: number;
  readonly min: number | null;
  readonly max: number | null;
  /** Flat pairs: bucket number, count; increasing, without empty buckets. */
  readonly buckets: readonly number[];
}

/**
 * A log-linear histogram of whole non-negative numbers, meant for durations in microseconds.
 *
 * Exact below 512; above, a value is known to 1/256 of itself and quantiles (bucket middles) to 1/512 (0.2 %).
 * `record` is a handful of integer operations and does not allocate, except once in the life of a histogram:
 * when the first value beyond 2^20 arrives, its buckets grow from 26 KiB to 66 KiB.
 * Memory is bounded, so values from 2^40 on share the last bucket (`max`, `sum` and `mean` stay exact).
 *
 * Why our own and not hdr-histogram-js: 100 ns per record there is half of what the simulator spends on a request.
 */
export class Histogram {
  #buckets = new Float64Array(BUCKETS_INITIAL);
  /** Sum, minimum, maximum and count; a typed array because a changing double field may allocate. */
  readonly #totals = new Float64Array([0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0]);

  /** @param value >= 0; a fraction is cut off. @throws InvariantViolation if negative or not a number. */
  record(value: number): void {
    if (!(value >= 0)) rejectValue(value);
    let bucket = 0;
    if (value < EXACT_BELOW) {
      bucket = value | 0;
    } else {
      bucket = bucketOf(value);
      if (bucket >= this.#buckets.length) this.#grow();
    }
    const buckets = this.#buckets;
    buckets[bucket]! += 1;
    const totals = this.#totals;
    totals[SUM]! += value;
    totals[COUNT]! += 1;
    if (value < totals[MIN]!) totals[MIN] = value;
    if (value > totals[MAX]!) totals[MAX] = value;
  }

  get count(): number {
    return this.#totals[COUNT]!;
  }
  get sum(): number {
    return this.#totals[SUM]!;
  }
  /** Exact; null when empty. */
  get min(): number | null {
    return this.count === 0 ? null : this.#totals[MIN]!;
  }
  /** Exact; null when empty. */
  get max(): number | null {
    return this.count === 0 ? null : this.#totals[MAX]!;
  }
  /** Exact; null when empty. */
  get mean(): number | null {
    return this.count === 0 ? null : this.sum / this.count;
  }

  /**
   * The nearest-rank quantile: the smallest recorded value that at least a share q of all does not exceed, to 1/512
   * of itself; null when empty.
   *
   * @param q in [0, 1]; 0 gives the minimum, 1 the maximum, both exact.
   */
  quantile(q: number): number | null {
    invariant(q >= 0 && q <= 1, `quantile must be in [0, 1]; was ${q}`);
    const count = this.count;
    if (count === 0) return null;
    // 1e-9 forgives the binary noise of q * count (0.07 * 100 = 7.000000000000001).
    const rank = Math.ceil(q * count - 1e-9);
    if (rank <= 1) return this.min;
    if (rank >= count) return this.max;
    let seen = 0;
    const buckets = this.#buckets;
    for (let bucket = 0; bucket < buckets.length; bucket++) {
      seen += buckets[bucket]!;
      if (seen >= rank) return Math.min(Math.max(middleOf(bucket), this.min!), this.max!);
    }
    return this.max;
  }

  /** How many recorded values are in buckets that end at or below `value`: an underestimate by at most one bucket. */
  countAtMost(value: number): number {
    if (value >= this.#totals[MAX]!) return this.count;
    let seen = 0;
    for (let bucket = 0; bucket < this.#buckets.length && upperOf(bucket) <= value; bucket++) {
      seen += this.#buckets[bucket]!;
    }
    return seen;
  }

  /** Adds all that `other` recorded. */
  merge(other: Histogram): void {
    if (other.count === 0) return;
    if (other.#buckets.length > this.#buckets.length) this.#grow();
    for (let bucket = 0; bucket < other.#buckets.length; bucket++) this.#buckets[bucket]! += other.#buckets[bucket]!;
    this.#addTotals(other.count, other.sum, other.#totals[MIN]!, other.#totals[MAX]!);
  }

  reset(): void {
    this.#buckets.fill(0);
    this.#totals.set([0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0]);
  }

  toJSON(): HistogramJson {
    const buckets: number[] = [];
    this.#buckets.forEach((count, bucket) => {
      if (count > 0) buckets.push(bucket, count);
    });
    return { count: this.count, sum: this.sum, min: this.min, max: this.max, buckets };
  }

  static fromJSON(json: HistogramJson): Histogram {
    const histogram = new Histogram();
    let count = 0;
    for (let i = 0; i + 1 < json.buckets.length; i += 2) {
      const bucket = json.buckets[i]!;
      invariant(
        Number.isInteger(bucket) && bucket >= 0 && bucket < BUCKETS_MAX,
        `histogram bucket must be in [0, ${BUCKETS_MAX - 1}]; was ${bucket}`,
      );
      if (bucket >= histogram.#buckets.length) histogram.#grow();
      histogram.#buckets[bucket]! += json.buckets[i + 1]!;
      count += json.buckets[i + 1]!;
    }
    invariant(count === json.count, `histogram count must be the sum of its buckets, ${count}; was ${json.count}`);
    if (count > 0) histogram.#addTotals(count, json.sum, json.min!, json.max!);
    return histogram;
  }

  #addTotals(count: number, sum: number, min: number, max: number): void {
    const totals = this.#totals;
    totals[COUNT]! += count;
    totals[SUM]! += sum;
    totals[MIN] = Math.min(totals[MIN]!, min);
    totals[MAX] = Math.max(totals[MAX]!, max);
  }

  #grow(): void {
    const grown = new Float64Array(BUCKETS_MAX);
    grown.set(this.#buckets);
    this.#buckets = grown;
  }
}

/** The bucket of a value >= 0; bucket numbers of consecutive buckets are consecutive. */
function bucketOf(value: number): number {
  if (value < EXACT_BELOW) return value | 0;
  if (value < 2 ** 31) {
    const shift = 23 - Math.clz32(value); // floor(log2(value)) - 8
    return (shift << SUB_BUCKET_BITS) + ((value | 0) >> shift);
  }
  const clamped = Math.min(value, HISTOGRAM_VALUE_MAX);
  const shift = 39 - Math.clz32(clamped / 65536); // the same beyond 32-bit integers, 16 bits lower
  return (shift << SUB_BUCKET_BITS) + Math.floor(clamped / 2 ** shift);
}

/** The largest whole value of a bucket. */
function upperOf(bucket: number): number {
  if (bucket < EXACT_BELOW) return bucket;
  const shift = (bucket >> SUB_BUCKET_BITS) - 1;
  return (bucket - (shift << SUB_BUCKET_BITS) + 1) * 2 ** shift - 1;
}

function middleOf(bucket: number): number {
  if (bucket < EXACT_BELOW) return bucket;
  const shift = (bucket >> SUB_BUCKET_BITS) - 1;
  return upperOf(bucket) - (2 ** shift - 1) / 2;
}

function rejectValue(value: number): never {
  throw new InvariantViolation(`a recorded value must be >= 0; was ${value}`);
}
