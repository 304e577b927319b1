/** What is said to who asks for a published system's policy in pipelines and gets it otherwise than published. */
import { type ExpandedScenario, groupsOf } from "../config/scenario/scenario.js";
import { policyNamed } from "../policies/registry.js";
import type { ScenarioOptions } from "./scenario-options.js";

/** A sentence each. */
export function publishedHints(scenario: ExpandedScenario, options: ScenarioOptions): string[] {
  return [...budgetHints(scenario, options), ...optionHints(scenario)];
}

/** `--policy` alone leaves a budget that the scenario names. */
function budgetHints({ pipelines = [] }: ExpandedScenario, { policy, budget }: ScenarioOptions): string[] {
  const published = policy === undefined ? null : policyNamed(policy).inPipelines;
  if (published === null || budget !== undefined) return [];
  return pipelines
    .filter((pipeline) => pipeline.budget.rule !== published.budget)
    .map(
      ({ name, budget: { rule } }) =>
        `pipeline ${name} names budget ${rule}; ${policy} as published has ${published.budget} (--budget ${published.budget})`,
    );
}

function optionHints(scenario: ExpandedScenario): string[] {
  const { models, pipelines = [] } = scenario;
  const ofModules = new Set(pipelines.flatMap(({ modules }) => modules.map(({ model }) => model)));
  /** By sentence but its groups. */
  const groups = new Map<string, string[]>();
  for (const [index, { name, policy, policyOptions }] of groupsOf(scenario).entries()) {
    const served = [...models.keys()].filter((model) => (models[model]!.group ?? 0) === index);
    if (served.length !== 1 || !ofModules.has(served[0]!)) continue;
    for (const [key, value] of Object.entries(policyNamed(policy).inPipelines?.options ?? {})) {
      if (policyOptions[key] === value) continue;
      const hint = `${policy} with ${key}: ${policyOptions[key]}; as published a group of one module has ${key}: ${value} (--option ${key}=${value})`;
      groups.set(hint, [...(groups.get(hint) ?? []), name]);
    }
  }
  return [...groups].map(([hint, names]) => `${names.length === 1 ? "group" : "groups"} ${names.join(", ")}: ${hint}`);
}
