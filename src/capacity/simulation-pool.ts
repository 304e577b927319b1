import type { ExpandedScenario } from "../config/scenario/scenario.js";
import type { Report } from "../measure/report.js";
import type { SimulateOptions } from "../sim/simulate.js";
import type { GoodputRun } from "./goodput.js";
import type { SimulationJob } from "./simulation-worker.js";
import { ThreadPool } from "./thread-pool.js";

/** Runs simulations on threads: independent runs (seeds, rates, policies) share nothing, so cores are all they need. */
export class SimulationPool {
  private readonly pool: ThreadPool;

  /** @param threads default: one per core. */
  constructor(threads?: number) {
    // Threads run what is built, also when this file is run from its source (tests).
    this.pool = new ThreadPool(new URL("../../dist/capacity/simulation-worker.js", import.meta.url), threads);
  }

  badRates(scenario: ExpandedScenario, rateRps: number, options: SimulateOptions): Promise<GoodputRun> {
    return this.pool.submit({ kind: "bad-rates", scenario, rateRps, options } satisfies SimulationJob);
  }

  /** @param rateRps null: the scenario's own. */
  report(scenario: ExpandedScenario, rateRps: number | null, options: SimulateOptions): Promise<Report> {
    return this.pool.submit({ kind: "report", scenario, rateRps, options } satisfies SimulationJob);
  }

  close(): Promise<void> {
    return this.pool.close();
  }
}
