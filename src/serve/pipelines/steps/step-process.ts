import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, realpathSync } from "node:fs";
import type { Socket } from "node:net";
import path from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { PipelineSpec, StepSpec } from "../../../config/server/pipelines/served-pipeline.js";
import { timeUs } from "../../../core/time.js";
import { type Alarm, alarmIn, type Clock, pause } from "../../../wire/clock/clock.js";
import { FrameChannel } from "../../../wire/frame-channel.js";
import type { Frame } from "../../../wire/frames.js";
import { type ErrorCode, ServingError } from "../../../wire/serving-error.js";
import { threadFile } from "../../../wire/thread-file.js";
import type { Log } from "../../observation/log.js";
import { RestartPause } from "./restart-pause.js";
import {
  readFromHost,
  STEP_FD,
  STEP_FRAMES,
  type StepHostData,
  sayFrame,
  type ThreadEvent,
  type ToStepHost,
} from "./step-frames.js";
import { StepOutput } from "./step-output.js";
import type { StepEvent, StepPool, StepRun } from "./step-pool.js";
import type { KeptSources, StepFile } from "./step-protocol.js";
import { LOAD_US } from "./step-threads.js";

/** A process that does not say in this time what becomes of a thread is ended. */
const ANSWER_US = 5_000_000;
/** A process that was asked to end has so long. */
const END_US = 1_000_000;
/** Beyond what its threads have to load, for the process to come up. */
const START_US = LOAD_US + 10_000_000;
/** After the process is gone its pipes should close at once; one that somebody else holds open is not waited for. */
const CLOSE_WAIT_US = 500_000;

/** V8 aborts where a heap runs out within one allocation: no thread is told. */
const ABORTED: Readonly<Record<string, string>> = {
  SIGABRT: "as where one allocation is more than a heap holds (steps.memory_mb)",
  SIGTRAP: "as where one allocation is more than a heap holds (steps.memory_mb)",
  SIGKILL: "as where the system has no memory left, or by hand",
};

const SENSELESS = "it said what no process of steps says";

/** What becomes of one process. */
interface Life {
  readonly child: ChildProcess;
  readonly channel: FrameChannel;
  /** When its first thread was up; null: none was yet. */
  upAt: number | null;
  /** Until it must have said something. */
  readonly answer: Alarm;
  /** Why it was ended; "": it was not. */
  why: string;
  loading: number;
  /** Which thread is at each place; -1: none that takes runs. */
  readonly threads: number[];
  /** Runs that each holds, in their order. */
  readonly runs: number[][];
  readonly gone: Promise<void>;
}

/** The steps of one pipeline in a process of their own, which takes nobody with it; another takes its place. */
export class StepProcess implements StepPool {
  readonly threads: number;
  private readonly data: StepHostData;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly output: StepOutput;
  /** Null: none is there at the moment. */
  private life: Life | null = null;
  private readonly pause = new RestartPause();
  private emit: (event: StepEvent) => void = () => {};
  /** Of the first process; afterwards nobody waits. */
  private first: { resolve(): void; reject(error: ServingError): void } | null = null;
  private isClosed = false;

  constructor({ client, steps: limits }: PipelineSpec, steps: readonly StepSpec[], clock: Clock, log: Log) {
    const { threads, memoryMb } = limits;
    this.threads = threads;
    this.clock = clock;
    this.log = log;
    this.output = new StepOutput(client.name, clock, log);
    const files = steps.map(({ file, name, reference, outputs }) => ({
      url: urlOf(client.folder, file),
      name,
      reference,
      outputs,
    }));
    this.data = { pipeline: client.name, threads, memoryMb, steps: files, sources: sourcesOf(files) };
  }

  async start(onEvent: (event: StepEvent) => void): Promise<void> {
    this.emit = onEvent;
    try {
      await new Promise<void>((resolve, reject) => {
        this.first = { resolve, reject };
        this.spawn();
      });
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  run(thread: number, run: StepRun): void {
    const { channel, threads, runs } = this.life!;
    runs[thread]!.push(run.run);
    const message: ToStepHost = { kind: "run", thread, life: threads[thread]!, ...run };
    try {
      sayFrame(channel, message);
    } catch (error) {
      // It fails in its turn, behind what the thread holds.
      sayFrame(channel, { ...message, inputs: [], refused: ServingError.from(error).message });
    }
  }

  replace(thread: number): void {
    const { life } = this;
    if (life === null) return;
    sayFrame(life.channel, { kind: "replace", thread, life: life.threads[thread]! });
    life.threads[thread] = -1;
    life.answer.set(timeUs(this.clock.now() + ANSWER_US));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.output.close();
    const { life } = this;
    if (life === null) return;
    sayFrame(life.channel, { kind: "end" });
    await Promise.race([life.gone, pause(this.clock, END_US)]);
    kill(life, "closed");
    await Promise.race([life.gone, pause(this.clock, END_US)]);
  }

  private spawn(): void {
    const entry = fileURLToPath(threadFile(import.meta.url, "./step-host.js"));
    const child = spawn(process.execPath, [entry], { stdio: ["ignore", "pipe", "pipe", "pipe"] });
    const socket = (child.stdio as unknown as readonly Socket[] | undefined)?.[STEP_FD];
    if (socket === undefined || socket === null) {
      // Node gives up before there are pipes when it has no file descriptor for them; the error event comes later.
      child.once("error", () => {});
      this.none("unavailable", "steps need a process with pipes, and no file descriptor is left (ulimit -n)");
      return;
    }
    let isGone = (): void => {};
    const gone = new Promise<void>((resolve) => {
      isGone = resolve;
    });
    const channel = FrameChannel.over(
      socket,
      {
        onFrame: (frame) => this.hear(life, frame),
        onClose: (error) => kill(life, error === null ? "" : `its channel broke: ${error.message}`),
      },
      STEP_FRAMES,
    );
    const answer = alarmIn(this.clock, START_US, () => kill(life, "it did not answer"));
    const threads = new Array<number>(this.threads).fill(-1);
    const runs = threads.map((): number[] => []);
    const life: Life = { child, channel, upAt: null, answer, why: "", loading: -1, threads, runs, gone };
    this.life = life;
    this.output.follow(child.stdout as Readable, "info");
    this.output.follow(child.stderr as Readable, "warn");
    let hasEnded = false;
    const ended = (why: string): void => {
      if (hasEnded) return;
      hasEnded = true;
      this.ended(life, why);
      isGone();
    };
    child.once("error", (error) => ended(`cannot start: ${error.message}`));
    child.once("exit", (code, signal) => {
      const hint = signal === null ? undefined : ABORTED[signal];
      const exit = signal === null ? `exit code ${code}` : `signal ${signal}${hint === undefined ? "" : `, ${hint}`}`;
      const wait = alarmIn(this.clock, CLOSE_WAIT_US, () => ended(exit));
      child.once("close", () => {
        wait.clear();
        ended(exit);
      });
    });
    sayFrame(channel, { kind: "start", ...this.data });
  }

  private hear(life: Life, frame: Frame): void {
    if (this.life !== life || this.isClosed || life.why !== "") return;
    const message = readFromHost(frame, this.threads);
    if (message === null) {
      kill(life, SENSELESS);
      return;
    }
    if (message.kind !== "loading") life.answer.clear();
    switch (message.kind) {
      case "loading":
        life.loading = message.step;
        break;
      case "started":
        this.first?.resolve();
        this.first = null;
        break;
      case "unloadable":
      case "stuck":
        kill(life, message.message);
        break;
      case "replacing":
        break;
      default:
        this.heardOf(life, message);
    }
  }

  private heardOf(life: Life, { life: number, ...event }: ThreadEvent & { readonly life: number }): void {
    const { threads, runs } = life;
    const { thread, kind } = event;
    const isUp = kind === "up";
    if (!isUp && threads[thread] !== number) return;
    const isEnd = kind === "done" || kind === "failed";
    if (isUp ? threads[thread] !== -1 : isEnd && runs[thread]!.shift() !== event.run) {
      kill(life, SENSELESS);
      return;
    }
    if (isUp) life.upAt ??= this.clock.now();
    if (isUp || kind === "down") {
      threads[thread] = isUp ? number : -1;
      runs[thread] = [];
    }
    this.emit(event as ThreadEvent);
  }

  /** What ran in it has failed; another takes its place after a while. */
  private ended(life: Life, exit: string): void {
    life.answer.clear();
    life.channel.destroy();
    if (this.life !== life) return;
    this.life = null;
    if (this.isClosed) return;
    const step = this.data.steps[life.loading]?.reference;
    if (this.first !== null) {
      this.none("invalid-argument", life.why || `step '${step}' ended its process: ${exit}`);
      return;
    }
    const message = `the process of the pipeline's steps ended: ${life.why || exit}`;
    const threads = [...life.threads.keys()].filter((thread) => life.threads[thread]! >= 0);
    this.emit({ kind: "gone", threads, message });
    this.restart(life.upAt, message);
  }

  private none(code: ErrorCode, why: string): void {
    if (this.first === null) {
      this.restart(null, why);
      return;
    }
    this.first.reject(new ServingError(code, why));
    this.first = null;
  }

  private restart(upAt: number | null, because: string): void {
    const us = this.pause.after(upAt === null ? 0 : this.clock.now() - upAt);
    this.log.error(
      { pipeline: this.data.pipeline, because, pauseMs: us / 1000 },
      "a process of steps is started again",
    );
    alarmIn(this.clock, us, () => {
      if (!this.isClosed) this.spawn();
    }).unref();
  }
}

/** Of those that Node takes for ES modules whatever lies beside them. */
function sourcesOf(files: readonly StepFile[]): KeptSources {
  const sources: Record<string, string> = {};
  for (const { url } of files) {
    if (!url.endsWith(".mjs")) continue;
    try {
      sources[url] = readFileSync(new URL(url), "utf8");
    } catch {
      // Who loads it says what is wrong with it.
    }
  }
  return sources;
}

/** Where links lead, as Node has it. */
function urlOf(folder: string, file: string): string {
  const found = path.join(folder, file);
  try {
    return pathToFileURL(realpathSync(found)).href;
  } catch {
    return pathToFileURL(found).href;
  }
}

/** @param why what is told to whoever waits for it. */
function kill(life: Life, why: string): void {
  life.why ||= why;
  const { child } = life;
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
}
