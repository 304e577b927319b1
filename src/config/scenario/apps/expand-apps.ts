/** The apps of a model made plain: distributions as parts that are drawn from, in microseconds. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import type { ExpandedArrivals } from "../expand-arrivals.js";
import type { ScenarioModel } from "../scenario-schema.js";
import type { ScenarioApp } from "./app-schema.js";
import { LOGNORMAL, mixture, NORMAL, type TimeMixture, type TimePart, UNIFORM } from "./time-mixture.js";

export interface ExpandedApp {
  readonly name: string;
  readonly share: number;
  /** Absent: 1, and no report of utility. */
  readonly utility?: number;
  readonly time: TimeMixture;
  /** Moments of arrival, ascending, from which on requests take so many times `time`. Absent: none. */
  readonly steps?: readonly { readonly at: number; readonly factor: number }[];
}

/** Violations that the schema cannot say. */
export function checkApps(model: ScenarioModel, path: FieldPath, issues: IssueList): void {
  const { apps, batch_time: batchTime } = model;
  if (apps === undefined) {
    if (batchTime !== undefined)
      issues.add([...path, "batch_time"], "goes only with apps: there are no times to take the longest of");
    return;
  }
  for (const [index, { name, time, steps = [] }] of apps.entries()) {
    const at = (...more: (string | number)[]): FieldPath => [...path, "apps", index, ...more];
    if (apps.findIndex((app) => app.name === name) !== index)
      issues.add(at("name"), `must be unique in the model; was "${name}" twice`);
    for (let step = 1; step < steps.length; step++)
      if (steps[step]!.at_s <= steps[step - 1]!.at_s)
        issues.add(
          at("steps", step, "at_s"),
          `must be greater than the step before (${steps[step - 1]!.at_s}); was ${steps[step]!.at_s}`,
        );
    if (!("histogram" in time)) continue;
    const { edges_ms: edges, weights } = time.histogram;
    if (weights.length !== edges.length - 1)
      issues.add(
        at("time", "histogram", "weights"),
        `must be one fewer than edges_ms (${edges.length}); were ${weights.length}`,
      );
    if (weights.every((weight) => weight === 0))
      issues.add(at("time", "histogram", "weights"), "must have one above 0; were all 0");
    for (let edge = 1; edge < edges.length; edge++)
      if (edges[edge]! <= edges[edge - 1]!)
        issues.add(
          [...at("time", "histogram", "edges_ms"), edge],
          `must be greater than the edge before (${edges[edge - 1]}); was ${edges[edge]}`,
        );
  }
}

/** @param filed values (ms) of a file that an app names. */
export function expandApps(apps: readonly ScenarioApp[], filed: (file: string) => readonly number[]): ExpandedApp[] {
  return apps.map(({ name, share, utility, time, steps }) => ({
    name,
    share,
    ...(utility === undefined ? {} : { utility }),
    time: mixture(partsOf(time, filed)),
    ...(steps === undefined ? {} : { steps: steps.map(({ at_s, factor }) => ({ at: at_s * 1e6, factor })) }),
  }));
}

/**
 * By request of a replay: the index of its app (or task) in its model; -1: its model has none. As in the file where no model has any.
 * Null where the file names no apps: they are drawn.
 * Adds apps that their model does not have to `issues`.
 */
export function replayedApps(
  arrivals: ExpandedArrivals,
  models: readonly {
    readonly name: string;
    readonly apps?: readonly { readonly name: string }[];
    readonly elastic?: { readonly tasks: readonly { readonly name: string }[] };
  }[],
  issues: IssueList,
): Int32Array | null {
  if (arrivals.kind !== "replay" || arrivals.app === null) return null;
  const { app, appNames, model: modelOf } = arrivals;
  const kinds = models.map(({ apps, elastic }) => apps ?? elastic?.tasks);
  if (kinds.every((of) => of === undefined)) return app;
  const indexOf = kinds.map((of) => appNames.map((name) => of?.findIndex((each) => each.name === name) ?? -1));
  const unknown = new Set<string>();
  const translated = app.map((written, request) => {
    const model = modelOf[request]!;
    const index = indexOf[model]?.[written] ?? -1;
    if (index < 0 && kinds[model] !== undefined) unknown.add(`"${appNames[written]}" of ${models[model]!.name}`);
    return index;
  });
  for (const which of [...unknown].slice(0, 20))
    issues.add(["arrivals", "replay"], `must name apps of its models; was ${which}`);
  return translated;
}

function partsOf(time: ScenarioApp["time"], filed: (file: string) => readonly number[]): TimePart[] {
  const each = (values: readonly number[]): TimePart[] =>
    values.map((value) => [1, UNIFORM, value * 1000, value * 1000]);
  if ("constant_ms" in time) return each([time.constant_ms]);
  if ("values_ms" in time) return each(time.values_ms);
  if ("file" in time) return each(filed(time.file));
  if ("normal" in time) return [[1, NORMAL, time.normal.mean_ms * 1000, time.normal.sd_ms * 1000]];
  if ("modes" in time)
    return time.modes.map(({ weight, mean_ms, sd_ms }) => [weight, NORMAL, mean_ms * 1000, sd_ms * 1000]);
  if ("histogram" in time) {
    const { edges_ms: edges, weights } = time.histogram;
    return weights.map((weight, bin) => [weight, UNIFORM, edges[bin]! * 1000, edges[bin + 1]! * 1000]);
  }
  const { mean_ms: mean, sd_ms: sd } = time.lognormal;
  const variance = Math.log1p((sd / mean) ** 2);
  return [[1, LOGNORMAL, Math.log(mean * 1000) - variance / 2, Math.sqrt(variance)]];
}
