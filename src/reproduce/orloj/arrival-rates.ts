/**
 * A rate that changes as that of a group of cloud functions does, in place of the paper's: "we adapt the Azure trace [...] scaled
 * down such that the incoming rate matches the system load" (§5.2), of 2019. Its minutes by function were not to be had, and points
 * hold all that they depend on, so that no file is read.
 *
 * A logarithm of rates by minute that is normal and correlated (a first-order autoregressive process). The minutes of a run
 * are compressed: how long the paper's runs are is not said, and a run of 3,000 requests takes 4 s of SkipNet and 17 min of BART.
 */
import { normalOf, stream } from "../../sim/random.js";

/** Minutes that are counted in a run; a minute is 150 requests where a run has 3,000. */
export const MINUTES = 20;
/** Minutes before, at the mean rate: estimates and batch sizes are learnt from nothing, with 300 requests. */
export const WARMUP_MINUTES = 2;
/** Of the logarithm. All functions of the trace together have 0.08 over a day, smoothed; single ones 0.9 to 2.4. Between: a model has many. */
export const DEVIATION = 0.3;
/** Of one minute's logarithm with the next one's. */
export const CORRELATION = 0.8;
/** "The incoming rate trace is kept the same across all experiments": one trace; what arrives by it differs by seed. */
const SEED = 1;

/** Of the mean rate, by minute; their mean is 1. */
export function minuteFactors(minutes = MINUTES, seed = SEED): number[] {
  const uniform = stream(seed, "orloj/minutes");
  const normal = (): number => normalOf(uniform(), uniform());
  const rates: number[] = [];
  let state = normal();
  for (let minute = 0; minute < minutes; minute++) {
    rates.push(Math.exp(DEVIATION * state));
    state = CORRELATION * state + Math.sqrt(1 - CORRELATION ** 2) * normal();
  }
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / minutes;
  return rates.map((rate) => rate / mean);
}
