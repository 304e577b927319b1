import type { Queue, QueueKey, QueueSpec, QueueView } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { windowQueue } from "../../deferred/window-policy.js";
import type { WindowRules } from "../../deferred/window-queue.js";
import type { OneWayTimes } from "./one-way-times.js";

/**
 * One line of requests, earliest deadline first, and who cannot be in time given up, as `deferred` and `eager` have it, of a model that is run
 * one way; which way may follow the queue's length.
 */
export class OneWayQueue implements Queue {
  readonly isByKind = true;
  private readonly inner: Queue;
  private readonly core: QueueView;
  private readonly times: OneWayTimes;
  private readonly wayFor: ((length: number) => number) | null;

  /** @param wayFor so many that wait for one accelerator; null: the way never changes. */
  constructor(
    key: QueueKey,
    spec: QueueSpec,
    core: QueueView,
    rules: WindowRules,
    times: OneWayTimes,
    wayFor: ((length: number) => number) | null,
  ) {
    this.core = core;
    this.times = times;
    this.wayFor = wayFor;
    this.inner = windowQueue(key, spec, core, rules, null);
  }

  get length(): number {
    return this.inner.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.inner.joined!(request, at);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    this.inner.remove(request, at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.inner.returned(request, alone, at);
  }

  refresh(at: number): void {
    if (this.follow()) this.inner.planChanged(at);
    else this.inner.refresh(at);
  }

  planChanged(at: number): void {
    this.follow();
    this.inner.planChanged(at);
  }

  refreshDemand(at: number): void {
    this.inner.refreshDemand(at);
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.inner.giveAway!(to);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const batch = this.inner.take(accelerator, at);
    if (batch < 0) return batch;
    this.core.batches.variant[batch] = this.times.times.numberOf(this.times.way);
    if (this.follow()) this.inner.planChanged(at);
    return batch;
  }

  /** @returns true when the model is run another way from now on. */
  private follow(): boolean {
    const { wayFor, inner, core, times } = this;
    return wayFor !== null && times.select(wayFor(inner.length / Math.max(1, core.accelerators.count)));
  }
}
