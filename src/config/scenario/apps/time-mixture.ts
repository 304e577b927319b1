/** Distributions of the time of a request alone, as plain data that crosses threads; their means and quantiles, exact. */
import { cumulated } from "../pipelines/expand-pipelines.js";

export const NORMAL = 0;
export const LOGNORMAL = 1;
export const UNIFORM = 2;

/** One of the parts, as often as `cumulative` says (the last is 1); a part of shape[i] with parameters a[i] and b[i]. Plain data. */
export interface TimeMixture {
  readonly cumulative: Float64Array;
  readonly shape: Uint8Array;
  /** Normal: mean and standard deviation, µs. Lognormal: those of the logarithm of µs. Uniform: from and to, µs. */
  readonly a: Float64Array;
  readonly b: Float64Array;
}

export type TimePart = readonly [weight: number, shape: number, a: number, b: number];

/** A mixture, as often as its share says among others. */
export interface SharedTime {
  readonly share: number;
  readonly time: TimeMixture;
}

/** Nothing takes less, µs: what is drawn below is cut off there. */
export const TIME_US_MIN = 1;
/** Standard deviations beyond which a normal distribution has nothing (1e-12). */
const DEVIATIONS_MAX = 7;

export const mixture = (parts: readonly TimePart[]): TimeMixture => ({
  cumulative: cumulated(parts.map(([weight]) => weight)),
  shape: Uint8Array.from(parts, ([, shape]) => shape),
  a: Float64Array.from(parts, ([, , a]) => a),
  b: Float64Array.from(parts, ([, , , b]) => b),
});

/** Mean of the time alone of a request of any of these, µs, to the nanosecond. */
export function meanUs(of: readonly SharedTime[]): number {
  let mean = 0;
  eachPart(of, (weight, shape, a, b) => {
    mean += weight * meanOf(shape, a, b);
  });
  return toNanosecond(mean);
}

/**
 * The time alone that a request of any of these stays within with this probability, µs, to the nanosecond.
 * @param probability in (0, 1).
 */
export function quantileUs(of: readonly SharedTime[], probability: number): number {
  let high = TIME_US_MIN;
  eachPart(of, (weight, shape, a, b) => {
    if (weight > 0) high = Math.max(high, longestOf(shape, a, b));
  });
  let low = 0;
  while (high - low > high * 1e-12) {
    const middle = (low + high) / 2;
    if (cdf(of, middle) >= probability) high = middle;
    else low = middle;
  }
  return toNanosecond(high);
}

/** So that what is a whole microsecond stays one. */
const toNanosecond = (us: number): number => Math.round(us * 1000) / 1000;

/** Probability that a request of any of these takes at most so long. */
function cdf(of: readonly SharedTime[], us: number): number {
  if (us < TIME_US_MIN) return 0;
  let probability = 0;
  eachPart(of, (weight, shape, a, b) => {
    probability += weight * cdfOf(shape, a, b, us);
  });
  return probability;
}

/** @param visit is given the part of the whole that is a part's. */
function eachPart(
  of: readonly SharedTime[],
  visit: (weight: number, shape: number, a: number, b: number) => void,
): void {
  let total = 0;
  for (const { share } of of) total += share;
  for (const { share, time } of of) {
    const { cumulative, shape, a, b } = time;
    let before = 0;
    for (let part = 0; part < shape.length; part++) {
      visit((share / total) * (cumulative[part]! - before), shape[part]!, a[part]!, b[part]!);
      before = cumulative[part]!;
    }
  }
}

function longestOf(shape: number, a: number, b: number): number {
  if (shape === NORMAL) return a + DEVIATIONS_MAX * b;
  return shape === LOGNORMAL ? Math.exp(a + DEVIATIONS_MAX * b) : b;
}

function cdfOf(shape: number, a: number, b: number, us: number): number {
  if (shape === NORMAL) return normalCdf((us - a) / b);
  if (shape === LOGNORMAL) return normalCdf((Math.log(us) - a) / b);
  if (us >= b) return 1;
  return us <= a ? 0 : (us - a) / (b - a);
}

/** Mean with what is below TIME_US_MIN counted as that. */
function meanOf(shape: number, a: number, b: number): number {
  const least = TIME_US_MIN;
  if (shape === UNIFORM) {
    if (a >= least) return (a + b) / 2;
    return b <= least ? least : (least * (least - a) + (b * b - least * least) / 2) / (b - a);
  }
  if (shape === NORMAL) {
    if (b === 0) return Math.max(least, a);
    const cut = (least - a) / b;
    const below = normalCdf(cut);
    return least * below + a * (1 - below) + (b * Math.exp((-cut * cut) / 2)) / Math.sqrt(2 * Math.PI);
  }
  if (b === 0) return Math.max(least, Math.exp(a));
  const cut = (Math.log(least) - a) / b;
  return least * normalCdf(cut) + Math.exp(a + (b * b) / 2) * (1 - normalCdf(cut - b));
}

/** Of the standard normal distribution, to 15 digits: Marsaglia's series (J. Stat. Softw. 11(4), 2004). */
function normalCdf(deviations: number): number {
  // No deviation at all: 0/0 is at the mean.
  if (Number.isNaN(deviations) || deviations > DEVIATIONS_MAX) return 1;
  if (deviations < -DEVIATIONS_MAX) return 0;
  let sum = deviations;
  let term = deviations;
  for (let odd = 3; sum + term !== sum; odd += 2) {
    term *= (deviations * deviations) / odd;
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-deviations * deviations) / 2)) / Math.sqrt(2 * Math.PI);
}
