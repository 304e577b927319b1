import type { ExpandedFault, ExpandedScenario } from "../../src/config/scenario/scenario.js";
import { FINISHED } from "../../src/core/outcome.js";
import { timeUs } from "../../src/core/time.js";
import { createPolicy } from "../../src/policies/registry.js";
import { Simulation } from "../../src/sim/simulation.js";

export interface RequestRecord {
  /** Index of the model. */
  readonly model: number;
  readonly arrivalAt: number;
  readonly outcome: number;
  /** -1: never executed. */
  readonly execStartAt: number;
  readonly endAt: number;
}

export interface BatchRecord {
  readonly accelerator: number;
  readonly size: number;
  readonly startAt: number;
  readonly endAt: number;
}

/** A simulated run that keeps every request and every batch. */
export class Recording extends Simulation {
  readonly requests: RequestRecord[] = [];
  readonly batches: BatchRecord[] = [];

  static run(
    scenario: ExpandedScenario,
    policy: string,
    options: Readonly<Record<string, unknown>>,
    seed: number,
  ): Recording {
    const recording = new Recording(scenario, createPolicy(policy, options), seed);
    recording.run();
    return recording;
  }

  override end(request: number, outcome: number, reason: number, execStartAt: number, at: number): void {
    const { queue, arrivalAt } = this.scheduler.requests;
    this.requests.push({ model: queue[request]!, arrivalAt: arrivalAt[request]!, outcome, execStartAt, endAt: at });
    super.end(request, outcome, reason, execStartAt, at);
  }

  override batchEnded(batch: number, startAt: number, endAt: number): void {
    const { batches } = this.scheduler;
    this.batches.push({ accelerator: batches.accelerator[batch]!, size: batches.size[batch]!, startAt, endAt });
    super.batchEnded(batch, startAt, endAt);
  }

  /** Finished requests as a share of those that arrived in [from, to), µs. */
  finishRate(from: number, to: number): number {
    const arrived = this.requests.filter(({ arrivalAt }) => arrivalAt >= from && arrivalAt < to);
    return arrived.filter(({ outcome }) => outcome === FINISHED).length / arrived.length;
  }

  /** Requests that finished in [from, to), per second. */
  goodput(from: number, to: number): number {
    const finished = this.requests.filter(({ outcome, endAt }) => outcome === FINISHED && endAt >= from && endAt < to);
    return (finished.length * 1e6) / (to - from);
  }

  /** Quantile of latency in ms over the requests that were executed. */
  latencyMs(quantile: number): number {
    const sorted = this.requests
      .filter(({ execStartAt }) => execStartAt >= 0)
      .map(({ arrivalAt, endAt }) => (endAt - arrivalAt) / 1000)
      .sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))]!;
  }
}

export function fault(atMs: number, kind: ExpandedFault["kind"], accelerator: number, factor = 1): ExpandedFault {
  return { at: timeUs(atMs * 1000), kind, accelerator, factor };
}
