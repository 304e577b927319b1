/** Rules between the fields of a scenario, which its schema cannot say. */
import { type FieldPath, formatPath, formatValue } from "../config-error.js";
import { validatePolicyOptions } from "../policy-options.js";
import type { IssueList } from "../source.js";
import { checkApps } from "./apps/expand-apps.js";
import { checkPlanning } from "./apps/expand-planning.js";
import { checkLlm } from "./llm/expand-llm.js";
import { type Entrance, entrancesOf } from "./pipelines/entrances.js";
import { checkGroups, checkPipelines } from "./pipelines/pipeline-rules.js";
import type { TimedBySize } from "./profile-schema.js";
import { BATCH_SIZE_MAX, type Scenario, type ScenarioAccelerators } from "./scenario-schema.js";
import { checkTasks, sizesOf, waysOf } from "./tasks/expand-tasks.js";

/** Adds every violation to `issues`. */
export function checkScenario(scenario: Scenario, issues: IssueList): void {
  const { duration_s: durationS, warmup_s: warmupS } = scenario;
  if (durationS !== undefined && warmupS >= durationS) {
    issues.add(["warmup_s"], `must be less than duration_s (${durationS}); was ${warmupS}`);
  }
  checkGroups(scenario, issues);
  checkWorkers(scenario, issues);
  checkModels(scenario, issues);
  checkPipelines(scenario, issues);
  checkPlanning(scenario, issues);
  checkTasks(scenario, issues);
  checkLlm(
    scenario,
    (scenario.groups ?? []).map(({ accelerators }) => countOf(accelerators)),
    issues,
  );
  checkArrivals(scenario, issues);
  checkRates(scenario, issues);
  checkFaults(scenario, issues);
  checkAutoscale(scenario, issues);
  validatePolicyOptions(scenario.policy, scenario.policy_options, ["policy_options"], issues);
}

function checkModels(scenario: Scenario, issues: IssueList): void {
  const models = scenario.models ?? [];
  if (models.length === 0 && scenario.models_from === undefined) {
    issues.add(["models"], "is required: a list of models, here or by models_from; was missing");
  }
  models.forEach((model, index) => {
    checkSteps(scenario, index, issues);
    checkApps(model, ["models", index], issues);
    const isElastic = "by_gamma" in model.profile;
    waysOf(model.profile).forEach((way, each) => {
      const path = ["models", index, "profile", ...(isElastic ? ["by_gamma", each] : [])];
      checkTimes(way, path, issues);
    });
    const lengthMax = sizesOf(model.profile, BATCH_SIZE_MAX);
    if (model.batch_max !== undefined && model.batch_max > lengthMax) {
      issues.add(
        ["models", index, "batch_max"],
        `must be at most the length of table_ms (${lengthMax}); was ${model.batch_max}`,
      );
    }
  });
}

function checkTimes(profile: TimedBySize, path: FieldPath, issues: IssueList): void {
  if (!("table_ms" in profile)) {
    const { alpha_ms: alphaMs, beta_ms: betaMs } = profile;
    if (alphaMs + betaMs <= 0) issues.add(path, `alpha_ms + beta_ms must be greater than 0; was ${alphaMs + betaMs}`);
    return;
  }
  const { table_ms: table } = profile;
  for (let b = 1; b < table.length; b++) {
    if (table[b]! < table[b - 1]!) {
      issues.add([...path, "table_ms", b], `must be at least the entry before it (${table[b - 1]}); was ${table[b]}`);
    }
  }
}

function checkSteps(scenario: Scenario, index: number, issues: IssueList): void {
  const { steps } = scenario.models![index]!;
  if (steps === undefined) return;
  const { process, steps: ofAll } = scenario.arrivals;
  if (!RATED.has(process)) {
    issues.add(["models", index, "steps"], `goes only with process poisson, gamma or uniform; was with ${process}`);
  }
  if (ofAll !== undefined) {
    issues.add(["models", index, "steps"], `must not stand beside arrivals.steps; were ${steps.length} steps`);
  }
  if (steps[0]!.at_s !== 0) {
    issues.add(["models", index, "steps", 0, "at_s"], `must be 0; was ${steps[0]!.at_s}`);
  }
  for (let i = 1; i < steps.length; i++) {
    const [before, at] = [steps[i - 1]!.at_s, steps[i]!.at_s];
    if (at <= before) {
      issues.add(["models", index, "steps", i, "at_s"], `must be greater than the step before (${before}); was ${at}`);
    }
  }
}

const RATED = new Set(["poisson", "gamma", "uniform"]);
/** Which processes each key of `arrivals` goes with. */
const ARRIVAL_KEYS = {
  shape: ["gamma", "trace"],
  rate_rps: [...RATED],
  steps: [...RATED],
  missing: [...RATED],
  trace: ["trace"],
  scale: ["trace"],
  replay: ["replay"],
} as const;

function checkArrivals(scenario: Scenario, issues: IssueList): void {
  const arrivals = scenario.arrivals;
  for (const [key, processes] of Object.entries(ARRIVAL_KEYS)) {
    const value = arrivals[key as keyof typeof ARRIVAL_KEYS];
    if (value !== undefined && !(processes as readonly string[]).includes(arrivals.process)) {
      const allowed = processes.join(" or ");
      issues.add(
        ["arrivals", key],
        `goes only with process ${allowed}; was ${formatValue(value)} with ${arrivals.process}`,
      );
    }
  }
  const require = (key: "shape" | "trace" | "replay", process: string) => {
    if (arrivals.process === process && arrivals[key] === undefined) {
      issues.add(["arrivals", key], `is required with process ${process}; was missing`);
    }
  };
  require("shape", "gamma");
  require("trace", "trace");
  require("replay", "replay");

  const steps = arrivals.steps ?? [];
  for (let i = 1; i < steps.length; i++) {
    const [before, at] = [steps[i - 1]!.at_s, steps[i]!.at_s];
    if (at <= before) {
      issues.add(["arrivals", "steps", i, "at_s"], `must be greater than the step before (${before}); was ${at}`);
    }
  }
  const first = steps[0];
  if (first !== undefined && arrivals.rate_rps === undefined && first.at_s !== 0) {
    issues.add(["arrivals", "steps", 0, "at_s"], `must be 0 when arrivals.rate_rps is not given; was ${first.at_s}`);
  }
}

/** Exactly one source of rates: a total (split by share or popularity), the models' own, or a file. */
function checkRates(scenario: Scenario, issues: IssueList): void {
  const entrances = entrancesOf(scenario);
  const count = entrances.length + (scenario.models_from === undefined ? 0 : 1);
  const others = scenario.models_from === undefined ? "" : " (models_from gives none)";
  const all = scenario.pipelines === undefined ? "all models" : "all models and pipelines that requests arrive for";
  const shared = entrances.filter(({ share }) => share !== undefined);
  const rated = entrances.filter(({ rateRps }) => rateRps !== undefined);
  const withShare = shared.length;
  const withRate = rated.length;
  const at = ({ path }: Entrance, key: "share" | "rate_rps") => [...path, key];

  for (const [key, having, value] of [
    ["share", shared, shared[0]?.share],
    ["rate_rps", rated, rated[0]?.rateRps],
  ] as const) {
    if (having.length > 0 && having.length < count) {
      issues.add(
        at(having[0]!, key),
        `must be given for ${all} or for none; was ${value} here and missing in ${count - having.length}${others}`,
      );
    }
  }
  const { process, rate_rps: total, steps } = scenario.arrivals;
  if (withRate > 0) {
    const own = formatPath(at(rated[0]!, "rate_rps"));
    const exclude = (path: string[], value: unknown) =>
      issues.add(path, `must not stand beside ${own}; was ${formatValue(value)}`);
    if (total !== undefined) exclude(["arrivals", "rate_rps"], total);
    if (steps !== undefined) exclude(["arrivals", "steps"], steps);
    if (scenario.popularity !== undefined) exclude(["popularity"], scenario.popularity);
    if (withShare > 0) issues.add(at(shared[0]!, "share"), `must not stand beside ${own}; was ${shared[0]!.share}`);
    if (!RATED.has(process)) {
      issues.add(
        at(rated[0]!, "rate_rps"),
        `goes only with process poisson, gamma or uniform; was ${rated[0]!.rateRps} with ${process}`,
      );
    } else if (entrances.every(({ rateRps }) => (rateRps ?? 0) === 0)) {
      issues.add(at(entrances[0]!, "rate_rps"), "must be greater than 0 for some model; was 0 for all");
    }
  } else if (RATED.has(process) && total === undefined && steps === undefined) {
    issues.add(
      ["arrivals", "rate_rps"],
      "is required: a total here, or steps, or rate_rps of every model; was missing",
    );
  }
  if (steps !== undefined && total === undefined && steps.every((step) => step.rate_rps === 0)) {
    issues.add(["arrivals", "steps"], "must have a rate_rps greater than 0 in some step; was 0 in all");
  }
  if (scenario.popularity !== undefined && withShare > 0) {
    const { share } = shared[0]!;
    issues.add(
      ["popularity"],
      `must not stand beside ${formatPath(at(shared[0]!, "share"))} (${share}); was ${formatValue(scenario.popularity)}`,
    );
  }
  if (process === "replay") {
    if (scenario.popularity !== undefined) {
      issues.add(["popularity"], `does not go with process replay; was ${formatValue(scenario.popularity)}`);
    }
    if (withShare > 0) issues.add(at(shared[0]!, "share"), `does not go with process replay; was ${shared[0]!.share}`);
  }
}

function checkFaults(scenario: Scenario, issues: IssueList): void {
  const count = acceleratorCount(scenario);
  scenario.faults.forEach((fault, index) => {
    const at = (key: string) => ["faults", index, key];
    if (fault.accelerator >= count) {
      issues.add(at("accelerator"), `must be at most ${count - 1} (there are ${count}); was ${fault.accelerator}`);
    }
    if (fault.kind === "slow" && fault.factor === undefined) {
      issues.add(at("factor"), "is required with kind slow; was missing");
    }
    if (fault.kind !== "slow" && fault.factor !== undefined) {
      issues.add(at("factor"), `goes only with kind slow; was ${fault.factor} with ${fault.kind}`);
    }
    if ((fault.kind === "recover" || fault.kind === "join") && fault.for_s !== undefined) {
      issues.add(at("for_s"), `goes only with kind fail, leave or slow; was ${fault.for_s} with ${fault.kind}`);
    }
  });
}

/** Decisions in one run: each is a row of the report. */
const DECISIONS_MAX = 100_000;

function checkAutoscale(scenario: Scenario, issues: IssueList): void {
  const { autoscale } = scenario;
  if (autoscale === undefined) return;
  if (scenario.groups !== undefined) issues.add(["autoscale"], "does not go with groups: it sizes one");
  const at = (key: string) => ["autoscale", key];
  const { min, max, initial, dry_run: isDry, interval_s: intervalS } = autoscale;
  const count = acceleratorCount(scenario);
  if (max !== undefined && max < min) issues.add(at("max"), `must be at least min (${min}); was ${max}`);
  if (scenario.duration_s !== undefined && scenario.duration_s / intervalS > DECISIONS_MAX) {
    issues.add(
      at("interval_s"),
      `must leave at most ${DECISIONS_MAX} decisions in duration_s (${scenario.duration_s}); was ${intervalS}`,
    );
  }
  if (isDry) {
    if (initial !== undefined) issues.add(at("initial"), `goes only with dry_run false; was ${initial} with true`);
    return;
  }
  if (max !== undefined && max > count) {
    issues.add(at("max"), `must be at most the number of accelerators (${count}); was ${max}`);
  }
  if (max === undefined && min > count) {
    issues.add(at("min"), `must be at most the number of accelerators (${count}); was ${min}`);
  }
  if (initial !== undefined && (initial < min || initial > (max ?? count))) {
    issues.add(at("initial"), `must be in [min, max] ([${min}, ${max ?? count}]); was ${initial}`);
  }
  scenario.faults.forEach(({ kind }, index) => {
    if (kind !== "join" && kind !== "leave") return;
    issues.add(
      ["faults", index, "kind"],
      `does not go with autoscale.dry_run false, which says who is there; was ${kind}`,
    );
  });
}

function checkWorkers({ groups = [] }: Scenario, issues: IssueList): void {
  for (const [index, { accelerators, workers }] of groups.entries()) {
    if (workers === undefined) continue;
    const { initial, min } = workers;
    const at = (field: string) => ["groups", index, "workers", field];
    const count = countOf(accelerators);
    const bound = `must be at most the ${count} accelerators of the group`;
    if (min > count) issues.add(at("min"), `${bound}; was ${min}`);
    if (initial === undefined) continue;
    if (initial > count) issues.add(at("initial"), `${bound}; was ${initial}`);
    if (initial < min) issues.add(at("initial"), `must be at least min (${min}); was ${initial}`);
  }
}

/** Of all groups. */
export function acceleratorCount({ accelerators, groups }: Scenario): number {
  if (groups !== undefined) return groups.reduce((all, group) => all + countOf(group.accelerators), 0);
  return accelerators === undefined ? 0 : countOf(accelerators);
}

export function countOf(accelerators: ScenarioAccelerators): number {
  if (typeof accelerators === "number") return accelerators;
  if (!Array.isArray(accelerators)) return accelerators.count;
  let count = 0;
  for (const kind of accelerators) count += kind.count;
  return count;
}
