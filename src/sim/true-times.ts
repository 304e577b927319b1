/**
 * What batches truly take, apart from what planners believe: by the apps of their members, their size and the seed. A model
 * without apps takes what its profile says.
 *
 * A request's app and its time alone are drawn by its number (and its place among the parts of a pipeline's request), so they are
 * the same under every policy, and nothing is kept of them.
 */
import { LOGNORMAL, NORMAL, type TimeMixture } from "../config/scenario/apps/expand-apps.js";
import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { cumulated } from "../config/scenario/pipelines/expand-pipelines.js";
import type { RequestTraits } from "../core/tables/request-table.js";
import { Draws, pick } from "./draws.js";

export class TrueTimes {
  /** By model; null: it has no apps. */
  private readonly models: readonly (ModelTimes | null)[];
  private readonly traits = { kind: 0, weight: 1, dueBy: Number.POSITIVE_INFINITY };

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

  /** Time of a batch whose longest member alone takes `longestUs`, on an accelerator of scale 1. */
  batchUs(model: number, size: number, longestUs: number): number {
    return this.models[model]!.batchUs(size, longestUs);
  }
}

class ModelTimes {
  private readonly apps: NonNullable<ExpandedScenario["models"][number]["apps"]>;
  private readonly shares: Float64Array;
  private readonly execUs: Float64Array;
  private readonly batchTime: { readonly c0Us: number; readonly c1: number } | undefined;
  private readonly which: Draws;
  private readonly times: Draws;

  constructor({ apps, batchTime, execUs, name }: ExpandedScenario["models"][number], seed: number) {
    this.apps = apps!;
    this.shares = cumulated(apps!.map(({ share }) => share));
    this.execUs = execUs;
    this.batchTime = batchTime;
    this.which = new Draws(seed, `apps/${name}`);
    this.times = new Draws(seed, `times/${name}`);
  }

  appOf(number: number, path: number): number {
    return pick(this.shares, this.which.uniform(number, path));
  }

  utilityOf(app: number): number {
    return this.apps[app]!.utility ?? 1;
  }

  aloneUs(app: number, number: number, path: number): number {
    const { time } = this.apps[app]!;
    const drawn = (draw: number): number => this.times.uniform(number, path + draw * 0x51ed270b);
    return Math.max(1, timeOf(time, pick(time.cumulative, drawn(0)), drawn(1), drawn(2)));
  }

  batchUs(size: number, longestUs: number): number {
    const { batchTime, execUs } = this;
    const us =
      batchTime === undefined
        ? (longestUs * execUs[size]!) / execUs[1]!
        : batchTime.c0Us + batchTime.c1 * size * longestUs;
    return Math.ceil(us);
  }
}

function timeOf({ shape, a, b }: TimeMixture, part: number, first: number, second: number): number {
  if (shape[part] !== NORMAL && shape[part] !== LOGNORMAL) return a[part]! + (b[part]! - a[part]!) * first;
  // Box and Muller.
  const z = Math.sqrt(-2 * Math.log1p(-first)) * Math.cos(2 * Math.PI * second);
  const value = a[part]! + b[part]! * z;
  return shape[part] === LOGNORMAL ? Math.exp(value) : value;
}
