import { invariant } from "../invariant.js";
import type { BatchId, BatchTable } from "../tables/batch-table.js";
import type { RequestTable } from "../tables/request-table.js";
import type { DurationUs } from "../time.js";
import { SizeFactors } from "./size-factors.js";

/** A batch with its members: `batches.first`, `requests.next`; kinds, sizes, variant. Read during the call. */
export interface GivenBatch {
  readonly batch: BatchId;
  readonly batches: BatchTable;
  readonly requests: RequestTable;
}

/**
 * How long a batch of one queue takes on an accelerator of scale 1, µs: the one question, in the ways it is asked.
 *
 * A profile looks at the size alone. A policy whose times depend on who is in the batch, or on how much work each gets,
 * supplies a model of its own (`Policy.createLatency`), for each of its queues.
 */
export interface LatencyModel {
  readonly sizeMax: number;
  /** What plans take for a size, as a table for the hot path; see linearTable. */
  readonly execUs: Float64Array;
  /** Changes whenever execUs does. */
  readonly version: number;
  /** What is planned with has not been measured: until it is, batches are of one request. */
  readonly isHope?: boolean;
  /** The time that a batch of this size stays within with probability q, in (0, 1). */
  quantileUs(size: number, q: number): number;
  /** Planned time of the batch that is about to go, in place of that of its size. Absent: its size says all. */
  givenUs?(given: GivenBatch): number;
  /**
   * Which quantile of what the given batch was expected to take `us` is, in [0, 1]. Absent, or NaN: no distribution is known.
   * With sound distributions all are equally frequent (the probability integral transform).
   */
  quantileOfGiven?(given: GivenBatch, us: number): number;
  /**
   * What a batch took, where the scheduler learns. Absent: the scheduler's own learner corrects the model (a ProfiledLatency).
   * @returns true when execUs changed, and plans must be made anew.
   */
  measured?(given: GivenBatch, us: number): boolean;
  /** The time that a request of this kind alone stays within with probability q. Absent: kinds are not told apart. */
  aloneQuantileUs?(kind: number, q: number): number;
  /** About how many times alone of this kind were measured of late. Absent: they teach it nothing, and none is asked for. */
  aloneSeen?(kind: number, at: number): number;
}

/** l(b) for b = 1..sizeMax as a table the hot path indexes; [0] = 0 and [sizeMax + 1] = Infinity (nothing may join). */
export function linearTable(alphaUs: number, betaUs: number, sizeMax: number): Float64Array {
  const table = new Float64Array(sizeMax + 2);
  for (let size = 1; size <= sizeMax; size++) table[size] = Math.ceil(alphaUs * size + betaUs - 1e-6);
  table[sizeMax + 1] = Number.POSITIVE_INFINITY;
  return table;
}

/** @param timesUs l(1), l(2), ...; must be non-decreasing and positive. */
export function measuredTable(timesUs: ArrayLike<number>): Float64Array {
  const sizeMax = timesUs.length;
  const table = new Float64Array(sizeMax + 2);
  for (let size = 1; size <= sizeMax; size++) {
    table[size] = timesUs[size - 1]!;
    invariant(
      table[size]! > 0 && table[size]! >= table[size - 1]!,
      `latency table must be positive and non-decreasing at size ${size}; was ${table[size]}`,
    );
  }
  table[sizeMax + 1] = Number.POSITIVE_INFINITY;
  return table;
}

const EWMA_WEIGHT = 0.1;
/** Plans are made anew for so much. */
const CHANGE = 0.01;
/** Least part of the profile that is tried without a measurement. */
const HOPE_MIN = 1 / 8;

/**
 * Symphony's profile: a time per batch size, αb + β or measured, corrected online by one factor, and slowly by size.
 *
 * The factor is common to all sizes: live drift (a warm cache, a noisy neighbour, a thread less) moves the whole
 * curve, and one factor is learnt from every batch where per-size means would starve (Clockwork keeps ten samples per size).
 * What stays off at some sizes (SizeFactors) is the profile's: where the longest of a batch counts and requests differ, large
 * batches take twice what a profile of equal requests says.
 *
 * What is planned with is the mean and one standard deviation of what was measured (as in Symphony's public code): a
 * batch planned to end at its deadline by the mean alone ends late half of the time.
 */
export class ProfiledLatency implements LatencyModel {
  readonly sizeMax: number;
  /** Present estimate: execUs[b], length sizeMax + 2; see linearTable. */
  readonly execUs: Float64Array;
  private readonly profileUs: Float64Array;
  /** Mean and variance of measured over profiled time. */
  private factor = 1;
  private variance = 0;
  private hopes = false;
  /** Over the factor, by size. */
  readonly sizes: SizeFactors;
  /** Those that execUs was made with. */
  private readonly compiledSizes: Float64Array;
  /** The multiple of the profile that execUs was made with. */
  private compiled = 1;
  private versions = 0;

  constructor(profileUs: Float64Array) {
    this.sizeMax = profileUs.length - 2;
    invariant(this.sizeMax >= 1, `latency table must hold at least batch size 1; held ${this.sizeMax}`);
    this.profileUs = profileUs;
    this.execUs = Float64Array.from(profileUs);
    this.sizes = new SizeFactors(this.sizeMax);
    this.compiledSizes = new Float64Array(this.sizes.bins).fill(1);
  }

  /** Of a normal distribution with the mean and the deviation that were measured: the profile alone has one time. */
  quantileUs(size: number, q: number): number {
    return this.profileUs[size]! * this.sizes.of(size) * (this.factor + normalQuantile(q) * Math.sqrt(this.variance));
  }

  /** Expected time, without the margin that plans take: what a measurement is compared with. */
  meanUs(size: number): number {
    return this.profileUs[size]! * this.sizes.of(size) * this.factor;
  }

  /** Standard deviation of the times measured, relative to their mean. */
  get spread(): number {
    return Math.sqrt(this.variance) / this.factor;
  }

  /** @param isBySize it says something of its size, too. @returns true when the table changed by more than CHANGE, so that whoever compiled it must look again. */
  observe(size: number, measuredUs: DurationUs, isBySize: boolean): boolean {
    const ratio = measuredUs / this.profileUs[size]!;
    const difference = ratio / this.sizes.of(size) - this.factor;
    if (isBySize) this.sizes.observe(size, ratio / this.factor);
    this.factor += EWMA_WEIGHT * difference;
    this.variance = (1 - EWMA_WEIGHT) * (this.variance + EWMA_WEIGHT * difference * difference);
    return this.isOff && this.compile();
  }

  private get isOff(): boolean {
    if (Math.abs(this.planned - this.compiled) >= CHANGE * this.compiled) return true;
    return this.compiledSizes.some((factor, bin) => Math.abs(this.sizes.ofBin(bin) - factor) >= CHANGE * factor);
  }

  /** The curve is `times` as high as thought: evidence that one batch's average would take too long to believe. */
  shift(times: number): void {
    this.factor *= times;
    this.variance *= times * times;
    this.compile();
  }

  /**
   * Forgets that it was slower than its profile: back to that. A curve that was found faster stays: the profile would
   * refuse what was served before, and nothing would be measured that could say so.
   *
   * @returns false: nothing changed.
   */
  reset(): boolean {
    const isSlower = this.planned > 1 || this.compiledSizes.some((factor) => this.planned * factor > 1);
    if (!isSlower) return false;
    this.sizes.forget();
    this.factor = 1;
    this.variance = 0;
    return this.compile();
  }

  /** Multiple of the profile that execUs holds now. */
  get multiple(): number {
    return this.compiled;
  }

  /** Plans with what a model of the same profile has learnt elsewhere (in the thread that hears of measurements). */
  adopt(multiple: number): void {
    this.factor = multiple;
    this.variance = 0;
    this.compile();
  }

  /**
   * Plans with half of what was thought: the model is refused beside idle accelerators, so the profile may be too slow
   * (made while others worked), and only a run can tell. @returns false: as much has been hoped for as is allowed.
   */
  hope(): boolean {
    if (this.planned / 2 < HOPE_MIN) return false;
    this.factor = this.planned / 2;
    this.variance = 0;
    this.hopes = true;
    return this.compile();
  }

  /** What is planned with is hope: the next batches are of one request, and the first of them tells. */
  get isHope(): boolean {
    return this.hopes;
  }

  /** One measurement, and nothing before it. */
  learnAnew(size: number, measuredUs: DurationUs): true {
    this.factor = measuredUs / this.profileUs[size]! / this.sizes.of(size);
    this.variance = 0;
    this.hopes = false;
    return this.compile();
  }

  private get planned(): number {
    return this.factor + Math.sqrt(this.variance);
  }

  /** Changes whenever execUs does. */
  get version(): number {
    return this.versions;
  }

  private compile(): true {
    this.versions++;
    this.compiled = this.planned;
    const { sizes, compiledSizes, execUs } = this;
    for (let bin = 0; bin < compiledSizes.length; bin++) compiledSizes[bin] = sizes.ofBin(bin);
    for (let size = 1; size <= this.sizeMax; size++) {
      const us = Math.ceil(this.profileUs[size]! * sizes.between(size) * this.compiled - 1e-6);
      // A larger batch never takes less: windows count on it.
      execUs[size] = Math.max(us, execUs[size - 1]!);
    }
    return true;
  }
}

/** Of a normal distribution, in deviations from its mean: by Tukey's lambda distribution, within 0.003 for q in [0.01, 0.99]. */
export const normalQuantile = (q: number): number => 4.91 * (q ** 0.14 - (1 - q) ** 0.14);

/** undefined: there is no queue, or what its batches take is its policy's to say and to learn. */
export function profileOf(spec: { readonly latency: LatencyModel } | undefined): ProfiledLatency | undefined {
  return spec?.latency instanceof ProfiledLatency ? spec.latency : undefined;
}

/** Largest b in [0, sizeMax] with table[b] <= us. O(log sizeMax). */
export function largestWithin(table: Float64Array, us: number): number {
  let low = 0;
  let high = table.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (table[middle]! <= us) low = middle;
    else high = middle - 1;
  }
  return low;
}
