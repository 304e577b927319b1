/** What a placement is worth, computed afresh from the problem alone: the judge of every search. */
import { invariant } from "../core/invariant.js";
import { type Assignment, exceeds, type PlanProblem, placeCost } from "./problem.js";

export interface PlanMeasure {
  /** Requests per second of each sub-cluster. */
  readonly rateRps: Float64Array;
  /** Static megabytes of each sub-cluster. */
  readonly memoryMb: Float64Array;
  /** Largest dynamic megabytes of each sub-cluster. */
  readonly dynamicMb: Float64Array;
  readonly sizes: Int32Array;
  /** ΔR and ΔS: the largest deviation from the mean. */
  readonly rateDeviation: number;
  readonly memoryDeviation: number;
  /** ΔR/R̄ + w·ΔS/S̄: what is minimised. */
  readonly objective: number;
  /** (max - min) / mean over sub-clusters (Appendix A.2); 0 where all are 0. */
  readonly loadImbalance: number;
  readonly memoryImbalance: number;
  /** Models that must be loaded where they were not; 0 for a first placement. */
  readonly moves: number;
  readonly cost: number;
  /** No bound is exceeded. */
  readonly isFeasible: boolean;
  readonly violations: readonly Violation[];
}

export interface Violation {
  readonly constraint: "rate" | "memory" | "disruption";
  /** Null for the disruption bound, which is of all. */
  readonly cluster: number | null;
  readonly value: number;
  readonly bound: number;
}

/** @throws InvariantViolation unless every model is in exactly one sub-cluster that exists. */
export function measurePlan(problem: PlanProblem, assignment: Assignment): PlanMeasure {
  const { clusters, names, current } = problem;
  invariant(assignment.length === names.length, `an assignment has ${names.length} models; was ${assignment.length}`);
  const rateRps = new Float64Array(clusters);
  const memoryMb = new Float64Array(clusters);
  const dynamicMb = new Float64Array(clusters);
  const sizes = new Int32Array(clusters);
  let moves = 0;
  let cost = 0;
  assignment.forEach((j, i) => {
    invariant(j >= 0 && j < clusters, `model ${names[i]} must be in a sub-cluster in [0, ${clusters}); was ${j}`);
    rateRps[j]! += problem.rateRps[i]!;
    memoryMb[j]! += problem.memoryMb[i]!;
    dynamicMb[j] = Math.max(dynamicMb[j]!, problem.dynamicMb[i]!);
    sizes[j]!++;
    if (current !== null && current[i] !== j) moves++;
    cost += placeCost(problem, i, j);
  });
  const violations: Violation[] = [];
  const rateMean = meanOf(rateRps);
  const memoryMean = meanOf(memoryMb);
  let rateDeviation = 0;
  let memoryDeviation = 0;
  for (let j = 0; j < clusters; j++) {
    const needed = memoryMb[j]! + dynamicMb[j]!;
    if (exceeds(rateRps[j]!, problem.rateRpsMax)) {
      violations.push({ constraint: "rate", cluster: j, value: rateRps[j]!, bound: problem.rateRpsMax });
    }
    if (exceeds(needed, problem.memoryMbMax)) {
      violations.push({ constraint: "memory", cluster: j, value: needed, bound: problem.memoryMbMax });
    }
    rateDeviation = Math.max(rateDeviation, Math.abs(rateRps[j]! - rateMean));
    memoryDeviation = Math.max(memoryDeviation, Math.abs(memoryMb[j]! - memoryMean));
  }
  if (exceeds(cost, problem.costMax)) {
    violations.push({ constraint: "disruption", cluster: null, value: cost, bound: problem.costMax });
  }
  return {
    rateRps,
    memoryMb,
    dynamicMb,
    sizes,
    rateDeviation,
    memoryDeviation,
    objective: rateDeviation / problem.rateRpsScale + (problem.memoryWeight * memoryDeviation) / problem.memoryMbScale,
    loadImbalance: imbalance(rateRps),
    memoryImbalance: imbalance(memoryMb),
    moves,
    cost,
    isFeasible: violations.length === 0,
    violations,
  };
}

/**
 * No placement has a smaller objective than this: a model busier than the mean cannot be parted, and fewer models than
 * sub-clusters leave one empty. 0 says nothing.
 */
export function objectiveFloor(problem: PlanProblem): number {
  const { names, clusters, rateRps, memoryMb, rateRpsMean, memoryMbMean } = problem;
  const isShort = names.length < clusters;
  const floorOf = (values: Float64Array, mean: number): number => {
    const largest = values.reduce((max, value) => Math.max(max, value), 0);
    if (largest === 0) return 0;
    return Math.max(0, largest / mean - 1, isShort ? 1 : 0);
  };
  return floorOf(rateRps, rateRpsMean) + problem.memoryWeight * floorOf(memoryMb, memoryMbMean);
}

function imbalance(values: Float64Array): number {
  const mean = meanOf(values);
  if (mean === 0) return 0;
  return (values.reduce((max, v) => Math.max(max, v)) - values.reduce((min, v) => Math.min(min, v))) / mean;
}

function meanOf(values: Float64Array): number {
  let total = 0;
  for (const value of values) total += value;
  return total / values.length;
}
