/**
 * A small pool of threads for bodies too large to decode or encode on the main thread: parsing 1 MiB of JSON numbers (or
 * of a protobuf message's typed contents) takes milliseconds, in which no other request would be read, answered or
 * dispatched. Binary tensors never come here: they are views of the body.
 *
 * What waits is ordered by deadline, and answered at its deadline whatever the threads do. A job cannot be interrupted,
 * so its work is bounded (json-bounds.ts), and where there are two threads or more one of them never takes a large job.
 *
 * Threads start at their first job, or before it by `warm`. Bodies are transferred, not copied. What waits has a limit in bytes and in jobs, small
 * and large apart; beyond it a request is refused with 429 and reason "parse-queue-full".
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { monotonicNow } from "../clock/monotonic-clock.js";
import { type ErrorCode, type ErrorDetails, ServingError } from "../serving-error.js";
import type { EncodedAnswer, InferAnswer } from "./infer-answer.js";
import type { InferBody, OutputFormat } from "./infer-body.js";
import type { InferMessage } from "./infer-proto.js";

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

/** Waiting (thread null) -> on a thread -> done. Settled once, at the latest at its deadline; its bytes count until done. */
interface Pending {
  readonly job: BodyJob;
  readonly owned: readonly Uint8Array[];
  readonly lane: Lane;
  readonly bytes: number;
  readonly expiresAt: number;
  settle: Settle<never> | null;
  timer: NodeJS.Timeout | null;
}
interface Thread {
  readonly worker: Worker;
  running: Pending | null;
}
/** Small and large jobs are counted apart, so that neither fills the queue for the other. */
interface Lane {
  jobs: number;
  bytes: number;
}

/** A job of at most so many bytes is small: a tenth of a second at the worst. */
const SMALL_BYTES_MAX = 1024 * 1024;
/** Of one thread: the worst body of 64 MiB within the bounds needs half of it. */
const HEAP_MIB_MAX = 768;
/** Not longer than `setTimeout` can. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export interface BodyPoolOptions {
  /** Threads; default 2. One serves small bodies only. */
  readonly threads?: number;
  /** Small jobs, and large ones, queued or running; default 256. */
  readonly jobsMax?: number;
  /** Bytes of small jobs, and of large ones, queued or running; default 256 MiB. */
  readonly bytesMax?: number;
}

export class BodyPool {
  private readonly jobsMax: number;
  private readonly bytesMax: number;
  /** By number; the first takes small jobs only, unless it is the only one. */
  private readonly threads: (Thread | null)[];
  /** By deadline; equal ones in the order they came. */
  private readonly waiting: Pending[] = [];
  private readonly small: Lane = { jobs: 0, bytes: 0 };
  private readonly large: Lane = { jobs: 0, bytes: 0 };
  private nextJob = 1;
  private isClosed = false;

  constructor(options: BodyPoolOptions = {}) {
    this.threads = new Array<Thread | null>(options.threads ?? 2).fill(null);
    this.jobsMax = options.jobsMax ?? 256;
    this.bytesMax = options.bytesMax ?? 256 * 1024 * 1024;
  }

  /** Starts the thread of small jobs: a start takes longer than a tight SLO has, and would cost the first body its own. */
  warm(): void {
    this.threads[0] ??= this.spawn(0);
  }

  /** Threads that have been started. */
  get started(): number {
    return this.threads.filter((thread) => thread !== null).length;
  }

  /** Jobs waiting or on a thread. */
  get jobs(): number {
    return this.small.jobs + this.large.jobs;
  }

  /**
   * Decodes an HTTP body; it is handed over and must not be used afterwards. Refusals come through `settle` as well.
   *
   * @param expiresAt moment (monotonic, µs) of the deadline: then `settle` gets deadline-exceeded.
   * @returns gives it up: it is not begun any more, and `settle` not called.
   */
  decode(
    body: Uint8Array,
    headerLength: number | null,
    settle: Settle<InferBody>,
    expiresAt = Number.POSITIVE_INFINITY,
  ): () => void {
    const owned = own(body);
    const job: BodyJob = { kind: "decode", job: this.nextJob++, body: owned, headerLength };
    return this.post(job, headerLength ?? owned.byteLength, expiresAt, settle, [owned]);
  }

  /** Encodes an HTTP answer; its tensors are copied, since they may share memory with others. Work done is not given up. */
  encode(answer: InferAnswer, id: string, format: OutputFormat, settle: Settle<EncodedAnswer>): () => void {
    const [copy, tensors, bytes] = copyAnswer(answer);
    return this.post({ kind: "encode", job: this.nextJob++, answer: copy, id, format }, bytes, FIRST, settle, tensors);
  }

  /** Decodes a ModelInferRequest with typed contents; the bytes are copied, since they share memory with their frame. */
  decodeProto(body: Uint8Array, settle: Settle<InferMessage>, expiresAt = Number.POSITIVE_INFINITY): () => void {
    const owned = own(body);
    const job: BodyJob = { kind: "decode-proto", job: this.nextJob++, body: owned };
    return this.post(job, owned.byteLength, expiresAt, settle, [owned]);
  }

  /** Encodes a ModelInferResponse with typed contents. */
  encodeProto(answer: InferAnswer, id: string, settle: Settle<Uint8Array>): () => void {
    const [copy, tensors, bytes] = copyAnswer(answer);
    return this.post({ kind: "encode-proto", job: this.nextJob++, answer: copy, id }, bytes, FIRST, settle, tensors);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const pending of this.waiting.splice(0)) this.done(pending, draining(), null);
    await Promise.all(this.threads.map((thread) => thread?.worker.terminate()));
  }

  private post<T>(
    job: BodyJob,
    bytes: number,
    expiresAt: number,
    settle: Settle<T>,
    owned: readonly Uint8Array[],
  ): () => void {
    const lane = bytes <= SMALL_BYTES_MAX ? this.small : this.large;
    // One job may always run, however large: the body limit bounds it.
    const isFull = lane.jobs >= this.jobsMax || (lane.jobs > 0 && lane.bytes + bytes > this.bytesMax);
    if (this.isClosed || isFull) {
      settle(this.isClosed ? draining() : this.queueFull(lane, bytes), null);
      return () => {};
    }
    lane.jobs++;
    lane.bytes += bytes;
    const pending: Pending = { job, owned, lane, bytes, expiresAt, settle: settle as Settle<never>, timer: null };
    if (Number.isFinite(expiresAt)) {
      const leftMs = Math.ceil((expiresAt - monotonicNow()) / 1000);
      pending.timer = setTimeout(() => this.expire(pending), Math.min(TIMER_MS_MAX, Math.max(0, leftMs)));
    }
    let at = this.waiting.length;
    while (at > 0 && this.waiting[at - 1]!.expiresAt > expiresAt) at--;
    this.waiting.splice(at, 0, pending);
    this.fill();
    return () => this.giveUp(pending);
  }

  private queueFull(lane: Lane, bytes: number): ServingError {
    return new ServingError(
      "resource-exhausted",
      `large bodies waiting to be parsed or written must be at most ${this.jobsMax} and ${this.bytesMax} bytes, got ${lane.jobs + 1} and ${lane.bytes + bytes}; binary data needs no parsing`,
      { reason: "parse-queue-full", retryAfterS: 1 },
    );
  }

  /** Gives each idle thread the first job that it may take. */
  private fill(): void {
    for (let number = 0; number < this.threads.length && this.waiting.length > 0; number++) {
      const thread = this.threads[number];
      if (thread && thread.running !== null) continue;
      const takesLarge = number > 0 || this.threads.length === 1;
      const at = takesLarge ? 0 : this.waiting.findIndex(({ lane }) => lane === this.small);
      if (at < 0) continue;
      const [pending] = this.waiting.splice(at, 1) as [Pending];
      const { worker } = thread ?? this.spawn(number);
      this.threads[number]!.running = pending;
      worker.postMessage(
        pending.job,
        pending.owned.map((part) => part.buffer as ArrayBuffer),
      );
    }
  }

  private spawn(number: number): Thread {
    const worker = new Worker(workerFile(), { resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX } });
    const thread: Thread = { worker, running: null };
    this.threads[number] = thread;
    worker.unref();
    worker.on("message", (result: BodyResult) => {
      const { running } = thread;
      thread.running = null;
      if (running === null) return;
      if (result.kind === "refused") {
        const cause = result.stack === null ? {} : { cause: result.stack };
        this.done(running, new ServingError(result.code, result.message, { ...result.details, ...cause }), null);
      } else this.done(running, null, result.value as never);
      this.fill();
    });
    let cause: NodeJS.ErrnoException | undefined;
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.threads[number] = null;
      if (thread.running !== null) this.done(thread.running, this.isClosed ? draining() : threadEnded(cause), null);
      if (!this.isClosed) this.fill();
    });
    return thread;
  }

  private expire(pending: Pending): void {
    const error = new ServingError("deadline-exceeded", "the deadline passed before the request body was parsed", {
      reason: "expired",
    });
    const { settle } = pending;
    this.giveUp(pending);
    settle?.(error, null);
  }

  /** It is told nothing; where it has not begun, it does not. */
  private giveUp(pending: Pending): void {
    pending.settle = null;
    const at = this.waiting.indexOf(pending);
    if (at < 0) return;
    this.waiting.splice(at, 1);
    this.done(pending, null, null);
  }

  private done(pending: Pending, error: ServingError | null, value: never | null): void {
    const { lane, settle } = pending;
    lane.jobs--;
    lane.bytes -= pending.bytes;
    if (pending.timer !== null) clearTimeout(pending.timer);
    pending.settle = null;
    settle?.(error, value);
  }
}

/** Before everything that has a deadline. */
const FIRST = Number.NEGATIVE_INFINITY;

function threadEnded(cause: NodeJS.ErrnoException | undefined): ServingError {
  return cause?.code === "ERR_WORKER_OUT_OF_MEMORY"
    ? new ServingError(
        "payload-too-large",
        `parsing the request body must need at most ${HEAP_MIB_MAX} MiB, got more; binary data needs no parsing`,
        { reason: "parse-memory" },
      )
    : new ServingError("internal", "the thread that parses large bodies ended", { reason: "internal", cause });
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
  return fileURLToPath(new URL("../../../dist/wire/infer/body-worker.js", import.meta.url));
}
