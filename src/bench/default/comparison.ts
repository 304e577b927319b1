/** What paired runs say: is the default as good as the best of eager and a timeout, and better where batching pays? */
import { mean, median, standardDeviation, tInterval95 } from "../../measure/statistics.js";
import { bestOf, CONTROL, DEFAULT, EAGER, isComparable, type PairedRun, timeoutsOf } from "./paired-runs.js";

/** In time, relative to the best of eager and a timeout: in every case; and where batching pays and load is at or past capacity. */
export const LEAST = 0.98;
export const GAIN = 1.2;
/** Batching pays from here on. */
const PAYS_BETA_OVER_ALPHA = 2;
/** Fewer pairs have no interval worth the name. */
const PAIRS_MIN = 3;

/**
 * held: the median is at least the goal. noise: it is below, and the interval of the mean holds the goal. missed: all of the interval is
 * below. bounded: missed, and no schedule reaches it. void: too few pairs.
 */
export type Verdict = "held" | "noise" | "missed" | "bounded" | "void";

export interface CaseEvidence {
  readonly runs: readonly PairedRun[];
  readonly timeouts: readonly number[];
  readonly load: number;
  readonly betaOverAlpha: number;
  /** No schedule has more in time than this part of what arrives; null: not known. */
  readonly mostInTime: number | null;
}

export interface Comparison {
  /** Part of what arrived that was in time, over the compared pairs. */
  readonly inTime: { readonly own: number; readonly eager: number; readonly timeout: number };
  readonly timeout: string;
  /** The better of eager and the timeout. */
  readonly best: string;
  /** Of the paired ratios to it. */
  readonly ratio: { readonly median: number; readonly low: number; readonly high: number };
  readonly pairs: number;
  readonly voids: readonly string[];
  readonly least: Verdict;
  /** null: not asked for here. */
  readonly gain: Verdict | null;
  /** Ratio of the bound to the best. */
  readonly mostRatio: number | null;
  /** Ratios of eager to itself, where it ran twice. */
  readonly control: readonly number[];
}

export function compare({ runs, timeouts, load, betaOverAlpha, mostInTime }: CaseEvidence): Comparison {
  const pairs = [...new Set(runs.map(({ pair }) => pair))]
    .map((pair) => runs.filter((run) => run.pair === pair))
    .filter(isComparable);
  const timeout = bestOf(timeoutsOf(timeouts), runs).name;
  // Pairs in which the best timeout did not run are those of a sweep that another one seemed to win.
  const compared = pairs.filter((pair) => pair.some(({ contender }) => contender === timeout));
  const of = (pair: readonly PairedRun[], name: string) => pair.find(({ contender }) => contender === name)!;
  const part = (name: string): number => {
    const sum = (read: (run: PairedRun) => number) => compared.reduce((all, pair) => all + read(of(pair, name)), 0);
    return compared.length === 0
      ? Number.NaN
      : sum((run) => run.in_time) /
          Math.max(
            1,
            sum((run) => run.arrived),
          );
  };
  const inTime = { own: part(DEFAULT.name), eager: part(EAGER.name), timeout: part(timeout) };
  const best = inTime.timeout > inTime.eager ? timeout : EAGER.name;
  const ratios = compared.map((pair) => ratioOf(of(pair, DEFAULT.name), of(pair, best)));
  const ratio = summaryOf(ratios);
  const bestPart = Math.max(inTime.eager, inTime.timeout);
  const mostRatio = mostInTime === null ? null : mostInTime / Math.max(bestPart, Number.MIN_VALUE);
  const verdict = (goal: number): Verdict => {
    if (ratios.length < PAIRS_MIN) return "void";
    if (ratio.median >= goal) return "held";
    if (ratio.high >= goal) return "noise";
    return mostRatio !== null && mostRatio < goal ? "bounded" : "missed";
  };
  const isGainAsked = betaOverAlpha >= PAYS_BETA_OVER_ALPHA && load >= 1;
  return {
    inTime,
    timeout,
    best,
    ratio,
    pairs: compared.length,
    voids: [...new Set(runs.flatMap(({ void_reason }) => void_reason ?? []))],
    least: verdict(LEAST),
    gain: isGainAsked ? verdict(GAIN) : null,
    mostRatio,
    control: pairs
      .filter((pair) => pair.some(({ contender }) => contender === CONTROL.name))
      .map((pair) => ratioOf(of(pair, CONTROL.name), of(pair, EAGER.name))),
  };
}

/** Nothing in time on either side is no difference. */
const ratioOf = (own: PairedRun, other: PairedRun): number =>
  own.in_time === other.in_time ? 1 : own.in_time / Math.max(1, other.in_time);

function summaryOf(ratios: readonly number[]): Comparison["ratio"] {
  if (ratios.length === 0) return { median: Number.NaN, low: Number.NaN, high: Number.NaN };
  const { low, high } = tInterval95(ratios);
  return { median: median(ratios), low, high };
}

/** What a pair cannot tell: spread of the ratio of a policy to itself; null where none ran twice. */
export function noiseOf(comparisons: readonly Comparison[]): { pairs: number; mean: number; sd: number } | null {
  const ratios = comparisons.flatMap(({ control }) => control);
  if (ratios.length === 0) return null;
  return { pairs: ratios.length, mean: mean(ratios), sd: standardDeviation(ratios) };
}
