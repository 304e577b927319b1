/** The accelerators of one server as child processes: one per onnx accelerator, one per up to 64 emulated ones. */
import { availableParallelism } from "node:os";
import type { TaskBinding, TaskTrial, TrialResult } from "../../config/elastic.js";
import type { AcceleratorGroupSpec, ModelSpec } from "../../config/model.js";
import { invariant } from "../../core/invariant.js";
import type { FailCause } from "../../core/outcome.js";
import { durationUs } from "../../core/time.js";
import { type Clock, systemClock } from "../../wire/clock/clock.js";
import { type ErrorCode, ServingError } from "../../wire/serving-error.js";
import type { Fault, LogLevel } from "../../wire/worker-protocol.js";
import { CrashBreaker } from "./crash-breaker.js";
import { checkGroups, type ProcessPoolOptions, seatPlan } from "./pool-plan.js";
import { Turnstile } from "./seats/turnstile.js";
import { type LoadedModel, type SeatOptions, WorkerSeat } from "./seats/worker-seat.js";
import { ChildProcesses, type WorkerSource } from "./seats/worker-source.js";
import type { AcceleratorIndex, BatchTiming, Confinement, PoolEvent, RunBatch, WorkerPool } from "./worker-pool.js";

export type { PoolLog, ProcessPoolOptions } from "./pool-plan.js";

const BREAKER_KILLS_MAX = 2;
const BREAKER_MEMORY_US = durationUs(600_000_000);
const BREAKER_OPEN_US = durationUs(30_000_000);
const TRUST_BATCHES = 100;

interface Loading {
  readonly spec: ModelSpec;
  readonly promise: Promise<void>;
}

export class ProcessPool implements WorkerPool {
  private readonly seats: readonly WorkerSeat[];
  private readonly seatOfAccelerator: readonly WorkerSeat[];
  /** What is loaded under each name, the newest last; never empty. */
  private readonly models = new Map<string, LoadedModel[]>();
  private readonly loading = new Map<string, Loading>();
  private readonly breaker: CrashBreaker;
  /** A batch of these keeps a worker longer than planned: how many do. */
  private readonly overdue = new Map<string, number>();
  private readonly confined = new Map<string, Confinement>();
  /**
   * New models load one at a time, and apart from them those that a replaced worker held: a load that never ends must
   * not keep a worker that others need.
   */
  private readonly warmUps = new Turnstile();
  private readonly reloads = new Turnstile();
  private readonly loads = new Turnstile();
  private readonly binds = new Turnstile();
  private readonly workers: WorkerSource;
  private readonly clock: Clock;
  private readonly log: (level: LogLevel, message: string) => void;
  private onEvent: ((event: PoolEvent) => void) | null = null;
  private nextHandle = 1;
  private stopping = false;

  constructor(
    readonly groups: readonly AcceleratorGroupSpec[],
    options: ProcessPoolOptions = {},
  ) {
    checkGroups(groups);
    this.clock = options.clock ?? systemClock;
    this.workers = options.workers ?? new ChildProcesses();
    this.log = (level, message) => options.log?.({ level, message });
    this.breaker = new CrashBreaker({
      killsMax: options.breakerKillsMax ?? BREAKER_KILLS_MAX,
      memoryUs: BREAKER_MEMORY_US,
      openUs: BREAKER_OPEN_US,
      trustBatches: TRUST_BATCHES,
    });
    const plans = seatPlan(groups, options);
    this.seats = plans.map((plan) => new WorkerSeat(plan, this.ownerOf(plan)));
    this.seatOfAccelerator = plans.flatMap((plan, i) => plan.scales.map(() => this.seats[i]!));
    this.checkBudget(options.cores ?? availableParallelism());
  }

  async start(onEvent: (event: PoolEvent) => void): Promise<void> {
    invariant(this.onEvent === null, "a pool is started once");
    this.onEvent = onEvent;
    const results = await Promise.allSettled(this.seats.filter((seat) => seat.isWanted).map((seat) => seat.start()));
    const failed = results.find((result) => result.status === "rejected");
    if (failed === undefined) return;
    await this.stop(0);
    const message = failed.reason instanceof Error ? failed.reason.message : String(failed.reason);
    throw new ServingError("unavailable", `a worker cannot start: ${message}`, { cause: failed.reason });
  }

  load(model: ModelSpec): Promise<void> {
    return this.loadOnce(model, false);
  }

  loadBeside(model: ModelSpec): Promise<void> {
    return this.loadOnce(model, true);
  }

  private loadOnce(model: ModelSpec, beside: boolean): Promise<void> {
    const current = this.loading.get(model.name);
    if (current !== undefined && isSameLoad(current.spec, model)) return current.promise;
    const promise = this.loads.pass(() => this.loadEverywhere(model, beside));
    const entry: Loading = { spec: model, promise };
    this.loading.set(model.name, entry);
    const done = (): void => {
      if (this.loading.get(model.name) === entry) this.loading.delete(model.name);
    };
    promise.then(done, done);
    return promise;
  }

  private async loadEverywhere(spec: ModelSpec, beside: boolean): Promise<void> {
    const group = this.groups.find((candidate) => candidate.name === spec.group);
    if (group === undefined)
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}': group must be one of ${this.groups.map((g) => g.name).join(", ")}; was ${spec.group}`,
      );
    if ((group.kind === "emulated") !== (spec.emulated !== null))
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}' of platform ${spec.platform} cannot run on group '${group.name}' of kind ${group.kind}`,
      );
    const model: LoadedModel = { handle: this.nextHandle++, spec, tasks: [] };
    const seats = this.seats.filter((seat) => seat.group === spec.group);
    const pending = (): WorkerSeat | undefined => seats.find((seat) => seat.isJoined && !seat.holds(model.handle));
    try {
      // Looked up anew each time: a worker that joins meanwhile needs the model as well.
      for (let seat = pending(); seat !== undefined; seat = pending()) {
        const next = seat;
        // It may have been told to end meanwhile.
        await this.warmUps.pass(async () => next.isJoined && next.load(model));
      }
      if (!seats.some((seat) => seat.isJoined))
        throw new ServingError("unavailable", `model '${spec.name}': no worker of group '${spec.group}' is up`);
    } catch (error) {
      await this.unloadHandle(model.handle);
      throw error;
    }
    const before = this.models.get(spec.name) ?? [];
    this.models.set(spec.name, beside ? [...before, model] : [model]);
    this.forget(spec.name);
    // Only now: until the new one was whole, requests had the old one.
    if (!beside) for (const { handle } of before) await this.unloadHandle(handle);
  }

  async unload(name: string): Promise<void> {
    await this.loads.pass(async () => {
      const loaded = this.models.get(name);
      if (loaded === undefined) throw new ServingError("not-found", `model '${name}' is not loaded`);
      this.models.delete(name);
      this.forget(name);
      for (const { handle } of loaded) await this.unloadHandle(handle);
    });
  }

  async release(spec: ModelSpec): Promise<void> {
    await this.loads.pass(async () => {
      const loaded = this.models.get(spec.name) ?? [];
      const model = loaded.find((candidate) => candidate.spec === spec);
      if (model === undefined) return;
      const rest = loaded.filter((candidate) => candidate !== model);
      if (rest.length > 0) this.models.set(spec.name, rest);
      else this.models.delete(spec.name);
      await this.unloadHandle(model.handle);
    });
  }

  private loaded(name: string, spec?: ModelSpec): LoadedModel | undefined {
    const loaded = this.models.get(name);
    return spec === undefined ? loaded?.at(-1) : loaded?.find((candidate) => candidate.spec === spec);
  }

  /** A worker that ends meanwhile has unloaded it as well. */
  private async unloadHandle(handle: number): Promise<void> {
    await Promise.allSettled(this.seats.filter((seat) => seat.holds(handle)).map((seat) => seat.unload(handle)));
  }

  async time(
    accelerator: AcceleratorIndex,
    model: string,
    batchSize: number,
    extent: number | null,
    runs: number,
    variant = 0,
  ): Promise<BatchTiming> {
    const loaded = this.loaded(model);
    if (loaded === undefined) throw new ServingError("not-found", `model '${model}' is not loaded`);
    const seat = this.seatOf(accelerator);
    const slot = accelerator - seat.first;
    const timing = await seat.request({ kind: "time", slot, handle: loaded.handle, batchSize, extent, runs, variant });
    return { batchSize, extent, ...(timing as Omit<BatchTiming, "batchSize" | "extent">) };
  }

  /** One set of tasks at a time; a worker that is loading takes the newest when it has. */
  bindTasks(spec: ModelSpec, tasks: readonly TaskBinding[]): Promise<void> {
    return this.binds.pass(async () => {
      const model = this.loaded(spec.name, spec);
      if (model === undefined) throw new ServingError("not-found", `model '${spec.name}' is not loaded`);
      const before = model.tasks;
      model.tasks = tasks;
      const seats = this.seats.filter((seat) => seat.holds(model.handle));
      const results = await Promise.allSettled(seats.map((seat) => seat.bind(model)));
      // A worker that ended is given them with the model, when it is replaced.
      const failed = results.find(
        (result) => result.status === "rejected" && ServingError.from(result.reason).code !== "unavailable",
      ) as PromiseRejectedResult | undefined;
      if (failed === undefined) return;
      model.tasks = before;
      await Promise.allSettled(seats.map((seat) => seat.bind(model)));
      throw failed.reason;
    });
  }

  async trial(accelerator: AcceleratorIndex, spec: ModelSpec, trial: TaskTrial): Promise<TrialResult> {
    const model = this.loaded(spec.name, spec);
    if (model === undefined) throw new ServingError("not-found", `model '${spec.name}' is not loaded`);
    const answer = this.seatOf(accelerator).request({ kind: "try", handle: model.handle, trial });
    return (await answer) as TrialResult;
  }

  run(accelerator: AcceleratorIndex, batch: RunBatch): void {
    const refused = this.refusal(accelerator, batch);
    if (refused !== null) {
      this.failLater(accelerator, batch.batch, refused.cause, refused.message);
      return;
    }
    try {
      this.seatOf(accelerator).run(accelerator, this.loaded(batch.model, batch.spec)!.handle, batch);
    } catch (error) {
      if (!(error instanceof ServingError)) throw error;
      this.failLater(accelerator, batch.batch, "model-error", error.message, error.code);
    }
  }

  private refusal(accelerator: AcceleratorIndex, batch: RunBatch): { cause: FailCause; message: string } | null {
    if (this.stopping) return { cause: "draining", message: "the server is shutting down" };
    const model = this.loaded(batch.model, batch.spec);
    if (model === undefined) return { cause: "no-accelerator", message: `model '${batch.model}' is not loaded` };
    const seat = this.seatOf(accelerator);
    if (!seat.isJoined) return { cause: "worker-crashed", message: `accelerator ${accelerator} is being restarted` };
    invariant(seat.group === model.spec.group, `model '${batch.model}' does not belong to group '${seat.group}'`);
    const until = this.breaker.refusedUntil(batch.model, this.clock.now());
    if (until === null) return null;
    const waitS = Math.max(0, (until - this.clock.now()) / 1e6).toFixed(1);
    return {
      cause: "worker-crashed",
      message: `model '${batch.model}' keeps ending its workers; retried in ${waitS} s`,
    };
  }

  /** Events never come from inside a call of the caller. */
  private failLater(
    accelerator: AcceleratorIndex,
    batch: number,
    cause: FailCause,
    message: string,
    code: ErrorCode = "internal",
  ): void {
    queueMicrotask(() => this.onEvent?.({ kind: "failed", accelerator, batch, cause, code, message }));
  }

  cancel(accelerator: AcceleratorIndex, batch: number): Promise<boolean> {
    return this.seatOf(accelerator).cancel(accelerator, batch);
  }

  /** Makes an emulated accelerator misbehave; for tests of what is around it. */
  async fault(accelerator: AcceleratorIndex, fault: Fault): Promise<void> {
    const seat = this.seatOf(accelerator);
    const answer = seat.request({ kind: "fault", slot: accelerator - seat.first, fault });
    // A worker told to crash cannot confirm it.
    await (fault.kind === "crash" ? answer.catch(() => {}) : answer);
  }

  isUp(accelerator: AcceleratorIndex): boolean {
    return this.seatOf(accelerator).isJoined;
  }

  resize(name: string, count: number): void {
    let first = 0;
    for (const group of this.groups) {
      if (group.name === name) {
        invariant(
          count >= 1 && count <= group.count,
          `group '${name}': size must be in [1, ${group.count}]; was ${count}`,
        );
        for (let i = 0; i < group.count; i++) this.seatOf(first + i).want(first + i, i < count);
        return;
      }
      first += group.count;
    }
    invariant(false, `no group '${name}'`);
  }

  /** What runs the models of a group, such as "onnxruntime 1.30.0"; part of what a profile depends on. */
  runtimeOf(group: string): string {
    return this.seats.find((seat) => seat.group === group)?.runtime ?? "";
  }

  /** Process id of the worker behind an accelerator; 0 while it is being replaced. */
  pidOf(accelerator: AcceleratorIndex): number {
    return this.seatOf(accelerator).pid;
  }

  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    await Promise.all(this.seats.map((seat) => seat.stop(graceMs)));
    this.workers.end();
  }

  private seatOf(accelerator: AcceleratorIndex): WorkerSeat {
    const seat = this.seatOfAccelerator[accelerator];
    invariant(seat !== undefined, `accelerator ${accelerator} does not exist`);
    return seat;
  }

  private ownerOf(plan: SeatOptions) {
    return {
      emit: (event: PoolEvent): void => this.onEvent?.(event),
      survived: (model: string) => {
        this.breaker.survived(model);
        this.confine(model);
      },
      delays: (model: string, isOverdue: boolean) => {
        this.overdue.set(model, (this.overdue.get(model) ?? 0) + (isOverdue ? 1 : -1));
        this.confine(model);
      },
      log: this.log,
      models: () => [...this.models.values()].flat().filter((model) => model.spec.group === plan.group.name),
      blame: (models: readonly string[]) => this.blame(models),
      reloads: this.reloads,
      workers: this.workers,
      processChanged: () => {
        if (!this.stopping) this.workers.changed(this.seats.map(({ pid }) => pid).filter((pid) => pid !== 0));
      },
    };
  }

  private blame(models: readonly string[]): void {
    for (const model of new Set(models)) {
      const openUs = this.breaker.killed(model, this.clock.now());
      this.confine(model);
      if (openUs !== null)
        this.log("error", `model '${model}' keeps ending its workers: its batches are refused for ${openUs / 1e6} s`);
    }
  }

  /** What was loaded under the name is another model now. */
  private forget(model: string): void {
    this.breaker.forget(model);
    this.confine(model);
    // It may be the first, or was the last, that shares their workers.
    for (const name of this.overdue.keys()) this.confine(name);
  }

  /** Says so when another number of workers may hold batches of the model at once. */
  private confine(model: string): void {
    const to = this.confinementOf(model);
    if (to === (this.confined.get(model) ?? "all")) return;
    if (to === "all") this.confined.delete(model);
    else this.confined.set(model, to);
    this.onEvent?.({ kind: "confined", model, to });
  }

  /** Who only delays is kept from the last worker, for the others' sake; without others from none. */
  private confinementOf(model: string): Confinement {
    if (this.breaker.isConfined(model)) return "one";
    if ((this.overdue.get(model) ?? 0) === 0) return "all";
    const own = new Set(this.models.get(model)?.map(({ spec }) => spec.group));
    const shares = [...this.models].some(
      ([name, versions]) => name !== model && versions.some(({ spec }) => own.has(spec.group)),
    );
    return shares ? "all-but-one" : "all";
  }

  private checkBudget(cores: number): void {
    const onnx = this.groups.filter((group) => group.kind === "onnx");
    const threads = onnx.reduce((sum, group) => sum + group.count * group.threads, 0);
    if (threads > cores)
      this.log(
        "warn",
        `onnx groups use ${threads} threads in all (count x threads) on ${cores} hardware threads: expect slow and uneven runs`,
      );
  }
}

const isSameLoad = (a: ModelSpec, b: ModelSpec): boolean =>
  a.version === b.version && a.file === b.file && JSON.stringify(a) === JSON.stringify(b);
