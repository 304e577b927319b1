import { CLOSE_RETRY } from "../../../core/outcome.js";
import type { CoreView, Queue, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { BatchTimes } from "../../batch-times.js";
import { RequestLinks, type RequestList } from "./request-list.js";

/**
 * What the queues of servers without deadlines share: nothing is ordered by deadline, nothing is dropped on its account,
 * an offer never expires by itself, and an accelerator that is free takes the batch that is ready.
 *
 * Requests that come back from a failed batch have been ready before, so they go first: those to be run alone one by one,
 * the others together. The systems themselves have no such path (a failed batch fails its requests); it is the core's
 * promise that a request survives the failure of others.
 */
export abstract class ArrivalOrderQueue implements Queue {
  protected readonly key: QueueKey;
  protected readonly spec: QueueSpec;
  protected readonly core: CoreView;
  /** Largest batch: the option's, never above the model's. */
  protected readonly batchMax: number;
  protected readonly links = new RequestLinks();
  private readonly times: BatchTimes;
  private readonly alone = this.links.list();
  private readonly again = this.links.list();

  protected constructor(key: QueueKey, spec: QueueSpec, core: CoreView, batchMax: number) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.batchMax = batchMax;
    this.times = new BatchTimes(key, spec, core);
  }

  abstract arrived(request: RequestHandle, at: number): void;
  /** Publishes the offer of a queue to which nothing was returned. */
  protected abstract publishNext(at: number): void;
  /** A free accelerator takes the batch that is ready. @returns the batch, or -1. */
  protected abstract takeNext(accelerator: AcceleratorId, at: number): BatchId;
  /** Time passed, or an event is about to be handled: bring the queue's own state up to `at`. */
  protected abstract advance(at: number): void;
  /** A cancelled request left this list. */
  protected abstract left(list: RequestList): void;
  /** The batch size that is executed for a batch of `size` members. */
  protected executedSize(size: number): number {
    return size;
  }

  get length(): number {
    return this.links.count;
  }

  remove(request: RequestHandle, at: number): void {
    this.advance(at);
    this.left(this.links.remove(request));
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    (alone ? this.alone : this.again).push(request, at);
    this.refresh(at);
  }

  refresh(at: number): void {
    this.advance(at);
    if (this.alone.count > 0) this.offer(1, at, at, this.alone.oldestAt);
    else if (this.again.count > 0) this.offer(Math.min(this.again.count, this.batchMax), at, at, this.again.oldestAt);
    else this.publishNext(at);
    this.core.alarm(this.key, this.core.offers.size[this.key] === 0 ? Number.POSITIVE_INFINITY : this.checkAt + 1);
    this.core.offerChanged(this.key, at);
  }

  planChanged(at: number): void {
    if (this.length > 0) this.refresh(at);
  }

  /** Demand is read by idle dispatch alone, which these systems do not have. */
  refreshDemand(_at: number): void {}

  take(accelerator: AcceleratorId, at: number): BatchId {
    this.advance(at);
    const batch =
      this.alone.count > 0
        ? this.commit(this.alone, 1, accelerator, at, CLOSE_RETRY)
        : this.again.count > 0
          ? this.commit(this.again, Math.min(this.again.count, this.batchMax), accelerator, at, CLOSE_RETRY)
          : this.takeNext(accelerator, at);
    this.refresh(at);
    return batch;
  }

  protected withdraw(): void {
    this.core.offers.size[this.key] = 0;
  }

  /** Last moment at which what waits stands as it is; the queue looks again one microsecond later. */
  protected get checkAt(): number {
    return Number.POSITIVE_INFINITY;
  }

  /** @param readyAt when a free accelerator may take it. @param rank smallest first, where the arbiter ranks. */
  protected offer(size: number, at: number, readyAt: number, rank: number): void {
    const { offers } = this.core;
    const { key } = this;
    const lead = this.times.leadUs(size);
    offers.size[key] = size;
    offers.opensAt[key] = Math.max(at, readyAt) + lead;
    offers.latestAt[key] = this.checkAt + lead;
    offers.leadUs[key] = lead;
    offers.rank[key] = rank;
  }

  /** The first `size` requests of a list become a batch on this accelerator, as soon as it and the data can be there. */
  protected commit(list: RequestList, size: number, accelerator: AcceleratorId, at: number, close: number): BatchId {
    const { times } = this;
    const startAt = times.startOf(size, at, times.freeAt(accelerator, at));
    const first = list.takeMembers(size, this.core.requests);
    return times.add(first, size, accelerator, startAt, close, this.executedSize(size));
  }
}
