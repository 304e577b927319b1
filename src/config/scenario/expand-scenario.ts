/** A scenario made plain for the simulator: no defaults, shares, zoos or units left, only arrays of numbers. */
import { type DurationUs, durationUs } from "../../core/time.js";
import { type AutoscaleOptions, autoscaleOptions } from "../autoscale.js";
import { ConfigError } from "../config-error.js";
import { type PolicyOptions, validatePolicyOptions } from "../policy-options.js";
import { IssueList, type Source, sourceOf } from "../source.js";
import {
  type ExpandedArrivals,
  expandArrivals,
  modelRates,
  modelSteps,
  rateSteps,
  type ScenarioData,
} from "./expand-arrivals.js";
import { type ExpandedFault, expandFaults } from "./expand-faults.js";
import { type ExpandedModel, expandModel, listModels } from "./expand-models.js";
import { acceleratorCount } from "./scenario-rules.js";
import { ACCELERATORS_MAX, type Scenario, type ScenarioAutoscale, type ScenarioPlan } from "./scenario-schema.js";

export type { ExpandedArrivals, ScenarioData } from "./expand-arrivals.js";
export type { ExpandedModel } from "./expand-models.js";

/** More arrivals than this in one run would not fit in memory or patience. */
export const REQUESTS_EXPECTED_MAX = 2_000_000_000;

export interface ExpandedAccelerator {
  readonly kind: string;
  /** Execution time relative to the profile. */
  readonly scale: number;
  /** False: it joins later. */
  readonly present: boolean;
  /** Megabytes; absent where not given. Only planning reads it. */
  readonly memoryMb?: number;
}

export interface ExpandedAutoscale {
  readonly options: AutoscaleOptions;
  /** Advice only. */
  readonly isDry: boolean;
  /** Accelerators at the start: all of them in a dry run. */
  readonly initial: number;
  readonly startupUs: DurationUs;
}

export interface ExpandedScenario {
  readonly name: string;
  /** The file it came from, as the user named it; for messages. */
  readonly file: string;
  readonly seed: number;
  readonly durationUs: DurationUs;
  readonly warmupUs: DurationUs;
  readonly models: readonly ExpandedModel[];
  readonly accelerators: readonly ExpandedAccelerator[];
  readonly network: {
    readonly controlUs: DurationUs;
    readonly dataUsPerRequest: DurationUs;
    readonly responseUs: DurationUs;
  };
  readonly arrivals: ExpandedArrivals;
  /** In order of time; pauses (`for_s`) are already pairs of events. */
  readonly faults: readonly ExpandedFault[];
  /** Plans follow measured times; absent: they do not. */
  readonly learn?: boolean;
  readonly policy: string;
  /** Valid for `policy`, defaults filled in. */
  readonly policyOptions: PolicyOptions;
  /** Absent: the number of accelerators is not looked at. */
  readonly autoscale?: ExpandedAutoscale;
  /** As written; absent where not given. */
  readonly plan?: ScenarioPlan;
}

/**
 * @param source Where the scenario came from, for messages; a valid scenario of checkScenario.
 * @throws ConfigError where a model cannot be served in time at all, a trace is too short, a name unknown.
 */
export function expandScenario(scenario: Scenario, data: ScenarioData = {}, source?: Source): ExpandedScenario {
  const issues = new IssueList(source ?? sourceOf(scenario, scenario.name ?? "scenario"));
  const runUs = scenarioDuration(scenario, data, issues);
  const warmupUs = durationUs(Math.round(scenario.warmup_s * 1e6));
  if (warmupUs >= runUs) {
    issues.add(["warmup_s"], `must be less than the duration (${runUs / 1e6} s); was ${scenario.warmup_s}`);
  }
  const accelerators = expandAccelerators(scenario, issues);
  const network = {
    controlUs: durationUs(Math.ceil(scenario.network?.control_us ?? 0)),
    dataUsPerRequest: durationUs(Math.ceil(scenario.network?.data_us_per_request ?? 0)),
    responseUs: durationUs(Math.ceil(scenario.network?.response_us ?? 0)),
  };
  const written = listModels(scenario, issues);
  issues.throwIfAny();

  const modulation = rateSteps(scenario, data, runUs);
  const rates = modelRates(scenario, written, modulation?.meanRps ?? scenario.arrivals.rate_rps ?? 0);
  const delayUs = network.controlUs + network.dataUsPerRequest + network.responseUs;
  const fastest = accelerators.reduce((least, each) => Math.min(least, each.scale), Number.POSITIVE_INFINITY);
  const models: ExpandedModel[] = [];
  for (const [i, entry] of written.entries()) {
    // Copies stand side by side and differ in name and rate alone: they share one table.
    const isCopy = entry.index !== null && entry.index === written[i - 1]?.index;
    const { name } = entry.model;
    const rateRps = rates[i]!;
    const expanded = isCopy
      ? { ...models[i - 1]!, name, rateRps }
      : expandModel(entry, rateRps, delayUs, fastest, issues);
    const steps = modelSteps(entry.model.steps, runUs);
    models.push(
      steps === null ? expanded : { ...expanded, rateRps: rateRps * steps.meanFactor, modulation: steps.modulation },
    );
  }

  let expected = 0;
  for (const { rateRps } of models) expected += (rateRps * runUs) / 1e6;
  if (expected > REQUESTS_EXPECTED_MAX) {
    issues.add(
      ["arrivals"],
      `rate times duration must be at most ${REQUESTS_EXPECTED_MAX} requests; was ${Math.round(expected)}`,
    );
  }
  const arrivals = expandArrivals(scenario, data, modulation, models, runUs, issues);
  const faults = expandFaults(scenario.faults, accelerators.length, issues);
  const policy = scenario.policy;
  const policyOptions = validatePolicyOptions(policy, scenario.policy_options, ["policy_options"], issues, models);
  issues.throwIfAny();
  return {
    name: scenario.name ?? "scenario",
    file: issues.source.file,
    seed: scenario.seed,
    durationUs: runUs,
    warmupUs,
    models,
    accelerators: accelerators.map((each, i) => ({ ...each, present: !faults.absent.has(i) })),
    network,
    arrivals,
    faults: faults.events,
    learn: scenario.learn,
    policy,
    policyOptions,
    ...(scenario.plan === undefined ? {} : { plan: scenario.plan }),
    ...(scenario.autoscale === undefined
      ? {}
      : { autoscale: expandAutoscale(scenario.autoscale, accelerators.length) }),
  };
}

function expandAutoscale(autoscale: ScenarioAutoscale, count: number): ExpandedAutoscale {
  const { dry_run: isDry, startup_s: startupS } = autoscale;
  const max = autoscale.max ?? (isDry ? ACCELERATORS_MAX : count);
  return {
    options: autoscaleOptions(autoscale, max),
    isDry,
    initial: isDry ? count : (autoscale.initial ?? max),
    startupUs: durationUs(Math.round(startupS * 1e6)),
  };
}

/** The total offered rate, averaged over the duration, in requests per second. */
export function totalRate(scenario: ExpandedScenario): number {
  if (scenario.arrivals.kind === "replay") return scenario.arrivals.atUs.length / (scenario.durationUs / 1e6);
  let total = 0;
  for (const model of scenario.models) total += model.rateRps;
  return total;
}

/**
 * The same scenario at another total rate: each model keeps its part, steps and traces keep their form.
 *
 * @throws ConfigError for a replay, whose requests are given, and for a rate that is not above 0.
 */
export function withRate(scenario: ExpandedScenario, rateRps: number): ExpandedScenario {
  const refuse = (message: string) => new ConfigError(scenario.file, [{ line: null, field: "rate_rps", message }]);
  if (!(rateRps > 0 && Number.isFinite(rateRps))) throw refuse(`must be a number greater than 0; was ${rateRps}`);
  if (scenario.arrivals.kind === "replay") {
    throw refuse(`cannot override a replay, whose requests are given; was ${rateRps}`);
  }
  const expected = (rateRps * scenario.durationUs) / 1e6;
  if (expected > REQUESTS_EXPECTED_MAX) {
    throw refuse(`times duration must be at most ${REQUESTS_EXPECTED_MAX} requests; was ${Math.round(expected)}`);
  }
  const total = totalRate(scenario);
  // The part first: it is exactly 1 for a lone model, whose rate is then exactly what was asked for.
  return {
    ...scenario,
    models: scenario.models.map((model) => ({ ...model, rateRps: (model.rateRps / total) * rateRps })),
  };
}

function scenarioDuration(scenario: Scenario, data: ScenarioData, issues: IssueList): DurationUs {
  const recordedS =
    data.trace !== undefined
      ? data.trace.endS
      : data.replay !== undefined
        ? (data.replay.atUs.at(-1)! + 1) / 1e6
        : null;
  const durationS = scenario.duration_s ?? recordedS ?? 60;
  if (data.trace !== undefined && durationS > data.trace.endS) {
    issues.add(
      ["duration_s"],
      `must be at most the length of ${data.trace.file} (${data.trace.endS} s); was ${durationS}`,
    );
  }
  return durationUs(Math.max(1, Math.round(durationS * 1e6)));
}

function expandAccelerators(scenario: Scenario, issues: IssueList): Omit<ExpandedAccelerator, "present">[] {
  const count = acceleratorCount(scenario);
  if (count > ACCELERATORS_MAX) {
    issues.add(["accelerators"], `must be at most ${ACCELERATORS_MAX} in all; was ${count}`);
    return [];
  }
  if (!Array.isArray(scenario.accelerators)) {
    return Array.from({ length: count }, () => ({ kind: "emulated", scale: 1 }));
  }
  return scenario.accelerators.flatMap(({ kind, count: size, scale, memory_mb: memoryMb }) =>
    Array.from({ length: size }, () => ({ kind, scale, ...(memoryMb === undefined ? {} : { memoryMb }) })),
  );
}
