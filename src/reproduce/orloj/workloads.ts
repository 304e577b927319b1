/**
 * Workloads of ORLOJ's evaluation (§5.2, Table 1, Appendix A). The paper prints neither the distributions, nor the load, nor
 * Eq. 3's constants: what stands in for them is here, each with its reason, and none was chosen by what it does to a result.
 */
import type { ScenarioFields } from "../point.js";
import {
  type AppTimes,
  constantTime,
  logNormalOf,
  logNormalTimes,
  normalTimes,
  scaledTimes,
  timesOf,
} from "./app-times.js";
import { TABLE_1, type TABLE_2, type TABLE_3, type TABLE_4, type TABLE_5 } from "./published.js";

/** One GPU (§5.2). */
export const ACCELERATORS = 1;

/** Modes lie evenly from the least to the most: §5.7's shortest is a tenth of its P99 ("2 ms-20 ms"), Figure 9's axis has 50 and 100. */
export const MODES_MS = [10, 100] as const;

/**
 * A standard deviation of 1, in distances between neighbouring modes. The paper gives no unit. As milliseconds, 0.5 and 2 would be
 * the same to anybody beside modes 90 ms apart, and §5.3 says that a larger one makes "the peaks less distinguishable"; as whole
 * distances, no row would have peaks.
 */
export const SD_UNIT = 0.1;

/** Table 2 apart from std-0.5, std-2: Figure 10 extends Figure 8b, "generated with σ = 1". */
const SD = 1;

/**
 * "std-2/0.5" is the short mode's and the long one's. Both have equal shares, so the narrower has the higher peak: Clipper and Nexus
 * suffer more in Figure 9a ("more short requests"), and in the rows of std-0.5/2.
 */
type Deviations = readonly [short: number, long: number];

/** Table 4: the paper shows its two models in Figure 2 without numbers. Of one request on a 1080Ti (Symphony, Table 3: α + β). */
const STATIC_MS: Readonly<Record<keyof typeof TABLE_4, number>> = {
  "inception-imagenet": 1.964 + 8.771,
  "resnet-imagenet": 2.05 + 5.378,
};

/** Image models with several paths: the short one takes this part of the long one ("as large as 10x", §2.2). */
const IMAGE_SHORT_PART = 0.1;
/** Their spread within a path, relative: Figure 2 has "a few distinct clustered ranges". */
const IMAGE_SPREAD = 0.05;

/**
 * c0 of Eq. 3 as a part of the mean time alone, and c1. With k = 1 Eq. 3 is to be the time alone (§3.1), which it is for the mean
 * where c0 = 1 - c1: 16 of 1 ms take 4 ms together, 16 one by one. Swept by orloj/sweep.
 */
export const BATCH_COST = { c0: 0.8, c1: 0.2 } as const;
/** Clockwork's largest; ORLOJ is built on Clockwork (§5.1). */
export const BATCH_MAX = 16;

export interface BatchCost {
  /** Part of the mean time alone. */
  readonly c0: number;
  readonly c1: number;
}

export interface Workload {
  /** As in the paper's tables. */
  readonly caseId: string;
  /** Shown: the case, and what was changed. */
  readonly label: string;
  /** Of what is run: cases that are the same have the same. */
  readonly name: string;
  readonly apps: readonly AppTimes[];
  /** Several peaks, of apps that can be told apart by their times. */
  readonly isMultimodal: boolean;
  /** Of the time alone. */
  readonly meanMs: number;
  readonly p99Ms: number;
  /** Eq. 3. */
  readonly c0Ms: number;
  readonly c1: number;
}

function workload(
  caseId: string,
  name: string,
  apps: readonly AppTimes[],
  isMultimodal: boolean,
  { c0, c1 }: BatchCost = BATCH_COST,
): Workload {
  const times = timesOf(apps);
  const meanMs = times.mean / 1000;
  return {
    caseId,
    label: caseId,
    name,
    apps,
    isMultimodal,
    meanMs,
    p99Ms: times.quantile(0.99) / 1000,
    c0Ms: c0 * meanMs,
    c1,
  };
}

/** The same with other constants of Eq. 3. */
export const withCost = (of: Workload, cost: BatchCost): Workload => {
  const isSame = cost.c0 === BATCH_COST.c0 && cost.c1 === BATCH_COST.c1;
  const name = isSame ? of.name : `${of.name}-c0-${cost.c0}-c1-${cost.c1}`;
  const label = `${of.label}, c0 ${cost.c0}, c1 ${cost.c1}`;
  return { ...workload(of.caseId, name, of.apps, of.isMultimodal, cost), label };
};

/** All times this many times as long. */
export const scaled = (of: Workload, factor: number): Workload => {
  if (factor === 1) return of;
  const apps = of.apps.map((app) => scaledTimes(app, factor));
  const label = `${of.label}, times ${factor}`;
  return { ...workload(of.caseId, `${of.name}-x${factor}`, apps, of.isMultimodal), label };
};

/** An app for each mode (§2.2: multi-modal by applications), equal shares. @param deviations of each mode. */
function modal(caseId: string, deviations: readonly number[]): Workload {
  const [low, high] = MODES_MS;
  const count = deviations.length;
  const distance = count === 1 ? high - low : (high - low) / (count - 1);
  const apps = deviations.map((sd, mode) =>
    normalTimes(`mode-${mode + 1}`, 1, {
      meanMs: count === 1 ? (low + high) / 2 : low + mode * distance,
      sdMs: sd * SD_UNIT * distance,
      within: MODES_MS,
    }),
  );
  const isEven = deviations.every((sd) => sd === deviations[0]);
  return workload(caseId, `modes-${count}-sd-${isEven ? deviations[0] : deviations.join("-")}`, apps, count > 1);
}

/** §5.2: "short-running and relatively long-running requests": the halves of the lognormal of Table 1's mean and P99. */
function halves(caseId: string, meanMs: number, p99Ms: number): Workload {
  const times = logNormalOf(meanMs, p99Ms);
  const apps = [
    logNormalTimes("short", 1, times, [Number.NEGATIVE_INFINITY, 0]),
    logNormalTimes("long", 1, times, [0, Number.POSITIVE_INFINITY]),
  ];
  return workload(caseId, caseId, apps, false);
}

/** Two paths through an image model, as often as Table 1's mean and P99 ask for. */
function paths(caseId: string, meanMs: number, p99Ms: number): Workload {
  const appsOf = (longShare: number, longMs: number): AppTimes[] => {
    const path = (name: string, share: number, ms: number): AppTimes =>
      normalTimes(name, share, { meanMs: ms, sdMs: IMAGE_SPREAD * ms });
    return [path("short", 1 - longShare, IMAGE_SHORT_PART * longMs), path("long", longShare, longMs)];
  };
  // The more are long, the nearer is the mean to the P99.
  let [low, high] = [0.02, 0.98];
  for (let step = 0; step < 40; step++) {
    const share = (low + high) / 2;
    const times = timesOf(appsOf(share, 1));
    if (times.quantile(0.99) / times.mean > p99Ms / meanMs) low = share;
    else high = share;
  }
  const share = Number(((low + high) / 2).toPrecision(6));
  return workload(caseId, caseId, appsOf(share, (meanMs * 1000) / timesOf(appsOf(share, 1)).mean), true);
}

const twoModes = (caseId: keyof typeof TABLE_2, deviations: Deviations): Workload => modal(caseId, deviations);

export const TWO_MODES: readonly Workload[] = [
  twoModes("std-0.5", [0.5, 0.5]),
  twoModes("std-1", [SD, SD]),
  twoModes("std-2", [2, 2]),
  twoModes("std-2/0.5", [2, 0.5]),
  twoModes("std-0.5/2", [0.5, 2]),
];

const COUNTS = ["one", "two", "three", "four", "five", "six", "seven", "eight"] as const;

export const MODALITIES: readonly Workload[] = COUNTS.map((count, index) => {
  const caseId: keyof typeof TABLE_3 = `${count}-modal`;
  return modal(
    caseId,
    Array.from({ length: index + 1 }, () => SD),
  );
});

export const STATIC: readonly Workload[] = Object.entries(STATIC_MS).map(([caseId, ms]) =>
  workload(caseId, caseId, [constantTime("images", ms)], false),
);

const IMAGE_MODELS: readonly string[] = ["rdinet-cifar", "skipnet-imagenet"] satisfies (keyof typeof TABLE_5)[];

export const REAL: readonly Workload[] = Object.entries(TABLE_1).map(([caseId, { meanMs, p99Ms }]) =>
  IMAGE_MODELS.includes(caseId) ? paths(caseId, meanMs, p99Ms) : halves(caseId, meanMs, p99Ms),
);

/** @throws Error where there is none. */
export function workloadNamed(caseId: string): Workload {
  const found = [...TWO_MODES, ...MODALITIES, ...STATIC, ...REAL].find((each) => each.caseId === caseId);
  if (found === undefined) throw new Error(`no case ${caseId}`);
  return found;
}

/** The model of a scenario: what is true of it, and the profile, which is true of requests of the mean time. */
export function modelOf({ apps, c0Ms, c1, meanMs }: Workload, sloMs: number): ScenarioFields {
  return {
    name: "model",
    profile: {
      table_ms: Array.from({ length: BATCH_MAX }, (_, index) => Number((c0Ms + c1 * (index + 1) * meanMs).toFixed(3))),
    },
    slo_ms: sloMs,
    batch_max: BATCH_MAX,
    apps: apps.map(({ name, share, edgesMs, weights }) => ({
      name,
      share,
      time: { histogram: { edges_ms: edgesMs, weights } },
    })),
    batch_time: { c0_ms: Number(c0Ms.toFixed(3)), c1 },
  };
}
