/**
 * A small pool of threads for bodies too large to decode or encode on the main thread: parsing 1 MiB of JSON numbers (or
 * of a protobuf message's typed contents) takes milliseconds, in which no other request would be read, answered or
 * dispatched. Binary tensors never come here: they are views of the body.
 *
 * Threads start at the first job. Bodies are transferred, not copied. The queue has a limit in bytes and in jobs;
 * beyond it a request is refused with 429 and reason "parse-queue-full".
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { EncodedAnswer, InferAnswer } from "./infer-answer.js";
import type { InferBody, OutputFormat } from "./infer-body.js";
import type { InferMessage } from "./infer-proto.js";
import { type ErrorCode, type ErrorDetails, ServingError } from "./serving-error.js";

/**
 * JSON and typed contents longer than this many bytes are parsed off the main thread: the worst that this many hold (empty
 * strings, integers of one byte, integers that must be read again without loss) takes it 15 ms.
 */
export const DECODE_INLINE_BYTES_MAX = 64 * 1024;
/** Output data longer than this many bytes is turned into JSON (about four times longer) or typed contents off it. */
export const ENCODE_INLINE_BYTES_MAX = 64 * 1024;

export type BodyJob =
  | { readonly kind: "decode"; readonly job: number; readonly body: Uint8Array; readonly headerLength: number | null }
  | {
      readonly kind: "encode";
      readonly job: number;
      readonly answer: InferAnswer;
      readonly id: string;
      readonly format: OutputFormat;
    }
  | { readonly kind: "decode-proto"; readonly job: number; readonly body: Uint8Array }
  | { readonly kind: "encode-proto"; readonly job: number; readonly answer: InferAnswer; readonly id: string };
export type BodyResult =
  | {
      readonly kind: "done";
      readonly job: number;
      readonly value: InferBody | EncodedAnswer | InferMessage | Uint8Array;
    }
  | {
      readonly kind: "refused";
      readonly job: number;
      readonly code: ErrorCode;
      readonly message: string;
      readonly details: ErrorDetails;
      readonly stack: string | null;
    };

type Settle<T> = (error: ServingError | null, value: T | null) => void;
interface Pending {
  readonly bytes: number;
  readonly settle: Settle<never>;
}
interface Thread {
  readonly worker: Worker;
  readonly pending: Map<number, Pending>;
}

export interface BodyPoolOptions {
  /** Threads; default 1. More than the cores left over by the accelerators only moves the queue. */
  readonly threads?: number;
  /** Jobs queued or running; default 256. */
  readonly jobsMax?: number;
  /** Bytes of bodies queued or running; default 256 MiB. */
  readonly bytesMax?: number;
}

export class BodyPool {
  private readonly threadsMax: number;
  private readonly jobsMax: number;
  private readonly bytesMax: number;
  private readonly threads: Thread[] = [];
  private jobs = 0;
  private bytes = 0;
  private nextJob = 1;
  private isClosed = false;

  constructor(options: BodyPoolOptions = {}) {
    this.threadsMax = options.threads ?? 1;
    this.jobsMax = options.jobsMax ?? 256;
    this.bytesMax = options.bytesMax ?? 256 * 1024 * 1024;
  }

  /** Decodes an HTTP body; it is handed over and must not be used afterwards. Refusals come through `settle` as well. */
  decode(body: Uint8Array, headerLength: number | null, settle: Settle<InferBody>): void {
    const owned = own(body);
    this.post({ kind: "decode", job: this.nextJob++, body: owned, headerLength }, owned.byteLength, settle, [owned]);
  }

  /** Encodes an HTTP answer; its tensors are copied, since they may share memory with others. */
  encode(answer: InferAnswer, id: string, format: OutputFormat, settle: Settle<EncodedAnswer>): void {
    const [copy, tensors, bytes] = copyAnswer(answer);
    this.post({ kind: "encode", job: this.nextJob++, answer: copy, id, format }, bytes, settle, tensors);
  }

  /** Decodes a ModelInferRequest with typed contents; the bytes are copied, since they share memory with their frame. */
  decodeProto(body: Uint8Array, settle: Settle<InferMessage>): void {
    const owned = own(body);
    this.post({ kind: "decode-proto", job: this.nextJob++, body: owned }, owned.byteLength, settle, [owned]);
  }

  /** Encodes a ModelInferResponse with typed contents. */
  encodeProto(answer: InferAnswer, id: string, settle: Settle<Uint8Array>): void {
    const [copy, tensors, bytes] = copyAnswer(answer);
    this.post({ kind: "encode-proto", job: this.nextJob++, answer: copy, id }, bytes, settle, tensors);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all(this.threads.map((thread) => thread.worker.terminate()));
  }

  private post<T>(job: BodyJob, bytes: number, settle: Settle<T>, owned: readonly Uint8Array[]): void {
    if (this.isClosed) {
      settle(draining(), null);
      return;
    }
    // One job may always run, however large: the body limit bounds it.
    if (this.jobs >= this.jobsMax || (this.jobs > 0 && this.bytes + bytes > this.bytesMax)) {
      settle(
        new ServingError(
          "resource-exhausted",
          `large bodies waiting to be parsed or written must be at most ${this.jobsMax} and ${this.bytesMax} bytes, got ${this.jobs + 1} and ${this.bytes + bytes}; binary data needs no parsing`,
          { reason: "parse-queue-full", retryAfterS: 1 },
        ),
        null,
      );
      return;
    }
    this.jobs++;
    this.bytes += bytes;
    const thread = this.leastLoaded();
    thread.pending.set(job.job, { bytes, settle: settle as Settle<never> });
    thread.worker.postMessage(
      job,
      owned.map((part) => part.buffer as ArrayBuffer),
    );
  }

  private leastLoaded(): Thread {
    let best: Thread | undefined;
    for (const thread of this.threads) if (!best || thread.pending.size < best.pending.size) best = thread;
    if (best && (best.pending.size === 0 || this.threads.length >= this.threadsMax)) return best;
    return this.spawn();
  }

  private spawn(): Thread {
    const worker = new Worker(workerFile());
    const thread: Thread = { worker, pending: new Map() };
    worker.unref();
    worker.on("message", (result: BodyResult) => {
      const pending = this.take(thread, result.job);
      if (pending === undefined) return;
      if (result.kind === "refused") {
        const cause = result.stack === null ? {} : { cause: result.stack };
        pending.settle(new ServingError(result.code, result.message, { ...result.details, ...cause }), null);
      } else pending.settle(null, result.value as never);
    });
    let cause: unknown;
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.threads.splice(this.threads.indexOf(thread), 1);
      for (const job of [...thread.pending.keys()])
        this.take(thread, job)?.settle(
          this.isClosed
            ? draining()
            : new ServingError("internal", "the thread that parses large bodies ended", { reason: "internal", cause }),
          null,
        );
    });
    this.threads.push(thread);
    return thread;
  }

  private take(thread: Thread, job: number): Pending | undefined {
    const pending = thread.pending.get(job);
    if (pending === undefined) return undefined;
    thread.pending.delete(job);
    this.jobs--;
    this.bytes -= pending.bytes;
    return pending;
  }
}

const draining = (): ServingError =>
  new ServingError("unavailable", "the server is shutting down", { reason: "draining", retryAfterS: 1 });

/** The bytes on an ArrayBuffer of their own, which can be transferred. */
function own(bytes: Uint8Array): Uint8Array {
  const isWhole = bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength;
  return isWhole ? bytes : new Uint8Array(bytes);
}

function copyAnswer(answer: InferAnswer): [copy: InferAnswer, tensors: Uint8Array[], bytes: number] {
  let bytes = 0;
  const outputs = answer.outputs.map((output) => {
    bytes += output.data.byteLength;
    return { ...output, data: new Uint8Array(output.data) };
  });
  return [{ ...answer, outputs }, outputs.map((output) => output.data), bytes];
}

/** Threads run compiled code: this file's neighbour, or, when the sources run themselves (tests), the build's. */
function workerFile(): string {
  const beside = fileURLToPath(new URL("./body-worker.js", import.meta.url));
  if (existsSync(beside)) return beside;
  return fileURLToPath(new URL("../../dist/wire/body-worker.js", import.meta.url));
}
