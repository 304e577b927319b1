import { invariant } from "../core/invariant.js";
import { mean } from "../measure/statistics.js";
import type { GoodputRun, PeakGoodputOptions } from "./goodput.js";

export interface RoughPeak {
  /** Where the chord of the last bracket crosses the bound; 0 when found is "below". */
  readonly peakRps: number;
  readonly found: "root" | "below" | "above";
  /** Number of the model that does worst just above the peak. */
  readonly worstModel: number;
  readonly runs: number;
}

const STEP = 1.2;
const REACH = 1024;

/**
 * Peak goodput with few runs: the same question as peakGoodput, bracketed and bisected until the bracket is narrower than
 * the tolerance; no interval. For comparisons over hundreds of cases, where each may be off by a per cent.
 *
 * @param run as for peakGoodput; called for every seed at every rate that is tried.
 */
export function roughPeak(
  run: (rateRps: number, seed: number) => GoodputRun,
  { seeds, startRps, badRateMax = 0.01, tolerance = 0.02 }: PeakGoodputOptions,
): RoughPeak {
  invariant(seeds.length >= 1, "a rough peak needs at least 1 seed; was 0");
  invariant(startRps > 0 && Number.isFinite(startRps), `startRps must be > 0; was ${startRps}`);
  let runs = 0;
  let worstModel = 0;
  const excess = (rateRps: number): number => {
    const results = seeds.map((seed) => run(rateRps, seed).badRates);
    runs += seeds.length;
    let worst = Number.NEGATIVE_INFINITY;
    let at = 0;
    for (let model = 0; model < results[0]!.length; model++) {
      const bad = mean(results.map((rates) => rates[model]!));
      if (bad > worst) {
        worst = bad;
        at = model;
      }
    }
    if (worst > badRateMax) worstModel = at;
    return worst - badRateMax;
  };
  let low = startRps;
  let excessLow = excess(low);
  let high = low;
  let excessHigh = excessLow;
  for (let factor = STEP; excessLow > 0; factor = Math.min(2, factor * STEP)) {
    [high, excessHigh] = [low, excessLow];
    low /= factor;
    if (low < startRps / REACH) return { peakRps: 0, found: "below", worstModel, runs };
    excessLow = excess(low);
  }
  for (let factor = STEP; excessHigh <= 0; factor = Math.min(2, factor * STEP)) {
    [low, excessLow] = [high, excessHigh];
    high *= factor;
    if (high > startRps * REACH) return { peakRps: low, found: "above", worstModel, runs };
    excessHigh = excess(high);
  }
  while (high - low > tolerance * high) {
    // The curve is nearly flat and then steep, so the root lies above the chord's: a third of the way to the middle.
    const chord = low + ((high - low) * -excessLow) / (excessHigh - excessLow);
    const rate = Math.min(
      Math.max((2 * chord + (low + high) / 2) / 3, low + (high - low) / 5),
      high - (high - low) / 5,
    );
    const value = excess(rate);
    if (value <= 0) [low, excessLow] = [rate, value];
    else [high, excessHigh] = [rate, value];
  }
  return { peakRps: low + ((high - low) * -excessLow) / (excessHigh - excessLow), found: "root", worstModel, runs };
}
