import type { ModelSpec } from "../config/model.js";
import type { ModelStatistics, StatisticDuration } from "./gateway.js";
import type { ModelCells } from "./metrics.js";
import type { ModelTimes } from "./model-times.js";

/** Requests of one model that may share a batch: one queue of the scheduler. */
export interface ServedQueue {
  /** Its number in records to the scheduler. */
  readonly id: number;
  readonly key: string;
  readonly model: ServedModel;
  readonly rows: number;
  /** l(1) of this queue, and time per request in its largest batch, µs. */
  readonly aloneUs: number;
  readonly perRequestUs: number;
  /** l(b), µs; see core/latency.ts. */
  readonly execUs: Float64Array;
  /** Requests that came, and that were given up before they ran, since the autoscaler last looked. */
  arrived: number;
  dropped: number;
  /** Requests not ended, and batches on accelerators: 0 and 0 is when it may be removed. */
  live: number;
  batches: number;
  lastUsedAt: number;
}

class Sum {
  count = 0;
  ns = 0;
  add(us: number, count = 1): void {
    this.count += count;
    this.ns += Math.round(us * 1000) * count;
  }
  read(): StatisticDuration {
    return { count: this.count, ns: this.ns };
  }
}

class BatchSums {
  readonly input = new Sum();
  readonly infer = new Sum();
  readonly output = new Sum();
}

/** A model that takes requests, with its queues and counts. */
export class ServedModel {
  readonly spec: ModelSpec;
  readonly times: ModelTimes;
  readonly group: number;
  readonly cells: ModelCells;
  readonly queues = new Map<string, ServedQueue>();
  /** Requests not ended; those of them that wait; bytes of all of them; batches on accelerators. */
  live = 0;
  queued = 0;
  bytes = 0;
  batches = 0;
  /** Takes no new requests; what it has is served. */
  isLeaving = false;
  private lastInferenceMs = 0;
  private inferences = 0;
  private executions = 0;
  private readonly success = new Sum();
  private readonly fail = new Sum();
  private readonly queue = new Sum();
  private readonly input = new Sum();
  private readonly infer = new Sum();
  private readonly output = new Sum();
  private readonly bySize = new Map<number, BatchSums>();

  constructor(spec: ModelSpec, times: ModelTimes, group: number, cells: ModelCells) {
    this.spec = spec;
    this.times = times;
    this.group = group;
    this.cells = cells;
  }

  get isIdle(): boolean {
    return this.live === 0 && this.batches === 0;
  }

  /** @param wallMs Milliseconds since the epoch: Triton's unit for this one field. */
  countExecution(size: number, inputUs: number, inferUs: number, outputUs: number, wallMs: number): void {
    this.executions++;
    this.inferences += size;
    this.lastInferenceMs = wallMs;
    this.input.add(inputUs, size);
    this.infer.add(inferUs, size);
    this.output.add(outputUs, size);
    let sums = this.bySize.get(size);
    if (sums === undefined) {
      sums = new BatchSums();
      this.bySize.set(size, sums);
    }
    sums.input.add(inputUs);
    sums.infer.add(inferUs);
    sums.output.add(outputUs);
  }

  countRequest(isSuccess: boolean, totalUs: number, queueUs: number): void {
    (isSuccess ? this.success : this.fail).add(totalUs);
    if (isSuccess) this.queue.add(queueUs);
  }

  statistics(): ModelStatistics {
    return {
      name: this.spec.name,
      version: this.spec.version,
      lastInferenceMs: this.lastInferenceMs,
      inferenceCount: this.inferences,
      executionCount: this.executions,
      success: this.success.read(),
      fail: this.fail.read(),
      queue: this.queue.read(),
      computeInput: this.input.read(),
      computeInfer: this.infer.read(),
      computeOutput: this.output.read(),
      batches: [...this.bySize.entries()]
        .sort(([a], [b]) => a - b)
        .map(([batchSize, sums]) => ({
          batchSize,
          computeInput: sums.input.read(),
          computeInfer: sums.infer.read(),
          computeOutput: sums.output.read(),
        })),
    };
  }
}
