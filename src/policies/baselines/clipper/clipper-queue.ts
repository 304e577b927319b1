import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../../core/outcome.js";
import type { CoreView, Queue, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { BatchTimes } from "../../batch-times.js";
import { WaitingRequests } from "../../waiting-requests.js";
import type { BatchCap } from "./batch-cap.js";

/**
 * One model's requests under Clipper: earliest deadline first, in one queue for all replicas. A replica that is free takes
 * what is there, up to the cap that it has learnt. Only whose deadline has passed is given up, or nobody.
 *
 * A replica here is an accelerator, which serves all models of its group; each of them learns its own cap on it.
 */
export class ClipperQueue implements Queue {
  private readonly waiting: WaitingRequests;
  private readonly times: BatchTimes;
  /** By accelerator; undefined: it has taken nothing yet. */
  private readonly caps: (BatchCap | undefined)[] = [];
  private readonly key: QueueKey;
  private readonly sizeMax: number;
  private readonly core: CoreView;
  private readonly createCap: (accelerator: AcceleratorId) => BatchCap;
  private readonly drops: boolean;

  /** @param drops whose deadline has passed is given up; else nobody is. */
  constructor(
    key: QueueKey,
    spec: QueueSpec,
    core: CoreView,
    createCap: (accelerator: AcceleratorId) => BatchCap,
    drops = true,
  ) {
    this.key = key;
    this.sizeMax = spec.latency.sizeMax;
    this.core = core;
    this.createCap = createCap;
    this.drops = drops;
    this.waiting = new WaitingRequests(core);
    this.times = new BatchTimes(key, spec, core);
  }

  get length(): number {
    return this.waiting.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.waiting.push(request);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.waiting.takeBack(request, alone);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    this.waiting.remove(request);
    this.refresh(at);
  }

  refresh(at: number): void {
    this.dropExpired(at);
    this.publish(at);
  }

  planChanged(at: number): void {
    if (this.length > 0) this.refresh(at);
  }

  /** Demand is read by idle dispatch alone, which Clipper does not have. */
  refreshDemand(_at: number): void {}

  batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    const { accelerator, executedSize, size } = this.core.batches;
    const latencyUs = this.times.leadUs(size[batch]!) + endAt - startAt;
    this.capOf(accelerator[batch]!).ended(executedSize[batch]!, latencyUs);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { times, waiting } = this;
    this.dropExpired(at);
    const { pending, retries } = waiting;
    const most = times.sizeMaxOn(accelerator);
    let size = Math.min(most, retries.partLength);
    let executed = size;
    const isRetry = size > 0;
    if (!isRetry && pending.length > 0) {
      const budgetUs = pending.deadlineAt(0) - at;
      const cap = this.capOf(accelerator);
      const isTried = most > 1 && cap.explores(budgetUs);
      const limit = Math.min(most, cap.next(budgetUs));
      size = Math.min(limit, pending.length);
      executed = isTried ? limit : size;
    }
    let batch = -1;
    if (size > 0) {
      const close = isRetry ? CLOSE_RETRY : executed === this.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
      const startAt = times.startOf(size, at, times.freeAt(accelerator, at));
      batch = times.add(waiting.take(size), size, accelerator, startAt, close, executed);
    }
    this.refresh(at);
    return batch;
  }

  private capOf(accelerator: AcceleratorId): BatchCap {
    let cap = this.caps[accelerator];
    if (cap === undefined) {
      cap = this.createCap(accelerator);
      this.caps[accelerator] = cap;
    }
    return cap;
  }

  private dropExpired(at: number): void {
    if (!this.drops) return;
    const { retries, pending } = this.waiting;
    const aloneEndAt = this.times.endOf(1, at);
    retries.dropLate(aloneEndAt, at, at);
    this.waiting.dropFront(pending.firstNotBefore(at), at, aloneEndAt, aloneEndAt);
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key, waiting } = this;
    const { pending, retries } = waiting;
    const isEmpty = waiting.length === 0;
    const dueAt = Math.min(retries.dueAt, pending.length > 0 ? pending.deadlineAt(0) : Number.POSITIVE_INFINITY);
    offers.size[key] = isEmpty ? 0 : 1;
    if (!isEmpty) {
      const lead = this.times.leadUs(1);
      offers.leadUs[key] = lead;
      offers.opensAt[key] = at + lead;
      offers.latestAt[key] = dueAt + lead;
      offers.rank[key] = dueAt;
    }
    this.core.alarm(key, this.drops ? dueAt + 1 : Number.POSITIVE_INFINITY);
    this.core.offerChanged(key, at);
  }
}
