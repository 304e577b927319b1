/** One worker process and its two channels: requests with answers, runs, and how it ended. No policy: that is the seat's. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { ModelSpec } from "../../../config/model.js";
import { FrameChannel } from "../../../wire/frame-channel.js";
import { FRAME_LIMITS, type Frame } from "../../../wire/frames.js";
import { ServingError } from "../../../wire/serving-error.js";
import {
  CONTROL_FD,
  decodeControl,
  decodeFailed,
  decodeFinished,
  encodeControl,
  encodeRun,
  type FailedRecord,
  type FinishedRecord,
  FRAME_CONTROL,
  FRAME_FAILED,
  FRAME_FINISHED,
  FRAME_RUN,
  type FromWorker,
  type LogLevel,
  type RunRecord,
  TENSOR_FD,
  type ToWorker,
} from "../../../wire/worker-protocol.js";
import { forEachLine } from "../line-log.js";

export type Hello = Extract<ToWorker, { kind: "hello" }>;
/** A message that is answered, without its id. */
export type Request = WithoutId<Extract<ToWorker<ModelSpec>, { id: number }>>;
type WithoutId<T> = T extends unknown ? Omit<T, "id"> : never;

export interface WorkerProcessHandlers {
  onFinished(record: FinishedRecord): void;
  onFailed(record: FailedRecord): void;
  onMemory(rssBytes: number): void;
  onLog(level: LogLevel, message: string): void;
  /** Once, after everything it sent was delivered. */
  onExit(exit: WorkerExit): void;
}

export interface WorkerExit {
  readonly reason: string;
  /** A signal that no code raises by itself, and that the server did not send: somebody ended it from outside. */
  readonly isFromOutside: boolean;
  /** The server ended it. */
  readonly isOurs: boolean;
}

const OUTSIDE_SIGNALS: ReadonlySet<string> = new Set(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]);

/** After the process is gone its pipes should close at once; a pipe that does not is not waited for longer. */
const CLOSE_WAIT_MS = 500;

/** Tests run from the sources, but a child process needs compiled code. */
function workerEntry(): string {
  const here = new URL(import.meta.url);
  const isSource = here.pathname.includes("/src/serve/");
  return fileURLToPath(new URL(isSource ? "../../../../dist/worker/main.js" : "../../../worker/main.js", here));
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: ServingError): void;
}

/** What a seat asks of the process that fills it. */
export interface WorkerLink {
  readonly pid: number;
  /** The worker's own account of its runtime; rejects when the process ends before. */
  readonly ready: Promise<Extract<FromWorker, { kind: "ready" }>>;
  /** @throws ServingError unavailable when the process ends first; otherwise what the worker refused with. */
  request(message: Request): Promise<unknown>;
  /** @throws ServingError payload-too-large when the batch does not fit a frame; nothing was sent then. */
  run(record: RunRecord): void;
  /** It ends when what it runs has ended. */
  shutdown(): void;
  /** SIGKILL: the only way to end a model that runs. @param reason what is told to whoever waits for it. */
  kill(reason?: string | null): void;
}

export class WorkerProcess implements WorkerLink {
  private readonly child: ChildProcess;
  private readonly control: FrameChannel;
  private readonly tensors: FrameChannel;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 1;
  private gone: string | null = null;
  private endedFor: string | null = null;
  private greeted!: Waiting;
  readonly ready: WorkerLink["ready"];

  constructor(
    hello: Hello,
    private readonly handlers: WorkerProcessHandlers,
  ) {
    this.ready = new Promise((resolve, reject) => {
      this.greeted = { resolve: resolve as (value: unknown) => void, reject };
    });
    this.ready.catch(() => {});
    this.child = spawn(process.execPath, [workerEntry()], {
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
      // One process per accelerator computes; libuv's pool only reads model files. The model runtime reports to nobody
      // (worker/onnx/onnx-runtime.ts), which it reads here: the threads of models only have a copy of this.
      env: { ...process.env, UV_THREADPOOL_SIZE: "2", ORT_DISABLE_TELEMETRY: "1" },
    });
    const limits = { ...FRAME_LIMITS, payloadBytesMax: hello.payloadBytesMax };
    const broken = (error: Error | null): void => {
      if (error !== null) this.handlers.onLog("warn", `channel to worker ${this.pid} broke: ${error.message}`);
      this.kill();
    };
    const streams = this.child.stdio as unknown as readonly Socket[] | undefined;
    if (streams === undefined) {
      // Node gives up before there are pipes when it has no file descriptor for them; the error event comes later.
      this.child.once("error", () => {});
      throw new ServingError("unavailable", "a worker process needs pipes and no file descriptor is left (ulimit -n)");
    }
    this.control = FrameChannel.over(streams[CONTROL_FD]!, { onFrame: (f) => this.onControl(f), onClose: broken });
    this.tensors = FrameChannel.over(
      streams[TENSOR_FD]!,
      { onFrame: (f) => this.onTensors(f), onClose: broken },
      limits,
    );
    forEachLine(this.child.stdout as Readable, (line) => handlers.onLog("info", line));
    forEachLine(this.child.stderr as Readable, (line) => handlers.onLog("warn", line));
    this.child.once("error", (error) => this.ended(`cannot start: ${error.message}`, null));
    this.child.once("exit", (code, signal) => {
      const exit = signal === null ? `exit code ${code}` : `signal ${signal}`;
      const reason = this.endedFor ?? exit;
      const timer = setTimeout(() => this.ended(reason, signal), CLOSE_WAIT_MS);
      this.child.once("close", () => {
        clearTimeout(timer);
        this.ended(reason, signal);
      });
    });
    this.send(hello);
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  request(message: Request): Promise<unknown> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      if (this.gone !== null) {
        reject(this.lost());
        return;
      }
      this.waiting.set(id, { resolve, reject });
      this.send({ ...message, id } as ToWorker<ModelSpec>);
    });
  }

  run(record: RunRecord): void {
    const { header, parts } = encodeRun(record);
    this.tensors.send(FRAME_RUN, header, parts);
  }

  shutdown(): void {
    this.send({ kind: "shutdown" });
  }

  kill(reason: string | null = null): void {
    this.endedFor ??= reason;
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill("SIGKILL");
  }

  private send(message: ToWorker<ModelSpec>): void {
    this.control.send(FRAME_CONTROL, encodeControl(message));
  }

  private onControl(frame: Frame): void {
    const message = decodeControl<FromWorker>(frame.header);
    switch (message.kind) {
      case "ready":
        this.greeted.resolve(message);
        break;
      case "done":
        this.answered(message.id)?.resolve(message.value);
        break;
      case "refused":
        this.answered(message.id)?.reject(new ServingError(message.code, message.message));
        break;
      case "log":
        this.handlers.onLog(message.level, message.message);
        break;
      case "memory":
        this.handlers.onMemory(message.rssBytes);
    }
  }

  private answered(id: number): Waiting | undefined {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    return waiting;
  }

  private onTensors(frame: Frame): void {
    if (frame.type === FRAME_FINISHED) this.handlers.onFinished(decodeFinished(frame.header, frame.payload));
    else if (frame.type === FRAME_FAILED) this.handlers.onFailed(decodeFailed(frame.header));
    else throw new ServingError("internal", `frame type ${frame.type} from worker ${this.pid} is unknown`);
  }

  private ended(reason: string, signal: string | null): void {
    if (this.gone !== null) return;
    this.gone = reason;
    this.control.destroy();
    this.tensors.destroy();
    const lost = this.lost();
    this.greeted.reject(lost);
    for (const waiting of this.waiting.values()) waiting.reject(lost);
    this.waiting.clear();
    const isOurs = this.endedFor !== null;
    this.handlers.onExit({ reason, isOurs, isFromOutside: !isOurs && signal !== null && OUTSIDE_SIGNALS.has(signal) });
  }

  private lost(): ServingError {
    return new ServingError("unavailable", `worker process ended (${this.gone})`, { reason: "worker-crashed" });
  }
}
