/**
 * Which models there are, which are served, and loading, unloading and reloading them while others are served.
 *
 * unknown -> loading -> ready -> unloading -> unavailable -> loading ...; a load that fails leaves a served model as it
 * was and one that was not served unavailable, with the reason.
 */
import type { ModelSpec } from "../../config/model.js";
import { type Clock, pause } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import { kindError, REFUSALS } from "../endings.js";
import type { ModelStatistics, RepositoryIndexEntry } from "../gateway.js";
import type { Log } from "../observation/log.js";
import type { WorkerPool } from "../workers/worker-pool.js";
import { sloProblem } from "./host-limits.js";
import type { ModelTimes } from "./model-times.js";
import type { ServedModel } from "./served-model.js";
import type { ServedModels } from "./served-models.js";
import type { TaskTable } from "./tasks/task-table.js";

/** Where models come from and how long they take; given by whoever knows disks and profiles. */
export interface ModelSource {
  /** Names of all models of the repository, broken ones too. */
  names(): readonly string[];
  /** The versions to serve, the newest last, at least one. @throws ServingError what is wrong with it, or not-found. */
  read(name: string): readonly ModelSpec[];
  /** Its profile: kept from before, or measured now on the pool, where it is loaded. */
  times(spec: ModelSpec): Promise<ModelTimes>;
}

/** Whoever keeps the tasks of elastic models. */
export interface TaskSource {
  /** Those on disk, bound to the workers that hold the model. @throws ServingError where that cannot be done. */
  open(spec: ModelSpec): Promise<TaskTable>;
  /** The model is served: tasks that are not profiled may be, beside its requests. */
  begin(model: ServedModel): void;
}

interface Entry {
  state: RepositoryIndexEntry["state"];
  reason: string;
  /** The versions served, the newest last, or none; they stay while newer ones are loading. */
  served: readonly ServedModel[];
  /** Resolves when what was served before has done its last batch and is gone. */
  gone: Promise<void>;
}

interface TimedSpec {
  readonly spec: ModelSpec;
  readonly times: ModelTimes;
  /** Null: the model is not elastic. */
  readonly tasks: TaskTable | null;
}

interface Work {
  readonly kind: "load" | "unload" | "move";
  readonly promise: Promise<void>;
}

const LOAD_ATTEMPTS = 3;

export class ModelTable {
  private readonly entries = new Map<string, Entry>();
  private readonly busy = new Map<string, Work>();
  private readonly source: ModelSource;
  private readonly pool: WorkerPool;
  private readonly models: ServedModels;
  private readonly log: Log;
  private readonly clock: Clock;
  private readonly tasks: TaskSource;

  constructor(source: ModelSource, pool: WorkerPool, models: ServedModels, log: Log, clock: Clock, tasks: TaskSource) {
    this.tasks = tasks;
    this.source = source;
    this.pool = pool;
    this.models = models;
    this.log = log;
    this.clock = clock;
  }

  /** Lists the repository; nothing is loaded. @param isTaken by a pipeline: a name is one of them. */
  scan(isTaken: (name: string) => boolean): void {
    for (const name of this.source.names())
      if (!this.entries.has(name) && !isTaken(name))
        this.entries.set(name, { state: "UNAVAILABLE", reason: "not loaded", served: [], gone: Promise.resolve() });
  }

  /**
   * Loads every model listed, one at a time; the others are served if one is broken.
   *
   * @param retryMs wait before a load that its worker did not live to end is tried again, at most twice: nobody else
   *   would ask for it. @returns how many failed.
   */
  async loadAll(retryMs: number): Promise<number> {
    let failed = 0;
    for (const name of [...this.entries.keys()]) if (!(await this.loadPatiently(name, retryMs))) failed++;
    return failed;
  }

  private async loadPatiently(name: string, retryMs: number): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.load(name);
        return true;
      } catch (error) {
        if (ServingError.from(error).code !== "unavailable" || attempt === LOAD_ATTEMPTS) return false;
        await pause(this.clock, retryMs * 1000);
      }
    }
  }

  /** Known, served or not. */
  has(name: string): boolean {
    return this.entries.has(name);
  }

  /** Its folder is a model's now. */
  isInRepository(name: string): boolean {
    return this.source.names().includes(name);
  }

  /** It is a pipeline's name now. @throws ServingError where it is still served. */
  forget(name: string): void {
    const entry = this.entries.get(name);
    if (entry !== undefined && (entry.state !== "UNAVAILABLE" || this.busy.has(name)))
      throw kindError(name, "model", entry.state, "pipeline");
    this.entries.delete(name);
  }

  /** The model that serves this name, for "" the newest. @throws ServingError not-found or unavailable, naming model and version. */
  serving(name: string, version: string): ServedModel {
    const entry = this.entries.get(name);
    if (entry === undefined)
      throw new ServingError("not-found", `Request for unknown model: '${name}' is not found`, {
        reason: "unknown-model",
      });
    const { served } = entry;
    const newest = served.at(-1);
    if (newest === undefined) {
      const reason = entry.state === "LOADING" ? "loading" : "unloaded";
      throw new ServingError(
        "unavailable",
        `model '${name}': ${REFUSALS[reason].text}${entry.reason === "" ? "" : `: ${entry.reason}`}`,
        {
          reason,
          retryAfterS: 1,
        },
      );
    }
    const wanted = version === "" ? newest : served.find(({ spec }) => spec.version === version);
    if (wanted === undefined)
      throw new ServingError(
        "not-found",
        `Request for unknown model: '${name}' version ${version} is not found; ${versionsText(served)} served`,
        { reason: "unknown-version" },
      );
    return wanted;
  }

  names(): readonly string[] {
    return [...this.entries].filter(([, entry]) => entry.served.length > 0).map(([name]) => name);
  }

  statistics(name: string | null, version: string): readonly ModelStatistics[] {
    if (name !== null && name !== "") {
      const newest = this.serving(name, version);
      const all = version === "" ? this.entries.get(name)!.served : [newest];
      return all.map((model) => model.statistics());
    }
    return this.servedModels().map((model) => model.statistics());
  }

  index(onlyReady: boolean): readonly RepositoryIndexEntry[] {
    const rows: RepositoryIndexEntry[] = [];
    for (const [name, { state, served, reason }] of this.entries) {
      if (onlyReady && state !== "READY") continue;
      const versions = served.length === 0 ? [""] : served.map(({ spec }) => spec.version);
      for (const version of versions) rows.push({ name, version, state, reason });
    }
    return rows;
  }

  /** Of each model that is served, its versions. */
  servedSpecs(): (readonly ModelSpec[])[] {
    const served = [...this.entries.values()].filter((entry) => entry.served.length > 0);
    return served.map((entry) => entry.served.map(({ spec }) => spec));
  }

  servedModels(): ServedModel[] {
    return [...this.entries.values()].flatMap(({ served }) => served);
  }

  /** Loads or reloads from disk. Calls for a model that is being loaded share the one load. */
  load(name: string): Promise<void> {
    return this.single(name, "load", () => this.loadNow(name));
  }

  /** Takes nothing new, serves what it has, leaves the workers. */
  unload(name: string): Promise<void> {
    return this.single(name, "unload", () => this.unloadNow(name));
  }

  /**
   * Serves a model on another group from now on; resolves when the old one has ended what it had and holds nothing of
   * it. The groups are alike, so that its times hold there as well. A failure leaves it where it was.
   *
   * @param isWanted asked when it is loaded: false gives the move up.
   * @returns false if it was given up, or the model is not on `from` any more.
   */
  async move(name: string, from: string, to: string, isWanted: () => boolean): Promise<boolean> {
    let hasMoved = false;
    await this.single(name, "move", async () => {
      hasMoved = await this.moveNow(name, from, to, isWanted);
    });
    if (hasMoved) await this.entries.get(name)?.gone;
    return hasMoved;
  }

  private async moveNow(name: string, from: string, to: string, isWanted: () => boolean): Promise<boolean> {
    const entry = this.entries.get(name);
    const before = entry?.served ?? [];
    if (entry === undefined || before.length === 0 || before.some(({ spec }) => spec.group !== from)) return false;
    const moved = before.map(({ spec }): ModelSpec => ({ ...spec, group: to }));
    const loaded: ModelSpec[] = [];
    const tasks: (TaskTable | null)[] = [];
    try {
      for (const spec of moved) {
        await this.pool.loadBeside(spec);
        loaded.push(spec);
        tasks.push(await this.tasksOf(spec));
      }
    } catch (error) {
      await this.giveBack(loaded);
      entry.reason = `cannot move to group '${to}': ${ServingError.from(error).message}`;
      throw error;
    }
    if (!isWanted()) {
      await this.giveBack(loaded);
      return false;
    }
    entry.served = moved.map((spec, i) => this.models.add(spec, before[i]!.times, before[i], tasks[i]));
    for (const model of entry.served) this.tasks.begin(model);
    entry.reason = this.warning(entry.served);
    this.retire(entry, before);
    return true;
  }

  /** One work at a time on a name: calls for what is under way share it, those for its opposite come after it. */
  private async single(name: string, kind: Work["kind"], work: () => Promise<void>): Promise<void> {
    for (let current = this.busy.get(name); current !== undefined; current = this.busy.get(name)) {
      if (current.kind === kind) return current.promise;
      await current.promise.catch(() => {});
    }
    const promise = work().finally(() => this.busy.delete(name));
    this.busy.set(name, { kind, promise });
    return promise;
  }

  private async unloadNow(name: string): Promise<void> {
    const entry = this.entries.get(name);
    if (entry === undefined)
      throw new ServingError("not-found", `Request for unknown model: '${name}' is not found`, {
        reason: "unknown-model",
      });
    const { served } = entry;
    if (served.length === 0) return;
    entry.state = "UNLOADING";
    entry.served = [];
    await Promise.all([...served.map((model) => this.models.remove(model)), entry.gone]);
    await this.pool.unload(name);
    Object.assign(entry, { state: "UNAVAILABLE", reason: "unloaded" });
    this.log.info({ model: name }, "model unloaded");
  }

  private async loadNow(name: string): Promise<void> {
    const known = this.entries.get(name);
    const entry: Entry = known ?? { state: "UNKNOWN", reason: "", served: [], gone: Promise.resolve() };
    if (entry.served.length === 0) entry.state = "LOADING";
    entry.reason = "";
    const startedAt = this.clock.now();
    let timed: readonly TimedSpec[];
    try {
      const specs = this.source.read(name);
      // Only what the repository holds is listed: asking for other names must not grow the table.
      this.entries.set(name, entry);
      timed = await this.loadAndTime(specs);
    } catch (thrown) {
      const error = ServingError.from(thrown);
      entry.reason = error.message;
      if (entry.served.length === 0) entry.state = "UNAVAILABLE";
      this.log.error({ model: name, err: thrown }, "a model could not be loaded");
      throw error;
    }
    const before = entry.served;
    entry.served = timed.map(({ spec, times, tasks }) => this.models.add(spec, times, null, tasks));
    for (const model of entry.served) this.tasks.begin(model);
    entry.state = "READY";
    entry.reason = this.warning(entry.served);
    const loadMs = Math.round((this.clock.now() - startedAt) / 1000);
    for (const { spec, times } of timed) {
      const { version, group } = spec;
      this.log.info({ model: name, version, group, aloneMs: times.us(1, null) / 1000, loadMs }, "model ready");
    }
    for (const text of timed[0]!.spec.warnings ?? []) this.log.warn({ model: name }, text);
    this.retire(entry, before);
  }

  /** Beside what is served, which the requests checked against it go on to use; a failure leaves nothing behind. */
  private async loadAndTime(specs: readonly ModelSpec[]): Promise<readonly TimedSpec[]> {
    const loaded: ModelSpec[] = [];
    const timed: TimedSpec[] = [];
    try {
      for (const spec of specs) {
        await this.pool.loadBeside(spec);
        loaded.push(spec);
        const tasks = await this.tasksOf(spec);
        timed.push({ spec, times: await this.source.times(spec), tasks });
      }
      return timed;
    } catch (error) {
      await this.giveBack(loaded);
      throw error;
    }
  }

  private async tasksOf(spec: ModelSpec): Promise<TaskTable | null> {
    return spec.elastic === undefined ? null : this.tasks.open(spec);
  }

  private async giveBack(loaded: readonly ModelSpec[]): Promise<void> {
    for (const spec of loaded) await this.pool.release(spec);
  }

  /** They end what they have; `gone` is when. */
  private retire(entry: Entry, models: readonly ServedModel[]): void {
    const leave = async (model: ServedModel): Promise<void> => {
      await this.models.remove(model);
      await this.pool.release(model.spec);
    };
    entry.gone = Promise.all([entry.gone, ...models.map(leave)]).then(() => {});
  }

  /** An SLO that not even a lone request can keep: its requests will be refused as infeasible, and the owner should know. */
  private warning(served: readonly ServedModel[]): string {
    const texts = served.flatMap(({ spec, times }) => {
      const text = sloProblem(spec, times.us(1, null));
      if (text !== null) this.log.warn({ model: spec.name, version: spec.version }, text);
      return text ?? [];
    });
    return texts.at(-1) ?? "";
  }
}

const versionsText = (served: readonly ServedModel[]): string =>
  served.length === 1 ? `version ${served[0]!.spec.version} is` : `versions ${served[0]!.spec.versions.join(", ")} are`;
