/** A thread that simulates: one job at a time, answers with what a search for the peak reads, or with a whole report. */
import { parentPort } from "node:worker_threads";
import { type ExpandedScenario, withRate } from "../config/scenario.js";
import { type SimulateOptions, simulate, simulateBadRates } from "../sim/simulate.js";

export interface SimulationJob {
  readonly id: number;
  readonly kind: "bad-rates" | "report";
  readonly scenario: ExpandedScenario;
  /** Null: the scenario's own. */
  readonly rateRps: number | null;
  readonly options: SimulateOptions;
}

export function runJob(job: SimulationJob): unknown {
  const scenario = job.rateRps === null ? job.scenario : withRate(job.scenario, job.rateRps);
  return job.kind === "report" ? simulate(scenario, job.options) : simulateBadRates(scenario, job.options);
}

parentPort?.on("message", (job: SimulationJob) => {
  try {
    parentPort!.postMessage({ id: job.id, result: runJob(job) });
  } catch (error) {
    parentPort!.postMessage({ id: job.id, error: error instanceof Error ? error.message : String(error) });
  }
});
