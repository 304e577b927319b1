/** Messages between the threads that run steps and who started them: over a port that the steps are not given. */
import type { MessagePort } from "node:worker_threads";
import type { EndSpec } from "../../../config/server/pipelines/module-tensors.js";
import { ERROR_CODES, type ErrorCode } from "../../../wire/serving-error.js";
import { DATATYPES } from "../../../wire/tensors/tensor.js";
import type { NamedValue } from "./step-pool.js";

/** A step as a thread loads it. */
export interface StepFile {
  /** `file:` URL, and the name of its export. */
  readonly url: string;
  readonly name: string;
  readonly reference: string;
  readonly outputs: readonly EndSpec[];
}

/** By URL: the text of step files that are ES modules. */
export type KeptSources = Readonly<Record<string, string>>;

export interface StepThreadData {
  /** In place of the files, which have changed; null: they have not. */
  readonly kept: KeptSources | null;
  readonly steps: readonly StepFile[];
  readonly port: MessagePort;
}

export interface ToStepThread {
  readonly run: number;
  readonly step: number;
  readonly inputs: readonly NamedValue[];
  /** Why it cannot be run. */
  readonly refused?: string;
}

export type FromStepThread =
  /** It begins to load the step at this position. */
  | { readonly kind: "loading"; readonly step: number }
  | { readonly kind: "ready" }
  | { readonly kind: "unloadable"; readonly message: string }
  /** It ends by what is not of the run that it holds first: left behind by an earlier run of this step; -1: of none. */
  | { readonly kind: "ending"; readonly step: number }
  | {
      readonly kind: "done";
      readonly run: number;
      readonly startedAt: number;
      readonly finishedAt: number;
      readonly outputs: readonly NamedValue[];
    }
  | { readonly kind: "failed"; readonly run: number; readonly code: ErrorCode; readonly message: string };

const TEXT_CHARS_MAX = 1000;

/** Anything can be thrown, such as what has no text or throws when it is looked at. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown).slice(0, TEXT_CHARS_MAX);
  } catch {
    return "what was thrown has no text";
  }
}

/** @returns null: it is no message of a thread. */
export function readFromThread(said: unknown): FromStepThread | null {
  if (!isRecord(said)) return null;
  const kind = said.kind as FromStepThread["kind"];
  return Object.hasOwn(FIELDS, kind) && FIELDS[kind](said) ? (said as unknown as FromStepThread) : null;
}

type Fields = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is Fields => typeof value === "object" && value !== null;
const isTime = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value);
const isText = (value: unknown): boolean => typeof value === "string";

const FIELDS: Readonly<Record<FromStepThread["kind"], (said: Fields) => boolean>> = {
  loading: ({ step }) => Number.isInteger(step),
  ready: () => true,
  ending: ({ step }) => Number.isInteger(step),
  unloadable: ({ message }) => isText(message),
  done: ({ run, startedAt, finishedAt, outputs }) =>
    Number.isInteger(run) &&
    isTime(startedAt) &&
    isTime(finishedAt) &&
    Array.isArray(outputs) &&
    outputs.every(isNamed),
  failed: ({ run, code, message }) =>
    Number.isInteger(run) && isText(message) && Object.hasOwn(ERROR_CODES, code as string),
};

const isNamed = (value: unknown): boolean =>
  isRecord(value) && isText(value.name) && (Array.isArray(value.value) ? value.value : [value.value]).every(isTensor);

const isTensor = (value: unknown): boolean =>
  isRecord(value) &&
  isText(value.name) &&
  Object.hasOwn(DATATYPES, value.datatype as string) &&
  Array.isArray(value.shape) &&
  value.shape.every((extent) => Number.isSafeInteger(extent) && extent >= 0) &&
  value.data instanceof Uint8Array;
