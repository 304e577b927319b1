import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { ExpandedScenario } from "../config/scenario.js";
import type { Report } from "../measure/report.js";
import type { SimulateOptions } from "../sim/simulate.js";
import type { GoodputRun } from "./goodput.js";
import type { SimulationJob } from "./simulation-worker.js";

/** Runs simulations on threads: independent runs (seeds, rates, policies) share nothing, so cores are all they need. */
export class SimulationPool {
  private readonly idle: Worker[] = [];
  private readonly workers: Worker[] = [];
  private readonly queue: SimulationJob[] = [];
  private readonly pending = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  private readonly sizeMax: number;
  private nextId = 0;
  private closed = false;

  constructor(threads = availableParallelism()) {
    this.sizeMax = Math.max(1, threads);
  }

  badRates(scenario: ExpandedScenario, rateRps: number, options: SimulateOptions): Promise<GoodputRun> {
    return this.submit({ id: this.nextId++, kind: "bad-rates", scenario, rateRps, options });
  }

  /** @param rateRps null: the scenario's own. */
  report(scenario: ExpandedScenario, rateRps: number | null, options: SimulateOptions): Promise<Report> {
    return this.submit({ id: this.nextId++, kind: "report", scenario, rateRps, options });
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }

  private submit<T>(job: SimulationJob): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.pending.set(job.id, { resolve: resolve as never, reject });
      this.queue.push(job);
      this.pump();
    });
  }

  private pump(): void {
    while (this.queue.length > 0) {
      const worker = this.idle.pop() ?? (this.workers.length < this.sizeMax ? this.spawn() : undefined);
      if (worker === undefined) return;
      worker.postMessage(this.queue.shift());
    }
  }

  private spawn(): Worker {
    // Threads run what is built, also when this file is run from its source (tests).
    const worker = new Worker(new URL("../../dist/report/simulation-worker.js", import.meta.url));
    this.workers.push(worker);
    worker.on("message", ({ id, result, error }: { id: number; result: never; error?: string }) => {
      const waiter = this.pending.get(id)!;
      this.pending.delete(id);
      this.idle.push(worker);
      if (error === undefined) waiter.resolve(result);
      else waiter.reject(new Error(error));
      this.pump();
    });
    worker.on("error", (error) => this.fail(error));
    worker.on("exit", (code) => {
      if (!this.closed && code !== 0) this.fail(new Error(`a simulation thread ended with ${code}`));
    });
    return worker;
  }

  private fail(error: Error): void {
    for (const { reject } of this.pending.values()) reject(error);
    this.pending.clear();
    this.queue.length = 0;
  }
}
