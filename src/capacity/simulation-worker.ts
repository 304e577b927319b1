/** A thread that simulates: one job at a time, answers with what a search for the peak reads, or with a whole report. */
import { parentPort } from "node:worker_threads";
import { type ExpandedScenario, withRate } from "../config/scenario/scenario.js";
import { type SimulateOptions, simulate, simulateBadRates } from "../sim/simulate.js";
import type { ThreadAnswer } from "./thread-pool.js";

export interface SimulationJob {
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

parentPort?.on("message", ({ id, job }: { id: number; job: SimulationJob }) => {
  let answer: ThreadAnswer;
  try {
    answer = { id, result: runJob(job) };
  } catch (error) {
    answer = { id, error: error instanceof Error ? error.message : String(error) };
  }
  parentPort!.postMessage(answer);
});
