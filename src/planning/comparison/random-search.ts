/** The baseline of Symphony Appendix A.2: random partitions, the best that keeps every bound. */
import type { IsOver } from "../local-search.js";
import { measurePlan, type PlanMeasure } from "../measure.js";
import type { Assignment, PlanProblem, Uniform } from "../problem.js";

export interface RandomSearchResult {
  /** Null: none drawn kept every bound. */
  readonly best: { readonly assignment: Assignment; readonly measure: PlanMeasure } | null;
  readonly drawn: number;
}

/** Draws until `isOver`, or `drawsMax` partitions. */
export function randomSearch(
  problem: PlanProblem,
  random: Uniform,
  isOver: IsOver,
  drawsMax = Number.POSITIVE_INFINITY,
): RandomSearchResult {
  let best: RandomSearchResult["best"] = null;
  let drawn = 0;
  while (drawn < drawsMax && !isOver()) {
    const assignment = new Int32Array(problem.names.length);
    for (let i = 0; i < assignment.length; i++) assignment[i] = Math.floor(random() * problem.clusters);
    drawn++;
    const measure = measurePlan(problem, assignment);
    if (measure.isFeasible && (best === null || measure.objective < best.measure.objective)) {
      best = { assignment, measure };
    }
  }
  return { best, drawn };
}
