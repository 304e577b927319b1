/** What requests arrive for: pipelines, and models that are not only modules of them. */
import type { Scenario, ScenarioModel } from "../scenario-schema.js";

export interface Entrance {
  readonly path: readonly ["models" | "pipelines", number];
  readonly share: number | undefined;
  readonly rateRps: number | undefined;
}

/** Whether a module of a pipeline runs the model, or a copy of it. */
export function modelsOfModules(scenario: Scenario): (model: ScenarioModel) => boolean {
  const named = new Set(
    (scenario.pipelines ?? []).flatMap(({ modules }) => modules.map(({ name, model }) => model ?? name)),
  );
  return ({ name, count }) => {
    if (named.size === 0) return false;
    if (named.has(name)) return true;
    return Array.from({ length: count ?? 0 }, (_, copy) => `${name}-${copy + 1}`).some((each) => named.has(each));
  };
}

/** Whether only modules of pipelines ask for the model: one of them runs it, and it has no load of its own. */
export function innerModels(scenario: Scenario): (model: ScenarioModel) => boolean {
  const isOfModules = modelsOfModules(scenario);
  return (model) => model.share === undefined && model.rate_rps === undefined && isOfModules(model);
}

/** Models first, then pipelines. Those of `models_from` are not among them. */
export function entrancesOf(scenario: Scenario): Entrance[] {
  const isInner = innerModels(scenario);
  const models = (scenario.models ?? []).flatMap((model, index): Entrance[] =>
    isInner(model) ? [] : [{ path: ["models", index], share: model.share, rateRps: model.rate_rps }],
  );
  const pipelines = (scenario.pipelines ?? []).map(
    ({ share, rate_rps: rateRps }, index): Entrance => ({ path: ["pipelines", index], share, rateRps }),
  );
  return [...models, ...pipelines];
}
