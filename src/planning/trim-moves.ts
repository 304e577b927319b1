/** Takes back what a plan moves for next to nothing. */
import { measurePlan } from "./measure.js";
import type { Assignment, PlanProblem } from "./problem.js";

/**
 * The programme minimises the deviations alone: within the disruption bound a move is free, and a plan moves models for
 * the last thousandth. On a running cluster each move loads a model, so here each must lower the objective by `gainMin`:
 * moves are taken back, the least useful first, as long as objective + gainMin * moves falls; and all of them, if staying
 * put is worth as much.
 *
 * @returns a new assignment that keeps every bound if `assignment` does.
 */
export function trimMoves(problem: PlanProblem, assignment: Assignment, gainMin: number): Assignment {
  const kept = Int32Array.from(assignment);
  const { current } = problem;
  if (current === null) return kept;
  let best = measurePlan(problem, kept);
  for (;;) {
    let back = -1;
    let next = best;
    for (let i = 0; i < kept.length; i++) {
      const place = kept[i]!;
      if (place === current[i] || current[i]! < 0) continue;
      kept[i] = current[i]!;
      const measure = measurePlan(problem, kept);
      kept[i] = place;
      if (!measure.isFeasible || measure.objective - best.objective >= gainMin) continue;
      if (back >= 0 && measure.objective >= next.objective) continue;
      back = i;
      next = measure;
    }
    if (back < 0) break;
    kept[back] = current[back]!;
    best = next;
  }
  // Two that were exchanged pay only together.
  const stay = Int32Array.from(kept, (place, i) => (current[i]! < 0 ? place : current[i]!));
  const put = measurePlan(problem, stay);
  return put.isFeasible && put.objective <= best.objective + gainMin * (best.moves - put.moves) ? stay : kept;
}
