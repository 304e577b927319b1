/** The placement that is always there: largest first onto the least loaded, then moves and swaps. */
import { descend, type IsOver, NEVER, reroute, sharpen } from "./local-search.js";
import { Placement } from "./placement.js";
import { type Assignment, leastPlaceCost, type PlanProblem, placeCost, type Uniform } from "./problem.js";

/** Each lowers the energy, so they end by themselves; this bounds them. */
const REROUTES_MAX = 50;

/**
 * Greedy placement with swaps. It may exceed a bound where it finds nothing better: the caller measures it.
 *
 * Models that have a place stay there at first; the others go, largest first (by the sum of relative load and memory), to
 * where the energy grows least, as longest-processing-time scheduling does with one dimension. Within the disruption
 * bound as far as any placement is: enough is kept back for the cheapest places of the models still to come.
 *
 * @param from Null: as `current` of the problem says, or from nothing.
 */
export function greedyPlan(
  problem: PlanProblem,
  random: Uniform,
  isOver: IsOver = NEVER,
  from: Assignment | null = null,
): Placement {
  const placement = new Placement(problem, from ?? problem.current ?? new Int32Array(problem.names.length).fill(-1));
  seed(placement);
  descend(placement, random, isOver);
  for (let n = 0; n < REROUTES_MAX && reroute(placement, isOver); n++) descend(placement, random, isOver);
  sharpen(placement, random, isOver);
  return placement;
}

function seed(placement: Placement): void {
  const { problem } = placement;
  const { rateRps, memoryMb, rateRpsScale, memoryMbScale, clusters, costMax } = problem;
  const size = (i: number): number => rateRps[i]! / rateRpsScale + memoryMb[i]! / memoryMbScale;
  const waiting: number[] = [];
  placement.of.forEach((j, i) => {
    if (j < 0) waiting.push(i);
  });
  waiting.sort((a, b) => size(b) - size(a) || a - b);
  let reserved = 0;
  for (const i of waiting) reserved += leastPlaceCost(problem, i);
  for (const i of waiting) {
    const least = leastPlaceCost(problem, i);
    reserved -= least;
    let best = -1;
    let bestGrowth = Number.POSITIVE_INFINITY;
    for (let j = 0; j < clusters; j++) {
      const cost = placeCost(problem, i, j);
      if (cost > least && placement.cost + cost + reserved > costMax) continue;
      const growth = placement.energyWith(j, i, -1) - placement.energy[j]!;
      if (growth < bestGrowth) {
        best = j;
        bestGrowth = growth;
      }
    }
    placement.place(i, best);
  }
}
