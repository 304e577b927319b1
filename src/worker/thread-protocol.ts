/** Messages between the main thread of an onnx worker and the thread of one model. */
import type { TaskBinding, TaskTrial, TrialResult } from "../config/elastic.js";
import type { ModelSpec } from "../config/model.js";
import type { ErrorCode } from "../wire/serving-error.js";
import type { LogLevel } from "../wire/worker-protocol.js";
import type { MailboxMemory } from "./thread-mailbox.js";
import type { Timing } from "./timing.js";

/** `workerData` of a model thread. */
export interface ModelThreadData {
  readonly model: ModelSpec;
  readonly threads: number;
  readonly providers: readonly string[];
  readonly warmUpMs: number;
  /** Of an elastic model, bound before it is warmed up. */
  readonly tasks: readonly TaskBinding[];
  readonly mailbox: MailboxMemory;
  /** Answers with at most so many bytes of tensors may be written by the thread itself. */
  readonly directBytesMax: number;
}

export type ToThread =
  /** Header and payload of a run record as they came; decoded there, off the thread that does the I/O. */
  | {
      readonly kind: "run";
      readonly header: Uint8Array;
      readonly payload: Uint8Array;
      /** The thread may write a small answer to the tensor channel itself; see direct-answer.ts. */
      readonly mayWrite: boolean;
    }
  | {
      readonly kind: "time";
      readonly rows: number;
      readonly extent: number | null;
      readonly runs: number;
      readonly variant: number;
    }
  | { readonly kind: "bind"; readonly tasks: readonly TaskBinding[] }
  | { readonly kind: "try"; readonly trial: TaskTrial }
  | { readonly kind: "stop" };

export type FromThread =
  | { readonly kind: "loaded"; readonly provider: string }
  | { readonly kind: "load-failed"; readonly code: ErrorCode; readonly message: string }
  /** Its answer is written already. */
  | { readonly kind: "answered" }
  | { readonly kind: "finished"; readonly header: Uint8Array; readonly parts: readonly Uint8Array[] }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "timed"; readonly timing: Timing }
  | { readonly kind: "bound" }
  | { readonly kind: "tried"; readonly result: TrialResult }
  | { readonly kind: "log"; readonly level: LogLevel; readonly message: string };
