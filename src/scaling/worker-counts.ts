/** How many workers the modules of a group need for what comes to them, as PARD has it (§5.1): the rate over what a worker can do. */
import { plannedBatch } from "../core/latency/planned-batch.js";
import { WindowMax } from "./window-max.js";

/** What comes to one model, and what its batches take. */
export interface WorkerLoad {
  readonly rateRps: number;
  readonly execUs: ArrayLike<number>;
  readonly sizeMax: number;
  /** What its batches are planned for. */
  readonly sloUs: number;
}

export interface WorkerRule {
  /** Workers are for the rate and this part of it more. */
  readonly headroom: number;
  readonly min: number;
  readonly max: number;
}

/** Requests per second of one worker in batches of the planned size. */
export function workerRps({ execUs, sizeMax, sloUs }: Omit<WorkerLoad, "rateRps">): number {
  const size = plannedBatch(execUs, sizeMax, sloUs);
  return (1e6 * size) / execUs[size]!;
}

/** @param loads of all models that the workers serve. @returns within the bounds of the rule. */
export function workersFor(loads: readonly WorkerLoad[], { headroom, min, max }: WorkerRule): number {
  const needed = loads.reduce((sum, load) => sum + load.rateRps / workerRps(load), 0);
  // A whole number of workers that is just enough is not one too few for its last digit.
  return Math.min(max, Math.max(min, Math.ceil((1 + headroom) * needed - 1e-9)));
}

/** The rule through time: up at once, down to the most that was needed within a while. */
export class WorkerCounts {
  private readonly rule: WorkerRule;
  private readonly needed: WindowMax;

  /** @param downAfterUs how long workers are kept that are not needed; the paper says nothing of it. */
  constructor(rule: WorkerRule, downAfterUs: number) {
    this.rule = rule;
    this.needed = new WindowMax(downAfterUs);
  }

  /** @param loads of the interval that ends now. */
  decide(loads: readonly WorkerLoad[], at: number): number {
    this.needed.add(workersFor(loads, this.rule), at);
    return this.needed.max(at);
  }
}
