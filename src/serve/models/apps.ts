import { APP_NAME_BOUND, APPS_MAX, isAppName } from "../../config/app-name.js";
import { PLAIN, type RequestTraits } from "../../core/tables/request-table.js";
import { describe } from "../../wire/infer-parameters.js";
import { ServingError } from "../../wire/serving-error.js";
import type { ParameterValue } from "../gateway.js";
import type { Log } from "../observation/log.js";
import type { CounterCell } from "../observation/typed-metrics.js";

/** Of the default app: no name. */
const DEFAULT = "";

/**
 * The apps that send to a model, by name, and the kinds that schedulers tell them apart by.
 *
 * Kinds are given from 1 as names come, to those of `rubato.yaml` before all; a name has its kind until the server ends.
 * Kind 0 is the default app: of requests that name none, and of names past the limit.
 */
export class Apps {
  private readonly model: string;
  private readonly beyondLimit: CounterCell;
  private readonly log: Log;
  private readonly traits = new Map<string, RequestTraits>();
  /** By kind. */
  private readonly names: string[] = [DEFAULT];
  /** Kinds of requests that name no app, by their size: at most each bound, ascending. */
  private sizes: readonly { readonly bound: number; readonly traits: RequestTraits }[] = [];
  private isFull = false;

  /** @param beyondLimit counts requests whose app has no kind of its own. */
  constructor(model: string, beyondLimit: CounterCell, log: Log) {
    this.model = model;
    this.beyondLimit = beyondLimit;
    this.log = log;
  }

  /** Those of its `rubato.yaml`; known ones keep their kinds. */
  declare(names: readonly string[]): void {
    for (const name of names) if (!this.traits.has(name)) this.add(name);
  }

  /** Requests that name no app are told apart by their size: at most each of these, ascending. */
  declareSizes(bounds: readonly number[]): void {
    this.sizes = bounds.map((bound) => {
      const name = `size<=${bound}`;
      return { bound, traits: this.traits.get(name) ?? this.add(name) };
    });
  }

  /** What the scheduler is told of a request that names no app. */
  traitsOfSize(size: number): RequestTraits {
    return this.sizes.find(({ bound }) => size <= bound)?.traits ?? PLAIN;
  }

  /** By kind. */
  get kindNames(): readonly string[] {
    return this.names;
  }

  /** Size up to which requests of a kind are; null: it is no size. */
  sizeOf(kind: number): number | null {
    return this.sizes.find(({ traits }) => traits.kind === kind)?.bound ?? null;
  }

  /**
   * What the scheduler is told of a request.
   *
   * @param app its parameter of that name; undefined: it has none.
   * @throws ServingError invalid-argument: that is no name of an app.
   */
  traitsOf(app: ParameterValue | undefined): RequestTraits {
    if (app === undefined) return PLAIN;
    const known = this.traits.get(app as string);
    if (known !== undefined) return known;
    const name = checkApp(app);
    const traits = this.add(name);
    if (traits === PLAIN) this.beyondLimit.value++;
    return traits;
  }

  /** "": the default app. */
  nameOf(kind: number): string {
    return this.names[kind] ?? DEFAULT;
  }

  /** @returns PLAIN: there is no room. */
  private add(app: string): RequestTraits {
    const { model, names } = this;
    const kind = names.length;
    if (kind > APPS_MAX) {
      if (!this.isFull) this.log.warn({ model, app, limit: APPS_MAX }, "further apps count as the default app");
      this.isFull = true;
      return PLAIN;
    }
    const traits = Object.freeze({ ...PLAIN, kind });
    names.push(app);
    this.traits.set(app, traits);
    this.log.info({ model, app, kind }, "an app has its kind");
    return traits;
  }
}

/** @throws ServingError invalid-argument, with field, bound and value. */
export function checkApp(app: ParameterValue): string {
  if (isAppName(app)) return app;
  throw new ServingError("invalid-argument", `parameter 'app' must be ${APP_NAME_BOUND}; was ${describe(app)}`);
}
