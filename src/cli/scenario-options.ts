/** Options that every command on a scenario takes. */
import { type Command, Option } from "commander";
import { ConfigError } from "../config/config-error.js";
import { type ExpandedScenario, loadScenario, type ScenarioOverrides } from "../config/scenario/scenario.js";
import { dataDirOf } from "../config/scenario/traces.js";
import { POLICY_NAMES } from "../policies/registry.js";
import { BUDGET_RULES, type BudgetRule } from "../system/budget/budget-spec.js";
import { collectPair, integerWithin, numberWithin } from "./option-values.js";

export interface ScenarioOptions {
  readonly policy?: string;
  readonly option?: Readonly<Record<string, unknown>>;
  readonly rate?: number;
  readonly seed?: number;
  readonly budget?: BudgetRule;
  readonly duration?: number;
  readonly dataDir?: string;
}

export function addScenarioOptions(command: Command): Command {
  return command
    .addOption(new Option("--policy <name>", "schedule by this policy instead of the scenario's").choices(POLICY_NAMES))
    .option("--option <key=value>", "set an option of the policy; may be repeated", collectPair)
    .addOption(new Option("--budget <rule>", "of all pipelines, instead of the scenario's").choices(BUDGET_RULES))
    .option(
      "--duration <seconds>",
      "seconds in which requests arrive, instead of the scenario's",
      numberWithin({ above: 0, max: 2_678_400 }),
    )
    .option("--data-dir <dir>", "folder of traces (default: $RUBATO_DATA)");
}

export function addRateOption(command: Command): Command {
  return command.option(
    "--rate <rps>",
    "total requests per second, instead of the scenario's; models keep their shares",
    numberWithin({ above: 0, max: 1e8 }),
  );
}

export function addSeedOption(command: Command): Command {
  return command.option(
    "--seed <n>",
    "seed of every random stream, instead of the scenario's",
    integerWithin({ min: 0, max: 4_294_967_295 }),
  );
}

/** @throws ConfigError */
export function loadWithOptions(file: string, options: ScenarioOptions): ExpandedScenario {
  const overrides: ScenarioOverrides = {
    dataDir: dataDirOf(options.dataDir, process.env),
    ...(options.policy === undefined ? {} : { policy: options.policy }),
    ...(options.option === undefined ? {} : { policyOptions: options.option }),
    ...(options.rate === undefined ? {} : { rateRps: options.rate }),
    ...(options.seed === undefined ? {} : { seed: options.seed }),
    ...(options.budget === undefined ? {} : { budget: options.budget }),
    ...(options.duration === undefined ? {} : { durationS: options.duration }),
  };
  return loadScenario(file, overrides);
}

/** @throws ConfigError: what is asked looks at models one by one and at accelerators as one group. */
export function refusePipelines({ file, pipelines, groups }: ExpandedScenario, command: string): void {
  const refused = groups !== undefined && (groups.length > 1 || groups.some(({ llm }) => llm !== undefined));
  const field = pipelines !== undefined ? "pipelines" : refused ? "groups" : null;
  if (field === null) return;
  const message = `do not go with ${command}, which looks at models one by one on one group of accelerators that run batches`;
  throw new ConfigError(file, [{ line: null, field, message }]);
}
