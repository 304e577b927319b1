/**
 * Accelerators on timers of this process. It asserts the pool's protocol: at most two batches on an accelerator, no
 * batch on one that left, every batch answered once.
 */
import type { TrialResult } from "../../src/config/elastic.js";
import { type AcceleratorGroupSpec, type ModelSpec, startCount } from "../../src/config/model.js";
import { invariant } from "../../src/core/invariant.js";
import type { FailCause } from "../../src/core/outcome.js";
import { durationUs, timeUs } from "../../src/core/time.js";
import type { BatchTiming, Confinement, PoolEvent, RunBatch, WorkerPool } from "../../src/serve/workers/worker-pool.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import type { ErrorCode } from "../../src/wire/serving-error.js";

interface Lane {
  readonly waiting: RunBatch[];
  running: RunBatch | null;
  startedAt: number;
  timer: NodeJS.Timeout | null;
  isUp: boolean;
  isWanted: boolean;
  /** Runs take this many ms more. */
  stallMs: number;
}

export interface FakeRun {
  readonly accelerator: number;
  readonly batch: RunBatch;
  readonly startedAt: number;
}

export class FakePool implements WorkerPool {
  readonly runs: FakeRun[] = [];
  /** Fails a batch instead of finishing it. */
  failure: (batch: RunBatch) => { cause: FailCause; code?: ErrorCode; message: string } | null = () => null;
  loadError: Error | null = null;
  loads = 0;
  private readonly lanes: Lane[];
  private readonly scales: number[];
  /** What is loaded, one entry per load. */
  private models: ModelSpec[] = [];
  private emit: (event: PoolEvent) => void = () => {};

  constructor(
    readonly groups: readonly AcceleratorGroupSpec[],
    private readonly execMs: (batch: RunBatch) => number,
  ) {
    this.scales = groups.flatMap((group) => [...group.scales]);
    this.lanes = this.scales.map(() => ({
      waiting: [],
      running: null,
      startedAt: 0,
      timer: null,
      isUp: false,
      isWanted: true,
      stallMs: 0,
    }));
  }

  async start(onEvent: (event: PoolEvent) => void): Promise<void> {
    this.emit = onEvent;
    let accelerator = 0;
    for (const group of this.groups) {
      const start = startCount(group);
      for (let i = 0; i < group.count; i++, accelerator++) {
        this.lanes[accelerator]!.isWanted = i < start;
        if (i < start) this.join(accelerator);
      }
    }
  }

  async load(model: ModelSpec): Promise<void> {
    this.loads++;
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (this.loadError !== null) throw this.loadError;
    this.models.push(model);
  }

  cancel(): Promise<boolean> {
    return Promise.resolve(false);
  }

  loadBeside(model: ModelSpec): Promise<void> {
    return this.load(model);
  }

  async release(model: ModelSpec): Promise<void> {
    const at = this.models.indexOf(model);
    invariant(at >= 0, `model ${model.name} is released once`);
    this.models.splice(at, 1);
  }

  async unload(name: string): Promise<void> {
    this.models = this.models.filter((model) => model.name !== name);
  }

  time(): Promise<BatchTiming> {
    throw new Error("the fake pool is profiled by its models' specifications");
  }

  bindTasks(): Promise<void> {
    return Promise.resolve();
  }

  trial(): Promise<TrialResult> {
    throw new Error("the fake pool has no real models");
  }

  run(accelerator: number, batch: RunBatch): void {
    const lane = this.lanes[accelerator]!;
    invariant(lane.isUp, `accelerator ${accelerator} is not there`);
    invariant(batch.spec !== undefined && this.models.includes(batch.spec), `model ${batch.model} is not loaded`);
    invariant(batch.members.length > 0 && batch.members.every((member) => member.length > 0), "members have inputs");
    invariant(
      lane.waiting.length + (lane.running === null ? 0 : 1) < 2,
      `accelerator ${accelerator} holds two batches`,
    );
    if (lane.running === null) this.begin(accelerator, batch);
    else lane.waiting.push(batch);
  }

  get loaded(): readonly ModelSpec[] {
    return this.models;
  }

  get holds(): number[] {
    return this.lanes.map((lane) => lane.waiting.length + (lane.running === null ? 0 : 1));
  }

  join(accelerator: number): void {
    this.lanes[accelerator]!.isUp = true;
    this.emit({ kind: "joined", accelerator, group: this.groupOf(accelerator), scale: this.scales[accelerator]! });
  }

  confine(model: string, to: Confinement): void {
    this.emit({ kind: "confined", model, to });
  }

  /** The process ends: its batches fail, then it leaves; it is back after `restartMs`, or never. */
  crash(accelerator: number, restartMs: number | null): void {
    const lane = this.lanes[accelerator]!;
    if (!lane.isUp) return;
    if (lane.timer !== null) clearTimeout(lane.timer);
    const lost = [...(lane.running === null ? [] : [lane.running]), ...lane.waiting.splice(0)];
    Object.assign(lane, { running: null, timer: null, isUp: false });
    for (const { batch } of lost)
      this.emit({ kind: "failed", accelerator, batch, cause: "worker-crashed", message: "crashed by the test" });
    this.emit({ kind: "left", accelerator, cause: "worker-crashed", willRestart: restartMs !== null });
    if (restartMs !== null) setTimeout(() => lane.isWanted && this.join(accelerator), restartMs);
  }

  /** What begins from now takes `ms` more; and what runs, too. */
  stall(accelerator: number, ms: number): void {
    this.lanes[accelerator]!.stallMs = ms;
  }

  /** What runs ends now, whatever time it was to take. */
  finish(accelerator: number): void {
    const { timer } = this.lanes[accelerator]!;
    if (timer !== null) clearTimeout(timer);
    this.end(accelerator);
  }

  isUp(accelerator: number): boolean {
    return this.lanes[accelerator]!.isUp;
  }

  /** Those beyond `count` drain, and leave when they hold nothing; those that come join after `startMs`. */
  startMs = 0;
  readonly sizes = new Map<string, number>();
  resize(name: string, count: number): void {
    this.sizes.set(name, count);
    let first = 0;
    for (const group of this.groups) {
      if (group.name === name) for (let i = 0; i < group.count; i++) this.want(first + i, i < count);
      first += group.count;
    }
  }

  private want(accelerator: number, isWanted: boolean): void {
    const lane = this.lanes[accelerator]!;
    if (lane.isWanted === isWanted) return;
    lane.isWanted = isWanted;
    if (!isWanted) {
      if (!lane.isUp) return;
      this.emit({ kind: "draining", accelerator });
      setTimeout(() => this.leaveWhenEmpty(accelerator), 20);
    } else if (lane.isUp) this.join(accelerator);
    else setTimeout(() => lane.isWanted && !lane.isUp && this.join(accelerator), this.startMs);
  }

  private leaveWhenEmpty(accelerator: number): void {
    const lane = this.lanes[accelerator]!;
    if (lane.isWanted || !lane.isUp) return;
    if (lane.running !== null || lane.waiting.length > 0) setTimeout(() => this.leaveWhenEmpty(accelerator), 1);
    else {
      lane.isUp = false;
      this.emit({ kind: "left", accelerator, cause: "draining", willRestart: false });
    }
  }

  async stop(): Promise<void> {
    for (const lane of this.lanes) if (lane.timer !== null) clearTimeout(lane.timer);
  }

  private begin(accelerator: number, batch: RunBatch): void {
    const lane = this.lanes[accelerator]!;
    lane.running = batch;
    lane.startedAt = Math.max(monotonicNow(), batch.earliestStartAt);
    this.runs.push({ accelerator, batch, startedAt: lane.startedAt });
    const ms = this.execMs(batch) * this.scales[accelerator]! + lane.stallMs;
    const endsAt = lane.startedAt + ms * 1000;
    lane.timer = setTimeout(() => this.end(accelerator), Math.max(0, Math.round((endsAt - monotonicNow()) / 1000)));
  }

  private end(accelerator: number): void {
    const lane = this.lanes[accelerator]!;
    const { running: batch, startedAt } = lane;
    invariant(batch !== null, `accelerator ${accelerator} ended nothing`);
    lane.running = null;
    lane.timer = null;
    const failure = this.failure(batch);
    if (failure !== null) this.emit({ kind: "failed", accelerator, batch: batch.batch, ...failure });
    else
      this.emit({
        kind: "finished",
        accelerator,
        batch: batch.batch,
        startedAt: timeUs(startedAt),
        finishedAt: timeUs(Math.max(startedAt + 1, monotonicNow())),
        inputUs: durationUs(1),
        outputUs: durationUs(1),
        // Each answer is its own input under the output's name.
        outputs: batch.members.map((member) => [{ ...member[0]!, name: "y" }]),
      });
    const next = lane.waiting.shift();
    if (next !== undefined && lane.isUp) this.begin(accelerator, next);
  }

  private groupOf(accelerator: number): string {
    let first = 0;
    for (const group of this.groups) {
      if (accelerator < first + group.count) return group.name;
      first += group.count;
    }
    throw new Error(`no accelerator ${accelerator}`);
  }
}
