import type { ModelStatistics, StatisticDuration } from "../gateway.js";

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
export class ModelCounts {
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

  /** @param wallMs Milliseconds since the epoch: Triton's unit for this one field. */
  ran(size: number, inputUs: number, inferUs: number, outputUs: number, wallMs: number): void {
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

  ended(isSuccess: boolean, totalUs: number, queueUs: number): void {
    (isSuccess ? this.success : this.fail).add(totalUs);
    if (isSuccess) this.queue.add(queueUs);
  }

  statistics(name: string, version: string): ModelStatistics {
    return {
      name,
      version,
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
