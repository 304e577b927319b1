/** Elastic models made plain: times by variant as tables, tasks with their accuracy. */
import type { ElasticProfile, Variant } from "../../../core/latency/elastic.js";
import { type DurationUs, sloUsFromMs, workUsFromMs } from "../../../core/time.js";
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import { modelsOfModules } from "../pipelines/entrances.js";
import type { ScenarioProfile, ScenarioVariant, TimedBySize } from "../profile-schema.js";
import type { Scenario, ScenarioModel } from "../scenario-schema.js";

export interface ExpandedTask {
  readonly name: string;
  readonly share: number;
  readonly utility: number;
  readonly sloUs: DurationUs;
  /** Its accuracy from these moments on, ascending; absent: it stays. */
  readonly changes?: readonly { readonly atUs: number; readonly accuracy: Float64Array }[];
}

export interface ExpandedElastic extends ElasticProfile {
  readonly tasks: readonly ExpandedTask[];
}

/** How the model runs where nobody chooses: its profile, or of an elastic one gamma 0 of the model itself. */
export function plainProfile(profile: ScenarioProfile): TimedBySize {
  if (!("by_gamma" in profile)) return profile;
  return profile.by_gamma.find(isPlain) ?? profile.by_gamma[0]!;
}

/** l(b), µs. */
export const execUsAt = (profile: TimedBySize, size: number): number =>
  workUsFromMs("table_ms" in profile ? profile.table_ms[size - 1]! : profile.alpha_ms * size + profile.beta_ms);

/** Sizes for which all ways of running it have a time. */
export const sizesOf = (profile: ScenarioProfile, others: number): number =>
  Math.min(...waysOf(profile).map((way) => ("table_ms" in way ? way.table_ms.length : others)));

/** Violations that the schema cannot say. */
export function checkTasks(scenario: Scenario, issues: IssueList): void {
  const isOfModules = modelsOfModules(scenario);
  for (const [index, model] of (scenario.models ?? []).entries()) {
    const { profile, tasks } = model;
    const at = (...more: (string | number)[]): FieldPath => ["models", index, ...more];
    if (!("by_gamma" in profile)) {
      if (tasks !== undefined) issues.add(at("tasks"), "goes only with profile.by_gamma: their accuracy is by gamma");
      continue;
    }
    checkVariants(profile.by_gamma, at("profile", "by_gamma"), issues);
    if (tasks === undefined) {
      issues.add(at("tasks"), "is required with profile.by_gamma: what its answers are worth; was missing");
      continue;
    }
    checkAccuracy(tasks, profile.by_gamma.length, at("tasks"), issues);
    if (model.apps !== undefined) issues.add(at("tasks"), "must not stand beside apps, whose times are their own");
    if (model.tokens !== undefined) issues.add(at("tasks"), "does not go with tokens: it runs batches");
    if (isOfModules(model)) issues.add(at("tasks"), "does not go with pipelines whose modules run the model");
  }
}

function checkVariants(variants: readonly ScenarioVariant[], path: FieldPath, issues: IssueList): void {
  const seen = new Set<string>();
  for (const [index, variant] of variants.entries()) {
    const name = nameOf(variant);
    if (seen.has(name)) issues.add([...path, index, "gamma"], `must be unique in its model; was ${name} twice`);
    seen.add(name);
  }
  if (!variants.some(isPlain))
    issues.add(path, "must have an entry with gamma 0 and no model, which is run where nobody chooses; has none");
}

function checkAccuracy(
  tasks: NonNullable<ScenarioModel["tasks"]>,
  variants: number,
  path: FieldPath,
  issues: IssueList,
): void {
  const checkLength = ({ length }: readonly number[], at: FieldPath): void => {
    if (length !== variants)
      issues.add(at, `must be ${variants} long, one for each entry of profile.by_gamma; was ${length} long`);
  };
  for (const [index, { accuracy, accuracy_changes: changes = [], name }] of tasks.entries()) {
    if (tasks.findIndex((task) => task.name === name) !== index)
      issues.add([...path, index, "name"], `must be unique in the model; was "${name}" twice`);
    checkLength(accuracy, [...path, index, "accuracy"]);
    for (const [change, { at_s, accuracy: then }] of changes.entries()) {
      const at = [...path, index, "accuracy_changes", change];
      const before = changes[change - 1]?.at_s;
      if (before !== undefined && at_s <= before)
        issues.add([...at, "at_s"], `must be greater than the change before (${before}); was ${at_s}`);
      checkLength(then, [...at, "accuracy"]);
    }
  }
}

/** @param soonestUs of a run of one request that takes so long, delays included. Tasks that cannot be in time go to `issues`. */
export function expandElastic(
  { profile, slo_ms: sloMs, tasks = [] }: ScenarioModel,
  sizeMax: number,
  soonestUs: (aloneUs: number) => number,
  path: FieldPath,
  issues: IssueList,
): ExpandedElastic | null {
  if (!("by_gamma" in profile)) return null;
  const { by_gamma: written } = profile;
  const families = [...new Set(written.flatMap(({ model }) => model ?? []))];
  const variants = written.map(
    (each): Variant => ({
      name: nameOf(each),
      gamma: each.gamma,
      family: each.model === undefined ? 0 : families.indexOf(each.model) + 1,
      execUs: tableOf(each, sizeMax),
      loadUs: workUsFromMs(each.load_ms),
      runMb: each.run_mb,
    }),
  );
  const leastUs = soonestUs(Math.min(...variants.map(({ execUs }) => execUs[1]!)));
  for (const [index, { slo_ms: ownMs }] of tasks.entries())
    if (ownMs !== undefined && sloUsFromMs(ownMs) < leastUs)
      issues.add(
        [...path, "tasks", index, "slo_ms"],
        `must be at least the ${leastUs / 1000} ms that one request alone takes at the fastest gamma, delays included; was ${ownMs}`,
      );
  return {
    variants,
    plain: written.findIndex(isPlain),
    accuracy: tasks.map(({ accuracy }) => Float64Array.from(accuracy)),
    tasks: tasks.map(({ name, share, utility, slo_ms: ownMs, accuracy_changes: changes }) => ({
      name,
      share,
      utility,
      sloUs: sloUsFromMs(ownMs ?? sloMs!),
      ...(changes === undefined
        ? {}
        : {
            changes: changes.map(({ at_s, accuracy }) => ({
              atUs: Math.round(at_s * 1e6),
              accuracy: Float64Array.from(accuracy),
            })),
          }),
    })),
  };
}

export const waysOf = (profile: ScenarioProfile): readonly TimedBySize[] =>
  "by_gamma" in profile ? profile.by_gamma : [profile];

const isPlain = ({ gamma, model }: ScenarioVariant): boolean => gamma === 0 && model === undefined;

const nameOf = ({ gamma, model }: ScenarioVariant): string =>
  model === undefined ? String(gamma) : gamma === 0 ? model : `${model} ${gamma}`;

function tableOf(way: TimedBySize, sizeMax: number): Float64Array {
  const execUs = new Float64Array(sizeMax + 2);
  for (let size = 1; size <= sizeMax; size++) execUs[size] = execUsAt(way, size);
  execUs[sizeMax + 1] = Number.POSITIVE_INFINITY;
  return execUs;
}
