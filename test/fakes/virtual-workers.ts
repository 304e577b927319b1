/**
 * Worker processes that are none, in virtual time, with faults by seed. They keep the promises of a real one: a cancel
 * may overtake a run, what was sent before the end is delivered, and the end is told once.
 */
import type { ModelSpec } from "../../src/config/model.js";
import { invariant } from "../../src/core/invariant.js";
import { durationUs, timeUs } from "../../src/core/time.js";
import type {
  Hello,
  Request,
  WorkerLink,
  WorkerProcessHandlers,
} from "../../src/serve/workers/seats/worker-process.js";
import type { WorkerSource } from "../../src/serve/workers/seats/worker-source.js";
import type { Uniform } from "../../src/sim/random.js";
import { ServingError } from "../../src/wire/serving-error.js";
import type { RunRecord } from "../../src/wire/worker-protocol.js";
import type { VirtualClock } from "../support/virtual-clock.js";

/** What may go wrong, each with its probability where there is one. */
export interface WorkerFaults {
  /** Of a start: no process can be had; it ends before it is ready; it never says that it is. */
  noProcess: number;
  diesStarting: number;
  neverReady: number;
  /** Of a load. */
  refusesLoad: number;
  diesLoading: number;
  neverLoads: number;
  /** Of a run. */
  diesRunning: number;
  hangs: number;
  refusesRun: number;
  /** A run takes so many times as long. */
  late: number;
  lateFactor: number;
  /** An answer that was on its way when its process was declared dead is told all the same. */
  answersAfterDeath: number;
}

export const NO_FAULTS: WorkerFaults = {
  noProcess: 0,
  diesStarting: 0,
  neverReady: 0,
  refusesLoad: 0,
  diesLoading: 0,
  neverLoads: 0,
  diesRunning: 0,
  hangs: 0,
  refusesRun: 0,
  late: 0,
  lateFactor: 1,
  answersAfterDeath: 0,
};

/** What a request does to whoever runs it, by the millions of its first value: see `poisonOf`. */
const POISONS = ["none", "refused", "kills", "hangs"] as const;
export type Poison = (typeof POISONS)[number];
export const poisoned = (id: number, poison: Poison): number => POISONS.indexOf(poison) * 1_000_000 + id;

export class VirtualWorkers implements WorkerSource {
  faults: WorkerFaults = NO_FAULTS;
  readonly live = new Set<VirtualWorker>();
  /** Answers that a live process gave. */
  finished = 0;
  private hasEnded = false;

  constructor(
    readonly clock: VirtualClock,
    readonly draw: Uniform,
    /** Time of a batch on an accelerator of scale 1, µs. */
    readonly execUs: (model: ModelSpec, size: number) => number,
  ) {}

  start(hello: Hello, handlers: WorkerProcessHandlers): WorkerLink {
    invariant(!this.hasEnded, "no worker starts after the pool has ended");
    if (this.happens("noProcess")) throw new ServingError("unavailable", "no process by the test");
    const worker = new VirtualWorker(this, hello, handlers);
    this.live.add(worker);
    return worker;
  }

  changed(): void {}

  end(): void {
    invariant(this.live.size === 0, "the pool ends after its processes");
    this.hasEnded = true;
  }

  happens(fault: keyof WorkerFaults): boolean {
    return this.draw() < this.faults[fault];
  }

  between(fromUs: number, toUs: number): number {
    return Math.floor(fromUs + this.draw() * (toUs - fromUs));
  }
}

interface Lane {
  readonly waiting: RunRecord[];
  running: { readonly record: RunRecord; readonly startedAt: number } | null;
  readonly scale: number;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: ServingError): void;
}

export class VirtualWorker implements WorkerLink {
  /** None: whoever ends processes must find none. */
  readonly pid = 0;
  readonly ready: WorkerLink["ready"];
  private readonly lanes: readonly Lane[];
  private readonly models = new Map<number, ModelSpec>();
  private readonly requests = new Set<Waiting>();
  /** Batches that were cancelled before they arrived. */
  private readonly cancelled = new Set<number>();
  private tensorsAt = 0;
  private endedFor: string | null = null;
  private isGone = false;
  private isEnding = false;

  constructor(
    private readonly workers: VirtualWorkers,
    hello: Hello,
    private readonly handlers: WorkerProcessHandlers,
  ) {
    this.lanes = hello.scales.map((scale) => ({ waiting: [], running: null, scale }));
    this.ready = this.answer(2000, 60_000, "neverReady", "diesStarting", () => ({
      kind: "ready" as const,
      pid: 0,
      runtime: "virtual",
      provider: "virtual",
    }));
    this.ready.catch(() => {});
  }

  request(message: Request): Promise<unknown> {
    if (this.isGone) return Promise.reject(this.lost());
    switch (message.kind) {
      case "load":
        if (this.workers.happens("refusesLoad"))
          return this.answer(500, 20_000, null, null, () => new ServingError("internal", "load refused by the test"));
        return this.answer(500, 80_000, "neverLoads", "diesLoading", () => {
          this.models.set(message.handle, message.model);
          return null;
        });
      case "unload":
        return this.answer(20, 2000, null, null, () => {
          this.models.delete(message.handle);
          return null;
        });
      case "cancel":
        return this.answer(20, 300, null, null, () => this.cancel(message.slot, message.batch));
      default:
        throw new Error(`no ${message.kind} in virtual time`);
    }
  }

  run(record: RunRecord): void {
    invariant(record.members.length > 0 && record.members.every((member) => member.length > 0), "members have inputs");
    // In order, as frames of one channel are; a worker that is gone hears nothing.
    this.tensorsAt = Math.max(this.tensorsAt, this.workers.clock.now() + this.workers.between(20, 400));
    this.later(this.tensorsAt - this.workers.clock.now(), () => {
      if (this.cancelled.delete(record.batch)) return;
      const lane = this.lanes[record.slot]!;
      invariant(
        lane.waiting.length + (lane.running === null ? 0 : 1) < 2,
        `accelerator ${record.slot} holds two batches`,
      );
      lane.waiting.push(record);
      this.pump(lane);
    });
  }

  shutdown(): void {
    this.isEnding = true;
    this.later(this.workers.between(20, 500), () => this.endIfIdle());
  }

  kill(reason: string | null = null): void {
    this.endedFor ??= reason;
    this.later(this.workers.between(50, 3000), () =>
      this.end(this.endedFor ?? "signal SIGKILL", this.endedFor !== null),
    );
  }

  /** Somebody or something ends the process. */
  end(reason: string, isOurs = false, isFromOutside = false): void {
    if (this.isGone) return;
    this.isGone = true;
    this.workers.live.delete(this);
    for (const request of this.requests) request.reject(this.lost());
    this.requests.clear();
    this.handlers.onExit({ reason, isOurs, isFromOutside });
  }

  private answer<T>(
    fromUs: number,
    toUs: number,
    never: keyof WorkerFaults | null,
    dies: keyof WorkerFaults | null,
    value: () => T | ServingError,
  ): Promise<T> {
    const { workers } = this;
    return new Promise((resolve, reject) => {
      const waiting = { resolve: resolve as (value: unknown) => void, reject };
      this.requests.add(waiting);
      if (never !== null && workers.happens(never)) return;
      this.later(workers.between(fromUs, toUs), () => {
        if (dies !== null && workers.happens(dies)) return this.end("exit code 1");
        this.requests.delete(waiting);
        const answer = value();
        if (answer instanceof ServingError) reject(answer);
        else resolve(answer);
      });
    });
  }

  private cancel(slot: number, batch: number): boolean {
    const { waiting, running } = this.lanes[slot]!;
    if (running?.record.batch === batch) return false;
    const at = waiting.findIndex((record) => record.batch === batch);
    if (at >= 0) waiting.splice(at, 1);
    else this.cancelled.add(batch);
    return true;
  }

  private pump(lane: Lane): void {
    const record = lane.running === null ? lane.waiting.shift() : undefined;
    if (record === undefined) return;
    const { workers } = this;
    const now = workers.clock.now();
    const startedAt = Math.max(now, record.earliestStartAt);
    lane.running = { record, startedAt };
    const model = this.models.get(record.handle);
    if (model === undefined) {
      this.later(20, () => this.done(lane, "the model is not loaded"));
      return;
    }
    const poison = poisonOf(record);
    if (poison === "hangs" || workers.happens("hangs")) return;
    const factor = workers.happens("late") ? workers.faults.lateFactor : 0.9 + 0.2 * workers.draw();
    const execUs = Math.max(1, Math.round(workers.execUs(model, record.members.length) * lane.scale * factor));
    const dies = poison === "kills" || workers.happens("diesRunning");
    const isRefused = poison === "refused" || workers.happens("refusesRun");
    this.later(startedAt - now + (dies ? execUs / 2 : execUs), () => {
      if (dies) this.end("signal SIGSEGV");
      else this.done(lane, isRefused ? "refused by the test" : null);
    });
  }

  private done(lane: Lane, failure: string | null): void {
    const { workers } = this;
    const { record, startedAt } = lane.running!;
    const { slot, batch, members } = record;
    lane.running = null;
    const finishedAt = Math.max(startedAt + 1, workers.clock.now());
    // What was sent is delivered before the end is told, or, by a fault, after it.
    const isTold = workers.happens("answersAfterDeath");
    workers.clock.in(workers.between(20, 300), () => {
      if (this.isGone && !isTold) return;
      if (failure !== null) {
        this.handlers.onFailed({ slot, batch, cause: "model-error", code: "internal", message: failure });
        return;
      }
      if (!this.isGone) workers.finished++;
      this.handlers.onFinished({
        slot,
        batch,
        startedAt: timeUs(startedAt),
        finishedAt: timeUs(finishedAt),
        inputUs: durationUs(1),
        outputUs: durationUs(1),
        // Each answer is its own input under the output's name.
        outputs: members.map((member) => [{ ...member[0]!, name: "y" }]),
      });
    });
    this.pump(lane);
    this.endIfIdle();
  }

  private endIfIdle(): void {
    if (this.isEnding && this.lanes.every(({ waiting, running }) => running === null && waiting.length === 0))
      this.later(400, () => this.end("exit code 0"));
  }

  private later(us: number, call: () => void): void {
    this.workers.clock.in(us, () => {
      if (!this.isGone) call();
    });
  }

  private lost(): ServingError {
    return new ServingError("unavailable", "worker process ended by the test", { reason: "worker-crashed" });
  }
}

/** The worst of its members'. */
function poisonOf({ members }: RunRecord): Poison {
  let worst = 0;
  for (const [input] of members) {
    const { data } = input!;
    const value = new DataView(data.buffer, data.byteOffset, data.byteLength).getFloat32(0, true);
    worst = Math.max(worst, Math.floor(value / 1_000_000));
  }
  return POISONS[worst]!;
}
