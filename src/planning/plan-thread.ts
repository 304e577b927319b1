/** The thread of one plan; see planner.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";
import { measurePlan } from "./measure.js";
import { partition } from "./partition.js";
import type { PlanAnswer, PlanJob } from "./planner.js";
import { planProblem } from "./problem.js";
import { trimMoves } from "./trim-moves.js";

async function plan({ input, seed, timeLimitMs, gainMin }: PlanJob): Promise<PlanAnswer> {
  const problem = planProblem(input);
  const generator = xoroshiro128plus(seed);
  const random = (): number => (generator.next() >>> 0) / 2 ** 32;
  const result = await partition(problem, { random, timeLimitMs });
  if (result.kind !== "planned") return result;
  const assignment = trimMoves(problem, result.assignment, gainMin);
  const isCutOff = !result.isOptimal && result.elapsedMs >= timeLimitMs;
  return {
    kind: "planned",
    assignment,
    objective: measurePlan(problem, assignment).objective,
    search: result.isOptimal ? "optimal" : isCutOff ? "timed-out" : "settled",
    elapsedMs: result.elapsedMs,
  };
}

parentPort?.postMessage(await plan(workerData as PlanJob));
