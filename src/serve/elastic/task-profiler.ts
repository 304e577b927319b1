import { type TaskLatency, type TaskSpec, variantOf } from "../../config/elastic.js";
import { median } from "../../measure/statistics.js";
import { type Clock, pause } from "../../wire/clock/clock.js";
import type { ServedModel } from "../models/served-model.js";
import type { ProfilingProgress } from "../models/tasks/profiling-progress.js";
import type { WorkerPool } from "../workers/worker-pool.js";

export interface TaskProfile {
  /** By gamma: the share of the profiling set that was right. */
  readonly accuracy: Readonly<Record<string, number>>;
  /** By gamma and batch size: the median of the executions, µs. */
  readonly latencyUs: TaskLatency;
}

/** A batch of the profiling set takes at most this, µs, and at most this part of the model's SLO: a request that comes meanwhile waits so long. */
const RUN_US_MAX = 10_000;
const SLO_SHARE = 0.1;
/** Looked for room this often, µs. */
const LOOK_US = 2000;
/** Where there never is room, it takes this share of one accelerator's time, an image at a time. */
const BUSY_SHARE = 0.02;

/** Given up: the model leaves, or the task was deleted. */
export class ProfilingGivenUp extends Error {
  override readonly name = "ProfilingGivenUp";
}

/**
 * Runs a task's profiling set with every gamma, beside requests: a small batch at a time, on an accelerator that holds
 * nothing while nothing waits. Where its group is never at rest it goes on by a small share of the time, so that it ends.
 */
export class TaskProfiler {
  private readonly pool: WorkerPool;
  private readonly clock: Clock;

  constructor(pool: WorkerPool, clock: Clock) {
    this.pool = pool;
    this.clock = clock;
  }

  /**
   * @param kind of the task, which workers hold. @param isWanted asked before each batch.
   * @throws ProfilingGivenUp; ServingError with the runtime's text.
   */
  async profile(
    model: ServedModel,
    kind: number,
    task: TaskSpec,
    progress: ProfilingProgress,
    isWanted: () => boolean,
  ): Promise<TaskProfile> {
    const accuracy: Record<string, number> = {};
    const latencyUs: Record<string, Record<string, number>> = {};
    progress.begin();
    const share = { startedAt: this.clock.now(), spentUs: 0 };
    for (const gamma of model.spec.elastic!.gammas) {
      const variant = variantOf(model.spec.elastic!, gamma);
      const sizes = this.sizesFor(model, variant);
      const times = new Map<number, number[]>();
      let right = 0;
      for (let first = 0, turn = 0; first < task.images; turn++) {
        const { accelerator, isBusy } = await this.room(model, share, isWanted);
        const wanted = isBusy ? 1 : sizes[turn % sizes.length]!;
        const count = Math.min(wanted, task.images - first);
        const result = await this.pool.trial(accelerator, model.spec, { kind, variant, first, count });
        right += result.right;
        share.spentUs += result.us;
        first += count;
        progress.ran(count);
        times.set(count, [...(times.get(count) ?? []), result.us]);
      }
      accuracy[gamma] = right / task.images;
      latencyUs[gamma] = Object.fromEntries(
        [...times].map(([size, us]) => [size, Math.max(1, Math.round(median(us)))]),
      );
    }
    return { accuracy, latencyUs };
  }

  /** Powers of two, as far as a batch of them is short. */
  private sizesFor({ spec, times }: ServedModel, variant: number): readonly number[] {
    const limitUs = Math.min(RUN_US_MAX, SLO_SHARE * (spec.sloUs ?? spec.defaultTimeoutUs));
    const sizes = [1];
    for (let size = 2; size <= spec.batchSizeMax; size *= 2)
      if (times.ofVariant(variant).us(size, null) <= limitUs) sizes.push(size);
    return sizes;
  }

  /** Resolves when a batch may run. @throws ProfilingGivenUp */
  private async room(
    { group }: ServedModel,
    share: { readonly startedAt: number; readonly spentUs: number },
    isWanted: () => boolean,
  ): Promise<{ accelerator: number; isBusy: boolean }> {
    for (;;) {
      if (!isWanted()) throw new ProfilingGivenUp("it is not wanted any more");
      const idle = group.restingAccelerator();
      if (idle !== null) return { accelerator: group.first + idle, isBusy: false };
      const mayTakeUs = BUSY_SHARE * (this.clock.now() - share.startedAt);
      const present = group.firstPresent();
      if (present !== null && share.spentUs <= mayTakeUs) return { accelerator: group.first + present, isBusy: true };
      await pause(this.clock, LOOK_US);
    }
  }
}
