/** Messages between the server and a thread that runs steps. */
import type { EndSpec } from "../../../config/server/pipelines/module-tensors.js";
import type { ErrorCode } from "../../../wire/serving-error.js";
import type { NamedValue } from "./step-pool.js";

export interface StepThreadData {
  readonly steps: readonly {
    /** `file:` URL, and the name of its export. */
    readonly url: string;
    readonly name: string;
    readonly reference: string;
    readonly outputs: readonly EndSpec[];
  }[];
}

export interface ToStepThread {
  readonly run: number;
  readonly step: number;
  readonly inputs: readonly NamedValue[];
}

export type FromStepThread =
  | { readonly kind: "ready" }
  | { readonly kind: "unloadable"; readonly message: string }
  | {
      readonly kind: "done";
      readonly run: number;
      readonly startedAt: number;
      readonly finishedAt: number;
      readonly outputs: readonly NamedValue[];
    }
  | { readonly kind: "failed"; readonly run: number; readonly code: ErrorCode; readonly message: string };
