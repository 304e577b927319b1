/** What the server and the process of a pipeline's steps say to each other: frames of JSON, the bytes of tensors behind it. */
import { FrameChannel, type FrameHandlers } from "../../../wire/frame-channel.js";
import type { Frame, FrameLimits } from "../../../wire/frames.js";
import type { Tensor } from "../../../wire/tensors/tensor.js";
import { isList, type TensorOrList } from "../part-tensors.js";
import type { NamedValue, StepEvent, StepRun } from "./step-pool.js";
import { type KeptSources, readFromThread, type StepFile } from "./step-protocol.js";

/** File descriptor of the process of steps; 0 to 2 are those of any process. */
export const STEP_FD = 3;
const TYPE = 1;
/** Names and shapes of the tensors of a run, and their bytes: 1 GiB, far above what a pipeline may hold by default. */
export const STEP_FRAMES: FrameLimits = { headerBytesMax: 64 * 1024 * 1024, payloadBytesMax: 1024 * 1024 * 1024 };

/** What a process of steps is started for. */
export interface StepHostData {
  readonly pipeline: string;
  readonly steps: readonly StepFile[];
  /** As they were when the pipeline was loaded. */
  readonly sources: KeptSources;
  readonly threads: number;
  readonly memoryMb: number;
}

/** @param life of a thread: which of those that took its place one after another. What is of an earlier one counts no more. */
export type ToStepHost =
  | ({ readonly kind: "start" } & StepHostData)
  | ({ readonly kind: "run"; readonly thread: number; readonly life: number; readonly refused?: string } & StepRun)
  | { readonly kind: "replace"; readonly thread: number; readonly life: number }
  | { readonly kind: "end" };

/** Of one thread. */
export type ThreadEvent = Extract<StepEvent, { readonly thread: number }>;

export type FromStepHost =
  | (ThreadEvent & { readonly life: number })
  | { readonly kind: "loading"; readonly step: number }
  /** Every thread is up. */
  | { readonly kind: "started" }
  | { readonly kind: "unloadable"; readonly message: string }
  /** More threads than it has could not be ended. */
  | { readonly kind: "stuck"; readonly message: string }
  /** It heard that a thread is to be replaced. */
  | { readonly kind: "replacing" };

/** @throws ServingError payload-too-large: nothing was sent. */
export function sayFrame(channel: FrameChannel, message: ToStepHost | FromStepHost): void {
  const parts: Uint8Array[] = [];
  const bare = (tensor: Tensor): object => {
    parts.push(tensor.data);
    return { ...tensor, data: tensor.data.byteLength };
  };
  const strip = (values: readonly NamedValue[]): object[] =>
    values.map(({ name, value }) => ({ name, value: isList(value) ? value.map(bare) : bare(value) }));
  const written =
    message.kind === "run"
      ? { ...message, inputs: strip(message.inputs) }
      : message.kind === "done"
        ? { ...message, outputs: strip(message.outputs) }
        : message;
  channel.send(TYPE, Buffer.from(JSON.stringify(written)), parts);
}

/** @throws Error: it is no message, or not of these tensors. */
export function readFrame({ header, payload }: Frame): Readonly<Record<string, unknown>> {
  const said = JSON.parse(header.toString()) as Record<string, unknown>;
  const field = said.kind === "run" ? "inputs" : "outputs";
  let at = 0;
  const fill = (tensor: Tensor & { data: unknown }): Tensor => {
    const end = at + Number(tensor.data);
    if (!(Number.isSafeInteger(end) && end >= at && end <= payload.length)) throw new Error("bytes that are not there");
    const data = payload.subarray(at, end);
    at = end;
    return { ...tensor, data };
  };
  if (field in said)
    said[field] = (said[field] as NamedValue[]).map(({ name, value }) => ({
      name,
      value: (Array.isArray(value) ? value.map(fill) : fill(value as Tensor)) as TensorOrList,
    }));
  if (at !== payload.length) throw new Error("bytes that are of no tensor");
  return said;
}

/** @returns null: no process of so many threads says it. */
export function readFromHost(frame: Frame, threads: number): FromStepHost | null {
  try {
    const said = readFrame(frame);
    return isFromHost(said, threads) ? (said as unknown as FromStepHost) : null;
  } catch {
    return null;
  }
}

function isFromHost(said: Readonly<Record<string, unknown>>, threads: number): boolean {
  const { kind, thread, life, message } = said;
  switch (kind) {
    case "started":
    case "replacing":
      return true;
    case "stuck":
      return typeof message === "string";
    case "unloadable":
    case "loading":
      return readFromThread(said) !== null;
    default:
      if (!(Number.isInteger(life) && (life as number) > 0 && Number.isInteger(thread) && (thread as number) >= 0))
        return false;
      if ((thread as number) >= threads) return false;
      if (kind === "down")
        return typeof message === "string" && (said.late === undefined || Number.isInteger(said.late));
      return kind === "up" || readFromThread(said) !== null;
  }
}

export const stepChannel = (handlers: FrameHandlers): FrameChannel =>
  FrameChannel.onDescriptor(STEP_FD, handlers, STEP_FRAMES);
