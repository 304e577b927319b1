/**
 * The partitioning problem: which models share a sub-cluster.
 *
 * Every accelerator of a sub-cluster holds all models of it, so memory bounds how many may share one; the fuller and the
 * more even the sub-clusters, the less is lost to parting the cluster at all.
 *
 * minimise    ΔR/R̄ + w·ΔS/S̄                          (3)
 * subject to  Σ_i r_i x_ij <= R_max                   (4) requests per second of each sub-cluster
 *             Σ_i s_i x_ij + max_i d_i x_ij <= S_max  (5) static memory, and the largest need of any one run
 *             |Σ_i r_i x_ij - R̄| <= ΔR                (6)
 *             |Σ_i s_i x_ij - S̄| <= ΔS                (7)
 *             each model in exactly one sub-cluster   (8), (9)
 *             Σ cost of models not where they were <= C_max   (10)
 *
 * Source: Symphony Appendix A.1. Ours, not the paper's: its w weighs megabytes against requests per second; here both
 * deviations are relative to their means (w = 1: a percent of either is worth the same; the paper's w is w·R̄/S̄). And
 * (10) there sums |x_ij - x'_ij| over both sub-clusters that a move changes, so that every move counts twice. Here a move
 * is counted once, as the load at its new place: with equal costs our C_max is half of the paper's. A model that was
 * nowhere before is a load, too, as in the paper.
 */
import { invariant } from "../core/invariant.js";

/** Uniform in [0, 1); seeded by the caller. */
export type Uniform = () => number;

export interface PlanModel {
  readonly name: string;
  /** Requests per second. */
  readonly rateRps: number;
  /** Megabytes that the loaded model holds on every accelerator of its sub-cluster (s_i). */
  readonly memoryMb: number;
  /** Megabytes that one run of it needs beside (d_i). One model runs at a time, so only the largest counts. Default 0. */
  readonly dynamicMb?: number;
  /** Cost of loading it: on any sub-cluster, or one number per sub-cluster (c_ij). Default 1: costs count moves. */
  readonly loadCost?: number | readonly number[];
  /** Sub-cluster that holds it now, from 0; null: none. */
  readonly current?: number | null;
}

export interface PlanInput {
  readonly models: readonly PlanModel[];
  readonly clusters: number;
  /** Requests per second that one sub-cluster may take (R_max). Default: no bound. */
  readonly rateRpsMax?: number;
  /** Megabytes of one accelerator (S_max). Default: no bound. */
  readonly memoryMbMax?: number;
  /** What a relative deviation of memory is worth, that of load being 1. Default 1. */
  readonly memoryWeight?: number;
  /** Bound on the cost of all loads that a new placement needs (C_max). Default: no bound. */
  readonly costMax?: number;
  /**
   * True: the cluster is running, and `current` of the models says how. False: a first placement, which costs nothing.
   * Default: true if any model has a current place.
   */
  readonly isRunning?: boolean;
}

/** The same as arrays; unbounded is Infinity. */
export interface PlanProblem {
  readonly names: readonly string[];
  readonly clusters: number;
  readonly rateRps: Float64Array;
  readonly memoryMb: Float64Array;
  readonly dynamicMb: Float64Array;
  readonly rateRpsMax: number;
  readonly memoryMbMax: number;
  readonly memoryWeight: number;
  readonly costMax: number;
  /** Sub-cluster of each model now, -1 for none; null for a first placement. */
  readonly current: Int32Array | null;
  /** Cost of loading each model, or row by row of each model on each sub-cluster. */
  readonly loadCost: Float64Array;
  /** R̄ and S̄: the mean per sub-cluster. */
  readonly rateRpsMean: number;
  readonly memoryMbMean: number;
  /** What deviations are relative to: the mean, or 1 where all are 0. */
  readonly rateRpsScale: number;
  readonly memoryMbScale: number;
}

/** Sub-cluster of each model. */
export type Assignment = Int32Array;

/** @throws InvariantViolation for numbers no caller may pass: people's input is checked before, by its schema. */
export function planProblem(input: PlanInput): PlanProblem {
  const { models, clusters } = input;
  invariant(
    Number.isInteger(clusters) && clusters >= 1,
    `clusters must be a whole number of at least 1; was ${clusters}`,
  );
  invariant(models.length >= 1, "models must be at least 1 long; was 0");
  const perPlace = models.some((model) => typeof model.loadCost === "object");
  const size = models.length;
  const problem = {
    rateRps: new Float64Array(size),
    memoryMb: new Float64Array(size),
    dynamicMb: new Float64Array(size),
    loadCost: new Float64Array(perPlace ? size * clusters : size),
  };
  const current = new Int32Array(size).fill(-1);
  const isRunning = input.isRunning ?? models.some((model) => typeof model.current === "number");
  models.forEach((model, i) => {
    const check = (field: string, value: number): number => {
      invariant(value >= 0 && value < Number.POSITIVE_INFINITY, `${field} of ${model.name} must be >= 0; was ${value}`);
      return value;
    };
    problem.rateRps[i] = check("rateRps", model.rateRps);
    problem.memoryMb[i] = check("memoryMb", model.memoryMb);
    problem.dynamicMb[i] = check("dynamicMb", model.dynamicMb ?? 0);
    const cost = model.loadCost ?? 1;
    if (typeof cost === "number") {
      const width = perPlace ? clusters : 1;
      problem.loadCost.fill(check("loadCost", cost), i * width, (i + 1) * width);
    } else {
      invariant(cost.length === clusters, `loadCost of ${model.name} must be ${clusters} long; was ${cost.length}`);
      cost.forEach((each, j) => {
        problem.loadCost[i * clusters + j] = check("loadCost", each);
      });
    }
    if (typeof model.current === "number") {
      const at = model.current;
      invariant(Number.isInteger(at) && at >= 0 && at < clusters, `current of ${model.name} was ${at} of ${clusters}`);
      current[i] = at;
    }
  });
  const bound = (field: string, value: number): number => {
    invariant(value >= 0, `${field} must be at least 0; was ${value}`);
    return value;
  };
  return {
    names: models.map((model) => model.name),
    clusters,
    ...problem,
    rateRpsMax: bound("rateRpsMax", input.rateRpsMax ?? Number.POSITIVE_INFINITY),
    memoryMbMax: bound("memoryMbMax", input.memoryMbMax ?? Number.POSITIVE_INFINITY),
    memoryWeight: bound("memoryWeight", input.memoryWeight ?? 1),
    costMax: isRunning ? bound("costMax", input.costMax ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY,
    current: isRunning ? current : null,
    rateRpsMean: sum(problem.rateRps) / clusters,
    memoryMbMean: sum(problem.memoryMb) / clusters,
    rateRpsScale: sum(problem.rateRps) / clusters || 1,
    memoryMbScale: sum(problem.memoryMb) / clusters || 1,
  };
}

/** Cost of holding a model at a sub-cluster: of loading it there, 0 where it is. */
export function placeCost(problem: PlanProblem, model: number, cluster: number): number {
  const { current, loadCost, names, clusters } = problem;
  if (current === null || current[model] === cluster) return 0;
  return loadCost[loadCost.length === names.length ? model : model * clusters + cluster]!;
}

/** The least that holding a model anywhere (but at `except`) costs. */
export function leastPlaceCost(problem: PlanProblem, model: number, except = -1): number {
  let least = Number.POSITIVE_INFINITY;
  for (let j = 0; j < problem.clusters; j++) {
    if (j !== except) least = Math.min(least, placeCost(problem, model, j));
  }
  return least;
}

export function sum(values: Float64Array): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** Sums of floating-point numbers in another order differ in the last digits: a bound is kept within this part of it. */
export const BOUND_TOLERANCE = 1e-9;

export function exceeds(value: number, bound: number): boolean {
  return value > bound + BOUND_TOLERANCE * Math.max(1, Math.abs(bound));
}
