import type { ExpandedModel, ExpandedScenario } from "../config/scenario/expand-scenario.js";

/** Rows of the collector: what requests arrive for (models, then pipelines), then the modules of all pipelines, then apps. */
export interface AccountRows {
  readonly models: readonly string[];
  readonly modules: readonly string[];
  /** Of models that requests ask for: model/app or model/task. */
  readonly kinds: readonly string[];
  /** -1: no request of its own arrives. */
  readonly rowOfModel: Int32Array;
  readonly rowOfPipeline: readonly number[];
  /** By pipeline, of its first module. */
  readonly rowOfModules: readonly number[];
  /** By model, of its first kind; -1: it has none, or no request of its own arrives. */
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
    kinds: outer.flatMap((model) => kindsOf(model).map((kind) => `${model.name}/${kind.name}`)),
    rowOfModules: pipelines.map((pipeline) => {
      const row = modules;
      modules += pipeline.modules.length;
      return row;
    }),
    rowOfKinds: Int32Array.from(models, (model) => {
      const kinds = kindsOf(model);
      if (kinds.length === 0 || model.isInner) return -1;
      const row = modules;
      modules += kinds.length;
      return row;
    }),
  };
}

/** Kinds of its requests: apps, or tasks of an elastic model. */
const kindsOf = ({ apps, elastic }: ExpandedModel): readonly { readonly name: string }[] =>
  apps ?? elastic?.tasks ?? [];

/** Whether requests are worth something of their own. */
export const weighs = ({ models }: ExpandedScenario): boolean =>
  models.some(({ apps = [], elastic }) => elastic !== undefined || apps.some(({ utility }) => utility !== undefined));

/** Names of the ways of running elastic models, and by model the index of each of its own; undefined: no model is elastic. */
export function variantRows({
  models,
}: ExpandedScenario): { readonly names: readonly string[]; readonly of: readonly Int32Array[] } | undefined {
  if (models.every(({ elastic }) => elastic === undefined)) return undefined;
  const names = [...new Set(models.flatMap(({ elastic }) => elastic?.variants.map(({ name }) => name) ?? []))];
  return {
    names,
    of: models.map(({ elastic }) => Int32Array.from(elastic?.variants ?? [], ({ name }) => names.indexOf(name))),
  };
}
