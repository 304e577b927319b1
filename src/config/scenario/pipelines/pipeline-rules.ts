/** Rules between the fields of groups and pipelines, which their schemas cannot say. */
import { pipelineProblems } from "../../../system/pipeline.js";
import { type FieldPath, nearest } from "../../config-error.js";
import { idleOptions, moduleSpecs } from "../../pipeline-modules.js";
import { validatePolicyOptions } from "../../policy-options.js";
import type { IssueList } from "../../source.js";
import type { Scenario } from "../scenario-schema.js";
import { innerModels } from "./entrances.js";
import type { ScenarioModule } from "./pipeline-schema.js";

export function checkGroups(scenario: Scenario, issues: IssueList): void {
  const { accelerators, groups } = scenario;
  if (groups === undefined) {
    if (accelerators === undefined)
      issues.add(
        ["accelerators"],
        "is required: a whole number, a mapping of count or a list, or groups in its place; was missing",
      );
  } else if (accelerators !== undefined)
    issues.add(["groups"], `must not stand beside accelerators; were ${groups.length}`);
  const names = (groups ?? []).map(({ name }) => name);
  for (const [index, { name, policy, policy_options: options }] of (groups ?? []).entries()) {
    if (names.indexOf(name) !== index) issues.add(["groups", index, "name"], `must be unique; was "${name}" twice`);
    if (policy !== undefined) validatePolicyOptions(policy, options ?? {}, ["groups", index, "policy_options"], issues);
    else if (options !== undefined)
      issues.add(["groups", index, "policy_options"], "goes only with a policy of the group's own");
  }
  for (const [index, { group }] of (scenario.models ?? []).entries()) {
    const at = ["models", index, "group"];
    if (group === undefined) {
      if (names.length > 1)
        issues.add(at, `is required where there are several groups (${names.join(", ")}); was missing`);
    } else if (!names.includes(group)) issues.add(at, `${oneOf("group", names)}; was "${group}"${hint(group, names)}`);
  }
  if (names.length > 1 && scenario.models_from !== undefined)
    issues.add(["models_from"], "goes with one group: its models cannot name theirs");
}

/** As the file has it, before defaults. */
const writtenBudgetOf = (value: unknown, pipeline: number): unknown =>
  (value as { pipelines: { budget?: unknown }[] }).pipelines[pipeline]!.budget;

export function checkPipelines(scenario: Scenario, issues: IssueList): void {
  const isInner = innerModels(scenario);
  for (const [index, model] of (scenario.models ?? []).entries())
    if (model.slo_ms === undefined && !isInner(model))
      issues.add(
        ["models", index, "slo_ms"],
        "is required: a number; only a model that no request asks for by itself has none",
      );
  const pipelines = scenario.pipelines ?? [];
  if (pipelines.length > 0 && scenario.autoscale !== undefined)
    issues.add(["autoscale"], "does not go with pipelines: nothing advises on several groups");
  if (pipelines.length > 0 && scenario.plan !== undefined)
    issues.add(["plan"], "does not go with pipelines: sub-clusters serve models by themselves");
  const taken = new Set((scenario.models ?? []).map(({ name }) => name));
  for (const [index, { name, modules, apps = [] }] of pipelines.entries()) {
    if (taken.has(name))
      issues.add(["pipelines", index, "name"], `must be unique among models and pipelines; was "${name}" twice`);
    taken.add(name);
    for (const { key, text } of idleOptions(writtenBudgetOf(issues.source.value, index)))
      issues.addKey(["pipelines", index, "budget"], key, text);
    const at = (module: number, field: string): FieldPath => ["pipelines", index, "modules", module, field];
    for (const { module, field, text } of pipelineProblems(moduleSpecs(modules))) issues.add(at(module, field), text);
    const appNames = apps.map((app) => app.name);
    for (const [app, each] of appNames.entries())
      if (appNames.indexOf(each) !== app)
        issues.add(["pipelines", index, "apps", app, "name"], `must be unique in the pipeline; was "${each}" twice`);
    for (const [module, spec] of modules.entries()) checkModule(spec, appNames, (field) => at(module, field), issues);
  }
}

function checkModule(
  { fan_out: fanOut, branch, subs }: ScenarioModule,
  apps: readonly string[],
  at: (field: string) => FieldPath,
  issues: IssueList,
): void {
  if (typeof fanOut === "object") {
    const { counts, weights } = fanOut;
    if (weights !== undefined && weights.length !== counts.length)
      issues.add([...at("fan_out"), "weights"], `must be as many as counts (${counts.length}); were ${weights.length}`);
    if (weights?.every((weight) => weight === 0))
      issues.add([...at("fan_out"), "weights"], "must have one above 0; were all 0");
  }
  if (branch === undefined) return;
  if (subs === undefined)
    issues.add(at("subs"), "is required beside branch, whose probabilities follow its order; was missing");
  if (Array.isArray(branch)) checkWays(branch, subs, at("branch"), issues);
  else {
    const named = Object.keys(branch);
    const unknown = named.filter((app) => !apps.includes(app));
    const missing = apps.filter((app) => !named.includes(app));
    if (named.length === 0 || unknown.length > 0 || missing.length > 0)
      issues.add(
        at("branch"),
        `must be a list, or name every app of the pipeline (${apps.join(", ") || "it has none"}); named ${named.join(", ") || "none"}`,
      );
    for (const [app, ways] of Object.entries(branch)) checkWays(ways, subs, [...at("branch"), app], issues);
  }
}

function checkWays(
  ways: readonly number[],
  subs: readonly number[] | undefined,
  at: FieldPath,
  issues: IssueList,
): void {
  if (subs !== undefined && subs.length !== ways.length)
    issues.add(at, `must have a probability for each of the subs (${subs.length}); has ${ways.length}`);
  const sum = ways.reduce((all, each) => all + each, 0);
  if (Math.abs(sum - 1) > 1e-9) issues.add(at, `must sum up to 1; was ${sum}`);
}

const oneOf = (what: string, names: readonly string[]): string =>
  names.length === 0 ? `must name a ${what}; there are none` : `must be one of ${names.slice(0, 20).join(", ")}`;

function hint(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === null ? "" : `; did you mean ${near}?`;
}
