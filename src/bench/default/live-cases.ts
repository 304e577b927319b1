/**
 * Where the default must hold, live: a grid of emulated accelerators, and real models on the CPU, each at five loads.
 *
 * The emulated runs are as slow as they need to be for a few hundred requests a second at most: what is compared is then how
 * the policies wait, not how the machine keeps up.
 */

import { staggeredCapacityRps } from "../../capacity/scenario-goodput.js";
import { expandScenario, scenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { stream } from "../../sim/random.js";

/** Offered, relative to the capacity. */
export const LOADS = [0.5, 0.8, 1, 1.5, 2] as const;
const ACCELERATORS = [1, 2, 4, 8] as const;
const BETA_OVER_ALPHA = [0.5, 2, 8] as const;
const SLO_OVER_ALONE = [2, 3, 5] as const;
/** Time of each model relative to the setting's: three are not alike, or they would be one. */
const MODELS = [[1], [0.8, 1, 1.25]] as const;
const BATCH_MAX = 64;
/** At capacity, where the run of one request may be as long as that takes. */
const RPS = 200;
const ALONE_MS = { least: 20, most: 200 } as const;

export interface EmulatedModel {
  readonly name: string;
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly sloMs: number;
  readonly batchMax: number;
}

export interface EmulatedSetting {
  readonly kind: "emulated";
  readonly name: string;
  readonly accelerators: number;
  readonly betaOverAlpha: number;
  readonly models: readonly EmulatedModel[];
  /** In batches of staggered execution (Symphony §3.3), the models at equal rates. */
  readonly capacityRps: number;
}

export const REAL_MODELS = ["embedder", "ocr-rec", "vad", "recurrent"] as const;
export type RealName = (typeof REAL_MODELS)[number];

/** Its capacity and its SLO are measured. */
export interface RealSetting {
  readonly kind: "real";
  readonly name: RealName;
}

export type LiveSetting = EmulatedSetting | RealSetting;

export interface LiveCase {
  readonly setting: LiveSetting;
  readonly load: number;
}

export function emulatedSettings(): EmulatedSetting[] {
  return ACCELERATORS.flatMap((accelerators) =>
    MODELS.flatMap((lengths) =>
      BETA_OVER_ALPHA.flatMap((ratio) =>
        SLO_OVER_ALONE.map((slo) => emulatedSetting(accelerators, lengths, ratio, slo)),
      ),
    ),
  );
}

export function emulatedSetting(
  accelerators: number,
  lengths: readonly number[],
  betaOverAlpha: number,
  sloOverAlone: number,
): EmulatedSetting {
  const at = (aloneMs: number) => {
    const models = lengths.map((length, index) =>
      modelOf(`m${index + 1}`, length * aloneMs, betaOverAlpha, sloOverAlone),
    );
    return { models, capacityRps: capacityOf(accelerators, models) };
  };
  // Twice as slow, half as many.
  const fast = at(ALONE_MS.least);
  const aloneMs = Math.min(ALONE_MS.most, Math.max(ALONE_MS.least, (ALONE_MS.least * fast.capacityRps) / RPS));
  return {
    kind: "emulated",
    name: `${accelerators} x ${lengths.length === 1 ? "1 model" : `${lengths.length} models`}, beta/alpha ${betaOverAlpha}, SLO ${sloOverAlone} l(1)`,
    accelerators,
    betaOverAlpha,
    ...at(Math.round(aloneMs)),
  };
}

function modelOf(name: string, aloneMs: number, betaOverAlpha: number, sloOverAlone: number): EmulatedModel {
  const alphaMs = wholeUs(aloneMs / (1 + betaOverAlpha));
  const betaMs = wholeUs(aloneMs - alphaMs);
  const sloMs = sloOverAlone * aloneMs;
  return { name, alphaMs, betaMs, sloMs, batchMax: Math.min(BATCH_MAX, Math.floor((sloMs - betaMs) / alphaMs)) };
}

/** Down, so that a batch that just fits the SLO still does. */
const wholeUs = (ms: number): number => Math.floor(ms * 1000 + 1e-6) / 1000;

function capacityOf(accelerators: number, models: readonly EmulatedModel[]): number {
  const fields = {
    name: "capacity",
    duration_s: 1,
    policy: "eager",
    accelerators,
    models: models.map(({ name, alphaMs, betaMs, sloMs, batchMax }) => ({
      name,
      profile: { alpha_ms: alphaMs, beta_ms: betaMs },
      slo_ms: sloMs,
      batch_max: batchMax,
    })),
    arrivals: { process: "poisson", rate_rps: 1 },
  };
  return staggeredCapacityRps(expandScenario(scenarioFrom(sourceOf(fields, "capacity.yaml"))));
}

/**
 * Requests that any schedule can have in time of those that arrive in `seconds` at `rps`: each takes at least its part of the largest batch
 * that its SLO allows, and accelerators work until the last deadline. The cheapest come first.
 */
export function mostInTime(setting: EmulatedSetting, rps: number, seconds: number): number {
  const longestMs = Math.max(...setting.models.map(({ sloMs }) => sloMs));
  let leftMs = setting.accelerators * (1000 * seconds + longestMs);
  const each = (rps * seconds) / setting.models.length;
  const costs = setting.models
    .map(({ alphaMs, betaMs, batchMax }) => alphaMs + betaMs / batchMax)
    .sort((a, b) => a - b);
  let inTime = 0;
  for (const costMs of costs) {
    const served = Math.min(each, leftMs / costMs);
    inTime += served;
    leftMs -= served * costMs;
  }
  return inTime;
}

/** The grid from size 1 on, or the part of it that a smaller one draws: the same cases and more for every larger size. */
export function liveCases(size: number): LiveCase[] {
  const real = casesOf(REAL_MODELS.map((name) => ({ kind: "real", name })));
  const emulated = casesOf(emulatedSettings());
  return [...drawn(real, size), ...drawn(emulated, size)];
}

const casesOf = (settings: readonly LiveSetting[]): LiveCase[] =>
  settings.flatMap((setting) => LOADS.map((load) => ({ setting, load })));

function drawn(cases: readonly LiveCase[], size: number): LiveCase[] {
  const random = stream(1, "default/live");
  const order = cases.map((_, index) => ({ index, key: random() })).sort((a, b) => a.key - b.key);
  const chosen = new Set(order.slice(0, Math.max(1, Math.round(size * cases.length))).map(({ index }) => index));
  return cases.filter((_, index) => chosen.has(index));
}
