/**
 * Rates as those of the paper's three traces: their coefficients of variation (0.47, 1.0 and 1.3; §5.4) and kinds of change. Points hold all that
 * they depend on, so that no file is read. A trace's hours are compressed into a run; bursts last longer than the window of the state planner.
 */
import { stream } from "../../sim/random.js";

export interface Trace {
  readonly name: string;
  /** Of the rates by second. */
  readonly cv: number;
  /** Rate by second, of the mean: their mean is 1. */
  factors(seconds: number): number[];
}

/** One trace of each kind: what arrives by it differs by seed. */
const SEED = 1;

/** Periods in a run: days of the Wikipedia trace. */
const DAYS = 3;
/** A quiet level and bursts (tweet): part of the time in bursts, seconds that one lasts in the mean. */
const BURSTS = 0.22;
const BURST_S = 12;
/** Spikes of all heights (azure): correlation of one second's logarithm with the next one's. */
const SPIKE_CORRELATION = 0.85;

function normalOf(name: string): () => number {
  const uniform = stream(SEED, `pard/${name}`);
  // Box and Muller.
  return () => Math.sqrt(-2 * Math.log1p(-uniform())) * Math.cos(2 * Math.PI * uniform());
}

const wiki: Trace = {
  name: "wiki",
  cv: 0.47,
  factors(seconds) {
    const normal = normalOf("wiki");
    return scaledTo(
      0.47,
      Array.from(
        { length: seconds },
        (_, second) => Math.sin((2 * Math.PI * DAYS * second) / seconds - Math.PI / 2) + 0.1 * normal(),
      ),
    );
  },
};

const tweet: Trace = {
  name: "tweet",
  cv: 1,
  factors(seconds) {
    const normal = normalOf("tweet");
    const uniform = stream(SEED, "pard/tweet-bursts");
    let isBurst = false;
    const rates = Array.from({ length: seconds }, () => {
      const leave = isBurst ? 1 / BURST_S : BURSTS / (1 - BURSTS) / BURST_S;
      if (uniform() < leave) isBurst = !isBurst;
      return (isBurst ? 1 : 0) + 0.1 * normal();
    });
    return scaledTo(1, rates);
  },
};

const azure: Trace = {
  name: "azure",
  cv: 1.3,
  factors(seconds) {
    const normal = normalOf("azure");
    const deviation = Math.sqrt(Math.log(1 + 1.3 ** 2));
    let state = 0;
    const rates = Array.from({ length: seconds }, () => {
      state = SPIKE_CORRELATION * state + Math.sqrt(1 - SPIKE_CORRELATION ** 2) * normal();
      return Math.exp(deviation * state);
    });
    return scaledTo(1.3, rates);
  },
};

export const TRACES: readonly Trace[] = [wiki, tweet, azure];

/** Stretched around the mean until the coefficient of variation is this, cut off at a twentieth of the mean; the mean is 1. */
function scaledTo(cv: number, rates: readonly number[]): number[] {
  let factors = normed(rates.map((rate) => rate - Math.min(...rates)));
  for (let round = 0; round < 50; round++) {
    const stretch = cv / cvOf(factors);
    factors = normed(factors.map((factor) => Math.max(0.05, 1 + stretch * (factor - 1))));
  }
  return factors;
}

function normed(rates: readonly number[]): number[] {
  const mean = meanOf(rates);
  return rates.map((rate) => rate / mean);
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

export function cvOf(values: readonly number[]): number {
  const mean = meanOf(values);
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2))) / mean;
}

/** Highest mean over this many seconds. */
export function peakOver(seconds: number, factors: readonly number[]): number {
  const width = Math.min(seconds, factors.length);
  let most = 0;
  for (let from = 0; from + width <= factors.length; from++)
    most = Math.max(most, meanOf(factors.slice(from, from + width)));
  return most;
}
