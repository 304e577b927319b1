import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";

/** Rows of the collector: what requests arrive for (models, then pipelines), then the modules of all pipelines. */
export interface AccountRows {
  readonly models: readonly string[];
  readonly modules: readonly string[];
  /** -1: no request of its own arrives. */
  readonly rowOfModel: Int32Array;
  readonly rowOfPipeline: readonly number[];
  /** By pipeline, of its first module. */
  readonly rowOfModules: readonly number[];
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
    rowOfModules: pipelines.map((pipeline) => {
      const row = modules;
      modules += pipeline.modules.length;
      return row;
    }),
  };
}
