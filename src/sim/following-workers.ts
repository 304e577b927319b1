/**
 * Workers of one group that follow the rate of what comes to its models (PARD §5.1): those of the lowest numbers are there, who is
 * asked for takes batches after a cold start, who goes ends the batch that it holds. Decisions end with the arrivals.
 */
import type { ExpandedModel } from "../config/scenario/expand-scenario.js";
import type { ExpandedWorkers } from "../config/worker-rule.js";
import { WorkerCounts } from "../scaling/worker-counts.js";

/** Workers are numbered from 0 in their group. */
export interface WorkersDriver {
  join(worker: number, at: number): void;
  leave(worker: number, at: number): void;
}

export class FollowingWorkers {
  /** When `step` has something to do. */
  nextAt: number;
  private readonly workers: ExpandedWorkers;
  private readonly models: ReadonlyMap<number, ExpandedModel>;
  private readonly driver: WorkersDriver;
  private readonly counts: WorkerCounts;
  private readonly came = new Map<number, number>();
  /** Workers [0, wanted) are there, or come at joinsAt. */
  private wanted: number;
  private readonly joinsAt: Float64Array;
  private nextDecisionAt: number;
  private readonly endsAt: number;

  /** @param models of the group, by number. @param endsAt of the arrivals. */
  constructor(
    workers: ExpandedWorkers,
    models: ReadonlyMap<number, ExpandedModel>,
    endsAt: number,
    driver: WorkersDriver,
  ) {
    this.workers = workers;
    this.models = models;
    this.endsAt = endsAt;
    this.driver = driver;
    this.counts = new WorkerCounts(workers.rule, workers.downAfterUs);
    this.wanted = workers.initial;
    this.joinsAt = new Float64Array(workers.rule.max).fill(Number.POSITIVE_INFINITY);
    this.nextDecisionAt = this.decisionAfter(0);
    this.nextAt = this.nextDecisionAt;
  }

  /** May the worker be there, as far as the rate is concerned? */
  isWanted(worker: number): boolean {
    return worker < this.wanted && this.joinsAt[worker] === Number.POSITIVE_INFINITY;
  }

  /** A request, or a part of one, came to the model. */
  cameTo(model: number): void {
    this.came.set(model, (this.came.get(model) ?? 0) + 1);
  }

  step(at: number): void {
    this.joinDue(at);
    if (this.nextDecisionAt <= at) this.decide(at);
    this.nextAt = this.joinsAt.reduce((first, joinAt) => Math.min(first, joinAt), this.nextDecisionAt);
  }

  private decide(at: number): void {
    const seconds = this.workers.intervalUs / 1e6;
    const loads = [...this.models].map(([model, { batchSizeMax, execUs, sloUs }]) => ({
      rateRps: (this.came.get(model) ?? 0) / seconds,
      execUs,
      sizeMax: batchSizeMax,
      sloUs,
    }));
    this.came.clear();
    this.resize(this.counts.decide(loads, at), at);
    this.nextDecisionAt = this.decisionAfter(at);
  }

  private resize(size: number, at: number): void {
    const before = this.wanted;
    this.wanted = size;
    for (let worker = size; worker < before; worker++) {
      if (this.joinsAt[worker] === Number.POSITIVE_INFINITY) this.driver.leave(worker, at);
      this.joinsAt[worker] = Number.POSITIVE_INFINITY;
    }
    for (let worker = before; worker < size; worker++) this.joinsAt[worker] = at + this.workers.coldStartUs;
    this.joinDue(at);
  }

  private joinDue(at: number): void {
    for (let worker = 0; worker < this.wanted; worker++) {
      if (this.joinsAt[worker]! > at) continue;
      this.joinsAt[worker] = Number.POSITIVE_INFINITY;
      this.driver.join(worker, at);
    }
  }

  private decisionAfter(at: number): number {
    const next = at + this.workers.intervalUs;
    return next <= this.endsAt ? next : Number.POSITIVE_INFINITY;
  }
}
