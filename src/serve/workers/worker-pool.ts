/**
 * The accelerators of one server as the live driver sees them: hands in batches, gets events back.
 * Implemented over child processes (serve/workers/process-pool.ts); faked by hand in tests.
 */
import type { TaskBinding, TaskTrial, TrialResult } from "../../config/elastic.js";
import type { AcceleratorGroupSpec, ModelSpec } from "../../config/model.js";
import type { FailCause } from "../../core/outcome.js";
import type { DurationUs, TimeUs } from "../../core/time.js";
import type { ErrorCode } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";

/** Index of an accelerator over all groups of the server; stable for the life of the server, also across restarts of its worker. */
export type AcceleratorIndex = number;

export interface RunBatch {
  readonly batch: number;
  readonly model: string;
  /** What was loaded under the name: a batch runs on what its requests were checked against. Absent: the newest. */
  readonly spec?: ModelSpec;
  /** Inputs of each member, unpadded, each with its own batch extent (usually 1). All members are of one share group. */
  readonly members: readonly (readonly Tensor[])[];
  /** How much work each member gets, or which model of a family runs; 0: there is one. */
  readonly variant: number;
  /** App, task or class of each member; empty: nobody says any. */
  readonly kinds: readonly number[];
  /** Output names wanted by at least one member; empty = all. */
  readonly outputs: readonly string[];
  /** The emulated accelerator starts no earlier; moments of the host's monotonic clock. */
  readonly earliestStartAt: TimeUs;
  readonly predictedUs: DurationUs;
  /** The latest of its members' deadlines. Default: none is waited for. */
  readonly deadlineAt?: TimeUs;
}

export type Confinement = "all" | "all-but-one" | "one";

export type PoolEvent =
  | { readonly kind: "joined"; readonly accelerator: AcceleratorIndex; readonly group: string; readonly scale: number }
  /** It gets no more batches; what it holds ends, and what was decided before is still run. Then it leaves, or joins again. */
  | { readonly kind: "draining"; readonly accelerator: AcceleratorIndex }
  /** What it runs takes longer than planned: it should get nothing more until that has ended. */
  | { readonly kind: "overdue"; readonly accelerator: AcceleratorIndex; readonly batch: number }
  | { readonly kind: "recovered"; readonly accelerator: AcceleratorIndex; readonly scale: number }
  /**
   * On how many workers of its group batches of the model may be at once, from now on: one where they may have ended a
   * worker, all but one where one keeps its worker longer than planned and other models share the group.
   */
  | { readonly kind: "confined"; readonly model: string; readonly to: Confinement }
  /** It was drained and parked, or its process ended or was killed; batches in it get a `failed` event first. `willRestart`: a replacement is on its way. */
  | {
      readonly kind: "left";
      readonly accelerator: AcceleratorIndex;
      readonly cause: FailCause;
      readonly willRestart: boolean;
    }
  | {
      readonly kind: "finished";
      readonly accelerator: AcceleratorIndex;
      readonly batch: number;
      /** Execution alone, on the worker's monotonic clock. */
      readonly startedAt: TimeUs;
      readonly finishedAt: TimeUs;
      /** Before execution: concatenating and padding; after: splitting and unpadding. */
      readonly inputUs: DurationUs;
      readonly outputUs: DurationUs;
      /** Outputs of each member, unpadded, in the order of RunBatch.members. */
      readonly outputs: readonly (readonly Tensor[])[];
    }
  | {
      readonly kind: "failed";
      readonly accelerator: AcceleratorIndex;
      readonly batch: number;
      readonly cause: FailCause;
      /** Of a "model-error": whose fault it is if the batch was of one request. Absent: the server's. */
      readonly code?: ErrorCode;
      readonly message: string;
      /** Nothing but this batch can have ended its worker. */
      readonly isGuilty?: boolean;
    };

export interface BatchTiming {
  readonly batchSize: number;
  /** Extent of the variable axis it was measured at; null where there is none. */
  readonly extent: number | null;
  /** Microseconds, of execution on the worker. */
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
  readonly runs: number;
}

export interface WorkerPool {
  readonly groups: readonly AcceleratorGroupSpec[];
  /** Spawns every worker that is wanted and loads nothing yet. Resolves when all have joined, rejects (ServingError) when one cannot start. */
  start(onEvent: (event: PoolEvent) => void): Promise<void>;
  /** Loads a model on every accelerator of its group. Rejects with ServingError and the runtime's text; a failed load changes nothing. */
  load(model: ModelSpec): Promise<void>;
  /**
   * The same, but what the name stood for stays loaded beside the new one until it is released, for the batches that
   * were meant for it.
   */
  loadBeside(model: ModelSpec): Promise<void>;
  /** Gives up one of the specs loaded under a name: an old one that is not needed any more, or a new one to go back. */
  release(model: ModelSpec): Promise<void>;
  unload(name: string): Promise<void>;
  /** Measures executions on one accelerator while it is otherwise idle. @param variant default 0. */
  time(
    accelerator: AcceleratorIndex,
    model: string,
    batchSize: number,
    extent: number | null,
    runs: number,
    variant?: number,
  ): Promise<BatchTiming>;
  /**
   * The tasks of a loaded elastic model from now on, on every worker that holds it or will.
   * Rejects with ServingError where one worker refuses them: then none of a replaced worker's has them either.
   */
  bindTasks(model: ModelSpec, tasks: readonly TaskBinding[]): Promise<void>;
  /** Runs images of a bound task's profiling set on one accelerator, in turn with its batches. */
  trial(accelerator: AcceleratorIndex, model: ModelSpec, trial: TaskTrial): Promise<TrialResult>;
  /** A worker holds at most two batches: one that runs and one that waits. */
  run(accelerator: AcceleratorIndex, batch: RunBatch): void;
  /** Takes a batch back that has not begun: true means that no event will follow for it. Rejects when its worker ends. */
  cancel(accelerator: AcceleratorIndex, batch: number): Promise<boolean>;
  /** Its process is up: batches may run on it, also while it drains. */
  isUp(accelerator: AcceleratorIndex): boolean;
  /**
   * From now on the first `count` accelerators of a group are wanted: the others drain and are parked, those that were
   * parked come back, at once while their process is kept warm. @param count in [1, the group's count].
   */
  resize(group: string, count: number): void;
  /** Ends every worker: idle ones at once, busy ones when their batch is done or after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}
