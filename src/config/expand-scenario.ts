/** A scenario made plain for the simulator: no defaults, shares, zoos or units left, only arrays of numbers. */
import { type DurationUs, durationUs, sloUsFromMs, workUsFromMs } from "../core/time.js";
import { ConfigError, nearest } from "./config-error.js";
import { type ExpandedFault, expandFaults } from "./expand-faults.js";
import { checkOptionsForModels, type PolicyName, type PolicyOptions, validatePolicyOptions } from "./policy-options.js";
import { acceleratorCount } from "./scenario-rules.js";
import { ACCELERATORS_MAX, BATCH_SIZE_MAX, MODELS_MAX, type Scenario, type ScenarioModel } from "./scenario-schema.js";
import { IssueList, type Source, sourceOf } from "./source.js";
import type { RateTrace, Replay } from "./traces.js";
import { isStrong, ZOO } from "./zoo.js";

/** More arrivals than this in one run would not fit in memory or patience. */
export const REQUESTS_EXPECTED_MAX = 2_000_000_000;

export interface ExpandedModel {
  readonly name: string;
  /** execUs[b] = whole microseconds of a batch of b, rounded up; [0] = 0, [batchSizeMax + 1] = Infinity. */
  readonly execUs: Float64Array;
  readonly batchSizeMax: number;
  readonly sloUs: DurationUs;
  /** Requests per second, averaged over the duration. 0 with a replay. */
  readonly rateRps: number;
}

export interface ExpandedAccelerator {
  readonly kind: string;
  /** Execution time relative to the profile. */
  readonly scale: number;
  /** False: it joins later. */
  readonly present: boolean;
}

export type ExpandedArrivals =
  | {
      readonly kind: "renewal";
      /** Gaps of unit mean: gamma of `shape` (1 = exponential), or all equal (the first request at 0). */
      readonly gaps: "gamma" | "equal";
      readonly shape: number;
      /** A model's rate at t is rateRps * factor[i] for atUs[i] <= t < atUs[i + 1]; atUs[0] = 0. Null: constant. */
      readonly modulation: { readonly atUs: Float64Array; readonly factor: Float64Array } | null;
      /** Arrivals of each model, counted from 0, that do not come; increasing. */
      readonly missing: readonly number[];
    }
  | {
      readonly kind: "replay";
      /** In order of arrival, all before the duration ends. */
      readonly atUs: Float64Array;
      readonly model: Int32Array;
      readonly app: Int32Array | null;
      readonly appNames: readonly string[];
    };

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
  readonly policy: PolicyName;
  /** Valid for `policy`, defaults filled in. */
  readonly policyOptions: PolicyOptions;
}

/** What a scenario names but does not hold. */
export interface ScenarioData {
  readonly trace?: RateTrace;
  readonly replay?: Replay;
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
  const models = written.map((entry, i) => expandModel(entry, rates[i]!, delayUs, fastest, issues));

  let expected = 0;
  for (const rate of rates) expected += (rate * runUs) / 1e6;
  if (expected > REQUESTS_EXPECTED_MAX) {
    issues.add(
      ["arrivals"],
      `rate times duration must be at most ${REQUESTS_EXPECTED_MAX} requests; was ${Math.round(expected)}`,
    );
  }
  const arrivals = expandArrivals(scenario, data, modulation, models, runUs, issues);
  const faults = expandFaults(scenario.faults, accelerators.length, issues);
  const policy = scenario.policy as PolicyName;
  const policyOptions = validatePolicyOptions(policy, scenario.policy_options, ["policy_options"], issues);
  checkOptionsForModels(policy, policyOptions, models, ["policy_options"], issues);
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
    policy,
    policyOptions,
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

interface WrittenModel {
  readonly model: ScenarioModel;
  /** Index in `models`; null if it came from a zoo. */
  readonly index: number | null;
}

/** Zoo models first, then `models`, with copies made. */
function listModels(scenario: Scenario, issues: IssueList): WrittenModel[] {
  const list: WrittenModel[] = [];
  if (scenario.models_from !== undefined) list.push(...zooModels(scenario.models_from, issues));
  for (const [index, model] of (scenario.models ?? []).entries()) {
    if (model.count === undefined) list.push({ model, index });
    else {
      if (list.length + model.count > MODELS_MAX) {
        issues.add(["models", index, "count"], `must leave at most ${MODELS_MAX} models in all; was ${model.count}`);
        return list;
      }
      for (let copy = 1; copy <= model.count; copy++) {
        list.push({ model: { ...model, name: `${model.name}-${copy}` }, index });
      }
    }
  }
  const seen = new Set<string>();
  for (const { model, index } of list) {
    if (seen.has(model.name)) {
      issues.add(
        index === null ? ["models_from"] : ["models", index, "name"],
        `must be unique; was "${model.name}" twice`,
      );
    }
    seen.add(model.name);
  }
  return list;
}

function zooModels(from: NonNullable<Scenario["models_from"]>, issues: IssueList): WrittenModel[] {
  const zoo = ZOO[from.zoo];
  const { select } = from;
  let chosen = zoo;
  if (select === "strong") chosen = zoo.filter((model) => isStrong(model));
  else if (select === "weak") chosen = zoo.filter((model) => !isStrong(model));
  else if (select !== "all") {
    const names = zoo.map((model) => model.name);
    select.forEach((name, i) => {
      if (names.includes(name)) return;
      const near = nearest(name, names);
      const hint = near === null ? "" : `; did you mean ${near}?`;
      issues.add(["models_from", "select", i], `must be a model of the ${from.zoo} zoo; was "${name}"${hint}`);
    });
    chosen = select.flatMap((name) => zoo.filter((model) => model.name === name));
  }
  return chosen.map(({ name, alphaMs, betaMs, sloMs }) => ({
    model: { name, profile: { alpha_ms: alphaMs, beta_ms: betaMs }, slo_ms: sloMs },
    index: null,
  }));
}

function modelRates(scenario: Scenario, models: readonly WrittenModel[], totalRps: number): number[] {
  if (scenario.arrivals.process === "replay") return models.map(() => 0);
  if (models[0]?.model.rate_rps !== undefined) return models.map(({ model }) => model.rate_rps ?? 0);
  const { popularity } = scenario;
  const exponent = typeof popularity === "object" ? popularity.zipf : 0;
  const weights = models.map(({ model }, i) => model.share ?? (i + 1) ** -exponent);
  let sum = 0;
  for (const weight of weights) sum += weight;
  return weights.map((weight) => (totalRps * weight) / sum);
}

function expandModel(
  { model, index }: WrittenModel,
  rateRps: number,
  delayUs: number,
  fastestScale: number,
  issues: IssueList,
): ExpandedModel {
  const sloUs = sloUsFromMs(model.slo_ms);
  const { profile } = model;
  const lengthMax = "table_ms" in profile ? profile.table_ms.length : BATCH_SIZE_MAX;
  const execUsOf = (b: number): number =>
    workUsFromMs("table_ms" in profile ? profile.table_ms[b - 1]! : profile.alpha_ms * b + profile.beta_ms);
  const soonestUs = Math.ceil(execUsOf(1) * fastestScale) + delayUs;
  if (soonestUs > sloUs) {
    issues.add(
      index === null ? ["models_from"] : ["models", index, "slo_ms"],
      `of ${model.name} must be at least the ${soonestUs / 1000} ms that one request alone takes, delays included; was ${model.slo_ms}`,
    );
  }
  let batchSizeMax = model.batch_max ?? 1;
  if (model.batch_max === undefined) {
    while (batchSizeMax < lengthMax && execUsOf(batchSizeMax + 1) <= sloUs) batchSizeMax++;
  }
  const execUs = new Float64Array(batchSizeMax + 2);
  for (let b = 1; b <= batchSizeMax; b++) execUs[b] = execUsOf(b);
  execUs[batchSizeMax + 1] = Number.POSITIVE_INFINITY;
  return { name: model.name, execUs, batchSizeMax, sloUs, rateRps };
}

function expandAccelerators(scenario: Scenario, issues: IssueList): Omit<ExpandedAccelerator, "present">[] {
  const count = acceleratorCount(scenario);
  if (count > ACCELERATORS_MAX) {
    issues.add(["accelerators"], `must be at most ${ACCELERATORS_MAX} in all; was ${count}`);
    return [];
  }
  const kinds = Array.isArray(scenario.accelerators) ? scenario.accelerators : [{ kind: "emulated", count, scale: 1 }];
  return kinds.flatMap(({ kind, count: size, scale }) => Array.from({ length: size }, () => ({ kind, scale })));
}

interface RateSteps {
  readonly atUs: Float64Array;
  readonly rateRps: Float64Array;
  readonly meanRps: number;
}

/** The total rate as steps within the duration, from a trace or from `steps`; null if it is constant. */
function rateSteps(scenario: Scenario, data: ScenarioData, duration: DurationUs): RateSteps | null {
  const { arrivals } = scenario;
  const at: number[] = [];
  const rate: number[] = [];
  if (data.trace !== undefined) {
    const scale = arrivals.scale ?? 1;
    data.trace.atS.forEach((second, i) => {
      at.push(Math.round(second * 1e6));
      rate.push(data.trace!.rateRps[i]! * scale);
    });
  } else if (arrivals.steps !== undefined) {
    if (arrivals.steps[0]!.at_s > 0) {
      at.push(0);
      rate.push(arrivals.rate_rps!);
    }
    for (const step of arrivals.steps) {
      at.push(Math.round(step.at_s * 1e6));
      rate.push(step.rate_rps);
    }
  } else return null;
  let size = at.length;
  while (size > 1 && at[size - 1]! >= duration) size--;
  let requests = 0;
  for (let i = 0; i < size; i++) requests += (rate[i]! * ((i + 1 < size ? at[i + 1]! : duration) - at[i]!)) / 1e6;
  return {
    atUs: Float64Array.from(at.slice(0, size)),
    rateRps: Float64Array.from(rate.slice(0, size)),
    meanRps: requests / (duration / 1e6),
  };
}

function expandArrivals(
  scenario: Scenario,
  data: ScenarioData,
  steps: RateSteps | null,
  models: readonly ExpandedModel[],
  duration: DurationUs,
  issues: IssueList,
): ExpandedArrivals {
  const { arrivals } = scenario;
  if (arrivals.process === "replay") return expandReplay(data.replay, models, duration, issues);
  if (steps !== null && steps.meanRps <= 0) {
    const path = arrivals.process === "trace" ? ["arrivals", "trace"] : ["arrivals", "steps"];
    issues.add(path, `must have a rate greater than 0 within the first ${duration / 1e6} s; was 0 throughout`);
  }
  return {
    kind: "renewal",
    gaps: arrivals.process === "uniform" ? "equal" : "gamma",
    shape: arrivals.process === "uniform" ? 1 : (arrivals.shape ?? 1),
    modulation: steps === null ? null : { atUs: steps.atUs, factor: steps.rateRps.map((rate) => rate / steps.meanRps) },
    missing: [...new Set(arrivals.missing ?? [])].map((n) => n - 1).sort((a, b) => a - b),
  };
}

function expandReplay(
  replay: Replay | undefined,
  models: readonly ExpandedModel[],
  duration: DurationUs,
  issues: IssueList,
): ExpandedArrivals {
  if (replay === undefined) {
    issues.add(["arrivals", "replay"], "must be read before the scenario is expanded; was missing");
    return { kind: "replay", atUs: new Float64Array(), model: new Int32Array(), app: null, appNames: [] };
  }
  const indexOf = new Map(models.map((model, i) => [model.name, i]));
  const translate = replay.modelNames.map((name) => {
    const index = indexOf.get(name);
    if (index === undefined) {
      const near = nearest(name, indexOf.keys());
      const hint = near === null ? "" : `; did you mean ${near}?`;
      issues.add(["arrivals", "replay"], `${replay.file} must name models of the scenario; was "${name}"${hint}`);
    }
    return index ?? -1;
  });
  let size = replay.atUs.length;
  while (size > 0 && replay.atUs[size - 1]! >= duration) size--;
  return {
    kind: "replay",
    atUs: replay.atUs.slice(0, size),
    model: replay.model.slice(0, size).map((index) => translate[index]!),
    app: replay.app?.slice(0, size) ?? null,
    appNames: replay.appNames,
  };
}
