/** Symphony Figure 16: one random configuration planned in three ways. */
import { createHash } from "node:crypto";
import { greedyPlan } from "../greedy.js";
import { measurePlan, type PlanMeasure } from "../measure.js";
import { partition } from "../partition.js";
import { planProblem } from "../problem.js";
import { randomSearch } from "./random-search.js";
import { zooConfiguration } from "./zoo-configuration.js";

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

/**
 * Plans one configuration; random search has as long as the plan.
 * @param stream uniform numbers in [0, 1) by seed and name.
 */
export async function comparePlans(
  seed: number,
  timeLimitMs: number,
  stream: (seed: number, name: string) => () => number,
): Promise<PlanComparison> {
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
