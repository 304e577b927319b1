/** A thread that solves one programme at a time with HiGHS (WebAssembly), which blocks it until its limit. */
import { parentPort } from "node:worker_threads";
import highsModule from "highs";
import type { Milp } from "./milp.js";

export interface SolveJob {
  readonly id: number;
  readonly milp: Milp;
  /** Seconds from `sentAtMs`: starting the thread and reading the solver are part of it. */
  readonly timeLimitS: number;
  /** Wall clock (`Date.now()`), which threads share. */
  readonly sentAtMs: number;
  /** Nodes of the search tree: a limit that, unlike time, cuts off at the same place every time. */
  readonly nodesMax: number;
  readonly seed: number;
  /** False: the starting point keeps no bound and is not offered. */
  readonly hasStart: boolean;
}

export interface SolveAnswer {
  readonly id: number;
  /** optimal: proved; feasible: a solution, stopped by a limit; infeasible: proved; none: nothing found in the limits. */
  readonly status: "optimal" | "feasible" | "infeasible" | "none";
  readonly values: Float64Array | null;
  /** No solution has a smaller objective; -Infinity where nothing is known. */
  readonly bound: number;
  /** True if the time limit, rather than a proof or the node limit, ended it: another run may end otherwise. */
  readonly timedOut: boolean;
}

// Its declarations are read as those of a CommonJS module, whose default export would sit one level lower than it does.
const loadHighs = highsModule as unknown as typeof highsModule.default;
const highs = await loadHighs();
const { modelStatus } = highs.constants;
/** Objectives are relative deviations: a millionth is below what anyone can measure. */
const GAP_ABSOLUTE = 1e-7;

function solve(job: SolveJob): SolveAnswer {
  const { milp } = job;
  const source = {
    numCols: milp.columns,
    numRows: milp.rows,
    colCost: milp.cost,
    colLower: milp.lower,
    colUpper: milp.upper,
    integrality: milp.integrality,
    rowLower: milp.rowLower,
    rowUpper: milp.rowUpper,
    matrix: {
      format: "csr" as const,
      numRows: milp.rows,
      numCols: milp.columns,
      starts: milp.starts,
      indices: milp.indices,
      values: milp.values,
    },
  };
  return highs.withModel(source, (model): SolveAnswer => {
    model.options.set({
      output_flag: false,
      time_limit: Math.max(0, job.timeLimitS - (Date.now() - job.sentAtMs) / 1000),
      mip_max_nodes: job.nodesMax,
      random_seed: job.seed,
      mip_rel_gap: 0,
      mip_abs_gap: GAP_ABSOLUTE,
    });
    if (job.hasStart) model.setSolution({ colValue: milp.start });
    model.run();
    const status = model.getModelStatus();
    if (status === modelStatus.infeasible) {
      return { id: job.id, status: "infeasible", values: null, bound: Number.POSITIVE_INFINITY, timedOut: false };
    }
    // 2 = a feasible point (HighsSolutionStatus).
    const hasSolution = model.info.get("primal_solution_status") === 2;
    const bound = Number(model.info.get("mip_dual_bound"));
    const isOptimal = status === modelStatus.optimal;
    return {
      id: job.id,
      status: isOptimal ? "optimal" : hasSolution ? "feasible" : "none",
      values: hasSolution ? Float64Array.from(model.getSolution().colValue) : null,
      bound: Number.isFinite(bound) ? bound : Number.NEGATIVE_INFINITY,
      timedOut: status === modelStatus.timeLimit,
    };
  });
}

parentPort?.on("message", (job: SolveJob) => {
  try {
    parentPort!.postMessage(solve(job));
  } catch (error) {
    parentPort!.postMessage({ id: job.id, error: error instanceof Error ? error.message : String(error) });
  }
});
