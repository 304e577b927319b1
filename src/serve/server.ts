import type { ModelSpec } from "../config/model.js";
import { DROP_REASONS, FAIL_DRAINING } from "../core/outcome.js";
import { type Clock, pause, systemClock } from "../wire/clock/clock.js";
import { ServingError } from "../wire/serving-error.js";
import { TaskKeeper } from "./elastic/task-keeper.js";
import { ServedTasks } from "./elastic/task-registry.js";
import { REFUSALS, type Refusal } from "./endings.js";
import type {
  Gateway,
  InferCall,
  InferHandler,
  MetricsFormat,
  ModelStatistics,
  ParameterValue,
  RefusedCall,
  RepositoryIndexEntry,
} from "./gateway.js";
import type { GroupScaling } from "./group-scaling.js";
import { type ModelSource, ModelTable } from "./models/model-table.js";
import { type PipelineSource, PipelineTable } from "./pipelines/pipeline-table.js";
import type { StepPools } from "./pipelines/steps/step-pool.js";
import { StepProcess } from "./pipelines/steps/step-process.js";
import { Entry } from "./requests/entry.js";
import { Autoscaler } from "./scaling/autoscaler.js";
import { Placement, type PlacementOptions } from "./scaling/placement.js";
import { LiveDriver, type LiveDriverOptions } from "./scheduling/live-driver.js";

export interface ServerOptions extends LiveDriverOptions {
  readonly models: ModelSource;
  /** Absent: there are none. */
  readonly pipelines?: PipelineSource;
  /** Default: a process for each pipeline. */
  readonly stepPools?: StepPools;
  /** none: every model is loaded at the start; explicit: none is, models are loaded and unloaded by request. */
  readonly modelControl: "none" | "explicit";
  /** Which of the models loaded at the start must be served for the server to be ready; default all. */
  readonly readyWhen?: "all_models" | "any_model";
  /** Absent or null: every model says its group. */
  readonly placement?: PlacementOptions | null;
}

/** Said by the tasks of a model, which count nothing. */
const TASK_PROFILING: Refusal = "task-profiling";
/** Longer than a worker takes to be replaced. */
const LOAD_RETRY_MS = 1000;

/**
 * The server behind its doors: checks a call against its model, hands it to the driver, manages the models.
 *
 * starting -> serving -> lame duck (not ready, but serving what still comes) -> closing (refuses) -> closed.
 */
export class Server implements Gateway {
  readonly driver: LiveDriver;
  readonly models: ModelTable;
  private readonly autoscaler: Autoscaler;
  readonly placement: Placement | null;
  readonly pipelines: PipelineTable;
  readonly tasks: ServedTasks;
  private readonly keeper: TaskKeeper;
  private readonly entry: Entry;
  private readonly options: ServerOptions;
  private readonly clock: Clock;
  private phase: "starting" | "serving" | "lame-duck" | "closing" | "closed" = "starting";
  private failedLoads = 0;
  private lastCallAt = 0;

  constructor(options: ServerOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    const { clock } = this;
    this.driver = new LiveDriver(options);
    this.autoscaler = new Autoscaler(this.driver, options.pool, options.log, clock);
    this.driver.scaling = () => this.scaling();
    const { models, pool, log, placement } = options;
    this.placement =
      placement === undefined || placement === null
        ? null
        : new Placement(placement, pool.groups, models, this.driver.metrics.placement, log, clock);
    this.keeper = new TaskKeeper({
      pool,
      clock,
      log,
      withdraw: (model, kind) => this.driver.requests.withdraw(model, kind),
    });
    this.models = new ModelTable(this.placement?.source ?? models, pool, this.driver.models, log, clock, this.keeper);
    this.tasks = new ServedTasks(this.keeper, (model) => this.models.serving(model, ""));
    this.placement?.attach(this.models);
    this.entry = new Entry(this.driver.requests, clock, (call, thrown) => this.refusal(call, thrown));
    const { pipelines, onBroken } = options;
    const { metrics } = this.driver;
    this.pipelines = new PipelineTable(
      pipelines ?? null,
      {
        clock,
        models: this.models,
        entry: this.entry,
        stepPools: options.stepPools ?? ((pipeline, steps) => new StepProcess(pipeline, steps, clock, log)),
        onBroken,
      },
      metrics.pipelines,
      log,
    );
    this.driver.batches.afterAnswers = () => this.pipelines.settle();
  }

  /** Starts scheduler and workers and loads the models. Calls for models that are ready are served meanwhile. */
  async start(): Promise<void> {
    await this.driver.start();
    this.scan();
    if (this.options.modelControl === "none") {
      await this.placement?.prepare();
      this.failedLoads = await this.models.loadAll(LOAD_RETRY_MS);
      this.failedLoads += await this.pipelines.loadAll();
    }
    if (this.phase !== "starting") return;
    this.phase = "serving";
    this.autoscaler.start();
    this.placement?.run();
  }

  get live(): boolean {
    return this.phase !== "closed";
  }

  /**
   * Not while models are loaded at the start, not when one of them failed (or, by `readyWhen`, all of them), not from the
   * first signal to end. Reloads, moves and what autoscaling does with workers take nobody's model away, and who loads or
   * unloads one by request is told himself how it went.
   */
  get ready(): boolean {
    if (this.phase !== "serving") return false;
    if (this.failedLoads === 0) return true;
    return this.options.readyWhen === "any_model" && this.modelNames().length > 0;
  }

  infer(call: InferCall, handler: InferHandler): () => void {
    this.lastCallAt = call.receivedAt;
    try {
      if (this.pipelines.has(call.model))
        return this.orCount(() => this.pipelines.entrance(call.model, call.version)).infer(call, handler);
      const model = this.orCount(() => this.models.serving(call.model, call.version));
      return this.entry.enter(model, call, handler);
    } catch (error) {
      throw this.refusal(call, error);
    }
  }

  private refusal(call: InferCall, thrown: unknown): ServingError {
    const refusal = ServingError.from(thrown);
    if (refusal.details.reason === TASK_PROFILING) this.countRefusal(refusal);
    const isDrop = (DROP_REASONS as readonly string[]).includes(refusal.details.reason ?? "");
    this.options.tracer?.refused(call, refusal, isDrop ? "dropped" : "refused");
    return refusal;
  }

  refused(call: RefusedCall, error: ServingError): void {
    this.countRefusal(error);
    this.options.tracer?.refused(call, error, "refused");
  }

  modelNames(): readonly string[] {
    return [...this.models.names(), ...this.pipelines.names()];
  }

  model(name: string, version: string): ModelSpec {
    if (this.pipelines.has(name)) return this.pipelines.serving(name, version).spec.client;
    return this.models.serving(name, version).spec;
  }

  modelReady(name: string, version: string): boolean {
    return this.modelFault(name, version) === "";
  }

  modelFault(name: string, version: string): string {
    try {
      if (this.phase === "closing" || this.phase === "closed") return REFUSALS.draining.text;
      if (this.pipelines.has(name)) return this.pipelines.serving(name, version).fault;
      return this.models.serving(name, version).isLeaving ? REFUSALS.unloading.text : "";
    } catch (error) {
      if (error instanceof ServingError && error.code === "unavailable") return error.message;
      throw error;
    }
  }

  statistics(name: string | null, version: string): readonly ModelStatistics[] {
    if (name !== null && this.pipelines.has(name)) return [this.pipelines.serving(name, version).statistics()];
    const ofModels = this.models.statistics(name, version);
    return name === null || name === "" ? [...ofModels, ...this.pipelines.statistics()] : ofModels;
  }

  repositoryIndex(onlyReady: boolean): readonly RepositoryIndexEntry[] {
    this.scan();
    return [...this.models.index(onlyReady), ...this.pipelines.index(onlyReady)];
  }

  async load(name: string, parameters: Readonly<Record<string, ParameterValue>>): Promise<void> {
    this.checkControl("load");
    const unknown = Object.keys(parameters)[0];
    if (unknown !== undefined)
      throw new ServingError(
        "unimplemented",
        `load parameter '${unknown}' is not supported: the repository's files are what is loaded`,
      );
    if (this.isPipeline(name)) {
      this.models.forget(name);
      await this.pipelines.load(name, true);
    } else {
      this.pipelines.forget(name);
      await this.models.load(name);
    }
  }

  /** What its folder is now says what is loaded; where there is none, what it was. */
  private isPipeline(name: string): boolean {
    const { pipelines, models } = this;
    return pipelines.isInRepository(name) || (pipelines.has(name) && !models.isInRepository(name));
  }

  private scan(): void {
    this.models.scan((name) => this.pipelines.has(name));
    this.pipelines.scan((name) => this.models.has(name));
  }

  async unload(name: string): Promise<void> {
    this.checkControl("unload");
    if (this.pipelines.has(name)) await this.pipelines.unload(name);
    else await this.models.unload(name);
  }

  scaling(): readonly GroupScaling[] {
    return this.autoscaler.view();
  }

  metrics(format: MetricsFormat = "prometheus"): Promise<string> {
    return this.driver.metrics.text(format);
  }

  /**
   * Ends gracefully. Not ready at once; what still comes is served until nothing has come for `quietMs`, at most
   * `lameMs`; then all is refused, and what runs finishes or expires. What came last has its time within `drainMs` too.
   *
   * @param closeDoors called once nothing new is to be accepted.
   */
  async stop(
    drainMs: number,
    quietMs: number,
    closeDoors: (graceMs: number) => Promise<void>,
    lameMs = drainMs,
  ): Promise<void> {
    if (this.phase === "closing" || this.phase === "closed") return;
    this.phase = "lame-duck";
    this.driver.stopProfiling();
    this.keeper.stop();
    this.placement?.stop();
    const { clock } = this;
    const now = (): number => clock.now();
    const pauseMs = (ms: number): Promise<void> => pause(clock, ms * 1000);
    const startedAt = now();
    const endsAt = startedAt + drainMs * 1000;
    const lastAt = Math.min(endsAt - this.longestUs(), startedAt + lameMs * 1000);
    const refusesAt = Math.min(endsAt, Math.max(startedAt + quietMs * 1000, lastAt));
    const isQuiet = (): boolean =>
      now() - Math.max(startedAt, this.lastCallAt) >= quietMs * 1000 &&
      this.driver.requests.count === 0 &&
      this.pipelines.live === 0;
    while (now() < refusesAt && !isQuiet()) await pauseMs(Math.min(20, Math.max(1, (refusesAt - now()) / 1000)));
    this.phase = "closing";
    this.autoscaler.stop();
    this.driver.requests.refuseAll();
    this.pipelines.refuseAll();
    const leftMs = Math.max(0, (endsAt - now()) / 1000);
    // What waits may still run while time is left; then it fails, and only what runs is waited for.
    await Promise.race([this.idle(), pauseMs(leftMs)]);
    this.pipelines.drain();
    this.driver.models.failWaiting(FAIL_DRAINING, null);
    const longestMs = Math.max(
      1000,
      ...this.models
        .servedModels()
        .map(({ times, spec }) => (3 * times.us(Math.max(1, spec.batchSizeMax), null)) / 1000),
    );
    await Promise.race([this.idle(), pauseMs(longestMs)]);
    await closeDoors(1000);
    await this.options.pool.stop(1000);
    await this.pipelines.close();
    // Members of batches that ended with their workers wait again, for nobody.
    this.driver.models.failWaiting(FAIL_DRAINING, null);
    // A move under way has lost its workers, and ends before the scheduler that it would speak to.
    if (this.placement !== null) await Promise.race([this.placement.stopped(), pauseMs(1000)]);
    await this.driver.stop();
    await this.options.tracer?.shutdown();
    this.phase = "closed";
  }

  /** Resolves when nothing is in flight, between modules neither. */
  async idle(): Promise<void> {
    for (;;) {
      await this.driver.idle();
      if (this.pipelines.live === 0) return;
      await pause(this.clock, 1000);
    }
  }

  /** From receipt to deadline, of a request to the model that gives the most time by itself. */
  private longestUs(): number {
    const specs = [...this.models.servedModels().map(({ spec }) => spec), ...this.pipelines.specs()];
    return Math.max(0, ...specs.map(({ sloUs, defaultTimeoutUs }) => sloUs ?? defaultTimeoutUs));
  }

  private orCount<T>(find: () => T): T {
    try {
      return find();
    } catch (error) {
      this.countRefusal(ServingError.from(error));
      throw error;
    }
  }

  /** What the server could not take; what was wrong with a call is the client's to count. */
  private countRefusal({ code, details }: ServingError): void {
    if (code === "unavailable" || code === "resource-exhausted" || code === "deadline-exceeded")
      this.driver.metrics.countRefusal(details.reason ?? code);
  }

  checkControl(what: "load" | "unload"): void {
    if (this.options.modelControl === "explicit") return;
    throw new ServingError(
      "unavailable",
      `explicit model load / unload is not allowed: ${what} needs 'model_control: explicit' in the server's configuration (rubato.config.yaml); was 'none', which loads every model at the start`,
      { reason: "model-control" },
    );
  }
}
