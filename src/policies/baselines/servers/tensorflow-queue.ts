import { invariant } from "../../../core/invariant.js";
import {
  CLOSE_ACCELERATOR_FREE,
  CLOSE_EAGER,
  CLOSE_FULL,
  CLOSE_TIMEOUT,
  DROP_QUEUE_FULL,
} from "../../../core/outcome.js";
import type { CoreView, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { ArrivalOrderQueue } from "./arrival-order-queue.js";
import type { RequestList } from "./request-list.js";

export interface TensorflowQueueOptions {
  readonly maxBatchSize: number;
  /** From the first request of the open batch, not from when an accelerator is free. 0: whatever is there then. */
  readonly batchTimeoutUs: number;
  /** The open batch counts. */
  readonly maxEnqueuedBatches: number;
  /** Increasing; null: every size. A batch costs what the next allowed size costs. */
  readonly allowedBatchSizes: readonly number[] | null;
}

interface QueuedBatch {
  readonly members: RequestList;
  /** When its first request was added while it was empty. */
  openedAt: number;
}

/**
 * TensorFlow Serving's queue of a model: a list of batches, of which the last is open and the others are closed.
 *
 * A request goes into the open batch. Where that is full, it is closed and the request opens another; where the list is
 * full as well, the request is refused at once. An accelerator takes the front batch when that is closed, or when it is
 * the only one and full or old enough. No deadline is looked at, no request is given up, nothing but arrival orders.
 *
 * Source: shared_batch_scheduler.h of TensorFlow (Queue), with requests of size 1: a batch is closed exactly when full.
 * Ours: a cancelled request leaves its batch (there it runs), and a closed batch is not filled up again.
 */
export class TensorflowQueue extends ArrivalOrderQueue {
  private readonly batches: QueuedBatch[] = [];
  private readonly options: TensorflowQueueOptions;
  /** By number of members: the size that is executed. */
  private readonly padded: Int32Array | null;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: TensorflowQueueOptions) {
    const modelMax = spec.latency.sizeMax;
    const allowed = options.allowedBatchSizes?.filter((size) => size <= modelMax) ?? null;
    invariant(
      allowed === null || allowed.length > 0,
      `allowed_batch_sizes must hold a size of at most ${modelMax}, the model's largest batch; were ${options.allowedBatchSizes?.join(", ")}`,
    );
    super(key, spec, core, Math.min(options.maxBatchSize, modelMax, allowed?.at(-1) ?? modelMax));
    this.options = options;
    this.padded = allowed === null ? null : paddedSizes(allowed, this.batchMax);
    this.open();
  }

  arrived(request: RequestHandle, at: number): void {
    let open = this.batches.at(-1)!;
    if (open.members.count === this.batchMax) {
      if (this.batches.length >= this.options.maxEnqueuedBatches) {
        this.core.drop(request, DROP_QUEUE_FULL, at);
        return;
      }
      open = this.open();
    }
    if (open.members.count === 0) open.openedAt = at;
    open.members.push(request, at);
    this.refresh(at);
  }

  protected publishNext(at: number): void {
    const front = this.batches[0]!;
    const size = front.members.count;
    if (size === 0) this.withdraw();
    else this.offer(size, at, this.readyAt(front), front.openedAt);
  }

  protected takeNext(accelerator: AcceleratorId, at: number): BatchId {
    const front = this.batches[0]!;
    const size = front.members.count;
    if (size === 0 || this.readyAt(front) > at) return -1;
    const close = this.closeReason(front, at);
    this.batches.shift();
    if (this.batches.length === 0) this.open();
    return this.commit(front.members, size, accelerator, at, close);
  }

  /** Nothing happens in the queue but by its events. */
  protected advance(_at: number): void {}

  protected left(list: RequestList): void {
    if (list.count > 0) return;
    const index = this.batches.findIndex((batch) => batch.members === list);
    if (index >= 0 && index < this.batches.length - 1) this.batches.splice(index, 1);
  }

  protected override executedSize(size: number): number {
    return this.padded === null ? size : this.padded[size]!;
  }

  private open(): QueuedBatch {
    const batch = { members: this.links.list(), openedAt: 0 };
    this.batches.push(batch);
    return batch;
  }

  private isClosed(batch: QueuedBatch): boolean {
    return batch !== this.batches.at(-1);
  }

  private readyAt(front: QueuedBatch): number {
    if (this.isClosed(front) || front.members.count === this.batchMax) return Number.NEGATIVE_INFINITY;
    return front.openedAt + this.options.batchTimeoutUs;
  }

  private closeReason(front: QueuedBatch, at: number): number {
    if (front.members.count === this.batchMax) return CLOSE_FULL;
    if (this.options.batchTimeoutUs === 0) return CLOSE_EAGER;
    return this.readyAt(front) < at ? CLOSE_ACCELERATOR_FREE : CLOSE_TIMEOUT;
  }
}

function paddedSizes(allowed: readonly number[], batchMax: number): Int32Array {
  const padded = new Int32Array(batchMax + 1);
  let next = 0;
  for (let size = 1; size <= batchMax; size++) {
    while (allowed[next]! < size) next++;
    padded[size] = allowed[next]!;
  }
  return padded;
}
