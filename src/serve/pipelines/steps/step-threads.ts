import { readFileSync } from "node:fs";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { alarmIn, pause, systemClock } from "../../../wire/clock/clock.js";
import { threadFile } from "../../../wire/thread-file.js";
import type { FromStepHost, StepHostData, ToStepHost } from "./step-frames.js";
import {
  type FromStepThread,
  type KeptSources,
  readFromThread,
  type StepThreadData,
  type ToStepThread,
  textOf,
} from "./step-protocol.js";
import { movable } from "./step-tensors.js";

/** Pause before a thread that could not load its steps again is started anew. */
const RESTART_US = 1_000_000;
/** Short-lived objects, beside the heap that the pipeline's owner allows. */
const YOUNG_MB = 32;
/** What a thread waits for before it loads a file: that it does is said. */
const HEARD = null;
/** A step file that never ends its loading must not keep its pipeline loading for ever. */
export const LOAD_US = 60_000_000;
/** A thread that is ended has this long to give its memory back before another takes its place. */
const END_US = 100_000;
/** Exit code of Node's where a module's await at its top never settles. */
const UNSETTLED = 13;

interface StepThread {
  readonly worker: Worker;
  /** Ours alone: steps may say to parentPort what they like. */
  readonly port: MessagePort;
  readonly life: number;
  /** Runs that it holds, in their order. */
  readonly runs: number[];
}

/** Worker threads, each with every step of the pipeline loaded. */
export class StepThreads {
  private readonly data: StepHostData;
  private readonly say: (message: FromStepHost) => void;
  /** Undefined: none is there at the moment. */
  private readonly held: (StepThread | undefined)[];
  private lives = 0;
  /** Told to end, and still there: code that nothing interrupts, such as a read that never returns. */
  private ending = 0;
  private isClosed = false;

  constructor(data: StepHostData, say: (message: FromStepHost) => void) {
    this.data = data;
    this.say = say;
    this.held = new Array<StepThread | undefined>(data.threads).fill(undefined);
  }

  /** Resolves when all are up. @throws Error naming the step that cannot be loaded, and why. */
  async start(): Promise<void> {
    await Promise.all(this.held.map((_, thread) => this.spawn(thread)));
  }

  /** What is for a thread that has ended is forgotten: that it has is on its way. */
  run({ thread, life, run, step, inputs, refused }: ToStepHost & { kind: "run" }): void {
    const held = this.held[thread];
    if (held?.life !== life) return;
    const { values, buffers } = movable(inputs);
    held.runs.push(run);
    const message: ToStepThread = { run, step, inputs: values, ...(refused === undefined ? {} : { refused }) };
    held.port.postMessage(message, buffers);
  }

  /** Ends the thread, whatever it does; another takes its place, soon even where this one cannot be ended. */
  replace(thread: number, life: number): void {
    const old = this.held[thread];
    if (old?.life !== life) return;
    this.held[thread] = undefined;
    this.ending++;
    const { threads } = this.data;
    if (this.ending > threads)
      this.say({ kind: "stuck", message: `more than ${threads} threads could not be ended (steps.threads)` });
    const ended = old.worker.terminate().then(() => {
      this.ending--;
    });
    void Promise.race([ended, pause(systemClock, END_US)]).then(() => this.respawn(thread));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all(this.held.splice(0).map((each) => each?.worker.terminate()));
  }

  /** Resolves when it has loaded the steps. @throws Error: why not. */
  private spawn(thread: number): Promise<void> {
    const { pipeline, steps, memoryMb } = this.data;
    const { port1: port, port2 } = new MessageChannel();
    const worker = new Worker(threadFile(import.meta.url, "./step-thread.js"), {
      workerData: { steps, port: port2, kept: this.changed() } satisfies StepThreadData,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: YOUNG_MB },
      name: `steps of ${pipeline}`,
    });
    const life = ++this.lives;
    const started: StepThread = { worker, port, life, runs: [] };
    this.held[thread] = started;
    let isReady = false;
    let loading = "a step";
    let why = "";
    let late: number | null = null;
    const end = (reason: string): void => {
      why ||= reason;
      void worker.terminate();
    };
    return new Promise((resolve, reject) => {
      const limit = alarmIn(systemClock, LOAD_US, () => end(`${loading} took more than ${LOAD_US / 1e6} s to load`));
      const hear = (said: unknown): void => {
        if (this.held[thread] !== started) return;
        const message = readFromThread(said);
        if (message === null || !isInTurn(message, started.runs)) end("said what no thread of steps says");
        else if (message.kind === "loading") {
          loading = `step '${steps[message.step]?.reference}'`;
          this.say(message);
          port.postMessage(HEARD);
        } else if (message.kind === "ending") late = message.step;
        else if (message.kind === "unloadable") end(message.message);
        else if (message.kind === "ready") {
          isReady = true;
          limit.clear();
          this.say({ kind: "up", thread, life });
          resolve();
        } else this.say({ ...message, thread, life });
      };
      port.on("message", hear);
      worker.on("error", (error) => {
        why ||= isReady ? reasonOf(error, memoryMb) : `${loading} ended its thread: ${reasonOf(error, memoryMb)}`;
      });
      worker.on("exit", (code) => {
        limit.clear();
        // What it said before it ended counts.
        for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
          hear(next.message);
        port.close();
        if (!isReady) reject(new Error(why || `${loading} ended its thread: ${exitOf(code)}`));
        else if (this.held[thread] === started) {
          this.held[thread] = undefined;
          const message = why || exitOf(code);
          this.say({ kind: "down", thread, life, message, ...(late === null ? {} : { late }) });
          this.respawn(thread);
        }
      });
    });
  }

  /** @returns what was loaded, where a file is not that any more: an edit is served when the pipeline is loaded again. */
  private changed(): KeptSources | null {
    const { sources } = this.data;
    const isSame = Object.entries(sources).every(([url, text]) => readSource(url) === text);
    if (isSame) return null;
    console.error("step files have changed since their pipeline was loaded: a thread that starts runs what was loaded");
    return sources;
  }

  private respawn(thread: number): void {
    if (this.isClosed) return;
    this.spawn(thread).catch((error: Error) => {
      if (this.isClosed) return;
      this.held[thread] = undefined;
      console.error(`a thread for steps could not be started: ${error.message}`);
      alarmIn(systemClock, RESTART_US, () => this.respawn(thread));
    });
  }
}

/** @returns null: it cannot be read. */
function readSource(url: string): string | null {
  try {
    return readFileSync(new URL(url), "utf8");
  } catch {
    return null;
  }
}

/** What ends a run ends the first that its thread holds. */
function isInTurn(message: FromStepThread, runs: number[]): boolean {
  return (message.kind !== "done" && message.kind !== "failed") || runs.shift() === message.run;
}

const exitOf = (code: number): string =>
  code === UNSETTLED ? `exit code ${code} (an await at the top of a module never settles)` : `exit code ${code}`;

function reasonOf(error: unknown, memoryMb: number): string {
  return (error as { code?: unknown } | null)?.code === "ERR_WORKER_OUT_OF_MEMORY"
    ? `needed more than ${memoryMb} MiB (steps.memory_mb)`
    : textOf(error);
}
