/** The one accelerator of an onnx worker: batches in order of arrival, one at a time, over a thread per model. */
import { Worker } from "node:worker_threads";
import type { TaskBinding, TaskTrial, TrialResult } from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { ServingError } from "../../wire/serving-error.js";
import { decodeRoute, type Fault } from "../../wire/worker-protocol.js";
import { DIRECT_BYTES_MAX } from "../direct-answer.js";
import type { AcceleratorHost, Hello, HostOutput, TimeRequest } from "../host.js";
import { text } from "../text.js";
import { createMailbox, type MailboxMemory, MailboxSender } from "../thread-mailbox.js";
import type { FromThread, ModelThreadData, ToThread } from "../thread-protocol.js";
import type { Timing } from "../timing.js";
import { runtimeName } from "./onnx-model.js";

/** One run and one waiting batch per accelerator, and a timing, tasks bound and one tried; more is a bug of the server. */
const WAITING_MAX = 8;

interface Job {
  readonly handle: number;
  /** Of a batch; -1 for a timing. */
  readonly batch: number;
  start(thread: ModelThread): void;
  answer(message: FromThread): void;
  fail(error: unknown): void;
}

class ModelThread {
  loaded: ((message: FromThread) => void) | null = null;
  exited: Promise<void>;
  readonly mailbox: MailboxSender;
  constructor(
    worker: Worker,
    memory: MailboxMemory,
    private readonly onAnswer: (message: FromThread) => void,
    private readonly output: HostOutput,
  ) {
    this.mailbox = new MailboxSender(memory, worker);
    worker.on("message", (message: FromThread) => this.receive(message));
    this.exited = new Promise((resolve) => worker.once("exit", () => resolve()));
  }
  private receive(message: FromThread): void {
    if (message.kind === "log") this.output.log(message.level, message.message);
    else if (message.kind === "loaded" || message.kind === "load-failed") this.loaded?.(message);
    else this.onAnswer(message);
  }
}

export class OnnxHost implements AcceleratorHost {
  readonly runtime = runtimeName();
  provider = "cpu";
  private readonly threads = new Map<number, ModelThread>();
  private readonly waiting: Job[] = [];
  private running: Job | null = null;
  private idle: (() => void)[] = [];
  /** The running job's thread may write to the tensor channel: nobody else does. */
  private isThreadWriting = false;
  private afterAnswer: (() => void)[] = [];

  constructor(
    private readonly hello: Hello,
    private readonly output: HostOutput,
  ) {}

  start(): Promise<void> {
    return Promise.resolve();
  }

  async load(handle: number, model: ModelSpec, warmUpMs: number, tasks: readonly TaskBinding[]): Promise<void> {
    const { threads, providers } = this.hello;
    const mailbox = createMailbox();
    const directBytesMax = Math.min(DIRECT_BYTES_MAX, this.hello.payloadBytesMax);
    const workerData: ModelThreadData = { model, threads, providers, warmUpMs, tasks, mailbox, directBytesMax };
    const worker = new Worker(new URL("../model-thread.js", import.meta.url), { workerData, name: model.name });
    const thread = new ModelThread(worker, mailbox, (message) => this.answered(message), this.output);
    const result = await new Promise<FromThread>((resolve, reject) => {
      thread.loaded = resolve;
      worker.once("error", reject);
    });
    if (result.kind === "load-failed") {
      await thread.exited;
      throw new ServingError(result.code, result.message);
    }
    if (result.kind === "loaded") this.provider = result.provider;
    // An error outside a run is a bug; the server replaces the process and retries what was in it.
    worker.once("error", (error) => {
      this.output.log("error", `thread of model '${model.name}' ended: ${error.stack ?? error.message}`);
      process.exit(70);
    });
    this.threads.set(handle, thread);
  }

  async unload(handle: number): Promise<void> {
    const thread = this.threads.get(handle);
    if (thread === undefined) return;
    while (this.uses(handle)) await new Promise<void>((resolve) => this.idle.push(resolve));
    this.threads.delete(handle);
    thread.mailbox.post({ kind: "stop" });
    await thread.exited;
  }

  private uses(handle: number): boolean {
    return this.running?.handle === handle || this.waiting.some((job) => job.handle === handle);
  }

  time({ handle, batchSize: rows, extent, runs, variant }: TimeRequest): Promise<Timing> {
    return this.ask(handle, { kind: "time", rows, extent, runs, variant }, (message) =>
      message.kind === "timed" ? message.timing : null,
    );
  }

  /** Between batches, so that each runs with the tasks of before or of after. */
  bind(handle: number, tasks: readonly TaskBinding[]): Promise<void> {
    return this.ask(handle, { kind: "bind", tasks }, () => undefined);
  }

  trial(handle: number, trial: TaskTrial): Promise<TrialResult> {
    return this.ask(handle, { kind: "try", trial }, (message) => (message.kind === "tried" ? message.result : null));
  }

  /** Not a batch, but in its turn among them. @param read null: that is no answer to it. */
  private ask<T>(handle: number, question: ToThread, read: (message: FromThread) => T | null): Promise<T> {
    return new Promise((resolve, reject) => {
      this.enqueue({
        handle,
        batch: -1,
        start: (thread) => thread.mailbox.post(question),
        answer: (message) => {
          const value = read(message);
          if (value !== null) resolve(value);
        },
        fail: (error) => reject(new ServingError("invalid-argument", text(error))),
      });
    });
  }

  run(header: Buffer, payload: Buffer): void {
    const { slot, handle, batch } = decodeRoute(header);
    this.enqueue({
      handle,
      batch,
      // Payloads have memory of their own (FrameReader), so it can be handed over whole.
      start: (thread) => {
        this.isThreadWriting = this.output.isClear();
        thread.mailbox.run(header, payload, this.isThreadWriting);
      },
      answer: (message) => {
        if (message.kind === "finished") this.output.finished(slot, batch, message.header, message.parts);
      },
      fail: (error) => {
        const tell = () => this.output.failed(slot, batch, error);
        // The thread of the running job may be in the middle of a frame.
        if (this.isThreadWriting) this.afterAnswer.push(tell);
        else tell();
      },
    });
  }

  cancel(_slot: number, batch: number): boolean {
    const at = this.waiting.findIndex((job) => job.batch === batch);
    if (at < 0) return false;
    this.waiting.splice(at, 1);
    return true;
  }

  fault(_slot: number, fault: Fault): void {
    throw new ServingError("unimplemented", `fault '${fault.kind}' is for emulated accelerators; this one is real`);
  }

  async shutdown(): Promise<void> {
    while (this.running !== null || this.waiting.length > 0)
      await new Promise<void>((resolve) => this.idle.push(resolve));
    await Promise.all([...this.threads.keys()].map((handle) => this.unload(handle)));
  }

  private enqueue(job: Job): void {
    if (this.waiting.length >= WAITING_MAX)
      job.fail(new Error(`an accelerator holds at most ${WAITING_MAX} waiting batches`));
    else {
      this.waiting.push(job);
      this.next();
    }
  }

  private next(): void {
    while (this.running === null) {
      const job = this.waiting.shift();
      if (job === undefined) break;
      const thread = this.threads.get(job.handle);
      if (thread === undefined) job.fail(new Error("the model is not loaded on this worker"));
      else {
        this.running = job;
        job.start(thread);
      }
    }
  }

  private answered(message: FromThread): void {
    const job = this.running;
    if (job === null) return;
    this.running = null;
    this.isThreadWriting = false;
    for (const tell of this.afterAnswer.splice(0)) tell();
    // What there is to say comes before the next job's thread may write.
    if (message.kind === "failed") job.fail(new ServingError(message.code, message.message));
    else job.answer(message);
    this.next();
    const waiters = this.idle;
    this.idle = [];
    for (const wake of waiters) wake();
  }
}
