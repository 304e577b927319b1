/** Plans on a thread of its own, so that whoever asks goes on serving. */
import { Worker } from "node:worker_threads";
import type { Conflict } from "./conflict.js";
import type { Violation } from "./measure.js";
import type { Assignment, PlanInput } from "./problem.js";

export interface PlanJob {
  readonly input: PlanInput;
  readonly seed: number;
  /** Milliseconds to search for; 0: greedy with swaps alone. */
  readonly timeLimitMs: number;
  /** By how much the objective must fall for each model moved; see trim-moves.ts. */
  readonly gainMin: number;
}

export type PlanAnswer =
  | {
      readonly kind: "planned";
      /** By the order of `input.models`. */
      readonly assignment: Assignment;
      /** Of `assignment`. */
      readonly objective: number;
      /** optimal: proved the best before moves were taken back; settled: nothing better found; timed-out: the incumbent at the time limit. */
      readonly search: "optimal" | "settled" | "timed-out";
      readonly elapsedMs: number;
    }
  | { readonly kind: "infeasible"; readonly conflicts: readonly Conflict[] }
  | { readonly kind: "not-found"; readonly violations: readonly Violation[] }
  /** The thread gave no answer in time, or broke. */
  | { readonly kind: "failed"; readonly message: string };

/** The search looks at its clock between steps; past this the thread is ended. */
const GRACE_MS = 5000;

/** One plan at a time. The thread lives as long as its plan: between epochs it would hold the solver for nothing. */
export class Planner {
  private worker: Worker | null = null;

  /** Never rejects; answers at the latest some seconds after the time limit, at once when closed. */
  async plan(job: PlanJob): Promise<PlanAnswer> {
    // Threads run what is built, also when this file is run from its source (tests).
    const worker = new Worker(new URL("../../dist/planning/plan-thread.js", import.meta.url), { workerData: job });
    this.worker = worker;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<PlanAnswer>((resolve) => {
        const fail = (message: string): void => resolve({ kind: "failed", message });
        worker.once("message", resolve);
        worker.once("error", (error) => fail(error.message));
        worker.once("exit", () => fail("the planning thread ended without an answer"));
        timer = setTimeout(() => fail(`no answer ${GRACE_MS} ms past the time limit`), job.timeLimitMs + GRACE_MS);
      });
    } finally {
      clearTimeout(timer);
      if (this.worker === worker) this.worker = null;
      await worker.terminate();
    }
  }

  /** Ends the plan under way. */
  async close(): Promise<void> {
    await this.worker?.terminate();
  }
}
