/** Scenarios: read, checked, expanded. See docs/configuration.md for every key. */
import path from "node:path";
import { ConfigError } from "../config-error.js";
import type { WrittenBudget } from "../pipeline-modules.js";
import { mergePolicyOptions, type PolicyOptions, resolvePolicy } from "../policy-options.js";
import { IssueList, parseSource, readSource, type Source } from "../source.js";
import { validate } from "../validate.js";
import { type ExpandedScenario, expandScenario, type ScenarioData, withRate } from "./expand-scenario.js";
import type { TokenRows } from "./llm/expand-llm.js";
import { checkScenario } from "./scenario-rules.js";
import { type Scenario, scenarioSchema } from "./scenario-schema.js";
import { readRateTrace, readReplay, readTimes, readTokens, resolveDataFile } from "./traces.js";

export type { ExpandedFault } from "./expand-faults.js";
export {
  type ExpandedAccelerator,
  type ExpandedArrivals,
  type ExpandedAutoscale,
  type ExpandedGroup,
  type ExpandedModel,
  type ExpandedModule,
  type ExpandedPipeline,
  type ExpandedScenario,
  expandScenario,
  groupsOf,
  type ScenarioData,
  totalRate,
  withRate,
} from "./expand-scenario.js";
export { type Scenario, scenarioSchema } from "./scenario-schema.js";

/** What the command line may override. */
export interface ScenarioOverrides {
  readonly dataDir?: string | null;
  readonly policy?: string;
  /** Options of the policy; they add to the scenario's own unless `policy` names another one. */
  readonly policyOptions?: PolicyOptions;
  readonly rateRps?: number;
  readonly seed?: number;
  readonly durationS?: number;
  /** Of all pipelines. */
  readonly budget?: WrittenBudget;
}

/** Checks a scenario's text or value. @throws ConfigError listing every violation. */
export function scenarioFrom(source: Source): Scenario {
  const scenario = validate(scenarioSchema, source);
  const issues = new IssueList(source);
  checkScenario(scenario, issues);
  issues.throwIfAny();
  return scenario.name === undefined ? { ...scenario, name: path.parse(source.file).name } : scenario;
}

/** @param file Name for messages; a name that ends in `.json` demands JSON, any other YAML. @throws ConfigError */
export function parseScenario(text: string, file = "scenario.yaml"): Scenario {
  return scenarioFrom(parseSource(text, file));
}

/** Reads a scenario and the data it names, ready to run. @throws ConfigError for any fault of file, data or override. */
export function loadScenario(file: string, overrides: ScenarioOverrides = {}): ExpandedScenario {
  return loadScenarioFrom(readSource(file), overrides);
}

export function loadScenarioFrom(source: Source, overrides: ScenarioOverrides = {}): ExpandedScenario {
  refusePipeline(source);
  const scenario = override(scenarioFrom(source), overrides);
  const expanded = expandScenario(scenario, readScenarioData(scenario, source.file, overrides.dataDir ?? null), source);
  return overrides.rateRps === undefined ? expanded : withRate(expanded, overrides.rateRps);
}

/** A served pipeline's file has modules where a scenario has pipelines with modules. */
function refusePipeline({ file, value }: Source): void {
  if (value === null || typeof value !== "object" || !("modules" in value) || "arrivals" in value) return;
  const message =
    "is a pipeline to be served, and no scenario: rubato check and rubato serve take it; to simulate it, write it under pipelines of a scenario (docs/pipelines.md)";
  throw new ConfigError(file, [{ line: null, field: "", message }]);
}

function readScenarioData(scenario: Scenario, file: string, dataDir: string | null): ScenarioData {
  const { trace, replay } = scenario.arrivals;
  const times = new Map<string, readonly number[]>();
  for (const { time } of (scenario.models ?? []).flatMap(({ apps = [] }) => apps))
    if ("file" in time && !times.has(time.file))
      times.set(time.file, readTimes(resolveDataFile(time.file, file, dataDir)));
  const lengths = new Map<string, TokenRows>();
  for (const { tokens } of scenario.models ?? [])
    if (tokens !== undefined && "file" in tokens && !lengths.has(tokens.file))
      lengths.set(tokens.file, readTokens(resolveDataFile(tokens.file, file, dataDir)));
  return {
    ...(lengths.size === 0 ? {} : { lengths }),
    ...(times.size === 0 ? {} : { times }),
    ...(trace === undefined ? {} : { trace: readRateTrace(resolveDataFile(trace, file, dataDir)) }),
    ...(replay === undefined ? {} : { replay: readReplay(resolveDataFile(replay, file, dataDir)) }),
  };
}

function override(scenario: Scenario, overrides: ScenarioOverrides): Scenario {
  const name = overrides.policy ?? scenario.policy;
  const inherited = name === scenario.policy ? scenario.policy_options : {};
  const wanted = mergePolicyOptions(inherited, overrides.policyOptions ?? {});
  const { policy, policyOptions } = resolvePolicy(name, wanted, "command line");
  return {
    ...scenario,
    policy,
    policy_options: policyOptions,
    // A policy that is asked for is that of all groups.
    ...(overrides.policy === undefined || scenario.groups === undefined
      ? {}
      : {
          groups: scenario.groups.map(({ policy: _policy, policy_options: _options, ...group }) => group),
        }),
    ...(overrides.budget === undefined || scenario.pipelines === undefined
      ? {}
      : { pipelines: scenario.pipelines.map((pipeline) => ({ ...pipeline, budget: overrides.budget! })) }),
    ...(overrides.seed === undefined ? {} : { seed: overrides.seed }),
    ...(overrides.durationS === undefined ? {} : { duration_s: overrides.durationS }),
  };
}
