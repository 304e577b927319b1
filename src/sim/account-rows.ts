import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";

/** Rows of the collector: what requests arrive for (models, then pipelines), then the modules of all pipelines, then apps. */
export interface AccountRows {
  readonly models: readonly string[];
  readonly modules: readonly string[];
  /** Of models that requests ask for: model/app. */
  readonly kinds: readonly string[];
  /** -1: no request of its own arrives. */
  readonly rowOfModel: Int32Array;
  readonly rowOfPipeline: readonly number[];
  /** By pipeline, of its first module. */
  readonly rowOfModules: readonly number[];
  /** By model, of its first app; -1: it has none, or no request of its own arrives. */
  readonly rowOfKinds: Int32Array;
}

export function accountRows({ models, pipelines = [] }: ExpandedScenario): AccountRows {
  const outer = models.filter(({ isInner }) => isInner !== true);
  const first = outer.length + pipelines.length;
  let modules = first;
  return {
    models: [...outer, ...pipelines].map(({ name }) => name),
    modules: pipelines.flatMap(({ name, modules }) => modules.map((module) => `${name}/${module.name}`)),
    rowOfModel: Int32Array.from(models, (model) => outer.indexOf(model)),
    rowOfPipeline: pipelines.map((_, index) => outer.length + index),
    kinds: outer.flatMap(({ name, apps = [] }) => apps.map((app) => `${name}/${app.name}`)),
    rowOfModules: pipelines.map((pipeline) => {
      const row = modules;
      modules += pipeline.modules.length;
      return row;
    }),
    rowOfKinds: Int32Array.from(models, ({ apps = [], isInner }) => {
      if (apps.length === 0 || isInner) return -1;
      const row = modules;
      modules += apps.length;
      return row;
    }),
  };
}

/** Whether requests are worth something of their own. */
export const weighs = ({ models }: ExpandedScenario): boolean =>
  models.some(({ apps = [] }) => apps.some(({ utility }) => utility !== undefined));
