/** Threads that run the steps of one pipeline, as its scheduler sees them; faked by hand in virtual time. */
import type { PipelineSpec, StepSpec } from "../../../config/server/pipelines/served-pipeline.js";
import type { ErrorCode } from "../../../wire/serving-error.js";
import type { TensorOrList } from "../part-tensors.js";

export interface NamedValue {
  readonly name: string;
  readonly value: TensorOrList;
}

export interface StepRun {
  /** Its number while it is there. */
  readonly run: number;
  /** Position in the pool's steps. */
  readonly step: number;
  readonly inputs: readonly NamedValue[];
}

export type StepEvent =
  /** It has loaded every step. */
  | { readonly kind: "up"; readonly thread: number }
  /**
   * It ended by itself, and what it held with it; another takes its place.
   * @param late what it ran is not at fault but what an earlier run of the step at this position left behind; -1: no run's.
   */
  | { readonly kind: "down"; readonly thread: number; readonly message: string; readonly late?: number }
  /** So did all of these at one moment. */
  | { readonly kind: "gone"; readonly threads: readonly number[]; readonly message: string }
  | {
      readonly kind: "done";
      readonly thread: number;
      readonly run: number;
      /** On the host's monotonic clock. */
      readonly startedAt: number;
      readonly finishedAt: number;
      readonly outputs: readonly NamedValue[];
    }
  | {
      readonly kind: "failed";
      readonly thread: number;
      readonly run: number;
      readonly code: ErrorCode;
      readonly message: string;
    };

export interface StepPool {
  readonly threads: number;
  /** Resolves when all threads are up. @throws ServingError naming the step that cannot be loaded, and why. */
  start(onEvent: (event: StepEvent) => void): Promise<void>;
  /** A thread takes runs one after another. */
  run(thread: number, run: StepRun): void;
  /** Ends the thread, whatever it does; what it held is forgotten. Another takes its place, and says when it is up. */
  replace(thread: number): void;
  close(): Promise<void>;
}

/** @param steps of the pipeline, by position. */
export type StepPools = (pipeline: PipelineSpec, steps: readonly StepSpec[]) => StepPool;
