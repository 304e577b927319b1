/** A scenario made plain for the simulator: no defaults, shares, zoos or units left, only arrays of numbers. */
import type { ProfilerOptions } from "../../core/shadow/profiler.js";
import { type DurationUs, durationUs, sloUsFromMs } from "../../core/time.js";
import { type AutoscaleOptions, autoscaleOptions } from "../autoscale.js";
import { ConfigError } from "../config-error.js";
import { type PolicyOptions, validatePolicyOptions } from "../policy-options.js";
import { profilerOptions } from "../profiler.js";
import { IssueList, type Source, sourceOf } from "../source.js";
import { type ExpandedWorkers, expandWorkers } from "../worker-rule.js";
import { replayedApps } from "./apps/expand-apps.js";
import {
  type ExpandedArrivals,
  expandArrivals,
  loadRates,
  modelSteps,
  rateSteps,
  type ScenarioData,
} from "./expand-arrivals.js";
import { type ExpandedFault, expandFaults } from "./expand-faults.js";
import { type ExpandedModel, expandModel, listModels, soonestUsOf } from "./expand-models.js";
import { type ExpandedLlm, expandLlm, longestOf } from "./llm/expand-llm.js";
import { innerModels } from "./pipelines/entrances.js";
import { type ExpandedPipeline, expandPipelines, moduleSlos } from "./pipelines/expand-pipelines.js";
import { acceleratorCount, countOf } from "./scenario-rules.js";
import {
  ACCELERATORS_MAX,
  type Scenario,
  type ScenarioAccelerators,
  type ScenarioAutoscale,
  type ScenarioModel,
  type ScenarioNetwork,
  type ScenarioPlan,
} from "./scenario-schema.js";

export type { ExpandedArrivals, ScenarioData } from "./expand-arrivals.js";
export type { ExpandedModel } from "./expand-models.js";
export type { ExpandedModule, ExpandedPipeline } from "./pipelines/expand-pipelines.js";

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

export interface ExpandedNetwork {
  readonly controlUs: DurationUs;
  readonly dataUsPerRequest: DurationUs;
  readonly responseUs: DurationUs;
}

/** Accelerators with a scheduler of their own: those numbered from `first`. */
export interface ExpandedGroup {
  readonly name: string;
  readonly first: number;
  readonly count: number;
  readonly network: ExpandedNetwork;
  readonly policy: string;
  /** Valid for `policy`, defaults filled in. */
  readonly policyOptions: PolicyOptions;
  /** Their number follows the rate; absent: all accelerators are there. */
  readonly workers?: ExpandedWorkers;
  /** They generate text by continuous batching; absent: they run batches. */
  readonly llm?: ExpandedLlm;
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
  readonly network: ExpandedNetwork;
  /** Absent: one, of all accelerators; see groupsOf. */
  readonly groups?: readonly ExpandedGroup[];
  /** Absent: none. */
  readonly pipelines?: readonly ExpandedPipeline[];
  readonly arrivals: ExpandedArrivals;
  /** In order of time; pauses (`for_s`) are already pairs of events. */
  readonly faults: readonly ExpandedFault[];
  /** Plans follow measured times; absent: they do not. */
  readonly learn?: boolean;
  /** Null: off; absent: as it is by default, on where plans follow measured times. */
  readonly profiler?: ProfilerOptions | null;
  readonly policy: string;
  /** Valid for `policy`, defaults filled in. */
  readonly policyOptions: PolicyOptions;
  /** Absent: the number of accelerators is not looked at. */
  readonly autoscale?: ExpandedAutoscale;
  /** As written; absent where not given. */
  readonly plan?: ScenarioPlan;
}

/** All accelerators are one group unless the scenario says otherwise. */
export function groupsOf({
  groups,
  accelerators,
  network,
  policy,
  policyOptions,
}: ExpandedScenario): readonly ExpandedGroup[] {
  return groups ?? [{ name: "default", first: 0, count: accelerators.length, network, policy, policyOptions }];
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
  const network = expandNetwork(scenario.network);
  const written = listModels(scenario, issues);
  issues.throwIfAny();

  const { policy } = scenario;
  const groups = expandGroups(scenario, network);
  const hosts = groups.map(({ first, count, network: { controlUs, dataUsPerRequest, responseUs } }, group) => ({
    group,
    delayUs: controlUs + dataUsPerRequest + responseUs,
    fastestScale: accelerators
      .slice(first, first + count)
      .reduce((least, each) => Math.min(least, each.scale), Number.POSITIVE_INFINITY),
  }));
  const hostOf = (name: string | undefined) =>
    hosts[
      Math.max(
        0,
        groups.findIndex((group) => group.name === name),
      )
    ]!;
  const isInner = innerModels(scenario);
  const modulation = rateSteps(scenario, data, runUs);
  const outer = written.filter(({ model }) => !isInner(model));
  const rates = loadRates(
    scenario,
    [...outer.map(({ model }) => model), ...(scenario.pipelines ?? [])],
    modulation?.meanRps ?? scenario.arrivals.rate_rps ?? 0,
  );
  const names = written.map(({ model }) => model.name);
  const pipelines = expandPipelines(
    scenario,
    names,
    (index) => groups[hostOf(written[index]!.model.group).group]!.policy,
    (index) => rates[outer.length + index]!,
    issues,
  );
  issues.throwIfAny();
  const soonestUs = (index: number): number => {
    const { model } = written[index]!;
    return soonestUsOf(model, hostOf(model.group));
  };
  const innerSlos = moduleSlos(pipelines, written.length, soonestUs, issues);
  const models: ExpandedModel[] = [];
  let nextRate = 0;
  for (const [i, entry] of written.entries()) {
    // Copies stand side by side and differ in name and rate alone: they share one table.
    const isCopy = entry.index !== null && entry.index === written[i - 1]?.index && pipelines.length === 0;
    const { name } = entry.model;
    const inner = isInner(entry.model);
    const rateRps = inner ? 0 : rates[nextRate++]!;
    const expanded = isCopy
      ? { ...models[i - 1]!, name, rateRps }
      : expandModel(
          entry,
          rateRps,
          hostOf(entry.model.group),
          inner ? (writtenSlo(entry.model) ?? innerSlos[i] ?? durationUs(1)) : undefined,
          data,
          issues,
        );
    const steps = modelSteps(entry.model.steps, runUs);
    models.push(
      steps === null ? expanded : { ...expanded, rateRps: rateRps * steps.meanFactor, modulation: steps.modulation },
    );
  }

  for (const [index, { llm }] of groups.entries()) {
    const longest = models.reduce(
      (most, { group = 0, tokens }) =>
        group === index && tokens !== undefined ? Math.max(most, longestOf(tokens)) : most,
      0,
    );
    if (llm !== undefined && longest > llm.kvTokens)
      issues.add(
        ["groups", index, "llm", "kv_tokens"],
        `must hold the longest request of its models (${longest} tokens); was ${llm.kvTokens}`,
      );
  }

  let expected = 0;
  for (const { rateRps } of [...models, ...pipelines]) expected += (rateRps * runUs) / 1e6;
  if (expected > REQUESTS_EXPECTED_MAX) {
    issues.add(
      ["arrivals"],
      `rate times duration must be at most ${REQUESTS_EXPECTED_MAX} requests; was ${Math.round(expected)}`,
    );
  }
  const loads = expandArrivals(
    scenario,
    data,
    modulation,
    [...names, ...pipelines.map(({ name }) => name)],
    runUs,
    issues,
  );
  const arrivals = loads.kind === "replay" ? { ...loads, app: replayedApps(loads, models, issues) } : loads;
  const faults = expandFaults(scenario.faults, accelerators.length, issues);
  const policyOptions = validatePolicyOptions(policy, scenario.policy_options, ["policy_options"], issues, models);
  issues.throwIfAny();
  const own = (group: ExpandedGroup, index: number): ExpandedGroup => {
    const at = ["groups", index, "policy_options"];
    const wanted = scenario.groups![index]!;
    return wanted.policy === undefined
      ? { ...group, policyOptions }
      : {
          ...group,
          policyOptions: validatePolicyOptions(group.policy, wanted.policy_options ?? {}, at, issues, models),
        };
  };
  const withOptions = scenario.groups === undefined ? undefined : groups.map(own);
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
    ...(withOptions === undefined ? {} : { groups: withOptions }),
    ...(pipelines.length === 0 ? {} : { pipelines }),
    arrivals,
    faults: faults.events,
    learn: scenario.learn,
    ...(scenario.profiler === undefined ? {} : { profiler: profilerOptions(scenario.profiler) }),
    policy,
    policyOptions,
    ...(scenario.plan === undefined ? {} : { plan: scenario.plan }),
    ...(scenario.autoscale === undefined
      ? {}
      : { autoscale: expandAutoscale(scenario.autoscale, accelerators.length) }),
  };
}

/** Of a model that only modules ask for: what its queue plans batches for, whatever its pipelines' budgets. */
const writtenSlo = ({ slo_ms: sloMs }: ScenarioModel): DurationUs | undefined =>
  sloMs === undefined ? undefined : sloUsFromMs(sloMs);

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
  for (const pipeline of scenario.pipelines ?? []) total += pipeline.rateRps;
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
  const scaled = <T extends { readonly rateRps: number }>(each: T): T => ({
    ...each,
    rateRps: (each.rateRps / total) * rateRps,
  });
  return {
    ...scenario,
    models: scenario.models.map(scaled),
    ...(scenario.pipelines === undefined ? {} : { pipelines: scenario.pipelines.map(scaled) }),
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

function expandNetwork(network: ScenarioNetwork | undefined): ExpandedNetwork {
  return {
    controlUs: durationUs(Math.ceil(network?.control_us ?? 0)),
    dataUsPerRequest: durationUs(Math.ceil(network?.data_us_per_request ?? 0)),
    responseUs: durationUs(Math.ceil(network?.response_us ?? 0)),
  };
}

type WrittenGroup = NonNullable<Scenario["groups"]>[number];

/** Options of policies are looked at when the models are known. */
function expandGroups(scenario: Scenario, network: ExpandedNetwork): ExpandedGroup[] {
  const { policy } = scenario;
  let first = 0;
  const written: readonly WrittenGroup[] = scenario.groups ?? [
    { name: "default", accelerators: scenario.accelerators! },
  ];
  return written.map((group) => {
    const count = countOf(group.accelerators);
    const expanded: ExpandedGroup = {
      name: group.name,
      first,
      count,
      network: group.network === undefined ? network : expandNetwork(group.network),
      policy: group.policy ?? policy,
      policyOptions: {},
      ...(group.workers === undefined ? {} : { workers: expandWorkers(group.workers, count) }),
      ...(group.llm === undefined ? {} : { llm: expandLlm(group.llm) }),
    };
    first += count;
    return expanded;
  });
}

function expandAccelerators(scenario: Scenario, issues: IssueList): Omit<ExpandedAccelerator, "present">[] {
  const count = acceleratorCount(scenario);
  if (count > ACCELERATORS_MAX) {
    const at = scenario.groups === undefined ? "accelerators" : "groups";
    issues.add([at], `must be at most ${ACCELERATORS_MAX} in all; was ${count}`);
    return [];
  }
  const written = scenario.groups?.map(({ accelerators }) => accelerators) ?? [scenario.accelerators!];
  return written.flatMap(acceleratorsOf);
}

function acceleratorsOf(accelerators: ScenarioAccelerators): Omit<ExpandedAccelerator, "present">[] {
  if (!Array.isArray(accelerators))
    return Array.from({ length: countOf(accelerators) }, () => ({ kind: "emulated", scale: 1 }));
  return accelerators.flatMap(({ kind, count: size, scale, memory_mb: memoryMb }) =>
    Array.from({ length: size }, () => ({ kind, scale, ...(memoryMb === undefined ? {} : { memoryMb }) })),
  );
}
