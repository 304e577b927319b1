/** Settings of a cluster drawn by seed: what a default must hold in, whoever uses it for whatever. */

import { staggeredCapacityRps } from "../../capacity/scenario-goodput.js";
import type { ExpandedModel, ExpandedScenario } from "../../config/scenario/scenario.js";
import { linearTable } from "../../core/latency/latency.js";
import { durationUs } from "../../core/time.js";
import { stream, type Uniform } from "../../sim/random.js";

const ACCELERATORS = [1, 64] as const;
const MODELS = [1, 40] as const;
/** Run of one request, ms. */
const ALONE_MS = [2, 40] as const;
const BETA_OVER_ALPHA = [0.1, 200] as const;
const SLO_OVER_ALONE = [1.2, 10] as const;
export const BATCH_SIZE_MAX = 64;
/** All times are stretched where more than this would be served: only their ratios matter, and runs stay short. */
const CAPACITY_RPS_MAX = 3000;
/** Of Gamma arrivals, half of the settings; the others are Poisson. */
const SHAPE = [0.05, 0.5] as const;
/** Delays before and after a run, relative to the shortest run alone; in a quarter of the settings. */
const DELAY = [0.002, 0.05] as const;
/** Time of a batch on the slowest accelerators relative to the fastest; in a quarter of the settings. */
const SLOWEST = [1.2, 4] as const;

export interface DefaultSetting {
  /** At its capacity, named by what was drawn; of unset length. */
  readonly scenario: ExpandedScenario;
  readonly capacityRps: number;
}

/** @param index each has a stream of its own: one setting more or less changes no other. */
export function drawSetting(seed: number, index: number): DefaultSetting {
  const { scenario, capacityRps } = settingOf(seed, index, 1);
  return capacityRps <= CAPACITY_RPS_MAX
    ? { scenario, capacityRps }
    : settingOf(seed, index, capacityRps / CAPACITY_RPS_MAX);
}

function settingOf(seed: number, index: number, stretch: number): DefaultSetting {
  const random = stream(seed, `default/${index}`);
  const acceleratorCount = Math.round(between(ACCELERATORS, random));
  const modelCount = Math.round(between(MODELS, random));
  const isAlike = random() < 0.5;
  const first = drawModel(random, 1, stretch);
  const models = Array.from({ length: modelCount }, (_, model): ExpandedModel => {
    // Unlike models have unlike rates too, a hundredfold apart at the most.
    const one = isAlike || model === 0 ? first : drawModel(random, between([0.01, 1], random), stretch);
    return { ...one, name: `model-${model + 1}` };
  });
  const shape = random() < 0.5 ? 1 : between(SHAPE, random);
  const aloneUs = Math.min(...models.map(({ execUs }) => execUs[1]!));
  const delayUs = random() < 0.25 ? between(DELAY, random) * aloneUs : 0;
  const slowest = random() < 0.25 ? between(SLOWEST, random) : 1;
  const { execUs, sloUs } = first;
  const text =
    `${acceleratorCount} acc x ${modelCount} ${isAlike ? "alike" : "unlike"}, l(1) ${(execUs[1]! / 1000).toFixed(1)} ms, ` +
    `b/a ${(execUs[1]! / (execUs[2]! - execUs[1]!) - 1).toFixed(1)}, SLO ${(sloUs / execUs[1]!).toFixed(1)}, shape ${shape.toFixed(2)}, ` +
    `delay ${(delayUs / 1000).toFixed(2)} ms, slowest ${slowest.toFixed(1)}`;
  const unscaled: ExpandedScenario = {
    name: text,
    file: "default",
    seed: 1,
    durationUs: durationUs(0),
    warmupUs: durationUs(0),
    models,
    accelerators: Array.from({ length: acceleratorCount }, () => ({
      kind: "emulated",
      scale: random() < 0.5 ? 1 : slowest,
      present: true,
    })),
    network: {
      controlUs: durationUs(Math.round(delayUs)),
      dataUsPerRequest: durationUs(Math.round(delayUs / 4)),
      responseUs: durationUs(Math.round(delayUs / 2)),
    },
    arrivals: { kind: "renewal", gaps: "gamma", shape, modulation: null, missing: [] },
    faults: [],
    policy: "auto",
    policyOptions: {},
  };
  const capacityRps = staggeredCapacityRps(unscaled);
  const rateRps = models.reduce((sum, model) => sum + model.rateRps, 0);
  const scenario = {
    ...unscaled,
    models: models.map((model) => ({ ...model, rateRps: (model.rateRps * capacityRps) / rateRps })),
  };
  return { scenario, capacityRps };
}

function drawModel(random: Uniform, share: number, stretch: number): ExpandedModel {
  const aloneMs = stretch * between(ALONE_MS, random);
  const betaOverAlpha = between(BETA_OVER_ALPHA, random);
  const alphaUs = (aloneMs * 1000) / (1 + betaOverAlpha);
  return {
    name: "model",
    execUs: linearTable(alphaUs, aloneMs * 1000 - alphaUs, BATCH_SIZE_MAX),
    batchSizeMax: BATCH_SIZE_MAX,
    sloUs: durationUs(Math.round(between(SLO_OVER_ALONE, random) * aloneMs * 1000)),
    rateRps: share,
  };
}

/** At equal ratios. */
const between = ([low, high]: readonly [number, number], random: Uniform): number => low * (high / low) ** random();
