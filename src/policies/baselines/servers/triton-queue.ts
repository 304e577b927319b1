import {
  CLOSE_ACCELERATOR_FREE,
  CLOSE_EAGER,
  CLOSE_FULL,
  CLOSE_TIMEOUT,
  DROP_EXPIRED,
  DROP_QUEUE_FULL,
} from "../../../core/outcome.js";
import type { CoreView, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { ArrivalOrderQueue } from "./arrival-order-queue.js";
import type { RequestList } from "./request-list.js";
import { type FormedSize, TritonBatcher } from "./triton-batcher.js";

export interface TritonQueueOptions {
  /** Null: the largest batch of the model. Sizes above that are left out. */
  readonly preferredBatchSizes: readonly number[] | null;
  readonly maxQueueDelayUs: number;
  /** Requests that wait and are in no formed batch; 0: no limit but the core's. */
  readonly maxQueueSize: number;
  /** How long a request may wait before `timeoutAction`; 0: for ever. */
  readonly defaultTimeoutUs: number;
  /** REJECT: dropped as expired. DELAY: behind everyone whose timeout has not passed, and never timed out again. */
  readonly timeoutAction: "REJECT" | "DELAY";
}

/** A batch that waits for an accelerator. */
interface FormedBatch {
  readonly members: RequestList;
  readonly formedAt: number;
  /** It grows no more. */
  saturated: boolean;
  readonly isDelayOver: boolean;
}

/** Formed batches that may wait for each accelerator where no queue policy forbids it. */
const PREFETCH = 2;

/**
 * Triton's dynamic batcher for one model, whose instances are the accelerators present.
 *
 * Without a queue policy (a timeout or a size limit) batches are formed ahead while accelerators are busy, up to two for
 * each, and the last of them grows until it is saturated. With one a batch is formed when an accelerator is free. The
 * two differ: 4 preferred and 8 the largest, a queue of 8 behind a busy accelerator leaves as 4 + 4 in the first case.
 *
 * What Triton's batcher thread does between events of ours (a delay that ends while every accelerator is busy) is made up
 * for before the next event is handled, at the times at which it was due.
 *
 * Source: dynamic_batch_scheduler.cc and scheduler_utils.cc of Triton's core, with requests of size 1.
 * Ours: REJECT answers when the timeout passes; Triton's thread notices up to 500 ms later while all instances are busy.
 */
export class TritonQueue extends ArrivalOrderQueue {
  private readonly unformed = this.links.list();
  /** DELAY: their timeout has passed. */
  private readonly demoted = this.links.list();
  private readonly formed: FormedBatch[] = [];
  private readonly options: TritonQueueOptions;
  private readonly batcher: TritonBatcher;
  private readonly prefetches: boolean;
  /** Prefetching: when the batcher must look again; Infinity: after an event. */
  private formAt = Number.POSITIVE_INFINITY;
  /** Formed batches that may wait. */
  private slots: number;
  /** Not prefetching: since when, or from when, a batch can be formed; Infinity: nothing waits. */
  private readyAt = Number.POSITIVE_INFINITY;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: TritonQueueOptions) {
    super(key, spec, core, spec.latency.sizeMax);
    this.options = options;
    this.batcher = new TritonBatcher(options.preferredBatchSizes, this.batchMax, options.maxQueueDelayUs);
    this.slots = PREFETCH * core.accelerators.count;
    this.prefetches = options.maxQueueSize === 0 && options.defaultTimeoutUs === 0;
  }

  arrived(request: RequestHandle, at: number): void {
    this.advance(at);
    const { maxQueueSize } = this.options;
    if (maxQueueSize > 0 && this.unformed.count + this.demoted.count >= maxQueueSize) {
      this.core.drop(request, DROP_QUEUE_FULL, at);
      return;
    }
    this.unformed.push(request, at);
    this.refresh(at);
  }

  override planChanged(at: number): void {
    this.advance(at);
    this.slots = PREFETCH * this.core.accelerators.count;
    super.planChanged(at);
  }

  /** Every refresh follows a change, so the batcher looks, after what it owes to the time before. */
  override refresh(at: number): void {
    this.advance(at);
    if (this.prefetches) this.form(at);
    super.refresh(at);
  }

  protected advance(at: number): void {
    while (this.formAt < at) this.form(this.formAt);
    this.applyTimeouts(at);
  }

  protected publishNext(at: number): void {
    const front = this.formed[0];
    if (front !== undefined) {
      this.offer(front.members.count, at, front.formedAt, front.formedAt);
      return;
    }
    const count = this.unformed.count + this.demoted.count;
    if (count === 0 || (this.prefetches && this.formAt === Number.POSITIVE_INFINITY)) {
      this.readyAt = Number.POSITIVE_INFINITY;
      this.withdraw();
      return;
    }
    if (this.prefetches) {
      this.offer(Math.min(count, this.batchMax), at, this.formAt, this.formAt);
      return;
    }
    const next = this.formedSize(0, at);
    this.readyAt = next.size > 0 ? Math.min(this.readyAt, at) : next.waitUntil;
    this.offer(next.size > 0 ? next.size : Math.min(count, this.batchMax), at, this.readyAt, this.readyAt);
  }

  protected takeNext(accelerator: AcceleratorId, at: number): BatchId {
    if (this.prefetches) {
      // A delay may end in this very moment.
      this.form(at);
      const front = this.formed.shift();
      if (front === undefined) return -1;
      const { members, formedAt, isDelayOver } = front;
      return this.commit(members, members.count, accelerator, at, this.closeReason(front, formedAt, isDelayOver, at));
    }
    const next = this.formedSize(0, at);
    if (next.size === 0) return -1;
    const batch = this.newBatch(at, next);
    this.gather(batch.members, next.size);
    const close = this.closeReason(batch, Math.min(this.readyAt, at), next.isDelayOver, at);
    this.readyAt = Number.POSITIVE_INFINITY;
    return this.commit(batch.members, next.size, accelerator, at, close);
  }

  protected left(list: RequestList): void {
    if (list.count > 0) return;
    const index = this.formed.findIndex((batch) => batch.members === list);
    if (index >= 0) this.formed.splice(index, 1);
  }

  /** Forms batches ahead while there is a slot for one. What is formed and not saturated grows first. */
  private form(at: number): void {
    this.formAt = Number.POSITIVE_INFINITY;
    while (this.unformed.count > 0 && this.formed.length < this.slots) {
      const last = this.formed.at(-1);
      const growing = last !== undefined && !last.saturated ? last : null;
      const next = this.formedSize(growing?.members.count ?? 0, at);
      if (growing !== null) growing.saturated = next.isSaturated;
      if (next.size > 0) {
        const batch = growing ?? this.newBatch(at, next);
        if (growing === null) this.formed.push(batch);
        this.gather(batch.members, next.size);
      } else if (!next.isSaturated) {
        this.formAt = next.waitUntil;
        return;
      }
    }
  }

  private newBatch(formedAt: number, next: FormedSize): FormedBatch {
    const { isSaturated, isDelayOver } = next;
    return { members: this.links.list(), formedAt, saturated: isSaturated, isDelayOver };
  }

  private formedSize(base: number, at: number): FormedSize {
    const count = this.unformed.count + this.demoted.count;
    return this.batcher.look(base, count, Math.min(this.unformed.oldestAt, this.oldestDemotedAt()), at);
  }

  /** The batch would hold demoted requests only where those before them do not fill it. */
  private oldestDemotedAt(): number {
    return this.unformed.count < this.batchMax ? this.demoted.oldestAt : Number.POSITIVE_INFINITY;
  }

  private gather(members: RequestList, size: number): void {
    const fresh = Math.min(size, this.unformed.count);
    this.unformed.moveTo(members, fresh);
    this.demoted.moveTo(members, size - fresh);
  }

  /** Last moment at which the request that waits longest is within its timeout. */
  protected override get checkAt(): number {
    const { defaultTimeoutUs } = this.options;
    return defaultTimeoutUs === 0 ? Number.POSITIVE_INFINITY : this.unformed.oldestAt + defaultTimeoutUs;
  }

  private applyTimeouts(at: number): void {
    while (this.checkAt < at) {
      if (this.options.timeoutAction === "DELAY") this.unformed.moveTo(this.demoted, 1);
      else this.core.drop(this.unformed.shift(), DROP_EXPIRED, at);
    }
  }

  private closeReason(batch: FormedBatch, readyAt: number, isDelayOver: boolean, at: number): number {
    const size = batch.members.count;
    if (size === this.batchMax || this.batcher.prefers(size)) return CLOSE_FULL;
    if (readyAt < at) return CLOSE_ACCELERATOR_FREE;
    return isDelayOver ? CLOSE_TIMEOUT : CLOSE_EAGER;
  }
}
