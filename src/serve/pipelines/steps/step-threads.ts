import path from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { PipelineSpec, StepSpec } from "../../../config/server/pipelines/served-pipeline.js";
import { alarmIn, type Clock } from "../../../wire/clock/clock.js";
import { ServingError } from "../../../wire/serving-error.js";
import { threadFile } from "../../../wire/thread-file.js";
import type { Log } from "../../observation/log.js";
import { forEachLine } from "../../workers/line-log.js";
import type { StepEvent, StepPool, StepRun } from "./step-pool.js";
import type { FromStepThread, StepThreadData, ToStepThread } from "./step-protocol.js";
import { movable } from "./step-tensors.js";

/** Pause before a thread that could not load its steps again is started anew. */
const RESTART_US = 1_000_000;
/** Short-lived objects, beside the heap that the pipeline's owner allows. */
const YOUNG_MB = 32;
/** A step file that never ends its loading must not keep its pipeline loading for ever. */
const LOAD_US = 60_000_000;

/** Worker threads, each with every step of the pipeline loaded. */
export class StepThreads implements StepPool {
  readonly threads: number;
  private readonly name: string;
  private readonly data: StepThreadData;
  private readonly memoryMb: number;
  private readonly clock: Clock;
  private readonly log: Log;
  /** Undefined: none is there at the moment. */
  private readonly workers: (Worker | undefined)[];
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
    this.data = {
      steps: steps.map(({ file, name, reference, outputs }) => ({
        url: pathToFileURL(path.join(client.folder, file)).href,
        name,
        reference,
        outputs,
      })),
    };
    this.workers = new Array<Worker | undefined>(threads).fill(undefined);
  }

  async start(onEvent: (event: StepEvent) => void): Promise<void> {
    this.emit = onEvent;
    try {
      await Promise.all(this.workers.map((_, thread) => this.spawn(thread)));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  run(thread: number, { run, step, inputs }: StepRun): void {
    const { values, buffers } = movable(inputs);
    this.workers[thread]!.postMessage({ run, step, inputs: values } satisfies ToStepThread, buffers);
  }

  replace(thread: number): void {
    const worker = this.workers[thread];
    this.workers[thread] = undefined;
    void worker?.terminate().then(() => this.respawn(thread));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const workers = this.workers.splice(0);
    await Promise.all(workers.map((worker) => worker?.terminate()));
  }

  /** Resolves when it has loaded the steps. @throws ServingError invalid-argument: why not. */
  private spawn(thread: number): Promise<void> {
    const worker = new Worker(threadFile(import.meta.url, "./step-thread.js"), {
      workerData: this.data,
      resourceLimits: { maxOldGenerationSizeMb: this.memoryMb, maxYoungGenerationSizeMb: YOUNG_MB },
      name: `steps of ${this.name}`,
      stdout: true,
      stderr: true,
    });
    this.workers[thread] = worker;
    forEachLine(worker.stdout, (line) => this.log.info({ pipeline: this.name }, line));
    forEachLine(worker.stderr, (line) => this.log.warn({ pipeline: this.name }, line));
    let isReady = false;
    let why = "";
    return new Promise((resolve, reject) => {
      const limit = alarmIn(this.clock, LOAD_US, () => {
        why = `a step took more than ${LOAD_US / 1e6} s to load`;
        void worker.terminate();
      });
      worker.on("error", (error) => {
        why = reasonOf(error, this.memoryMb);
      });
      worker.on("exit", (code) => {
        limit.clear();
        if (!isReady)
          reject(new ServingError("invalid-argument", why || `a step ended its thread (exit code ${code})`));
        else if (this.workers[thread] === worker) {
          this.workers[thread] = undefined;
          this.emit({ kind: "down", thread, message: why || `exit code ${code}` });
          this.respawn(thread);
        }
      });
      worker.on("message", (message: FromStepThread) => {
        if (this.workers[thread] !== worker) return;
        if (message.kind === "ready") {
          isReady = true;
          limit.clear();
          this.emit({ kind: "up", thread });
          resolve();
        } else if (message.kind === "unloadable") {
          why = message.message;
          void worker.terminate();
        } else this.emit({ ...message, thread });
      });
    });
  }

  private respawn(thread: number): void {
    if (this.isClosed) return;
    this.spawn(thread).catch((error: Error) => {
      if (this.isClosed) return;
      this.workers[thread] = undefined;
      this.log.error({ pipeline: this.name, err: error }, "a thread for steps could not be started");
      alarmIn(this.clock, RESTART_US, () => this.respawn(thread)).unref();
    });
  }
}

function reasonOf(error: Error & { code?: string }, memoryMb: number): string {
  return error.code === "ERR_WORKER_OUT_OF_MEMORY"
    ? `needed more than ${memoryMb} MiB (steps.memory_mb)`
    : error.message;
}
