/** Threads for steps in virtual time: each run takes exactly the time that its step declares, and gives its first input back. */
import type { StepSpec } from "../../src/config/server/pipelines/served-pipeline.js";
import type { StepEvent, StepPool, StepRun } from "../../src/serve/pipelines/steps/step-pool.js";
import type { VirtualClock } from "../support/virtual-clock.js";

export class VirtualSteps implements StepPool {
  readonly threads: number;
  private readonly steps: readonly StepSpec[];
  private readonly clock: VirtualClock;
  /** What becomes of a run. */
  private readonly fate: () => StepFate;
  /** By thread: how often it was replaced, and when it is free. */
  private readonly lives: number[];
  private readonly freeAt: number[];
  /** Of runs that end at one moment: told in one tick. */
  private readonly ends = new Map<number, { readonly thread: number; readonly end: () => void }[]>();
  private emit: (event: StepEvent) => void = () => {};
  private isClosed = false;

  /** @param fate of each run. Default: it ends well. */
  constructor(threads: number, steps: readonly StepSpec[], clock: VirtualClock, fate: () => StepFate = () => "ends") {
    this.threads = threads;
    this.steps = steps;
    this.clock = clock;
    this.fate = fate;
    this.lives = new Array<number>(threads).fill(0);
    this.freeAt = new Array<number>(threads).fill(0);
  }

  async start(onEvent: (event: StepEvent) => void): Promise<void> {
    this.emit = onEvent;
    for (let thread = 0; thread < this.threads; thread++) this.emit({ kind: "up", thread });
  }

  run(thread: number, { run, step, inputs }: StepRun): void {
    const fate = this.fate();
    const { outputs, timeUs } = this.steps[step]!;
    if (timeUs === null) throw new Error("a step in virtual time must say what it takes (time_ms)");
    const startedAt = Math.max(this.clock.now(), this.freeAt[thread]!);
    const finishedAt = startedAt + timeUs;
    this.freeAt[thread] = fate === "hangs" ? Number.POSITIVE_INFINITY : finishedAt;
    if (this.freeAt[thread] === Number.POSITIVE_INFINITY) return;
    const life = this.lives[thread];
    this.at(finishedAt, thread, () => {
      if (this.isClosed || this.lives[thread] !== life) return;
      if (fate === "throws") this.emit({ kind: "failed", thread, run, code: "internal", message: "thrown" });
      else if (fate === "dies") this.die(thread);
      else if (fate === "ends-process") this.goAll(RESTART_US);
      else if (fate === "is-gone") this.goAll(GONE_US);
      else {
        const values = outputs.map(({ name }) => ({ name, value: inputs[0]!.value }));
        this.emit({ kind: "done", thread, run, startedAt, finishedAt, outputs: values });
      }
    });
  }

  private at(moment: number, thread: number, end: () => void): void {
    const others = this.ends.get(moment);
    if (others !== undefined) {
      others.push({ thread, end });
      return;
    }
    this.ends.set(moment, [{ thread, end }]);
    this.clock.in(moment - this.clock.now(), () => {
      const all = this.ends.get(moment)!.sort((a, b) => a.thread - b.thread);
      this.ends.delete(moment);
      for (const each of all) each.end();
    });
  }

  private die(thread: number): void {
    this.end(thread);
    this.emit({ kind: "down", thread, message: "died" });
  }

  /** All threads at once. */
  private goAll(us: number): void {
    const threads = [...this.lives.keys()];
    for (const thread of threads) this.end(thread, us);
    this.emit({ kind: "gone", threads, message: "the process of the pipeline's steps ended: exit code 1" });
  }

  replace(thread: number): void {
    this.end(thread);
  }

  /** Another takes its place after a while. */
  private end(thread: number, us = RESTART_US): void {
    const life = ++this.lives[thread]!;
    this.freeAt[thread] = 0;
    this.clock.in(us, () => {
      if (!this.isClosed && this.lives[thread] === life) this.emit({ kind: "up", thread });
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

/** Of what ends the whole process, `is-gone` for seconds. */
export type StepFate = "ends" | "throws" | "dies" | "ends-process" | "is-gone" | "hangs";

const RESTART_US = 20_000;
const GONE_US = 3_000_000;
