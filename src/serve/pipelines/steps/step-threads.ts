import path from "node:path";
import { pathToFileURL } from "node:url";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { PipelineSpec, StepSpec } from "../../../config/server/pipelines/served-pipeline.js";
import { alarmIn, type Clock } from "../../../wire/clock/clock.js";
import { ServingError } from "../../../wire/serving-error.js";
import { threadFile } from "../../../wire/thread-file.js";
import type { Log } from "../../observation/log.js";
import { forEachLine } from "../../workers/line-log.js";
import type { StepEvent, StepPool, StepRun } from "./step-pool.js";
import {
  type FromStepThread,
  readFromThread,
  type StepFile,
  type StepThreadData,
  type ToStepThread,
} from "./step-protocol.js";
import { movable } from "./step-tensors.js";

/** Pause before a thread that could not load its steps again is started anew. */
const RESTART_US = 1_000_000;
/** Short-lived objects, beside the heap that the pipeline's owner allows. */
const YOUNG_MB = 32;
/** A step file that never ends its loading must not keep its pipeline loading for ever. */
const LOAD_US = 60_000_000;

/** Exit code of Node's where a module's await at its top never settles. */
const UNSETTLED = 13;

interface StepThread {
  readonly worker: Worker;
  /** Ours alone: steps may say to parentPort what they like. */
  readonly port: MessagePort;
  /** Runs that it holds, in their order. */
  readonly runs: number[];
}

/** Worker threads, each with every step of the pipeline loaded. */
export class StepThreads implements StepPool {
  readonly threads: number;
  private readonly name: string;
  private readonly steps: readonly StepFile[];
  private readonly memoryMb: number;
  private readonly clock: Clock;
  private readonly log: Log;
  /** Undefined: none is there at the moment. */
  private readonly held: (StepThread | undefined)[];
  private emit: (event: StepEvent) => void = () => {};
  private isClosed = false;

  constructor(
    { client, steps: { threads, memoryMb } }: PipelineSpec,
    steps: readonly StepSpec[],
    clock: Clock,
    log: Log,
  ) {
    this.threads = threads;
    this.name = client.name;
    this.memoryMb = memoryMb;
    this.clock = clock;
    this.log = log;
    this.steps = steps.map(({ file, name, reference, outputs }) => ({
      url: pathToFileURL(path.join(client.folder, file)).href,
      name,
      reference,
      outputs,
    }));
    this.held = new Array<StepThread | undefined>(threads).fill(undefined);
  }

  async start(onEvent: (event: StepEvent) => void): Promise<void> {
    this.emit = onEvent;
    try {
      await Promise.all(this.held.map((_, thread) => this.spawn(thread)));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  run(thread: number, { run, step, inputs }: StepRun): void {
    const { values, buffers } = movable(inputs);
    const { port, runs } = this.held[thread]!;
    runs.push(run);
    port.postMessage({ run, step, inputs: values } satisfies ToStepThread, buffers);
  }

  replace(thread: number): void {
    const old = this.held[thread];
    this.held[thread] = undefined;
    void old?.worker.terminate().then(() => this.respawn(thread));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const all = this.held.splice(0);
    await Promise.all(all.map((each) => each?.worker.terminate()));
  }

  /** Resolves when it has loaded the steps. @throws ServingError invalid-argument: why not. */
  private spawn(thread: number): Promise<void> {
    const { port1: port, port2 } = new MessageChannel();
    const worker = new Worker(threadFile(import.meta.url, "./step-thread.js"), {
      workerData: { steps: this.steps, port: port2 } satisfies StepThreadData,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: this.memoryMb, maxYoungGenerationSizeMb: YOUNG_MB },
      name: `steps of ${this.name}`,
      stdout: true,
      stderr: true,
    });
    const started: StepThread = { worker, port, runs: [] };
    this.held[thread] = started;
    forEachLine(worker.stdout, (line) => this.log.info({ pipeline: this.name }, line));
    forEachLine(worker.stderr, (line) => this.log.warn({ pipeline: this.name }, line));
    let isReady = false;
    let loading = "a step";
    let why = "";
    const end = (reason: string): void => {
      why ||= reason;
      void worker.terminate();
    };
    return new Promise((resolve, reject) => {
      const limit = alarmIn(this.clock, LOAD_US, () => end(`${loading} took more than ${LOAD_US / 1e6} s to load`));
      const hear = (said: unknown): void => {
        if (this.held[thread] !== started) return;
        const message = readFromThread(said);
        if (message === null || !isInTurn(message, started.runs)) end("said what no thread of steps says");
        else if (message.kind === "loading") loading = `step '${this.steps[message.step]?.reference}'`;
        else if (message.kind === "unloadable") end(message.message);
        else if (message.kind === "ready") {
          isReady = true;
          limit.clear();
          this.emit({ kind: "up", thread });
          resolve();
        } else this.emit({ ...message, thread });
      };
      port.on("message", hear);
      worker.on("error", (error) => {
        why ||= reasonOf(error, this.memoryMb);
        if (!isReady && !why.startsWith("step '")) why = `${loading} ended its thread: ${why}`;
      });
      worker.on("exit", (code) => {
        limit.clear();
        // What it said before it ended counts.
        for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
          hear(next.message);
        port.close();
        if (!isReady)
          reject(new ServingError("invalid-argument", why || `${loading} ended its thread: ${exitOf(code)}`));
        else if (this.held[thread] === started) {
          this.held[thread] = undefined;
          this.emit({ kind: "down", thread, message: why || exitOf(code) });
          this.respawn(thread);
        }
      });
    });
  }

  private respawn(thread: number): void {
    if (this.isClosed) return;
    this.spawn(thread).catch((error: Error) => {
      if (this.isClosed) return;
      this.held[thread] = undefined;
      this.log.error({ pipeline: this.name, err: error }, "a thread for steps could not be started");
      alarmIn(this.clock, RESTART_US, () => this.respawn(thread)).unref();
    });
  }
}

/** What ends a run ends the first that its thread holds. */
function isInTurn(message: FromStepThread, runs: number[]): boolean {
  return (message.kind !== "done" && message.kind !== "failed") || runs.shift() === message.run;
}

const exitOf = (code: number): string =>
  code === UNSETTLED ? `exit code ${code} (an await at the top of a module never settles)` : `exit code ${code}`;

function reasonOf(error: Error & { code?: string }, memoryMb: number): string {
  return error.code === "ERR_WORKER_OUT_OF_MEMORY"
    ? `needed more than ${memoryMb} MiB (steps.memory_mb)`
    : error.message;
}
