/**
 * What batches truly take, apart from what planners believe: by the apps of their members, their size and the seed. A model
 * without apps takes what its profile says.
 *
 * A request's app and its time alone are drawn by its number (and its place among the parts of a pipeline's request), so they are
 * the same under every policy, and nothing is kept of them.
 */
import { batchUs } from "../config/scenario/apps/batch-time.js";
import { LOGNORMAL, NORMAL, TIME_US_MIN, type TimeMixture } from "../config/scenario/apps/time-mixture.js";
import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { cumulated } from "../config/scenario/pipelines/expand-pipelines.js";
import type { KindTimes } from "../core/policy.js";
import { PLAIN, type RequestTraits } from "../core/tables/request-table.js";
import { Draws, pick } from "./draws.js";
import { normalOf } from "./random.js";

export class TrueTimes {
  /** By model; null: it has no apps. */
  private readonly models: readonly (ModelTimes | null)[];
  private readonly traits = { ...PLAIN };

  /** @returns null where no model has apps. */
  static of(scenario: ExpandedScenario, seed: number): TrueTimes | null {
    return scenario.models.some(({ apps }) => apps !== undefined) ? new TrueTimes(scenario, seed) : null;
  }

  private constructor(scenario: ExpandedScenario, seed: number) {
    this.models = scenario.models.map((model) => (model.apps === undefined ? null : new ModelTimes(model, seed)));
  }

  has(model: number): boolean {
    return this.models[model] !== null;
  }

  /** @param app of the request where the load names it; -1: drawn. @returns undefined: a plain request. Read at once. */
  traitsOf(model: number, number: number, app: number): RequestTraits | undefined {
    const times = this.models[model]!;
    if (times === null) return undefined;
    this.traits.kind = app >= 0 ? app : times.appOf(number, 0);
    this.traits.weight = times.utilityOf(this.traits.kind);
    return this.traits;
  }

  /** App of a part. */
  appOf(model: number, number: number, path: number): number {
    return this.models[model]?.appOf(number, path) ?? 0;
  }

  /** Time of a request alone. @param path 0, or its place as a part of a pipeline's. */
  aloneUs(model: number, app: number, number: number, path: number): number {
    return this.models[model]!.aloneUs(app, number, path);
  }

  /** How many times as long as `aloneUs` a request of the app takes that arrived at this moment. */
  factorAt(model: number, app: number, arrivalAt: number): number {
    return this.models[model]!.factorAt(app, arrivalAt);
  }

  /** Time of a batch whose longest member alone takes `longestUs`, on an accelerator of scale 1. */
  batchUs(model: number, size: number, longestUs: number): number {
    return this.models[model]!.batchUs(size, longestUs);
  }

  /** What policies know beforehand of the model's apps; undefined: nothing. */
  profiledOf(model: number): readonly KindTimes[] | undefined {
    return this.models[model]?.profiled();
  }
}

class ModelTimes {
  private readonly model: ExpandedScenario["models"][number];
  private readonly apps: NonNullable<ExpandedScenario["models"][number]["apps"]>;
  private readonly shares: Float64Array;
  private readonly which: Draws;
  private readonly times: Draws;
  private readonly samples: Draws;

  constructor(model: ExpandedScenario["models"][number], seed: number) {
    const { apps, name } = model;
    this.model = model;
    this.apps = apps!;
    this.shares = cumulated(apps!.map(({ share }) => share));
    this.which = new Draws(seed, `apps/${name}`);
    this.times = new Draws(seed, `times/${name}`);
    this.samples = new Draws(seed, `profiled/${name}`);
  }

  appOf(number: number, path: number): number {
    return pick(this.shares, this.which.uniform(number, path));
  }

  utilityOf(app: number): number {
    return this.apps[app]!.utility ?? 1;
  }

  aloneUs(app: number, number: number, path: number): number {
    return this.drawn(this.times, app, number, path);
  }

  factorAt(app: number, arrivalAt: number): number {
    return this.apps[app]!.steps?.findLast(({ at }) => at <= arrivalAt)?.factor ?? 1;
  }

  batchUs(size: number, longestUs: number): number {
    return batchUs(this.model, size, longestUs);
  }

  /** A sample of each app, apart from the requests that arrive. */
  profiled(): readonly KindTimes[] | undefined {
    const { profiled: length } = this.model;
    if (length === undefined) return undefined;
    return this.apps.map(({ name }, app) => ({
      name,
      share: this.shares[app]! - (app === 0 ? 0 : this.shares[app - 1]!),
      aloneUs: Float64Array.from({ length }, (_, number) =>
        this.batchUs(1, this.drawn(this.samples, app, number, app)),
      ).sort(),
    }));
  }

  private drawn(draws: Draws, app: number, number: number, path: number): number {
    const { time } = this.apps[app]!;
    const uniform = (draw: number): number => draws.uniform(number, path + draw * 0x51ed270b);
    return Math.max(TIME_US_MIN, timeOf(time, pick(time.cumulative, uniform(0)), uniform(1), uniform(2)));
  }
}

function timeOf({ shape, a, b }: TimeMixture, part: number, first: number, second: number): number {
  if (shape[part] !== NORMAL && shape[part] !== LOGNORMAL) return a[part]! + (b[part]! - a[part]!) * first;
  const value = a[part]! + b[part]! * normalOf(first, second);
  return shape[part] === LOGNORMAL ? Math.exp(value) : value;
}
