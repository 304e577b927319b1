/**
 * What server and worker processes say to each other.
 *
 * Two channels per process: control (JSON records: rare, small, never behind a tensor) and tensors (binary records
 * with raw payloads). The codec is the same for both; only the tensor records are on the path of a request.
 */
import { FAIL_CAUSES, type FailCause } from "../core/outcome.js";
import type { DurationUs, TimeUs } from "../core/time.js";
import { ERROR_CODES, type ErrorCode, ServingError } from "./serving-error.js";
import { ByteReader, ByteWriter } from "./tensors/bytes.js";
import { DATATYPES, type Datatype, type Tensor } from "./tensors/tensor.js";

/** File descriptors of the channels in a worker process. */
export const CONTROL_FD = 3;
export const TENSOR_FD = 4;

export const FRAME_CONTROL = 1;
export const FRAME_RUN = 16;
export const FRAME_FINISHED = 17;
export const FRAME_FAILED = 18;

/** What an emulated accelerator is told to get wrong; onnx workers refuse all of them. */
export type Fault =
  /** Everything in progress and all that follows is `us` later, once. */
  | { readonly kind: "stall"; readonly us: number }
  /** Executions take `factor` times as long from the next on; 1 = healthy. */
  | { readonly kind: "slow"; readonly factor: number }
  /** The process ends now. */
  | { readonly kind: "crash" }
  /** The execution that runs, or else the next, never ends. */
  | { readonly kind: "hang" }
  /** The process ends when it receives a batch in which an input's data begins with this byte; null = healthy. */
  | { readonly kind: "poison"; readonly byte: number | null };

/** `Model` is the config room's ModelSpec; the wire only carries it. */
export type ToWorker<Model = unknown> =
  | {
      readonly kind: "hello";
      readonly worker: "onnx" | "emulated";
      /** Relative speed of each accelerator of the process. */
      readonly scales: readonly number[];
      readonly threads: number;
      /** Execution providers to try in order, "cpu" last. */
      readonly providers: readonly string[];
      readonly payloadBytesMax: number;
    }
  | {
      readonly kind: "load";
      readonly id: number;
      /** Names this load in later frames: two versions of a model may be loaded side by side while one replaces the other. */
      readonly handle: number;
      readonly model: Model;
      /** Time to spend on warm-up runs of growing batch sizes, ms. */
      readonly warmUpMs: number;
      /** Of an elastic model: TaskBinding of the config room. Absent: none. */
      readonly tasks?: readonly unknown[];
    }
  /** The tasks of an elastic model from now on. */
  | { readonly kind: "bind"; readonly id: number; readonly handle: number; readonly tasks: readonly unknown[] }
  /** Runs images of a task's profiling set; TaskTrial of the config room. */
  | { readonly kind: "try"; readonly id: number; readonly handle: number; readonly trial: unknown }
  | { readonly kind: "unload"; readonly id: number; readonly handle: number }
  | {
      readonly kind: "time";
      readonly id: number;
      readonly slot: number;
      readonly handle: number;
      readonly batchSize: number;
      readonly extent: number | null;
      readonly runs: number;
      readonly variant: number;
    }
  | { readonly kind: "cancel"; readonly id: number; readonly slot: number; readonly batch: number }
  | { readonly kind: "fault"; readonly id: number; readonly slot: number; readonly fault: Fault }
  /** End as soon as nothing runs. */
  | { readonly kind: "shutdown" };

export type FromWorker =
  | {
      readonly kind: "ready";
      readonly pid: number;
      /** "onnxruntime 1.30.0" or "emulated". */
      readonly runtime: string;
      readonly provider: string;
    }
  | { readonly kind: "done"; readonly id: number; readonly value: unknown }
  | { readonly kind: "refused"; readonly id: number; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "log"; readonly level: LogLevel; readonly message: string }
  | { readonly kind: "memory"; readonly rssBytes: number };

export type LogLevel = "info" | "warn" | "error";

export const encodeControl = (message: ToWorker | FromWorker): Buffer => Buffer.from(JSON.stringify(message));

/** @throws ServingError internal when the record is not JSON: the stream is corrupt or from another build. */
export function decodeControl<T>(header: Buffer): T {
  try {
    return JSON.parse(header.toString()) as T;
  } catch (cause) {
    throw new ServingError("internal", `control record of ${header.length} bytes is not JSON`, { cause });
  }
}

/** A record with the tensors it describes: `parts` are their bytes, each padded to 8 so that typed views need no copy. */
export interface TensorRecord {
  readonly header: Buffer;
  readonly parts: readonly Uint8Array[];
}

export interface RunRecord {
  readonly slot: number;
  readonly handle: number;
  readonly batch: number;
  readonly earliestStartAt: TimeUs;
  /** How much work each member gets, or which model of a family runs; 0: there is one. */
  readonly variant: number;
  /** App, task or class of each member; empty: nobody says any. */
  readonly kinds: readonly number[];
  readonly outputs: readonly string[];
  readonly members: readonly (readonly Tensor[])[];
}

/** The part of a run record that says where it goes; read without touching the tensors. */
export interface RunRoute {
  readonly slot: number;
  readonly handle: number;
  readonly batch: number;
}

export interface FinishedRecord {
  readonly slot: number;
  readonly batch: number;
  readonly startedAt: TimeUs;
  readonly finishedAt: TimeUs;
  readonly inputUs: DurationUs;
  readonly outputUs: DurationUs;
  readonly outputs: readonly (readonly Tensor[])[];
}

export interface FailedRecord {
  readonly slot: number;
  readonly batch: number;
  readonly cause: FailCause;
  /** Whose fault it is, where the batch was of one request: "invalid-argument" says the client's. */
  readonly code: ErrorCode;
  readonly message: string;
}

const CODES = Object.keys(ERROR_CODES) as readonly ErrorCode[];
const DATATYPE_NAMES = Object.keys(DATATYPES) as readonly Datatype[];
const PADDING = new Uint8Array(8);
const padded = (bytes: number): number => (bytes + 7) & ~7;
/** A message of an error that fits a record; runtimes print whole graphs at times. */
const MESSAGE_CHARS_MAX = 8000;

export function encodeRun(run: RunRecord): TensorRecord {
  const writer = new ByteWriter();
  writer.u16(run.slot).u32(run.handle).f64(run.batch).f64(run.earliestStartAt);
  writer.u32(run.variant).u16(run.kinds.length);
  for (const kind of run.kinds) writer.u16(kind);
  writer.u16(run.outputs.length);
  for (const name of run.outputs) writer.text(name);
  return finish(writer, run.members);
}

export function decodeRoute(header: Buffer): RunRoute {
  const reader = new ByteReader(header);
  return { slot: reader.u16(), handle: reader.u32(), batch: reader.f64() };
}

export function decodeRun(header: Buffer, payload: Buffer): RunRecord {
  const reader = new ByteReader(header);
  const slot = reader.u16();
  const handle = reader.u32();
  const batch = reader.f64();
  const earliestStartAt = reader.f64() as TimeUs;
  const variant = reader.u32();
  const kinds = repeat(reader.u16(), () => reader.u16());
  const outputs = repeat(reader.u16(), () => reader.text());
  return { slot, handle, batch, earliestStartAt, variant, kinds, outputs, members: readMembers(reader, payload) };
}

export function encodeFinished(record: FinishedRecord): TensorRecord {
  const writer = new ByteWriter();
  writer.u16(record.slot).f64(record.batch).f64(record.startedAt).f64(record.finishedAt);
  writer.f64(record.inputUs).f64(record.outputUs);
  return finish(writer, record.outputs);
}

export function decodeFinished(header: Buffer, payload: Buffer): FinishedRecord {
  const reader = new ByteReader(header);
  return {
    slot: reader.u16(),
    batch: reader.f64(),
    startedAt: reader.f64() as TimeUs,
    finishedAt: reader.f64() as TimeUs,
    inputUs: reader.f64() as DurationUs,
    outputUs: reader.f64() as DurationUs,
    outputs: readMembers(reader, payload),
  };
}

export function encodeFailed(record: FailedRecord): Buffer {
  const message = record.message.slice(0, MESSAGE_CHARS_MAX);
  const cause = FAIL_CAUSES.indexOf(record.cause);
  const code = CODES.indexOf(record.code);
  return new ByteWriter().u16(record.slot).f64(record.batch).u8(cause).u8(code).text(message).bytes();
}

export function decodeFailed(header: Buffer): FailedRecord {
  const reader = new ByteReader(header);
  const record = {
    slot: reader.u16(),
    batch: reader.f64(),
    cause: FAIL_CAUSES[reader.u8()]!,
    code: CODES[reader.u8()]!,
    message: reader.text(),
  };
  reader.end();
  return record;
}

function finish(writer: ByteWriter, members: readonly (readonly Tensor[])[]): TensorRecord {
  const parts: Uint8Array[] = [];
  writer.u16(members.length);
  for (const tensors of members) {
    writer.u16(tensors.length);
    for (const tensor of tensors) writeTensor(writer, parts, tensor);
  }
  return { header: writer.bytes(), parts };
}

function writeTensor(writer: ByteWriter, parts: Uint8Array[], tensor: Tensor): void {
  const bytes = tensor.data.byteLength;
  writer.text(tensor.name).u8(DATATYPE_NAMES.indexOf(tensor.datatype)).u8(tensor.shape.length);
  for (const extent of tensor.shape) writer.u32(extent);
  writer.u32(bytes);
  parts.push(tensor.data);
  if (padded(bytes) > bytes) parts.push(PADDING.subarray(0, padded(bytes) - bytes));
}

function readMembers(reader: ByteReader, payload: Buffer): Tensor[][] {
  let at = 0;
  const readTensor = (): Tensor => {
    const name = reader.text();
    const datatype = DATATYPE_NAMES[reader.u8()];
    if (datatype === undefined) throw new ServingError("internal", `tensor '${name}' has an unknown datatype code`);
    const shape = repeat(reader.u8(), () => reader.u32());
    const bytes = reader.u32();
    if (at + bytes > payload.length)
      throw new ServingError("internal", `tensor '${name}' ends at byte ${at + bytes}; payload has ${payload.length}`);
    const data = payload.subarray(at, at + bytes);
    at += padded(bytes);
    return { name, datatype, shape, data };
  };
  const members = repeat(reader.u16(), () => repeat(reader.u16(), readTensor));
  reader.end();
  return members;
}

function repeat<T>(count: number, make: () => T): T[] {
  const out: T[] = [];
  for (let i = 0; i < count; i++) out.push(make());
  return out;
}
