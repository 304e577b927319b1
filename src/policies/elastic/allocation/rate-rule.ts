/**
 * Algorithm 3 of OTAS: gamma by the arrival rate, for few batches and the first seconds (Algorithm 2, line 2).
 *
 * Where the listing is silent or wrong: it gives the first gamma also to a batch that is late even so, and lets its time pass; the
 * engine evicts such a batch before execution (§IV, Batch). Here it is not executed and takes no time.
 */
import { type AllocationProblem, NOT_EXECUTED } from "./allocation.js";

/**
 * f(q) (Table I; line 1): the largest gamma whose limit the rate stays below, the first gamma where there is none.
 *
 * @param rateMax by gamma, requests/s. From a profile: the throughput of each gamma. Table I, for -20 to 8: infinity, 1000, 520, 450,
 *   380, 350, 320, 280 (349 is in no row of it: here it is served as 348).
 */
export function gammaForRate(rateMax: Float64Array, ratePerS: number): number {
  for (let gamma = rateMax.length - 1; gamma > 0; gamma--) if (ratePerS < rateMax[gamma]!) return gamma;
  return 0;
}

export interface RateRule {
  /** f(q): index of the gamma for the load. */
  readonly gamma: number;
  /** kappa: batches of a larger mean utility get the last gamma (line 6). */
  readonly criticalUtility: number;
}

/**
 * @param meanUtility by batch: mean utility of its requests.
 * @param now when the accelerator is free, µs. @param chosen as of an Allocator.
 * @returns utility of the batches that end in time. A critical batch may end late with the last gamma (lines 6, 7): the listing
 *   only asks whether f(q) would be in time.
 */
export function allocateByRate(
  problem: AllocationProblem,
  meanUtility: Float64Array,
  now: number,
  rule: RateRule,
  chosen: Int32Array,
): number {
  const { count, gammas, dueAt, timeUs } = problem;
  let clock = now;
  let utility = 0;
  for (let batch = 0; batch < count; batch++) {
    const row = batch * gammas;
    let gamma = meanUtility[batch]! > rule.criticalUtility ? gammas - 1 : rule.gamma;
    if (clock + timeUs[row + rule.gamma]! > dueAt[batch]!) gamma = 0;
    const isInTime = clock + timeUs[row + gamma]! <= dueAt[batch]!;
    if (gamma === 0 && !isInTime) {
      chosen[batch] = NOT_EXECUTED;
      continue;
    }
    chosen[batch] = gamma;
    clock += timeUs[row + gamma]!;
    if (isInTime) utility += problem.utility[row + gamma]!;
  }
  return utility;
}
