/** HiGHS on a thread of its own: it blocks, and past its limit the thread is ended. */
import { Worker } from "node:worker_threads";
import type { Milp } from "./milp.js";
import type { SolveAnswer, SolveJob } from "./solver-thread.js";

/** HiGHS looks at its clock between steps, and a step of a large programme takes long: then the thread goes. */
const GRACE_MS = 250;

export type SolveOptions = Omit<SolveJob, "id" | "milp" | "sentAtMs">;

/** One solve at a time; a thread that was ended is started anew with the next one. */
export class Solver {
  private worker: Worker | null = null;
  private nextId = 0;

  /** Never later than the limit and a quarter of a second. @returns status `none` if the thread had to be ended. @throws on a bug */
  async solve(milp: Milp, options: SolveOptions): Promise<SolveAnswer> {
    const id = this.nextId++;
    const nothing: SolveAnswer = {
      id,
      status: "none",
      values: null,
      bound: Number.NEGATIVE_INFINITY,
      timedOut: true,
    };
    if (options.timeLimitS <= 0) return nothing;
    const worker = this.prepare();
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<SolveAnswer>((resolve, reject) => {
        const fail = (error: Error): void => {
          this.worker = null;
          reject(error);
        };
        worker.once("message", (answer: SolveAnswer | { readonly id: number; readonly error: string }) => {
          if ("error" in answer) reject(new Error(`HiGHS: ${answer.error}`));
          else resolve(answer);
        });
        worker.once("error", fail);
        worker.once("exit", (code) => fail(new Error(`the solver thread ended with ${code}`)));
        timer = setTimeout(
          () => {
            this.worker = null;
            resolve(nothing);
            void worker.terminate();
          },
          options.timeLimitS * 1000 + GRACE_MS,
        );
        worker.postMessage({ id, milp, ...options, sentAtMs: Date.now() } satisfies SolveJob);
      });
    } finally {
      clearTimeout(timer);
      worker.removeAllListeners("message");
      worker.removeAllListeners("error");
      worker.removeAllListeners("exit");
    }
  }

  /** Starts the thread, so that it reads the solver while its first programme is still being made. */
  prepare(): Worker {
    // Threads run what is built, also when this file is run from its source (tests).
    this.worker ??= new Worker(new URL("../../dist/planning/solver-thread.js", import.meta.url));
    return this.worker;
  }

  async close(): Promise<void> {
    const { worker } = this;
    this.worker = null;
    await worker?.terminate();
  }
}
