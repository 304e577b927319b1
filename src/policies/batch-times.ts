import type { QueueKey, QueueSpec, QueueView } from "../core/policy.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { RequestHandle } from "../core/tables/request-table.js";

/**
 * What a batch of one queue takes on an accelerator: when it starts there, how long it runs, how large it may be. A scale is
 * that of the accelerator (AcceleratorView.scale); where none is given, of the fastest present, which is who plans ask.
 */
export class BatchTimes {
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: QueueView;

  constructor(key: QueueKey, spec: QueueSpec, core: QueueView) {
    this.key = key;
    this.spec = spec;
    this.core = core;
  }

  /** How long before its start the batch must be handed over: control and data delay. */
  leadUs(size: number): number {
    const { controlUs, dataUsPerRequest } = this.core.delaysOf(this.key);
    return controlUs + size * dataUsPerRequest;
  }

  execUs(size: number, scale = this.core.accelerators.fastestScale): number {
    return Math.ceil(this.spec.latency.execUs[size]! * scale);
  }

  /** Planned end of what the accelerator holds; now when that is nothing. */
  freeAt(accelerator: AcceleratorId, at: number): number {
    const { accelerators } = this.core;
    return accelerators.inFlight(accelerator) === 0 ? at : accelerators.freeAt[accelerator]!;
  }

  /** Start of a batch that is decided at `at`. @param freeAt when its accelerator is free; default: then. */
  startOf(size: number, at: number, freeAt = at): number {
    return Math.max(at + this.leadUs(size), freeAt);
  }

  /** Its end. */
  endOf(size: number, at: number, scale = this.core.accelerators.fastestScale, freeAt = at): number {
    return this.startOf(size, at, freeAt) + this.execUs(size, scale);
  }

  /** Largest batch there: one request on an accelerator that is on trial, or by times that are only hoped for. */
  sizeMaxOn(accelerator: AcceleratorId): number {
    const { latency } = this.spec;
    return this.core.accelerators.isOnTrial(accelerator) || latency.isHope === true ? 1 : latency.sizeMax;
  }

  /** Plans the batch. @param first of its members. @param executedSize where it is padded. @returns the batch, to be returned by `take`. */
  add(
    first: RequestHandle,
    size: number,
    accelerator: AcceleratorId,
    startAt: number,
    close: number,
    executedSize = size,
  ): BatchId {
    const execUs = this.execUs(executedSize, this.core.accelerators.scale[accelerator]!);
    return this.core.batches.add(this.key, first, size, startAt, execUs, close, executedSize);
  }
}
