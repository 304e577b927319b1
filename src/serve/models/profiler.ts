/** Measures how long batches of a model take: growing sizes, every bucket, alone and with the whole group at work. */
import { statSync } from "node:fs";
import { cpus } from "node:os";
import { variantOf } from "../../config/elastic.js";
import { type ModelSpec, startCount } from "../../config/model.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { ServingError } from "../../wire/serving-error.js";
import { Turnstile } from "../workers/seats/turnstile.js";
import type { AcceleratorIndex, WorkerPool } from "../workers/worker-pool.js";
import {
  fitProfile,
  type ModelProfile,
  PROFILE_SCHEMA,
  type ProfileEnvironment,
  type ProfilePoint,
  profileOfEmulated,
  type Quantiles,
} from "./model-profile.js";

export interface ProfileOptions {
  /** Time to spend on one model, ms; sizes that no longer fit are left to the fit. Default 5000. */
  readonly budgetMs?: number;
  /** Largest number of measured runs per point. Default 30. */
  readonly runsMax?: number;
  /** Called after every point. */
  readonly onProgress?: (progress: ProfileProgress) => void;
  /** Recorded with the profile; from the pool. Default "". */
  readonly runtime?: string;
}

export interface ProfileProgress {
  readonly model: string;
  readonly point: ProfilePoint;
  /** Share of the budget spent, 0 to 1. */
  readonly spent: number;
}

const RUNS_MIN = 3;
/** Per size; smaller sizes and the load have warmed up the rest. */
const WARM_UP_RUNS = 1;

/** Two measurements at once would measure each other: over all pools of this process, one model at a time. */
const turnstile = new Turnstile();

/**
 * The model must be loaded and its group otherwise idle.
 *
 * @throws ServingError with the runtime's text when the model refuses synthetic inputs, naming the settings that help
 *   (profile_shape, profile_value).
 */
export function profileModel(pool: WorkerPool, spec: ModelSpec, options: ProfileOptions = {}): Promise<ModelProfile> {
  if (spec.emulated !== null) return Promise.resolve(profileOfEmulated(spec));
  return turnstile
    .pass(() => measure(pool, spec, options))
    .catch((error: unknown) => {
      throw withHint(error, spec);
    });
}

/** A model that refuses the extents we made up needs its owner's word. */
function withHint(error: unknown, spec: ModelSpec): unknown {
  if (!(error instanceof ServingError)) return error;
  const open = spec.inputs.filter((input) =>
    input.shape.some(
      (extent, axis) =>
        extent < 0 &&
        axis !== input.batchAxis &&
        axis !== input.variable?.axis &&
        (input.profileShape?.[axis] ?? -1) < 0,
    ),
  );
  if (open.length === 0) return error;
  const keys = open.map((input) => `inputs.${input.name}.profile_shape`).join(", ");
  return new ServingError(
    error.code,
    `${error.message} (profiled with 32 where nothing says more: give ${keys} in rubato.yaml)`,
    error.details,
  );
}

async function measure(pool: WorkerPool, spec: ModelSpec, options: ProfileOptions): Promise<ModelProfile> {
  const accelerators = acceleratorsOf(pool, spec.group);
  const budgetUs = (options.budgetMs ?? 5000) * 1000;
  const startedAt = monotonicNow();
  const extents = profiledExtents(spec);
  const runs = profiledGammas(spec).flatMap((gamma) => extents.map((extent) => ({ gamma, extent })));
  const points: ProfilePoint[] = [];
  let complete = true;
  for (const [i, { gamma, extent }] of runs.entries()) {
    // What an extent leaves over goes to the larger ones after it, which need it more; so with gammas.
    const left = budgetUs - (monotonicNow() - startedAt);
    const ladder = new Ladder(pool, spec, accelerators, left / (runs.length - i), options, gamma);
    complete =
      (await ladder.climb(extent, (point) => {
        points.push(point);
        const spent = Math.min(1, (monotonicNow() - startedAt) / budgetUs);
        options.onProgress?.({ model: spec.name, point, spent });
      })) && complete;
  }
  const group = pool.groups.find((candidate) => candidate.name === spec.group)!;
  return {
    schema: PROFILE_SCHEMA,
    model: spec.name,
    version: spec.version,
    batchMax: Math.max(1, spec.batchSizeMax),
    environment: environmentOf(spec, group.threads, startCount(group), options.runtime ?? ""),
    points,
    fits: fitProfile(points),
    complete,
  };
}

class Ladder {
  constructor(
    private readonly pool: WorkerPool,
    private readonly spec: ModelSpec,
    private readonly accelerators: readonly AcceleratorIndex[],
    private readonly budgetUs: number,
    private readonly options: ProfileOptions,
    private readonly gamma: number | undefined,
  ) {}

  /** Alone and with all at work are one and the same where there is one accelerator. */
  private get passes(): number {
    return this.accelerators.length === 1 ? 1 : 2;
  }

  /** Sizes 1, 2, 4, ... of one extent; false when the time ended before the largest. At least one size is measured. */
  async climb(extent: number | null, onPoint: (point: ProfilePoint) => void): Promise<boolean> {
    const startedAt = monotonicNow();
    const sizes = sizesOf(this.spec);
    let lastUs = 0;
    for (const [i, batchSize] of sizes.entries()) {
      const left = this.budgetUs - (monotonicNow() - startedAt);
      // Twice the rows take up to twice the time.
      if (i > 0 && lastUs * 2 * (WARM_UP_RUNS + this.passes * RUNS_MIN) > left) return false;
      const point = await this.point(batchSize, extent, left / (sizes.length - i));
      lastUs = point.busy.p50Us;
      onPoint(point);
    }
    return true;
  }

  private async point(batchSize: number, extent: number | null, shareUs: number): Promise<ProfilePoint> {
    const warm = await this.time(this.accelerators, batchSize, extent, WARM_UP_RUNS);
    const perRunUs = Math.max(1, Math.min(...warm.map((quantiles) => quantiles.p50Us)));
    const fitting = Math.floor((shareUs - WARM_UP_RUNS * perRunUs) / this.passes / perRunUs);
    const runs = Math.max(RUNS_MIN, Math.min(this.options.runsMax ?? 30, fitting));
    const alone = (await this.time(this.accelerators.slice(0, 1), batchSize, extent, runs))[0]!;
    const busy = this.passes === 1 ? alone : worst(await this.time(this.accelerators, batchSize, extent, runs));
    return { extent, ...(this.gamma === undefined ? {} : { gamma: this.gamma }), batchSize, alone, busy };
  }

  private time(
    on: readonly AcceleratorIndex[],
    batchSize: number,
    extent: number | null,
    runs: number,
  ): Promise<Quantiles[]> {
    const variant = variantAt(this.spec, this.gamma);
    return Promise.all(
      on.map(async (accelerator) => {
        const { name } = this.spec;
        const { p50Us, p90Us, p99Us } = await this.pool.time(accelerator, name, batchSize, extent, runs, variant);
        return { p50Us, p90Us, p99Us, runs };
      }),
    );
  }
}

/** Over accelerators that ran at once: the mean of their medians, the worst of their tails. */
function worst(all: readonly Quantiles[]): Quantiles {
  return {
    p50Us: Math.round(all.reduce((sum, one) => sum + one.p50Us, 0) / all.length),
    p90Us: Math.max(...all.map((one) => one.p90Us)),
    p99Us: Math.max(...all.map((one) => one.p99Us)),
    runs: all.reduce((sum, one) => sum + one.runs, 0),
  };
}

function acceleratorsOf(pool: WorkerPool, name: string): AcceleratorIndex[] {
  let first = 0;
  for (const group of pool.groups) {
    if (group.name === name) {
      const all = Array.from({ length: group.count }, (_, i) => first + i);
      const up = all.filter((accelerator) => pool.isUp(accelerator));
      // Where none is up the first says why.
      return up.length > 0 ? up : [first];
    }
    first += group.count;
  }
  throw new ServingError(
    "invalid-argument",
    `group must be one of ${pool.groups.map((g) => g.name).join(", ")}; was ${name}`,
  );
}

function sizesOf(spec: ModelSpec): number[] {
  if (spec.batchSizeFixed !== null) return [spec.batchSizeFixed];
  const sizes: number[] = [];
  const largest = Math.max(1, spec.batchSizeMax);
  for (let size = 1; size < largest; size *= 2) sizes.push(size);
  return [...sizes, largest];
}

/** Buckets of the first padded input; models without are measured once, at their profile_shape. */
export function profiledExtents(spec: ModelSpec): (number | null)[] {
  const variable = spec.inputs.find((input) => input.variable !== null && input.mask !== true)?.variable;
  return variable === undefined || variable === null || variable.buckets.length === 0 ? [null] : [...variable.buckets];
}

/** Of an elastic model, ascending; [undefined] of another. */
export const profiledGammas = ({ elastic }: ModelSpec): readonly (number | undefined)[] =>
  elastic?.gammas ?? [undefined];

/** How the pool is asked to time a point of the profile. */
export const variantAt = ({ elastic }: ModelSpec, gamma: number | undefined): number =>
  elastic === undefined || gamma === undefined ? 0 : variantOf(elastic, gamma);

export function environmentOf(
  spec: ModelSpec,
  threads: number,
  accelerators: number,
  runtime: string,
): ProfileEnvironment {
  const files = [spec.file, spec.tailFile].flatMap((file) => file ?? []);
  const modelBytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
  return { cpuModel: cpus()[0]?.model ?? "", threads, accelerators, runtime, modelBytes };
}
