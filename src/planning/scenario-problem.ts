/** The partitioning problem of a scenario: its models with their rates, its `plan`, and where models are now. */
import { ConfigError, type ConfigIssue } from "../config/config-error.js";
import type { ExpandedScenario } from "../config/scenario/scenario.js";
import { type PlanProblem, planProblem } from "./problem.js";

export interface ScenarioProblemOptions {
  /** Sub-clusters; undefined: the scenario's. */
  readonly clusters?: number | undefined;
  /** Sub-cluster of each model by name; null: a first placement. */
  readonly current?: ReadonlyMap<string, number> | null;
}

export interface ScenarioProblem {
  readonly problem: PlanProblem;
  /** Models of `current` that the scenario does not have. */
  readonly gone: readonly string[];
  /** Models whose sub-cluster in `current` is beyond the number of sub-clusters: they are nowhere. */
  readonly homeless: readonly string[];
}

/** @throws ConfigError where the scenario lacks what a plan needs. */
export function scenarioProblem(scenario: ExpandedScenario, options: ScenarioProblemOptions = {}): ScenarioProblem {
  const { plan, models, accelerators } = scenario;
  const issues: ConfigIssue[] = [];
  const issue = (field: string, message: string): void => void issues.push({ line: null, field, message });
  const clusters = options.clusters ?? plan?.clusters;
  if (clusters === undefined) issue("plan.clusters", "is required here or as --clusters; was missing");
  const without = models.filter((model) => model.memoryMb === undefined);
  if (without.length > 0) {
    const names = without.slice(0, 5).map((model) => model.name);
    const more = without.length > names.length ? ` and ${without.length - names.length} more` : "";
    issue("models", `must all have memory_mb to be planned; missing for ${names.join(", ")}${more}`);
  }
  for (const { name, loadCost } of models) {
    if (typeof loadCost === "object" && clusters !== undefined && loadCost.length !== clusters) {
      issue("models", `load_cost of ${name} must have one entry per sub-cluster (${clusters}); has ${loadCost.length}`);
    }
  }
  if (issues.length > 0 || clusters === undefined) throw new ConfigError(scenario.file, issues);

  const current = options.current ?? null;
  const known = new Set(models.map((model) => model.name));
  const gone = [...(current?.keys() ?? [])].filter((name) => !known.has(name));
  const homeless: string[] = [];
  const placeOf = (name: string): number | null => {
    const place = current?.get(name);
    if (place === undefined) return null;
    if (place < clusters) return place;
    homeless.push(name);
    return null;
  };
  const rates = modelRates(scenario);
  let memoryMbMax = plan?.memory_mb_max;
  if (memoryMbMax === undefined) {
    for (const { memoryMb } of accelerators) {
      if (memoryMb !== undefined) memoryMbMax = Math.min(memoryMbMax ?? memoryMb, memoryMb);
    }
  }
  const problem = planProblem({
    clusters,
    models: models.map((model, i) => ({
      name: model.name,
      rateRps: rates[i]!,
      memoryMb: model.memoryMb!,
      dynamicMb: model.dynamicMb ?? 0,
      loadCost: model.loadCost ?? 1,
      current: placeOf(model.name),
    })),
    memoryWeight: plan?.memory_weight ?? 1,
    isRunning: current !== null,
    ...(plan?.rate_rps_max === undefined ? {} : { rateRpsMax: plan.rate_rps_max }),
    ...(memoryMbMax === undefined ? {} : { memoryMbMax }),
    ...(plan?.cost_max === undefined ? {} : { costMax: plan.cost_max }),
  });
  return { problem, gone, homeless };
}

/** Mean requests per second of each model; of a replay, counted. */
function modelRates({ models, arrivals, durationUs }: ExpandedScenario): number[] {
  if (arrivals.kind !== "replay") return models.map((model) => model.rateRps);
  const counts = new Array<number>(models.length).fill(0);
  for (const model of arrivals.model) counts[model]!++;
  return counts.map((count) => count / (durationUs / 1e6));
}
