/**
 * Which models there are, which are served, and loading, unloading and reloading them while others are served.
 *
 * unknown -> loading -> ready -> unloading -> unavailable -> loading ...; a load that fails leaves a served model as it
 * was and one that was not served unavailable, with the reason.
 */
import type { ModelSpec } from "../config/model.js";
import { ServingError } from "../wire/serving-error.js";
import { REFUSALS } from "./endings.js";
import type { ModelStatistics, RepositoryIndexEntry } from "./gateway.js";
import type { Log } from "./log.js";
import type { ModelTimes } from "./model-times.js";
import type { ServedModel } from "./served-model.js";
import type { ServedModels } from "./served-models.js";
import type { WorkerPool } from "./worker-pool.js";

/** Where models come from and how long they take; given by whoever knows disks and profiles. */
export interface ModelSource {
  /** Names of all models of the repository, broken ones too. */
  names(): readonly string[];
  /** @throws ServingError what is wrong with it, or not-found. */
  read(name: string): ModelSpec;
  /** Its profile: kept from before, or measured now on the pool, where it is loaded. */
  times(spec: ModelSpec): Promise<ModelTimes>;
}

interface Entry {
  state: RepositoryIndexEntry["state"];
  version: string;
  reason: string;
  /** What is served; stays while a newer one is loading. */
  served: ServedModel | null;
  /** Resolves when what was served before has done its last batch and is gone. */
  gone: Promise<void>;
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

  constructor(source: ModelSource, pool: WorkerPool, models: ServedModels, log: Log) {
    this.source = source;
    this.pool = pool;
    this.models = models;
    this.log = log;
  }

  /** Lists the repository; nothing is loaded. */
  scan(): void {
    for (const name of this.source.names())
      if (!this.entries.has(name))
        this.entries.set(name, {
          state: "UNAVAILABLE",
          version: "",
          reason: "not loaded",
          served: null,
          gone: Promise.resolve(),
        });
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
        await new Promise((resolve) => setTimeout(resolve, retryMs));
      }
    }
  }

  /** The model that serves this name. @throws ServingError not-found or unavailable, naming model and version. */
  serving(name: string, version: string): ServedModel {
    const entry = this.entries.get(name);
    if (entry === undefined)
      throw new ServingError("not-found", `Request for unknown model: '${name}' is not found`, {
        reason: "unknown-model",
      });
    const { served } = entry;
    if (served === null) {
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
    if (version !== "" && version !== served.spec.version)
      throw new ServingError(
        "not-found",
        `Request for unknown model: '${name}' version ${version} is not found; version ${served.spec.version} is served`,
        { reason: "unknown-version" },
      );
    return served;
  }

  names(): readonly string[] {
    return [...this.entries].filter(([, entry]) => entry.served !== null).map(([name]) => name);
  }

  statistics(name: string | null, version: string): readonly ModelStatistics[] {
    if (name !== null && name !== "") return [this.serving(name, version).statistics()];
    return this.servedModels().map((model) => model.statistics());
  }

  index(onlyReady: boolean): readonly RepositoryIndexEntry[] {
    const rows: RepositoryIndexEntry[] = [];
    for (const [name, { state, version, reason }] of this.entries)
      if (!onlyReady || state === "READY") rows.push({ name, version, state, reason });
    return rows;
  }

  servedModels(): ServedModel[] {
    return [...this.entries.values()].flatMap(({ served }) => (served === null ? [] : [served]));
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
    const before = entry?.served ?? null;
    if (entry === undefined || before === null || before.spec.group !== from) return false;
    const spec: ModelSpec = { ...before.spec, group: to };
    try {
      await this.pool.loadBeside(spec);
    } catch (error) {
      entry.reason = `cannot move to group '${to}': ${ServingError.from(error).message}`;
      throw error;
    }
    if (!isWanted()) {
      await this.pool.release(spec);
      return false;
    }
    entry.served = this.models.add(spec, before.times, before);
    entry.reason = this.warning(spec, before.times);
    entry.gone = Promise.all([entry.gone, this.retire(before)]).then(() => {});
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
    if (served === null) return;
    entry.state = "UNLOADING";
    entry.served = null;
    await Promise.all([this.models.remove(served), entry.gone]);
    await this.pool.unload(name);
    Object.assign(entry, { state: "UNAVAILABLE", reason: "unloaded" });
    this.log.info({ model: name }, "model unloaded");
  }

  private async loadNow(name: string): Promise<void> {
    const known = this.entries.get(name);
    const entry: Entry = known ?? { state: "UNKNOWN", version: "", reason: "", served: null, gone: Promise.resolve() };
    if (entry.served === null) entry.state = "LOADING";
    entry.reason = "";
    const startedAt = performance.now();
    let spec: ModelSpec;
    let times: ModelTimes;
    try {
      spec = this.source.read(name);
      this.models.check(spec);
      // Only what the repository holds is listed: asking for other names must not grow the table.
      this.entries.set(name, entry);
      times = await this.loadAndTime(spec);
    } catch (thrown) {
      const error = ServingError.from(thrown);
      entry.reason = error.message;
      if (entry.served === null) entry.state = "UNAVAILABLE";
      this.log.error({ model: name, err: thrown }, "a model could not be loaded");
      throw error;
    }
    const before = entry.served;
    entry.served = this.models.add(spec, times);
    entry.state = "READY";
    entry.version = spec.version;
    entry.reason = this.warning(spec, times);
    const aloneMs = times.us(1, null) / 1000;
    this.log.info(
      {
        model: name,
        version: spec.version,
        group: spec.group,
        aloneMs,
        loadMs: Math.round(performance.now() - startedAt),
      },
      "model ready",
    );
    if (before !== null) entry.gone = Promise.all([entry.gone, this.retire(before)]).then(() => {});
  }

  /** Beside what is served, which the requests checked against it go on to use; a failure leaves nothing behind. */
  private async loadAndTime(spec: ModelSpec): Promise<ModelTimes> {
    await this.pool.loadBeside(spec);
    try {
      return await this.source.times(spec);
    } catch (error) {
      await this.pool.release(spec);
      throw error;
    }
  }

  private async retire(model: ServedModel): Promise<void> {
    await this.models.remove(model);
    await this.pool.release(model.spec);
  }

  /** An SLO that not even a lone request can keep: its requests will be refused as infeasible, and the owner should know. */
  private warning(spec: ModelSpec, times: ModelTimes): string {
    if (spec.sloUs === null) return "";
    const aloneUs = times.us(1, null);
    if (aloneUs <= spec.sloUs) return "";
    const text = `slo_ms must be at least the profiled time of one request (${(aloneUs / 1000).toFixed(3)} ms); was ${spec.sloUs / 1000}`;
    this.log.warn({ model: spec.name }, text);
    return text;
  }
}
