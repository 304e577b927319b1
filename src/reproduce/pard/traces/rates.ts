/**
 * Rates as those of the paper's three traces: their coefficients of variation (0.47, 1.0 and 1.3; §5.4) and kinds of change, generated; from files:
 * `trace-files.ts`. Points hold all that they depend on. A trace's hours are compressed into a run; bursts last longer than the window of the state planner.
 */
import { mean } from "../../../measure/statistics.js";
import { normalOf, stream } from "../../../sim/random.js";

export interface Trace {
  readonly name: string;
  /** Where its rates are from; absent: generated. */
  readonly file?: string;
  /** Of the rates by second. */
  readonly cv: number;
  /** Rate by second, of the mean: their mean is 1. */
  factors(seconds: number): number[];
}

export type Traces = readonly [wiki: Trace, tweet: Trace, azure: Trace];

/** Coefficients of variation, §5.4. */
export const WIKI_CV = 0.47;
export const TWEET_CV = 1;
export const AZURE_CV = 1.3;

/** One trace of each kind: what arrives by it differs by seed. */
const SEED = 1;

/** Of the mean: no generated second is without requests. */
const LEAST = 0.05;

/** Periods in a run: days of the Wikipedia trace. */
const DAYS = 3;
/** A quiet level and bursts (tweet): part of the time in bursts, seconds that one lasts in the mean. */
const BURSTS = 0.22;
const BURST_S = 12;
/** Spikes of all heights (azure): correlation of one second's logarithm with the next one's. */
const SPIKE_CORRELATION = 0.85;

/** @param ratesOf by second, with this trace's kind of change and any mean. */
const traceOf = (name: string, cv: number, ratesOf: (seconds: number, normal: () => number) => number[]): Trace => ({
  name,
  cv,
  factors(seconds) {
    const uniform = stream(SEED, `pard/${name}`);
    return scaledTo(
      cv,
      ratesOf(seconds, () => normalOf(uniform(), uniform())),
      LEAST,
    );
  },
});

const wiki = traceOf("wiki", WIKI_CV, (seconds, normal) =>
  Array.from(
    { length: seconds },
    (_, second) => Math.sin((2 * Math.PI * DAYS * second) / seconds - Math.PI / 2) + 0.1 * normal(),
  ),
);

const tweet = traceOf("tweet", TWEET_CV, (seconds, normal) => {
  const uniform = stream(SEED, "pard/tweet-bursts");
  let isBurst = false;
  return Array.from({ length: seconds }, () => {
    const leave = isBurst ? 1 / BURST_S : BURSTS / (1 - BURSTS) / BURST_S;
    if (uniform() < leave) isBurst = !isBurst;
    return (isBurst ? 1 : 0) + 0.1 * normal();
  });
});

const azure = traceOf("azure", AZURE_CV, (seconds, normal) => {
  const deviation = Math.sqrt(Math.log(1 + AZURE_CV ** 2));
  let state = 0;
  return Array.from({ length: seconds }, () => {
    state = SPIKE_CORRELATION * state + Math.sqrt(1 - SPIKE_CORRELATION ** 2) * normal();
    return Math.exp(deviation * state);
  });
});

export const GENERATED: Traces = [wiki, tweet, azure];

/** Stretched around the mean until the coefficient of variation is this, cut off at `least` of the mean; the mean is 1. */
export function scaledTo(cv: number, rates: readonly number[], least: number): number[] {
  const lowest = Math.min(...rates);
  let factors = normed(rates.map((rate) => rate - lowest));
  for (let round = 0; round < 50; round++) {
    const stretch = cv / cvOf(factors);
    factors = normed(factors.map((factor) => Math.max(least, 1 + stretch * (factor - 1))));
  }
  return factors;
}

export function normed(rates: readonly number[]): number[] {
  const center = mean(rates);
  return rates.map((rate) => rate / center);
}

export function cvOf(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2))) / center;
}

/** Highest mean over this many seconds. */
export function peakOver(seconds: number, factors: readonly number[]): number {
  const width = Math.min(seconds, factors.length);
  let most = 0;
  for (let from = 0; from + width <= factors.length; from++)
    most = Math.max(most, mean(factors.slice(from, from + width)));
  return most;
}
