/**
 * The place of one worker process among the accelerators of a server: kept filled. A process that ends, however, is
 * settled for (every batch in it fails once), replaced after a back-off, given its models again, and only then joins.
 *
 * starting -> (ready) reloading -> (models loaded) joined -> (process ended) backing-off -> starting ...; stopped from any.
 * Where none of its accelerators is wanted (seat-parking.ts): joined -> (kept warm) retiring -> parked -> starting.
 */
import type { TaskBinding } from "../../../config/elastic.js";
import type { AcceleratorGroupSpec, ModelSpec } from "../../../config/model.js";
import type { FailCause } from "../../../core/outcome.js";
import { durationUs, type TimeUs, timeUs } from "../../../core/time.js";
import { type Alarm, alarmIn, type Clock } from "../../../wire/clock/clock.js";
import { ServingError } from "../../../wire/serving-error.js";
import type { LogLevel } from "../../../wire/worker-protocol.js";
import { cpuTimeUs } from "../cpu-time.js";
import { type Flight, FlightBook, type HangRule } from "../flight-book.js";
import { HangWatch } from "../hang-watch.js";
import { MemoryShortage } from "../memory-shortage.js";
import type { PoolEvent, RunBatch } from "../worker-pool.js";
import { SeatParking } from "./seat-parking.js";
import type { Turnstile } from "./turnstile.js";
import type { Hello, Request, WorkerExit, WorkerLink, WorkerProcessHandlers } from "./worker-process.js";
import type { WorkerSource } from "./worker-source.js";

export interface LoadedModel {
  readonly handle: number;
  readonly spec: ModelSpec;
  /** Of an elastic model, as they are now. */
  tasks: readonly TaskBinding[];
}

export interface SeatOptions {
  readonly group: AcceleratorGroupSpec;
  /** Index of the seat's first accelerator over the server, and relative speeds of all of them. */
  readonly first: number;
  readonly scales: readonly number[];
  readonly hello: Hello;
  readonly clock: Clock;
  readonly hang: HangRule;
  readonly respawnMinMs: number;
  readonly respawnMaxMs: number;
  readonly startTimeoutMs: number;
  readonly loadTimeoutMs: number;
  readonly warmUpMs: number;
  /** Resident memory at which the process is killed; null = no limit. */
  readonly memoryBytesMax: number | null;
  /** Accelerators wanted at the start, the first of them; the process starts when one is. */
  readonly active: number;
  /** How long the process stays when none is wanted any more. */
  readonly keepWarmMs: number;
}

export interface SeatOwner {
  emit(event: PoolEvent): void;
  log(level: LogLevel, message: string): void;
  /** What a new process must hold before it joins. */
  models(): readonly LoadedModel[];
  /** A batch of this model ended without harm to its worker. */
  survived(model: string): void;
  /** The process ended by what it ran, and these models were executing on it. */
  blame(models: readonly string[]): void;
  /** A batch of the model keeps its worker longer than planned, or that has ended. */
  delays(model: string, isOverdue: boolean): void;
  /** Models that a process held before are loaded here one at a time: a restart of all is not a storm. */
  readonly reloads: Turnstile;
  readonly workers: WorkerSource;
  /** It has another process, or none. */
  processChanged(): void;
}

/** A process that served this long is healthy: its next back-off starts small again. */
const HEALTHY_US = 10_000_000;
/** An unload waits for nothing: a worker that does not answer by then stands still. */
const UNLOAD_LIMIT_MS = 10_000;
/** Until a process that was told to end is killed: it has nothing to finish. */
const RETIRE_LIMIT_MS = 1000;

export class WorkerSeat {
  /** What the last process said it runs models with; "" before the first. */
  runtime = "";
  private process: WorkerLink | null = null;
  private joined = false;
  /** Told to end because none of its accelerators is wanted. */
  private retiring = false;
  private readonly parking: SeatParking;
  private stopping = false;
  private failures = 0;
  private joinedAt = 0 as TimeUs;
  private readonly clock: Clock;
  /** Rings when a process that ended may be replaced. */
  private readonly respawn: Alarm;
  private isBackingOff = false;
  private hungSlot: number | null = null;
  /** Ended by us for what its batches did. */
  private isCondemned = false;
  private memory = new MemoryShortage();
  private timings = 0;
  private loads = 0;
  private handles = new Set<number>();
  /** Those of them that the process could not load again, and when that is tried anew: after pauses that double. */
  private readonly missing = new Set<number>();
  private readonly retrial: Alarm;
  private retrials = 0;
  private readonly flights: FlightBook;
  private readonly hangs: HangWatch;
  private onGone: (() => void)[] = [];

  constructor(
    private readonly options: SeatOptions,
    private readonly owner: SeatOwner,
  ) {
    this.flights = new FlightBook(options.scales.length, options.hang);
    const { clock, scales, hang, active, keepWarmMs } = options;
    this.clock = clock;
    this.hangs = new HangWatch(scales.length, this.flights, hang, this.hangOwner(), clock);
    this.parking = new SeatParking(this.parkedSeat(), clock, scales.length, active, keepWarmMs);
    this.retrial = clock.alarm(() => void this.tryMissing()).unref();
    this.respawn = clock.alarm(() => {
      this.isBackingOff = false;
      this.startOrRetry();
    });
  }

  /** Index of its first accelerator over the server. */
  get first(): number {
    return this.options.first;
  }
  get group(): string {
    return this.options.group.name;
  }
  /** Takes batches. */
  get isJoined(): boolean {
    return this.joined && !this.retiring;
  }
  /** Some of its accelerators are wanted. */
  get isWanted(): boolean {
    return this.parking.isWanted;
  }
  get pid(): number {
    return this.process?.pid ?? 0;
  }
  get batchesInside(): number {
    return this.flights.count;
  }
  holds(handle: number): boolean {
    return this.handles.has(handle);
  }

  /** Spawns, loads what the owner holds, joins. Rejects when the process cannot start; then it is tried again by nobody. */
  async start(): Promise<void> {
    const handlers: WorkerProcessHandlers = {
      onFinished: (record) => {
        if (this.land(record.slot, record.batch) === null) return;
        this.owner.emit({ kind: "finished", accelerator: this.options.first + record.slot, ...omitSlot(record) });
      },
      onFailed: (record) => {
        if (this.land(record.slot, record.batch) === null) return;
        this.owner.emit({ kind: "failed", accelerator: this.options.first + record.slot, ...omitSlot(record) });
      },
      onMemory: (rssBytes) => this.checkMemory(rssBytes),
      onLog: (level, message) => this.owner.log(level, `worker ${child.pid}: ${message}`),
      onExit: (exit) => this.ended(child, exit),
    };
    const child = this.owner.workers.start(this.options.hello, handlers);
    this.process = child;
    this.owner.processChanged();
    this.retiring = false;
    this.handles = new Set();
    this.missing.clear();
    this.retrials = 0;
    this.isCondemned = false;
    this.hungSlot = null;
    this.memory = new MemoryShortage();
    const ready = await this.inTime(child.ready, this.options.startTimeoutMs, "start");
    this.runtime = ready.runtime;
    this.owner.log(
      "info",
      `worker ${child.pid} of group '${this.group}' ready: ${ready.runtime}, ${this.options.scales.length} accelerator(s), ${this.options.hello.threads} thread(s)`,
    );
    await this.reload();
    if (this.process !== child) throw new ServingError("unavailable", "the worker ended while it was given its models");
    this.joined = true;
    this.joinedAt = this.clock.now();
    this.parking.up();
  }

  /** Whether one of its accelerators (its index over the server) is to take batches; takes effect when it can. */
  want(accelerator: number, isWanted: boolean): void {
    if (this.stopping) return;
    const slot = accelerator - this.options.first;
    if (isWanted) this.parking.unpark(slot);
    else this.parking.park(slot);
  }

  private parkedSeat() {
    const seat = this;
    const accelerator = (slot: number): number => this.options.first + slot;
    return {
      get isUp() {
        return seat.isJoined;
      },
      batchesOn: (slot: number) => this.flights.flights(slot).length,
      emitJoined: (slot: number) => {
        const scale = this.options.scales[slot]!;
        this.owner.emit({ kind: "joined", accelerator: accelerator(slot), group: this.group, scale });
      },
      emitDraining: (slot: number) => this.owner.emit({ kind: "draining", accelerator: accelerator(slot) }),
      emitLeft: (slot: number) => {
        const isActive = this.parking.isActive(slot);
        const cause = isActive ? this.causeOf(slot, 0) : "draining";
        const willRestart = isActive && !this.stopping;
        this.owner.emit({ kind: "left", accelerator: accelerator(slot), cause, willRestart });
      },
      wake: () => {
        if (this.process === null && !this.isBackingOff) this.startOrRetry();
      },
      retire: () => this.retire(),
    };
  }

  private hangOwner() {
    const seat = this;
    const accelerator = (slot: number): number => this.options.first + slot;
    return {
      get isExcused() {
        return seat.timings > 0;
      },
      cpuUs: () => {
        const { worker, providers } = this.options.hello;
        // An emulated run computes nothing, but never takes longer than planned by itself; others may wait for a device.
        if (worker === "emulated") return durationUs(0);
        return providers[0] === "cpu" ? cpuTimeUs(this.pid) : null;
      },
      overdue: (slot: number, { model, batch }: Flight) => {
        this.owner.delays(model, true);
        this.owner.emit({ kind: "overdue", accelerator: accelerator(slot), batch });
      },
      recovered: (slot: number, { model }: Flight) => {
        this.owner.delays(model, false);
        const scale = this.options.scales[slot]!;
        if (this.isJoined) this.owner.emit({ kind: "recovered", accelerator: accelerator(slot), scale });
      },
      hung: (slot: number, reason: string) => {
        this.hungSlot = slot;
        this.isCondemned = true;
        this.kill(reason);
      },
    };
  }

  /** Not while a model is being loaded, measured or run on it. */
  private retire(): void {
    const child = this.process;
    if (child === null || !this.joined || this.stopping || this.isWanted) return;
    if (this.timings > 0 || this.loads > 0 || this.flights.count > 0) {
      this.parking.parkIfUnused();
      return;
    }
    this.retiring = true;
    child.shutdown();
    alarmIn(this.clock, RETIRE_LIMIT_MS * 1000, () => child.kill()).unref();
  }

  /** Until nothing is missing: models may be loaded or unloaded while this goes on. */
  private async reload(): Promise<void> {
    const missing = (): LoadedModel | undefined => this.owner.models().find((model) => !this.handles.has(model.handle));
    for (let model = missing(); model !== undefined; model = missing()) {
      const next = model;
      try {
        await this.owner.reloads.pass(() => this.load(next));
      } catch (error) {
        if (this.process === null) throw error;
        // The others are still worth serving; its batches are refused by the worker, with a reason, until it is loaded.
        this.handles.add(next.handle);
        this.missing.add(next.handle);
        this.owner.log("error", `model '${next.spec.name}' could not be loaded again: ${(error as Error).message}`);
      }
    }
    const wanted = new Set(this.owner.models().map((model) => model.handle));
    for (const handle of this.handles) if (!wanted.has(handle)) await this.unload(handle);
    this.tryMissingLater();
  }

  private tryMissingLater(): void {
    if (this.missing.size > 0) this.retrial.set(timeUs(this.clock.now() + this.backOffMs(this.retrials++) * 1000));
  }

  /** The process took a model's batches and could not run them: that must not last as long as the process. */
  private async tryMissing(): Promise<void> {
    for (const handle of this.missing) this.handles.delete(handle);
    this.missing.clear();
    await this.reload().catch(() => {});
  }

  /** Doubles from the least to the most with every failure. */
  private backOffMs(failures: number): number {
    const { respawnMinMs, respawnMaxMs } = this.options;
    return Math.min(respawnMaxMs, respawnMinMs * 2 ** Math.min(30, failures));
  }

  /** @throws ServingError with the runtime's text. */
  async load(model: LoadedModel): Promise<void> {
    const { handle, spec } = model;
    this.loads++;
    try {
      const { warmUpMs, loadTimeoutMs } = this.options;
      const { tasks } = model;
      const withTasks = tasks.length === 0 ? {} : { tasks };
      const request = this.request({ kind: "load", handle, model: spec, warmUpMs, ...withTasks });
      await this.inTime(request, loadTimeoutMs, `load of model '${spec.name}'`);
      // Bound elsewhere meanwhile.
      if (model.tasks !== tasks) await this.bind(model);
      this.handles.add(handle);
    } finally {
      this.loads--;
    }
  }

  /** @throws ServingError what the worker refused them with; they are as before there. */
  async bind({ handle, spec, tasks }: LoadedModel): Promise<void> {
    if (this.missing.has(handle)) return;
    const request = this.request({ kind: "bind", handle, tasks });
    await this.inTime(request, this.options.loadTimeoutMs, `tasks of model '${spec.name}'`);
  }

  async unload(handle: number): Promise<void> {
    if (!this.handles.delete(handle)) return;
    const limitMs = Math.min(UNLOAD_LIMIT_MS, this.options.loadTimeoutMs);
    await this.inTime(this.request({ kind: "unload", handle }), limitMs, "unload");
  }

  /** Anything else that is answered; the accelerator's clock for hangs stands still while timings run. */
  async request(message: Request): Promise<unknown> {
    if (this.process === null) throw new ServingError("unavailable", "no worker process", { reason: "worker-crashed" });
    const isTiming = message.kind === "time";
    if (isTiming) this.timings++;
    try {
      const answer = this.process.request(message);
      // Each run may take as long as a load, which warms up with runs of every size.
      if (isTiming) return await this.inTime(answer, message.runs * this.options.loadTimeoutMs, "timing");
      return await answer;
    } finally {
      if (isTiming) {
        this.timings--;
        this.flights.restart(this.clock.now());
        this.hangs.look();
      }
    }
  }

  run(accelerator: number, handle: number, batch: RunBatch): void {
    const slot = accelerator - this.options.first;
    const { earliestStartAt, predictedUs, model, members, outputs, variant, kinds } = batch;
    const runMaxUs = batch.spec?.runMaxUs ?? durationUs(0);
    const deadlineAt = batch.deadlineAt ?? earliestStartAt;
    const flight = { batch: batch.batch, model, earliestStartAt, predictedUs, deadlineAt, runMaxUs };
    this.flights.depart(slot, flight, this.clock.now());
    try {
      this.process!.run({ slot, handle, batch: batch.batch, earliestStartAt, variant, kinds, outputs, members });
    } catch (error) {
      this.land(slot, batch.batch);
      throw error;
    }
    this.hangs.look();
  }

  async cancel(accelerator: number, batch: number): Promise<boolean> {
    const slot = accelerator - this.options.first;
    const removed = (await this.request({ kind: "cancel", slot, batch })) === true;
    if (removed) this.land(slot, batch);
    return removed;
  }

  kill(reason: string): void {
    this.process?.kill(reason);
  }

  /** Resolves when the process is gone. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    this.parking.stop();
    this.respawn.clear();
    this.retrial.clear();
    const child = this.process;
    if (child === null) return;
    const gone = new Promise<void>((resolve) => this.onGone.push(resolve));
    child.shutdown();
    const limit = alarmIn(this.clock, graceMs * 1000, () => this.kill(`did not end within ${graceMs} ms of shutdown`));
    await gone;
    limit.clear();
  }

  private land(slot: number, batch: number): Flight | null {
    const flight = this.flights.land(slot, batch, this.clock.now());
    if (flight !== null) this.owner.survived(flight.model);
    this.hangs.look();
    // Whoever asked about the batch hears of it before the accelerator leaves.
    queueMicrotask(() => this.parking.landed(slot));
    return flight;
  }

  private async inTime<T>(promise: Promise<T>, limitMs: number, what: string): Promise<T> {
    const limit = alarmIn(this.clock, limitMs * 1000, () => this.kill(`${what} took longer than ${limitMs} ms`));
    try {
      return await promise;
    } finally {
      limit.clear();
    }
  }

  private checkMemory(rssBytes: number): void {
    const limit = this.options.memoryBytesMax;
    if (limit === null || rssBytes <= limit) return;
    this.isCondemned = true;
    this.kill(`memory must be at most ${limit} bytes; was ${rssBytes}`);
  }

  private ended(child: WorkerLink, exit: WorkerExit): void {
    if (this.process !== child) return;
    this.process = null;
    this.retrial.clear();
    this.owner.processChanged();
    const { reason } = exit;
    const wasJoined = this.joined;
    const wasRetiring = this.retiring;
    this.joined = false;
    this.retiring = false;
    const isExpected = this.stopping || wasRetiring;
    this.owner.log(isExpected ? "info" : "error", `worker ${child.pid} of group '${this.group}' ended: ${reason}`);
    const suspects = isExpected || !this.isDoneFromInside(exit) ? [] : this.suspects();
    if (suspects.length > 0) this.owner.blame(suspects.map((flight) => flight.model));
    this.settle(reason, suspects.length === 1 ? suspects[0]! : null);
    this.hangs.look();
    if (wasJoined && !wasRetiring) this.parking.down();
    for (const wake of this.onGone.splice(0)) wake();
    if (this.stopping || !wasJoined || !this.isWanted) return;
    if (wasRetiring) this.startOrRetry();
    else this.respawnLater();
  }

  /** Whether what ran can have ended it: not where a load of ours did, or somebody else and memory had not run out. */
  private isDoneFromInside({ isFromOutside, isOurs }: WorkerExit): boolean {
    if (isOurs) return this.isCondemned;
    return !isFromOutside || this.memory.hasRunOut();
  }

  /** The batches at the front: the ones that may have done it. */
  private suspects(): Flight[] {
    if (this.hungSlot !== null) return this.flights.flights(this.hungSlot).slice(0, 1);
    return this.options.scales.flatMap((_, slot) => this.flights.flights(slot).slice(0, 1));
  }

  private causeOf(slot: number, position: number): FailCause {
    if (this.stopping) return "draining";
    return slot === this.hungSlot && position === 0 ? "worker-hung" : "worker-crashed";
  }

  private settle(reason: string, guilty: Flight | null): void {
    this.options.scales.forEach((_, slot) => {
      this.flights.clear(slot).forEach((flight, position) => {
        this.owner.emit({
          kind: "failed",
          accelerator: this.options.first + slot,
          batch: flight.batch,
          cause: this.causeOf(slot, position),
          message: `the worker that held the batch ended: ${reason}`,
          isGuilty: flight === guilty,
        });
      });
    });
  }

  private respawnLater(): void {
    if (this.clock.now() - this.joinedAt > HEALTHY_US) this.failures = 0;
    this.isBackingOff = true;
    this.respawn.set(timeUs(this.clock.now() + this.backOffMs(this.failures++) * 1000));
  }

  private startOrRetry(): void {
    if (!this.isWanted) return;
    this.start().catch((error: unknown) => {
      this.owner.log("error", `group '${this.group}': worker could not be started: ${(error as Error).message}`);
      if (!this.stopping && this.isWanted) this.respawnLater();
    });
  }
}

/** The record without the slot, which means nothing outside its process. */
function omitSlot<T extends { readonly slot: number }>(record: T): Omit<T, "slot"> {
  const { slot: _, ...rest } = record;
  return rest;
}
