/**
 * How even are the sub-clusters that `rubato plan` makes? Symphony Figure 16's question: 20 configurations of 800 models
 * over 20 sub-clusters, 10 s each, against random search of the same length and against greedy with swaps alone.
 *
 * Not a measure of speed: the time is given, the evenness is the result. It depends on the time, so the digest is that of
 * the greedy placements, which do not.
 */
import { createHash } from "node:crypto";
import { greedyPlan } from "../planning/greedy.js";
import { measurePlan, type PlanMeasure } from "../planning/measure.js";
import { partition } from "../planning/partition.js";
import { planProblem } from "../planning/problem.js";
import { randomSearch } from "../planning/random-search.js";
import { zooConfiguration } from "../planning/zoo-configuration.js";
import { stream } from "../sim/random.js";
import type { BenchResult, BenchSize } from "./scheduling/core-bench.js";

const CONFIGURATIONS = 20;
const TIME_LIMIT_MS = 10_000;

/** One configuration: three answers to the same problem. */
export interface PlanComparison {
  readonly seed: number;
  readonly plan: PlanMeasure;
  readonly greedy: PlanMeasure;
  /** Null: no random partition kept the bounds. */
  readonly random: PlanMeasure | null;
  readonly randomDrawn: number;
  readonly greedyMs: number;
  readonly digest: string;
}

/** Plans one configuration; random search has as long as the plan. */
export async function comparePlans(seed: number, timeLimitMs: number): Promise<PlanComparison> {
  const problem = planProblem(zooConfiguration({ random: stream(seed, "plan/configuration") }));
  const startMs = performance.now();
  const greedy = greedyPlan(problem, stream(seed, "plan"));
  const greedyMs = performance.now() - startMs;
  const result = await partition(problem, { random: stream(seed, "plan"), timeLimitMs });
  if (result.kind !== "planned") throw new Error(`configuration ${seed}: ${result.kind}`);
  const endMs = performance.now() + timeLimitMs;
  const random = randomSearch(problem, stream(seed, "plan/random-search"), () => performance.now() >= endMs);
  return {
    seed,
    plan: result.measure,
    greedy: measurePlan(problem, greedy.of),
    random: random.best?.measure ?? null,
    randomDrawn: random.drawn,
    greedyMs,
    digest: createHash("sha256").update(greedy.of).digest("hex").slice(0, 12),
  };
}

/** @param size Relative to 20 configurations of 10 s each (7 minutes with random search). */
export async function benchPlan({ size = 1 }: BenchSize = {}): Promise<BenchResult[]> {
  const count = Math.max(1, Math.round(CONFIGURATIONS * size));
  const timeLimitMs = Math.max(500, TIME_LIMIT_MS * Math.min(1, size));
  const results: BenchResult[] = [];
  for (let seed = 1; seed <= count; seed++) results.push(resultOf(await comparePlans(seed, timeLimitMs), timeLimitMs));
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
