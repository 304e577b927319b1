/** What policies that know one time for each size of a batch are told of a model with apps, in place of its profile. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import { modelsOfModules } from "../pipelines/entrances.js";
import type { Scenario } from "../scenario-schema.js";
import type { ScenarioPlanning } from "./app-schema.js";
import { type BatchTime, batchUs } from "./batch-time.js";
import { meanUs, quantileUs, type SharedTime } from "./time-mixture.js";

/** Plain data. */
export interface ExpandedPlanning {
  /** Each app has a queue of its own. */
  readonly sessions: boolean;
  /** l(b) like ExpandedModel.execUs: of the one queue, or of each app's. */
  readonly execUs: readonly Float64Array[];
}

/** Times alone that are known beforehand, of all apps: they are held while a run lasts. */
const PROFILED_MAX = 10_000_000;
/** Queues of a run: as many as there can be models. */
const SESSIONS_MAX = 10_000;

/** Violations that the schema cannot say. */
export function checkPlanning(scenario: Scenario, issues: IssueList): void {
  const isOfModules = modelsOfModules(scenario);
  let profiledTimes = 0;
  let queues = 0;
  for (const [index, model] of (scenario.models ?? []).entries()) {
    const { apps, count = 1, planning, profiled } = model;
    const at = (key: string): FieldPath => ["models", index, key];
    if (apps === undefined) {
      if (profiled !== undefined) issues.add(at("profiled"), `goes only with apps; was ${profiled}`);
      if (planning !== undefined) issues.add(at("planning"), "goes only with apps: without them the profile is true");
      continue;
    }
    profiledTimes += (profiled ?? 0) * apps.length * count;
    if (profiled !== undefined && profiledTimes > PROFILED_MAX)
      issues.add(
        at("profiled"),
        `must leave at most ${PROFILED_MAX} times over all apps of all models (these have ${apps.length * count}); was ${profiled}`,
      );
    if (planning === undefined) continue;
    queues += planning.sessions ? apps.length * count : 0;
    if (planning.sessions && queues > SESSIONS_MAX)
      issues.add(
        [...at("planning"), "sessions"],
        `must leave at most ${SESSIONS_MAX} sessions in all (these are ${apps.length * count}); was true`,
      );
    if (isOfModules(model))
      issues.add(at("planning"), "does not go with pipelines whose modules run the model: they plan by its profile");
    if (scenario.autoscale !== undefined)
      issues.add(at("planning"), "does not go with autoscale, which counts work by the profile");
  }
}

export function expandPlanning(
  { sessions, quantile }: ScenarioPlanning,
  apps: readonly SharedTime[],
  truth: BatchTime,
): ExpandedPlanning {
  const told = (of: readonly SharedTime[]): Float64Array => {
    const longestUs = quantile === "mean" ? meanUs(of) : quantileUs(of, quantile);
    const sizeMax = truth.execUs.length - 2;
    return truth.execUs.map((us, size) => (size === 0 || size > sizeMax ? us : batchUs(truth, size, longestUs)));
  };
  return { sessions, execUs: sessions ? apps.map((app) => told([app])) : [told(apps)] };
}
