/** The pipelines of a scenario made plain: modules by index, budgets' rule, what is drawn as cumulative weights. */
import { type DurationUs, durationUs, sloUsFromMs } from "../../../core/time.js";
import { Budgets } from "../../../system/budget/budget.js";
import type { BudgetSpec } from "../../../system/budget/budget-spec.js";
import type { ModuleTimes } from "../../../system/budget/module-times.js";
import { type ModuleSpec, Pipeline } from "../../../system/pipeline.js";
import { nearest } from "../../config-error.js";
import { budgetSpec, moduleSpecs } from "../../pipeline-modules.js";
import type { IssueList } from "../../source.js";
import type { Scenario } from "../scenario-schema.js";

export interface ExpandedModule extends ModuleSpec {
  /** Index of its model. */
  readonly model: number;
  /** How many parts a request makes, and how often: cumulative, the last is 1. */
  readonly parts?: { readonly counts: readonly number[]; readonly cumulative: Float64Array };
  /** By app, or one for all; each by position in subs: cumulative, the last is 1. */
  readonly ways?: readonly Float64Array[];
}

/** Plain data: it crosses threads. */
export interface ExpandedPipeline {
  readonly name: string;
  readonly sloUs: DurationUs;
  /** Requests per second, averaged over the duration. 0 with a replay. */
  readonly rateRps: number;
  readonly budget: BudgetSpec;
  readonly modules: readonly ExpandedModule[];
  /** Absent: its requests have none. */
  readonly apps?: { readonly names: readonly string[]; readonly cumulative: Float64Array };
}

/** @param rateOf by index of the pipeline. @param models names of all models, copies made. @param policyOf of its group, by model. */
export function expandPipelines(
  scenario: Scenario,
  models: readonly string[],
  policyOf: (model: number) => string,
  rateOf: (index: number) => number,
  issues: IssueList,
): ExpandedPipeline[] {
  return (scenario.pipelines ?? []).map(({ name, slo_ms: sloMs, budget, modules, apps }, index) => {
    const expanded = moduleSpecs(modules).map((spec, module): ExpandedModule => {
      const { model: written, fan_out: fanOut, branch } = modules[module]!;
      const model = models.indexOf(written ?? spec.name);
      if (model < 0) {
        const near = nearest(written ?? spec.name, models);
        const hint = near === null ? "" : `; did you mean ${near}?`;
        issues.add(
          ["pipelines", index, "modules", module, written === undefined ? "name" : "model"],
          `must be a model of the scenario; was "${written ?? spec.name}"${hint}`,
        );
      }
      const counts = typeof fanOut === "number" ? [fanOut] : fanOut?.counts;
      const weights = typeof fanOut === "object" ? fanOut.weights : undefined;
      return {
        ...spec,
        model,
        ...(counts === undefined ? {} : { parts: { counts, cumulative: cumulated(weights ?? counts.map(() => 1)) } }),
        ...(branch === undefined ? {} : { ways: waysOf(branch, apps ?? []) }),
      };
    });
    return {
      name,
      sloUs: sloUsFromMs(sloMs),
      rateRps: rateOf(index),
      budget: budgetSpec(
        budget,
        expanded.flatMap(({ model }) => (model < 0 ? [] : policyOf(model))),
      ),
      ...(apps === undefined
        ? {}
        : { apps: { names: apps.map((app) => app.name), cumulative: cumulated(apps.map(({ share }) => share)) } }),
      modules: expanded,
    };
  });
}

function waysOf(
  branch: readonly number[] | Readonly<Record<string, readonly number[]>>,
  apps: readonly { readonly name: string }[],
): Float64Array[] {
  if (Array.isArray(branch)) return [cumulated(branch)];
  return apps.map(({ name }) => cumulated((branch as Readonly<Record<string, readonly number[]>>)[name] ?? [1]));
}

/** Ascending sums as parts of the whole. */
export function cumulated(weights: readonly number[]): Float64Array {
  const sums = new Float64Array(weights.length);
  let sum = 0;
  for (const [index, weight] of weights.entries()) {
    sum += weight;
    sums[index] = sum;
  }
  return sums.map((each) => each / sum);
}

/** @param times and @param lengthsUs by model, see ModuleTimes. */
export const budgetsOf = (
  { modules, budget, sloUs }: ExpandedPipeline,
  times: ModuleTimes,
  lengthsUs?: NonNullable<ModuleTimes["lengthsUs"]>,
): Budgets => {
  const { leastUs, plannedUs, staggeredUs, togetherUs, isSingle, groupOf, acceleratorsOf } = times;
  const modelOf = (module: number): number => modules[module]!.model;
  const ofModules: ModuleTimes = {
    leastUs: (module) => leastUs(modelOf(module)),
    ...(plannedUs && { plannedUs: (module) => plannedUs(modelOf(module)) }),
    ...(staggeredUs && { staggeredUs: (module, forUs) => staggeredUs(modelOf(module), forUs) }),
    ...(togetherUs && { togetherUs: (module, ...parts) => togetherUs(modelOf(module), ...parts) }),
    ...(lengthsUs && { lengthsUs: (module, frame, foresees) => lengthsUs(modelOf(module), frame, foresees) }),
    ...(isSingle && { isSingle: (module) => isSingle(modelOf(module)) }),
    ...(groupOf && { groupOf: (module) => groupOf(modelOf(module)) }),
    ...(acceleratorsOf && { acceleratorsOf: (module) => acceleratorsOf(modelOf(module)) }),
  };
  return new Budgets(new Pipeline(modules), budget, ofModules, sloUs);
};

/**
 * What the queues of models plan batches for that only modules ask for: the longest that any of the modules has.
 * Undefined: no module runs the model. Adds pipelines that cannot be in time at all to `issues`.
 */
export function moduleSlos(
  pipelines: readonly ExpandedPipeline[],
  models: number,
  leastUs: (model: number) => number,
  issues: IssueList,
): (DurationUs | undefined)[] {
  const slos = new Array<DurationUs | undefined>(models).fill(undefined);
  for (const [index, pipeline] of pipelines.entries()) {
    const budgets = budgetsOf(pipeline, { leastUs });
    if (budgets.leastUs > pipeline.sloUs) {
      issues.add(
        ["pipelines", index, "slo_ms"],
        `of ${pipeline.name} must be at least the ${budgets.leastUs / 1000} ms that one request alone takes, delays included; was ${pipeline.sloUs / 1000}`,
      );
      continue;
    }
    for (const [module, { model }] of pipeline.modules.entries()) {
      const own = budgets.sloUs(module, pipeline.sloUs);
      slos[model] = durationUs(Math.max(slos[model] ?? 0, own));
    }
  }
  return slos;
}
