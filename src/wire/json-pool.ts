/**
 * A small pool of threads for JSON bodies too large for the main thread: parsing 1 MiB of numbers takes milliseconds,
 * in which no other request would be read, answered or dispatched. Binary tensors never come here.
 *
 * Threads start at the first job. Bodies are transferred, not copied. The queue has a limit in bytes and in jobs;
 * beyond it a request is refused with 429 and reason "parse-queue-full".
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { EncodedAnswer, InferAnswer } from "./infer-answer.js";
import type { InferBody, OutputFormat } from "./infer-body.js";
import { type ErrorCode, type ErrorDetails, ServingError } from "./serving-error.js";

/** JSON longer than this many bytes is parsed off the main thread. */
export const JSON_INLINE_BYTES_MAX = 256 * 1024;
/** Output data longer than this many bytes is turned into JSON off the main thread (text is about four times longer). */
export const JSON_OUTPUT_INLINE_BYTES_MAX = 64 * 1024;

export type JsonJob =
  | { readonly kind: "decode"; readonly job: number; readonly body: Uint8Array; readonly headerLength: number | null }
  | {
      readonly kind: "encode";
      readonly job: number;
      readonly answer: InferAnswer;
      readonly id: string;
      readonly format: OutputFormat;
    };
export type JsonResult =
  | { readonly kind: "decoded"; readonly job: number; readonly value: InferBody }
  | { readonly kind: "encoded"; readonly job: number; readonly value: EncodedAnswer }
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

export interface JsonPoolOptions {
  /** Threads; default 1. More than the cores left over by the accelerators only moves the queue. */
  readonly threads?: number;
  /** Jobs queued or running; default 256. */
  readonly jobsMax?: number;
  /** Bytes of bodies queued or running; default 256 MiB. */
  readonly bytesMax?: number;
}

export class JsonPool {
  private readonly threadsMax: number;
  private readonly jobsMax: number;
  private readonly bytesMax: number;
  private readonly threads: Thread[] = [];
  private jobs = 0;
  private bytes = 0;
  private nextJob = 1;
  private isClosed = false;

  constructor(options: JsonPoolOptions = {}) {
    this.threadsMax = options.threads ?? 1;
    this.jobsMax = options.jobsMax ?? 256;
    this.bytesMax = options.bytesMax ?? 256 * 1024 * 1024;
  }

  /** Decodes a body; `body` is handed over and must not be used afterwards. Refusals come through `settle` as well. */
  decode(body: Uint8Array, headerLength: number | null, settle: Settle<InferBody>): void {
    const whole = ownsItsBuffer(body) ? body : new Uint8Array(body);
    const job = this.nextJob++;
    this.post({ kind: "decode", job, body: whole, headerLength }, whole.byteLength, settle as Settle<never>, [
      whole.buffer as ArrayBuffer,
    ]);
  }

  /** Encodes an answer; its tensors are copied, since they may share memory with others. */
  encode(answer: InferAnswer, id: string, format: OutputFormat, settle: Settle<EncodedAnswer>): void {
    const job = this.nextJob++;
    let bytes = 0;
    const outputs = answer.outputs.map((output) => {
      bytes += output.data.byteLength;
      return { ...output, data: new Uint8Array(output.data) };
    });
    this.post(
      { kind: "encode", job, answer: { ...answer, outputs }, id, format },
      bytes,
      settle as Settle<never>,
      outputs.map((output) => output.data.buffer),
    );
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all(this.threads.map((thread) => thread.worker.terminate()));
  }

  private post(job: JsonJob, bytes: number, settle: Settle<never>, transfer: readonly ArrayBuffer[]): void {
    if (this.isClosed) {
      settle(
        new ServingError("unavailable", "the server is shutting down", { reason: "draining", retryAfterS: 1 }),
        null,
      );
      return;
    }
    // One job may always run, however large: the body limit bounds it.
    if (this.jobs >= this.jobsMax || (this.jobs > 0 && this.bytes + bytes > this.bytesMax)) {
      settle(
        new ServingError(
          "resource-exhausted",
          `large JSON bodies waiting to be parsed or written must be at most ${this.jobsMax} and ${this.bytesMax} bytes, got ${this.jobs + 1} and ${this.bytes + bytes}; use binary data, which needs no parsing`,
          { reason: "parse-queue-full", retryAfterS: 1 },
        ),
        null,
      );
      return;
    }
    this.jobs++;
    this.bytes += bytes;
    const thread = this.leastLoaded();
    thread.pending.set(job.job, { bytes, settle });
    thread.worker.postMessage(job, transfer);
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
    worker.on("message", (result: JsonResult) => {
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
          new ServingError("internal", "the thread that parses large JSON bodies ended", { reason: "internal", cause }),
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

function ownsItsBuffer(bytes: Uint8Array): boolean {
  return bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength;
}

/** Threads run compiled code: this file's neighbour, or, when the sources run themselves (tests), the build's. */
function workerFile(): string {
  const beside = fileURLToPath(new URL("./json-worker.js", import.meta.url));
  if (existsSync(beside)) return beside;
  return fileURLToPath(new URL("../../dist/wire/json-worker.js", import.meta.url));
}
