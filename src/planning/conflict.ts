/** Why no placement can exist: bounds that arithmetic alone shows to be too tight. */
import { exceeds, leastPlaceCost, type PlanProblem, sum } from "./problem.js";

export interface Conflict {
  readonly constraint: "rate" | "memory" | "disruption";
  /** Whether one model, a pair of any two, or all together break it. */
  readonly reach: "model" | "half" | "total";
  /** A sentence with the bound and the value. */
  readonly message: string;
}

const NAMES_SHOWN = 3;

/** Every bound that provably cannot be kept. None found does not mean that a placement exists. */
export function provenConflicts(problem: PlanProblem): Conflict[] {
  const single = modelConflicts(problem);
  // The totals say nothing new of an input where one model alone is too large.
  return single.length > 0 ? single : [...totalConflicts(problem), ...disruptionConflicts(problem)];
}

function modelConflicts(problem: PlanProblem): Conflict[] {
  const { names, rateRps, memoryMb, dynamicMb, rateRpsMax, memoryMbMax } = problem;
  const conflicts: Conflict[] = [];
  const tooBusy = indices(names.length, (i) => exceeds(rateRps[i]!, rateRpsMax));
  if (tooBusy.length > 0) {
    const list = listed(tooBusy, (i) => `${names[i]} needs ${show(rateRps[i]!)}`);
    conflicts.push({
      constraint: "rate",
      reach: "model",
      message: `a sub-cluster may take ${show(rateRpsMax)} requests/s (R_max), but one model alone is more: ${list}`,
    });
  }
  const tooLarge = indices(names.length, (i) => exceeds(memoryMb[i]! + dynamicMb[i]!, memoryMbMax));
  if (tooLarge.length > 0) {
    const list = listed(tooLarge, (i) => {
      const parts = dynamicMb[i]! > 0 ? ` (${show(memoryMb[i]!)} static + ${show(dynamicMb[i]!)} dynamic)` : "";
      return `${names[i]} needs ${show(memoryMb[i]! + dynamicMb[i]!)} MB${parts}`;
    });
    conflicts.push({
      constraint: "memory",
      reach: "model",
      message: `an accelerator holds ${show(memoryMbMax)} MB (S_max), but one model alone is more: ${list}`,
    });
  }
  return conflicts;
}

function totalConflicts(problem: PlanProblem): Conflict[] {
  const { names, clusters, rateRps, memoryMb, dynamicMb, rateRpsMax, memoryMbMax } = problem;
  const conflicts: Conflict[] = [];
  const totalRate = sum(rateRps);
  if (exceeds(totalRate, clusters * rateRpsMax)) {
    conflicts.push({
      constraint: "rate",
      reach: "total",
      message:
        `all models together have ${show(totalRate)} requests/s, but ${clusters} sub-clusters of at most ` +
        `${show(rateRpsMax)} (R_max) take ${show(clusters * rateRpsMax)}`,
    });
  } else {
    const halves = indices(names.length, (i) => exceeds(2 * rateRps[i]!, rateRpsMax));
    if (halves.length > clusters) {
      conflicts.push({
        constraint: "rate",
        reach: "half",
        message:
          `${halves.length} models have more than half of the ${show(rateRpsMax)} requests/s of a sub-cluster (R_max), ` +
          `so no two may share one, but there are ${clusters} sub-clusters: ${listed(halves, (i) => names[i]!)}`,
      });
    }
  }
  // Each sub-cluster in use needs at least its smallest dynamic memory beside; one of them the largest of all.
  const static_ = sum(memoryMb);
  const ascending = Float64Array.from(dynamicMb).sort();
  const inUse = Math.min(names.length, Math.max(1, Math.ceil(static_ / memoryMbMax - 1e-6)));
  let dynamic = ascending[ascending.length - 1]!;
  for (let n = 0; n < inUse - 1; n++) dynamic += ascending[n]!;
  if (exceeds(static_ + dynamic, clusters * memoryMbMax)) {
    const beside = dynamic > 0 ? ` and at least ${show(dynamic)} MB dynamic` : "";
    conflicts.push({
      constraint: "memory",
      reach: "total",
      message:
        `all models together need ${show(static_)} MB static${beside}, but ${clusters} sub-clusters of ` +
        `${show(memoryMbMax)} MB (S_max) hold ${show(clusters * memoryMbMax)} MB`,
    });
  } else {
    const halves = indices(names.length, (i) => exceeds(2 * memoryMb[i]! + dynamicMb[i]!, memoryMbMax));
    if (halves.length > clusters) {
      conflicts.push({
        constraint: "memory",
        reach: "half",
        message:
          `${halves.length} models are so large that no two fit the ${show(memoryMbMax)} MB of an accelerator (S_max), ` +
          `but there are ${clusters} sub-clusters: ${listed(halves, (i) => names[i]!)}`,
      });
    }
  }
  return conflicts;
}

function disruptionConflicts(problem: PlanProblem): Conflict[] {
  const { names, current, costMax } = problem;
  if (current === null || costMax === Number.POSITIVE_INFINITY) return [];
  const homeless = indices(names.length, (i) => current[i]! < 0);
  let cost = 0;
  for (const i of homeless) cost += leastPlaceCost(problem, i);
  if (exceeds(cost, costMax)) {
    const list = listed(homeless, (i) => names[i]!);
    return [
      {
        constraint: "disruption",
        reach: "total",
        message: `loading the ${homeless.length} models that have no place yet costs at least ${show(cost)}, but the disruption bound (C_max) is ${show(costMax)}: ${list}`,
      },
    ];
  }
  const repair = repairCost(problem);
  if (!exceeds(cost + repair.cost, costMax)) return [];
  const new_ = cost > 0 ? ` and loading models that have no place yet ${show(cost)}` : "";
  return [
    {
      constraint: "disruption",
      reach: "total",
      message:
        `moving models out of sub-clusters that exceed a bound now (${repair.clusters.join(", ")}) costs at least ` +
        `${show(repair.cost)}${new_}, but the disruption bound (C_max) is ${show(costMax)}`,
    },
  ];
}

/** What it costs at least to bring every sub-cluster within its bounds: a fractional knapsack of each, cheapest first. */
function repairCost(problem: PlanProblem): { readonly cost: number; readonly clusters: readonly number[] } {
  const { names, clusters, current, rateRps, memoryMb, dynamicMb, rateRpsMax, memoryMbMax } = problem;
  const over: number[] = [];
  let total = 0;
  for (let j = 0; j < clusters; j++) {
    const members = indices(names.length, (i) => current![i] === j);
    let rate = 0;
    let memory = 0;
    let dynamicLeast = Number.POSITIVE_INFINITY;
    for (const i of members) {
      rate += rateRps[i]!;
      memory += memoryMb[i]!;
      dynamicLeast = Math.min(dynamicLeast, dynamicMb[i]!);
    }
    if (members.length === 0) continue;
    const cost = Math.max(
      cheapestRemoval(problem, j, members, rateRps, rate - rateRpsMax),
      cheapestRemoval(problem, j, members, memoryMb, memory + dynamicLeast - memoryMbMax),
    );
    if (cost > 0) over.push(j);
    total += cost;
  }
  return { cost: total, clusters: over };
}

function cheapestRemoval(
  problem: PlanProblem,
  cluster: number,
  members: readonly number[],
  sizes: Float64Array,
  excess: number,
): number {
  if (!exceeds(excess, 0)) return 0;
  const offers = members
    .filter((i) => sizes[i]! > 0)
    .map((i) => ({ size: sizes[i]!, cost: leastPlaceCost(problem, i, cluster) }))
    .sort((a, b) => a.cost / a.size - b.cost / b.size);
  let left = excess;
  let cost = 0;
  for (const offer of offers) {
    if (left <= 0) break;
    cost += offer.cost * Math.min(1, left / offer.size);
    left -= offer.size;
  }
  return cost;
}

function indices(count: number, test: (i: number) => boolean): number[] {
  const found: number[] = [];
  for (let i = 0; i < count; i++) if (test(i)) found.push(i);
  return found;
}

function listed(found: readonly number[], say: (i: number) => string): string {
  const shown = found.slice(0, NAMES_SHOWN).map(say).join(", ");
  return found.length > NAMES_SHOWN ? `${shown} and ${found.length - NAMES_SHOWN} more` : shown;
}

/** Six figures: enough to see by how much a bound is missed. */
export function show(value: number): string {
  return String(Number(value.toPrecision(6)));
}
