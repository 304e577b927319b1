/**
 * How even are the sub-clusters that `rubato plan` makes? Symphony Figure 16's question: 20 configurations of 800 models
 * over 20 sub-clusters, 10 s each, against random search of the same length and against greedy with swaps alone.
 *
 * Not a measure of speed: the time is given, the evenness is the result. It depends on the time, so the digest is that of
 * the greedy placements, which do not.
 */
import { comparePlans, type PlanComparison } from "../planning/comparison/compare-plans.js";
import type { PlanMeasure } from "../planning/measure.js";
import { stream } from "../sim/random.js";
import type { BenchResult, BenchSize } from "./bench-result.js";

const CONFIGURATIONS = 20;
const TIME_LIMIT_MS = 10_000;

/** @param size Relative to 20 configurations of 10 s each (7 minutes with random search). */
export async function benchPlan({ size = 1 }: BenchSize = {}): Promise<BenchResult[]> {
  const count = Math.max(1, Math.round(CONFIGURATIONS * size));
  const timeLimitMs = Math.max(500, TIME_LIMIT_MS * Math.min(1, size));
  const results: BenchResult[] = [];
  for (let seed = 1; seed <= count; seed++)
    results.push(resultOf(await comparePlans(seed, timeLimitMs, stream), timeLimitMs));
  return results;
}

function resultOf(comparison: PlanComparison, timeLimitMs: number): BenchResult {
  const { seed, plan, greedy, random, randomDrawn, greedyMs, digest } = comparison;
  const pair = ({ loadImbalance, memoryImbalance }: PlanMeasure) =>
    `${loadImbalance.toFixed(5)} / ${memoryImbalance.toFixed(5)}`;
  return {
    name: `plan-${String(seed).padStart(2, "0")}`,
    value: Math.max(plan.loadImbalance, plan.memoryImbalance),
    unit: "worse of the imbalances of load and memory",
    detail:
      `load / memory: plan ${pair(plan)}, greedy with swaps ${pair(greedy)} in ${greedyMs.toFixed(0)} ms, random search ` +
      `${random === null ? "none within the bounds" : pair(random)} of ${randomDrawn}; ${timeLimitMs / 1000} s`,
    digest,
  };
}
