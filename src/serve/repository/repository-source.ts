import { type ModelSpec, startCount } from "../../config/model.js";
import type { HostLimits } from "../models/host-limits.js";
import { type ModelProfile, type ProfilePoint, profileOfEmulated } from "../models/model-profile.js";
import type { ModelSource } from "../models/model-table.js";
import { ModelTimes } from "../models/model-times.js";
import { loadProfile, saveProfile } from "../models/profile-store.js";
import { environmentOf, profileModel, variantAt } from "../models/profiler.js";
import type { Log } from "../observation/log.js";
import type { PipelineSource } from "../pipelines/pipeline-table.js";
import type { ProcessPool } from "../workers/process-pool.js";
import { readPipelineFile } from "./pipeline-reader.js";
import { hasPipeline, modelNames, pipelineNames, readServable, servedBy } from "./repository.js";

export interface RepositorySourceOptions {
  readonly folder: string;
  /** Milliseconds to measure one model when it loads. */
  readonly profileBudgetMs: number;
  /** Measure even if a fitting profile is kept. */
  readonly refresh: boolean;
  /** Where profiles go that cannot be kept beside their model; null: nowhere. */
  readonly cacheDir: string | null;
  readonly host: HostLimits;
}

const CHECK_RUNS = 5;
/** A stored time within this factor of a fresh one is believed; batches correct the rest. */
const HOLDS = 1.6;
/** Other points are run fewer times, and must hold within this. */
const OTHER_RUNS = 2;
const OTHERS_HOLD = 3;

/** The repository on disk, with profiles kept beside the models and measured where none fits this machine. */
export class RepositorySource implements ModelSource, PipelineSource {
  private readonly pool: ProcessPool;
  private readonly log: Log;
  private readonly options: RepositorySourceOptions;

  constructor(pool: ProcessPool, log: Log, options: RepositorySourceOptions) {
    this.pool = pool;
    this.log = log;
    this.options = options;
  }

  names(): readonly string[] {
    return modelNames(this.options.folder);
  }

  read(name: string): readonly ModelSpec[] {
    const { folder, host } = this.options;
    return readServable(folder, name, servedBy(host));
  }

  pipelines(): readonly string[] {
    return pipelineNames(this.options.folder);
  }

  isPipeline(name: string): boolean {
    return hasPipeline(this.options.folder, name);
  }

  readPipeline(name: string): ReturnType<PipelineSource["readPipeline"]> {
    return readPipelineFile(this.options.folder, name);
  }

  async times(spec: ModelSpec): Promise<ModelTimes> {
    return new ModelTimes(spec, await this.profile(spec));
  }

  private async profile(spec: ModelSpec): Promise<ModelProfile> {
    if (spec.emulated !== null) return profileOfEmulated(spec);
    const group = this.pool.groups.find((candidate) => candidate.name === spec.group)!;
    const runtime = this.pool.runtimeOf(spec.group);
    const { cacheDir, refresh, profileBudgetMs } = this.options;
    const stored = refresh
      ? null
      : loadProfile(spec, environmentOf(spec, group.threads, startCount(group), runtime), cacheDir);
    const staleness = stored === null ? null : (stored.staleness ?? (await this.contradiction(spec, stored.profile)));
    if (stored !== null && staleness === null) return stored.profile;
    if (stored !== null) this.log.info({ model: spec.name, because: staleness }, "the stored profile is stale");
    const profile = await profileModel(this.pool, spec, { budgetMs: profileBudgetMs, runtime });
    const file = saveProfile(spec, profile, cacheDir);
    if (file === null)
      this.log.warn({ model: spec.name }, "the profile could not be kept: it is measured at every load");
    return profile;
  }

  /**
   * A profile kept from a noisy hour, or planted, would be believed for ever: a few runs of its first point say whether it
   * still holds, and fewer of some that its plans rest on.
   */
  private async contradiction(spec: ModelSpec, profile: ModelProfile): Promise<string | null> {
    let accelerator = 0;
    for (const group of this.pool.groups) {
      if (group.name === spec.group) break;
      accelerator += group.count;
    }
    for (const [i, { batchSize, extent, gamma, alone }] of telling(profile.points).entries()) {
      const runs = i === 0 ? CHECK_RUNS : OTHER_RUNS;
      const holds = i === 0 ? HOLDS : OTHERS_HOLD;
      const { p50Us } = await this.pool.time(accelerator, spec.name, batchSize, extent, runs, variantAt(spec, gamma));
      const ratio = p50Us / Math.max(1, alone.p50Us);
      if (ratio >= holds || ratio <= 1 / holds)
        return `a batch of ${batchSize} takes ${(p50Us / 1000).toFixed(2)} ms now, ${(alone.p50Us / 1000).toFixed(2)} ms by the profile`;
    }
    return null;
  }
}

/** The first point, the middle and the largest batch of its extent, and one request of the largest extent. */
function telling(points: readonly ProfilePoint[]): readonly ProfilePoint[] {
  const own = points.filter(({ extent, gamma }) => extent === points[0]?.extent && gamma === points[0]?.gamma);
  const last = points.at(-1)!;
  const far = points.find(({ extent, gamma }) => extent === last.extent && gamma === last.gamma);
  const some = [own[0], own[own.length >> 1], own.at(-1), far];
  return [...new Set(some.filter((point) => point !== undefined))];
}
