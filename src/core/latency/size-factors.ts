import { binOf, nearestKnown } from "./size-bins.js";

/** Batches of a power of two of sizes that are measured before they say something of their own. */
const LEAST = 4;
/** Weight of a measurement: of the first ones 1 / (FIRST + n), for ever at least LAST. */
const FIRST = 8;
const LAST = 0.02;
/** One measurement counts as at most so many times what was expected, and no size is further off than between these. */
const RATIO_MAX = 2;
const FACTOR_MIN = 0.25;
const FACTOR_MAX = 4;

/**
 * How far batches of some sizes are off from what one factor for the whole profile says: the longest of many is longer, a profile was made
 * beside other work at one size. By power of two, slowly (a single size has few measurements; the one factor follows drift), with the nearest
 * power that was measured for those that were not.
 */
export class SizeFactors {
  /** By power of two below the size. */
  private readonly factors: Float64Array;
  private readonly seen: Uint32Array;

  constructor(sizeMax: number) {
    this.factors = new Float64Array(binOf(sizeMax) + 1).fill(1);
    this.seen = new Uint32Array(this.factors.length);
  }

  get bins(): number {
    return this.factors.length;
  }

  /** Some size was measured often enough. */
  get isAny(): boolean {
    return this.seen.some((count) => count >= LEAST);
  }

  of(size: number): number {
    return this.ofBin(binOf(size));
  }

  ofBin(bin: number): number {
    const { factors, seen } = this;
    const near = nearestKnown(bin, factors.length, (at) => seen[at]! >= LEAST);
    return near < 0 ? 1 : factors[near]!;
  }

  /** For plans: between the middles of two powers in a straight line over the logarithm of the size. */
  between(size: number): number {
    const place = Math.min(this.bins - 1, Math.max(0, Math.log2(size) - 0.5));
    const low = this.ofBin(Math.floor(place));
    return low + (this.ofBin(Math.ceil(place)) - low) * (place - Math.floor(place));
  }

  /** @param ratio of what a batch of this size took to what the profile and the one factor say. */
  observe(size: number, ratio: number): void {
    const { factors, seen } = this;
    const bin = binOf(size);
    const before = this.ofBin(bin);
    const count = ++seen[bin]!;
    if (count < LEAST) return;
    if (count === LEAST) factors[bin] = before;
    // What all measured batches are off by is the one factor's.
    if (seen.every((times, other) => other === bin || times < LEAST)) return;
    const weight = Math.max(LAST, 1 / (FIRST + count - LEAST));
    const next = factors[bin]! * (1 + weight * (Math.min(RATIO_MAX, ratio / factors[bin]!) - 1));
    factors[bin] = Math.min(FACTOR_MAX, Math.max(FACTOR_MIN, next));
  }

  /** As somebody else has learnt it. @param bin past the last: not of these sizes. */
  adopt(bin: number, factor: number): void {
    if (bin >= this.bins) return;
    this.factors[bin] = factor;
    this.seen[bin] = LEAST;
  }

  /** What was measured at a size still says something of the sizes beside it, once it is measured again. */
  forget(): void {
    const { factors, seen } = this;
    factors.fill(1);
    for (let bin = 0; bin < seen.length; bin++) seen[bin] = Math.min(LEAST, seen[bin]!);
  }
}
