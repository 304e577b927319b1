/** The models of a scenario: zoos looked up, copies made, profiles tabulated. */
import { type DurationUs, sloUsFromMs } from "../../core/time.js";
import { nearest } from "../config-error.js";
import type { IssueList } from "../source.js";
import type { BatchTime } from "./apps/batch-time.js";
import { type ExpandedApp, expandApps } from "./apps/expand-apps.js";
import { type ExpandedPlanning, expandPlanning } from "./apps/expand-planning.js";
import type { Modulation, ScenarioData } from "./expand-arrivals.js";
import { type ExpandedTokens, expandTokens, type TokenRows } from "./llm/expand-llm.js";
import { BATCH_SIZE_MAX, MODELS_MAX, type Scenario, type ScenarioModel } from "./scenario-schema.js";
import { type ExpandedElastic, execUsAt, expandElastic, plainProfile, sizesOf } from "./tasks/expand-tasks.js";
import { isStrong, ZOO } from "./zoo.js";
import { zooMemoryMb } from "./zoo-sizes.js";

export interface ExpandedModel extends BatchTime {
  readonly name: string;
  /** Only modules of pipelines ask for it: no request of its own arrives. Absent: not so. */
  readonly isInner?: boolean;
  /** Index of the group that serves it; absent: 0. */
  readonly group?: number;
  /** execUs[b] = whole microseconds of a batch of b, rounded up; [0] = 0, [batchSizeMax + 1] = Infinity. */
  readonly execUs: Float64Array;
  readonly batchSizeMax: number;
  readonly sloUs: DurationUs;
  /** Requests per second, averaged over the duration. 0 with a replay. */
  readonly rateRps: number;
  /** Its own changes of rate; absent: those of all models. */
  readonly modulation?: Modulation;
  /** Kinds of its requests with true times of their own; absent: batches take execUs. */
  readonly apps?: readonly ExpandedApp[];
  /** Requests of each app whose times alone policies know beforehand. Absent: they know of no apps. */
  readonly profiled?: number;
  /** What policies plan by in place of execUs. Absent: execUs. */
  readonly planning?: ExpandedPlanning;
  /** Ways of running it, and tasks with their accuracy by each; absent: there is one. `execUs` is what is run where nobody chooses. */
  readonly elastic?: ExpandedElastic;
  /** Lengths of its requests, in a group that generates text; absent: it runs batches. */
  readonly tokens?: ExpandedTokens;
  /** Megabytes of the loaded model; absent where not given. Only planning reads this and the two below. */
  readonly memoryMb?: number;
  /** Megabytes that a run needs beside. */
  readonly dynamicMb?: number;
  /** Of loading it: anywhere, or per sub-cluster. */
  readonly loadCost?: number | readonly number[];
}

/** Of a file that was not read: who checks a scenario alone reads none. */
const NO_ROWS: TokenRows = { input: Float64Array.of(1), output: Float64Array.of(1) };

export interface WrittenModel {
  readonly model: ScenarioModel;
  /** Index in `models`; null if it came from a zoo. */
  readonly index: number | null;
}

/** Zoo models first, then `models`, with copies made. */
export function listModels(scenario: Scenario, issues: IssueList): WrittenModel[] {
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
    model: { name, profile: { alpha_ms: alphaMs, beta_ms: betaMs }, slo_ms: sloMs, ...zooMemory(name) },
    index: null,
  }));
}

function zooMemory(name: string): { memory_mb?: number } {
  const memoryMb = zooMemoryMb(name);
  return memoryMb === null ? {} : { memory_mb: memoryMb };
}

/** What serves a model. */
export interface Host {
  readonly group: number;
  /** Network delays around an execution of one request. */
  readonly delayUs: number;
  /** Of all accelerators: what not even the fastest can serve in time is an error. */
  readonly fastestScale: number;
}

const execUsOf = ({ profile }: ScenarioModel, b: number): number => execUsAt(plainProfile(profile), b);

/** Least time of one request, delays included. */
export const soonestUsOf = (model: ScenarioModel, { delayUs, fastestScale }: Host): number =>
  soonestUsAt(execUsOf(model, 1), fastestScale, delayUs);

const soonestUsAt = (aloneUs: number, scale: number, delayUs: number): number => Math.ceil(aloneUs * scale) + delayUs;

/** @param innerSloUs of a model that only modules of pipelines ask for. @param data times of apps that are in files. */
export function expandModel(
  { model, index }: WrittenModel,
  rateRps: number,
  host: Host,
  innerSloUs: DurationUs | undefined,
  data: ScenarioData,
  issues: IssueList,
): ExpandedModel {
  const sloUs = innerSloUs ?? sloUsFromMs(model.slo_ms!);
  const lengthMax = sizesOf(model.profile, BATCH_SIZE_MAX);
  const soonestUs = soonestUsOf(model, host);
  if (innerSloUs === undefined && soonestUs > sloUs) {
    issues.add(
      index === null ? ["models_from"] : ["models", index, "slo_ms"],
      `of ${model.name} must be at least the ${soonestUs / 1000} ms that one request alone takes, delays included; was ${model.slo_ms}`,
    );
  }
  let batchSizeMax = model.batch_max ?? 1;
  if (model.batch_max === undefined) {
    while (batchSizeMax < lengthMax && execUsOf(model, batchSizeMax + 1) <= sloUs) batchSizeMax++;
  }
  const execUs = new Float64Array(batchSizeMax + 2);
  for (let b = 1; b <= batchSizeMax; b++) execUs[b] = execUsOf(model, b);
  execUs[batchSizeMax + 1] = Number.POSITIVE_INFINITY;
  const { batch_time: batchTime, planning, profiled, tokens } = model;
  const apps = model.apps && expandApps(model.apps, (file) => data.times?.get(file) ?? []);
  const elastic = expandElastic(
    model,
    batchSizeMax,
    (aloneUs) => soonestUsAt(aloneUs, host.fastestScale, host.delayUs),
    ["models", index ?? 0],
    issues,
  );
  const truth: BatchTime = {
    execUs,
    ...(batchTime === undefined ? {} : { batchTime: { c0Us: batchTime.c0_ms * 1000, c1: batchTime.c1 } }),
  };
  return {
    name: model.name,
    ...truth,
    batchSizeMax,
    sloUs,
    rateRps,
    ...(innerSloUs === undefined ? {} : { isInner: true }),
    ...(apps === undefined ? {} : { apps }),
    ...(profiled === undefined ? {} : { profiled }),
    ...(planning === undefined || apps === undefined ? {} : { planning: expandPlanning(planning, apps, truth) }),
    ...(elastic === null ? {} : { elastic }),
    ...(tokens === undefined ? {} : { tokens: expandTokens(tokens, (file) => data.lengths?.get(file) ?? NO_ROWS) }),
    ...(host.group === 0 ? {} : { group: host.group }),
    ...(model.memory_mb === undefined ? {} : { memoryMb: model.memory_mb }),
    ...(model.dynamic_memory_mb === undefined ? {} : { dynamicMb: model.dynamic_memory_mb }),
    ...(model.load_cost === undefined ? {} : { loadCost: model.load_cost }),
  };
}
