import type { ModelSpec } from "../../config/model.js";
import type { ModelStatistics, StatisticDuration } from "../gateway.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import { DelayMeter } from "../groups/delay-meter.js";
import type { ModelCells } from "../observation/metrics.js";
import type { ModelTimes } from "./model-times.js";
import type { RunRatio } from "./run-ratio.js";

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
  /** l(b), µs; see core/latency/latency.ts. */
  readonly execUs: Float64Array;
  /** How its batches ran against that. */
  readonly ratio: RunRatio;
  /** Requests that came, and that were given up before they ran, since the autoscaler last looked. */
  arrived: number;
  dropped: number;
  /** Requests not ended, and batches on accelerators: 0 and 0 is when it may be removed. */
  live: number;
  batches: number;
  /** Sends none, because its model is confined. */
  isHeld: boolean;
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

/** What Triton's statistics say of a model. */
class ModelCounts {
  lastInferenceMs = 0;
  inferences = 0;
  executions = 0;
  readonly success = new Sum();
  readonly fail = new Sum();
  readonly queue = new Sum();
  readonly input = new Sum();
  readonly infer = new Sum();
  readonly output = new Sum();
  readonly bySize = new Map<number, BatchSums>();
}

/** A model that takes requests, with its queues and counts. */
export class ServedModel {
  readonly spec: ModelSpec;
  readonly times: ModelTimes;
  readonly group: AcceleratorGroup;
  readonly cells: ModelCells;
  readonly meter: DelayMeter;
  readonly queues = new Map<string, ServedQueue>();
  /** Requests not ended; those of them that wait; bytes of all of them; batches on accelerators. */
  live = 0;
  queued = 0;
  bytes = 0;
  batches = 0;
  /** Takes no new requests; what it has is served. */
  isLeaving = false;
  private readonly counts: ModelCounts;
  private readonly waiting: (() => void)[] = [];

  /** @param before the same model on another group, whose counts go on. */
  constructor(
    spec: ModelSpec,
    times: ModelTimes,
    group: AcceleratorGroup,
    cells: ModelCells,
    before: ServedModel | null = null,
  ) {
    this.counts = before?.counts ?? new ModelCounts();
    this.spec = spec;
    this.times = times;
    this.group = group;
    this.cells = cells;
    const slackUs = spec.sloUs === null ? undefined : spec.sloUs - times.us(1, null);
    this.meter = new DelayMeter(group.network, slackUs);
  }

  get isIdle(): boolean {
    return this.live === 0 && this.batches === 0;
  }

  /** Resolves when `tellIdle` finds it idle. */
  becomesIdle(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** A request or a batch of it ended. */
  tellIdle(): void {
    if (this.waiting.length === 0 || !this.isIdle) return;
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  /** @param wallMs Milliseconds since the epoch: Triton's unit for this one field. */
  countExecution(size: number, inputUs: number, inferUs: number, outputUs: number, wallMs: number): void {
    const { counts } = this;
    counts.executions++;
    counts.inferences += size;
    counts.lastInferenceMs = wallMs;
    counts.input.add(inputUs, size);
    counts.infer.add(inferUs, size);
    counts.output.add(outputUs, size);
    let sums = counts.bySize.get(size);
    if (sums === undefined) {
      sums = new BatchSums();
      counts.bySize.set(size, sums);
    }
    sums.input.add(inputUs);
    sums.infer.add(inferUs);
    sums.output.add(outputUs);
  }

  countRequest(isSuccess: boolean, totalUs: number, queueUs: number): void {
    const { counts } = this;
    (isSuccess ? counts.success : counts.fail).add(totalUs);
    if (isSuccess) counts.queue.add(queueUs);
  }

  statistics(): ModelStatistics {
    const { counts } = this;
    return {
      name: this.spec.name,
      version: this.spec.version,
      lastInferenceMs: counts.lastInferenceMs,
      inferenceCount: counts.inferences,
      executionCount: counts.executions,
      success: counts.success.read(),
      fail: counts.fail.read(),
      queue: counts.queue.read(),
      computeInput: counts.input.read(),
      computeInfer: counts.infer.read(),
      computeOutput: counts.output.read(),
      batches: [...counts.bySize.entries()]
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
