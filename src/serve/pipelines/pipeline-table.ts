/**
 * Which pipelines there are and which are served. One is loaded once its models are; a load that fails leaves a served one as
 * it was. Models that are loaded anew or moved serve its next parts, whose tensors are held against them like any call's.
 */
import type { ModelSpec } from "../../config/model.js";
import { ModelFileError } from "../../config/server/model-file.js";
import type { ReadPipeline } from "../../config/server/pipelines/pipeline-file.js";
import { resolvePipeline } from "../../config/server/pipelines/pipeline-spec.js";
import { type PipelineSpec, runOf } from "../../config/server/pipelines/served-pipeline.js";
import { plannedBatch, staggeredUs } from "../../core/latency/planned-batch.js";
import type { ModuleTimes } from "../../system/budget/module-times.js";
import { togetherUs } from "../../system/budget/part-work.js";
import { columnOf } from "../../system/module-states.js";
import { pause } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import { kindError, REFUSALS } from "../endings.js";
import type { ModelStatistics, RepositoryIndexEntry } from "../gateway.js";
import type { ServedModel } from "../models/served-model.js";
import type { Log } from "../observation/log.js";
import type { PipelineMetrics, PipelineView } from "../observation/pipeline-metrics.js";
import { LivePipeline, type PipelineHost } from "./live-pipeline.js";

/** Where pipelines come from; given by whoever knows disks. */
export interface PipelineSource {
  /** Names of all pipelines of the repository, broken ones too. */
  pipelines(): readonly string[];
  isPipeline(name: string): boolean;
  /** @throws ServingError, ModelFileError: what is wrong with it. */
  readPipeline(name: string): { readonly folder: string; readonly read: ReadPipeline };
}

interface Listed {
  state: RepositoryIndexEntry["state"];
  reason: string;
  served: LivePipeline | null;
}

/** Of a name that a module has for its model. */
export const IS_PIPELINE = "it is a pipeline, and pipelines do not nest";
const IDLE_LOOK_US = 10_000;

export class PipelineTable implements PipelineView {
  private readonly entries = new Map<string, Listed>();
  /** Not served any more, or not as they were, and not yet at their end. */
  private readonly leaving = new Set<LivePipeline>();
  private readonly source: PipelineSource | null;
  private readonly host: { -readonly [K in keyof PipelineHost]: PipelineHost[K] };
  private readonly metrics: PipelineMetrics;
  private readonly log: Log;
  private isRefusing = false;

  constructor(
    source: PipelineSource | null,
    host: Omit<PipelineHost, "isDraining" | "log">,
    metrics: PipelineMetrics,
    log: Log,
  ) {
    this.source = source;
    this.host = { ...host, log, isDraining: false };
    this.metrics = metrics;
    this.log = log;
    metrics.view = this;
  }

  /** Lists the repository; nothing is loaded. @param isTaken by a model: a name is one of them. */
  scan(isTaken: (name: string) => boolean): void {
    for (const name of this.source?.pipelines() ?? [])
      if (!this.entries.has(name) && !isTaken(name))
        this.entries.set(name, { state: "UNAVAILABLE", reason: "not loaded", served: null });
  }

  has(name: string): boolean {
    return this.entries.has(name);
  }

  /** Its folder is a pipeline's now. */
  isInRepository(name: string): boolean {
    return this.source?.isPipeline(name) === true;
  }

  /** It is a model's name now. @throws ServingError where it is still served. */
  forget(name: string): void {
    const state = this.entries.get(name)?.state ?? "UNAVAILABLE";
    if (state !== "UNAVAILABLE") throw kindError(name, "pipeline", state, "model");
    this.entries.delete(name);
  }

  names(): readonly string[] {
    return [...this.entries].filter(([, { served }]) => served !== null).map(([name]) => name);
  }

  specs(): ModelSpec[] {
    return [...this.served()].map(({ spec }) => spec.client);
  }

  private *served(): Generator<LivePipeline> {
    for (const { served } of this.entries.values()) if (served !== null) yield served;
  }

  /** @throws ServingError not-found or unavailable, naming pipeline and version. */
  serving(name: string, version: string): LivePipeline {
    const { served, state, reason: why } = this.entries.get(name)!;
    if (served === null) throw refused(name, state === "LOADING" ? "loading" : "unloaded", why);
    const { client } = served.spec;
    if (version !== "" && version !== client.version)
      throw new ServingError(
        "not-found",
        `Request for unknown model: '${name}' version ${version} is not found; version ${client.version} is served`,
        { reason: "unknown-version" },
      );
    return served;
  }

  /** The one that serves a call. @throws ServingError as `serving`, and draining. */
  entrance(name: string, version: string): LivePipeline {
    if (this.isRefusing) throw refused(name, "draining", "");
    return this.serving(name, version);
  }

  index(onlyReady: boolean): readonly RepositoryIndexEntry[] {
    return [...this.entries].flatMap(([name, { state: listed, reason: why, served }]) => {
      const fault = served?.fault ?? "";
      const state = fault === "" ? listed : "UNAVAILABLE";
      const reason = fault === "" ? why : fault;
      return onlyReady && state !== "READY" ? [] : { name, version: served?.spec.client.version ?? "", state, reason };
    });
  }

  statistics(): readonly ModelStatistics[] {
    return [...this.served()].map((pipeline) => pipeline.statistics());
  }

  /** Loads every pipeline listed; the others are served if one is broken. @returns how many failed. */
  async loadAll(): Promise<number> {
    let failed = 0;
    for (const name of this.entries.keys())
      await this.load(name, false).catch(() => {
        failed++;
      });
    return failed;
  }

  /** Loads or reloads from disk. @param withModels models that are not served are loaded before. */
  async load(name: string, withModels: boolean): Promise<void> {
    const entry: Listed = this.entries.get(name) ?? { state: "UNKNOWN", reason: "", served: null };
    if (entry.served === null) entry.state = "LOADING";
    entry.reason = "";
    try {
      const { folder, read } = this.source!.readPipeline(name);
      this.entries.set(name, entry);
      if (withModels) await this.loadModels(read);
      const spec = resolvePipeline(
        name,
        folder,
        read,
        (model) => (this.isInRepository(model) ? IS_PIPELINE : this.modelOf(model)),
        (model) => this.host.models.serving(model, "").group.spec.policy?.name ?? null,
      );
      const served = this.create(spec);
      await served.start();
      const before = entry.served;
      entry.served = served;
      entry.state = "READY";
      entry.reason = served.warning;
      if (before !== null) void this.retire(before);
      const modules = spec.modules.map((module) => `${module.name} (${runOf(module)})`);
      this.log.info({ pipeline: name, modules }, "pipeline ready");
      if (entry.reason !== "") this.log.warn({ pipeline: name }, entry.reason);
    } catch (thrown) {
      // What is wrong with a file is its owner's, as with models.
      const error =
        thrown instanceof ModelFileError
          ? new ServingError("invalid-argument", thrown.message, { cause: thrown })
          : ServingError.from(thrown);
      entry.reason = error.message;
      if (entry.served === null) entry.state = "UNAVAILABLE";
      this.log.error({ pipeline: name, err: thrown }, "a pipeline could not be loaded");
      throw error;
    }
  }

  private async loadModels({ file }: ReadPipeline): Promise<void> {
    // What is wrong with it is said when the pipeline is held against it.
    const models = file.modules.flatMap(({ name, model = name, step }) => (step === undefined ? model : []));
    for (const model of new Set(models))
      if (typeof this.modelOf(model) === "string") await this.host.models.load(model).catch(() => {});
  }

  private modelOf(name: string): ModelSpec | string {
    try {
      return this.host.models.serving(name, "").spec;
    } catch (error) {
      return ServingError.from(error).message;
    }
  }

  private create(spec: PipelineSpec): LivePipeline {
    const { name } = spec.client;
    const cells = this.metrics.ofPipeline(
      name,
      spec.modules.map((module) => module.name),
    );
    /** By module: as it was served last, for a pipeline whose model goes before it does. */
    const last = new Map<number, ServedModel>();
    const modelOf = (module: number): ServedModel => {
      const { model } = spec.modules[module]!;
      if (typeof this.modelOf(model) !== "string") last.set(module, this.host.models.serving(model, ""));
      return last.get(module)!;
    };
    /** @param inUs of what is to be done, by the times of batches of each size. */
    const timeUs = (module: number, inUs: (table: Float64Array, model: ModelSpec, count: number) => number): number => {
      const { group, spec: model, times } = modelOf(module);
      const { controlUs, dataUsPerRequest } = group.network;
      const sizeMax = Math.max(1, model.batchSizeMax);
      const table = Float64Array.from({ length: sizeMax + 1 }, (_, size) => (size === 0 ? 0 : times.us(size, null)));
      return controlUs + dataUsPerRequest + inUs(table, model, group.spec.count);
    };
    const moduleTimes: ModuleTimes = {
      leastUs: (module) => timeUs(module, (table) => table[1]!),
      plannedUs: (module) =>
        timeUs(module, (table, { sloUs }) => table[plannedBatch(table, table.length - 1, sloUs ?? 0)]!),
      staggeredUs: (module, forUs) =>
        timeUs(module, (table, { sloUs }, count) => staggeredUs(table, table.length - 1, sloUs ?? forUs, count)),
      isSingle: (module) => modelOf(module).spec.batchSizeMax <= 1,
      groupOf: (module) => modelOf(module).group.index,
      acceleratorsOf: (module) => modelOf(module).group.spec.count,
      togetherUs: (module, parts, beside, eachUs) =>
        timeUs(module, (table, _, count) =>
          togetherUs(parts, count, table.length - 1, (size) => table[size]!, beside, eachUs),
        ),
    };
    return new LivePipeline(spec, moduleTimes, cells, this.host);
  }

  /** Takes nothing new; resolves when what it had has ended. Its models stay. */
  async unload(name: string): Promise<void> {
    const entry = this.entries.get(name)!;
    const { served } = entry;
    if (served === null) return;
    Object.assign(entry, { served: null, state: "UNLOADING" });
    await this.retire(served);
    if (entry.state === "UNLOADING") Object.assign(entry, { state: "UNAVAILABLE", reason: "unloaded" });
    this.log.info({ pipeline: name }, "pipeline unloaded");
  }

  /** Resolves when what it had has ended. */
  private async retire(served: LivePipeline): Promise<void> {
    this.leaving.add(served);
    while (served.live > 0) await pause(this.host.clock, IDLE_LOOK_US);
    await served.close();
    this.leaving.delete(served);
  }

  /** What parts handed on is said now, and so meets the accelerator that they freed in one turn of the scheduler. */
  settle(): void {
    for (const pipeline of this.served()) pipeline.settle();
    for (const pipeline of this.leaving) pipeline.settle();
  }

  /** Not served any more, and not yet at their end. */
  get leavingCount(): number {
    return this.leaving.size;
  }

  // At the end

  /** Requests in flight, of those that are leaving, too. */
  get live(): number {
    let live = 0;
    for (const pipeline of [...this.served(), ...this.leaving]) live += pipeline.live;
    return live;
  }

  /** From now on every call is refused as draining; what is underway goes on. */
  refuseAll(): void {
    this.isRefusing = true;
  }

  /** From now on no module is begun any more. */
  drain(): void {
    this.host.isDraining = true;
    for (const pipeline of [...this.served(), ...this.leaving]) pipeline.drain();
  }

  /** Ends the threads of all steps. */
  async close(): Promise<void> {
    await Promise.all([...this.served(), ...this.leaving].map((pipeline) => pipeline.close()));
  }

  // PipelineView

  *pipelines() {
    for (const [pipeline, { served }] of this.entries) {
      const all = [
        ...(served === null ? [] : [served]),
        ...[...this.leaving].filter(({ spec }) => spec.client.name === pipeline),
      ];
      const sum = (of: (each: LivePipeline) => number): number => all.reduce((total, each) => total + of(each), 0);
      const isReady = served?.fault === "" && !this.isRefusing;
      yield { pipeline, inFlight: sum(({ live }) => live), bytes: sum(({ heldBytes }) => heldBytes), isReady };
    }
  }

  *modules() {
    const now = this.host.clock.now();
    for (const { spec, states } of this.served()) {
      const row = states.board.blank();
      for (const [index, { name }] of spec.modules.entries()) {
        if (states.board.read(index, now, row) !== "fresh") continue;
        const value = (column: Parameters<typeof columnOf>[0]): number => row.value(columnOf(column));
        yield {
          pipeline: spec.client.name,
          module: name,
          queueUs: value("queue_us"),
          runUs: value("run_us"),
          batchSize: value("batch_size"),
        };
      }
    }
  }
}

function refused(name: string, reason: "draining" | "loading" | "unloaded", why: string): ServingError {
  const { code, text } = REFUSALS[reason];
  return new ServingError(code, `pipeline '${name}': ${text}${why === "" ? "" : `: ${why}`}`, {
    reason,
    retryAfterS: 1,
  });
}
