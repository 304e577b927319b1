/**
 * Table 1's workloads. Its product is 7,770 by our count: 6 models x 6 numbers of models x 7 ratios x 5 SLOs x 6 shapes
 * = 7,560 of equal models, and 7 x 5 x 6 = 210 of 35 models mixed. The paper says 5,880.
 *
 * Models are those of the 1080Ti zoo (Table 3), whose β/α the paper quotes. A mix has models of very different speed, and
 * Table 1's SLOs from 20 to 50 ms are less than some of them take alone; the paper does not say what the SLO dimension
 * means there. Here a mixed case takes each model's own SLO times the option over 30 ms.
 */
import { ZOO } from "../../../config/scenario/zoo.js";
import { shuffle } from "../../../measure/shuffle.js";
import { stream } from "../../../sim/random.js";
import type { ScenarioFields } from "../../point.js";

const MODELS = ["DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"] as const;
const COUNTS = [8, 16, 24, 32, 48, 64] as const;
const RATIOS = [1, 1.5, 2, 2.5, 3, 3.5, 4] as const;
const SLOS_MS = [20, 25, 30, 40, 50] as const;
const SHAPES = [0.1, 0.2, 0.3, 0.5, 0.7, 1] as const;
const MIXED_SLO_MS = 30;
export const MIXED = "mixed";
export const KINDS = [...MODELS, MIXED] as const;

export interface Case {
  readonly kind: (typeof KINDS)[number];
  readonly count: number;
  readonly ratio: number;
  readonly sloMs: number;
  readonly shape: number;
  /** Cases of the product that it stands for. */
  readonly weight: number;
}

export function allCases(): Case[] {
  const cases: Case[] = [];
  for (const kind of KINDS) {
    const counts = kind === MIXED ? [ZOO["1080ti"].length] : COUNTS;
    for (const sloMs of SLOS_MS)
      for (const count of counts)
        for (const ratio of RATIOS)
          for (const shape of SHAPES) cases.push({ kind, count, ratio, sloMs, shape, weight: 1 });
  }
  return cases;
}

/**
 * A sample stratified by model and SLO: as many of each stratum, chosen without replacement by a seed, in mixed order, so that
 * what a run that was ended has done is a fair part.
 *
 * @param each of every stratum of equal models. @param mixed of every stratum of mixed ones, which are smaller.
 */
export function sampleCases(each: number, mixed: number, seed = 1): Case[] {
  const strata = new Map<string, Case[]>();
  for (const one of allCases()) {
    const key = `${one.kind}/${one.sloMs}`;
    const stratum = strata.get(key) ?? [];
    strata.set(key, stratum);
    stratum.push(one);
  }
  const random = stream(seed, "fig7/sample");
  const chosen: Case[] = [];
  for (const stratum of strata.values()) {
    const size = Math.min(stratum.length, stratum[0]!.kind === MIXED ? mixed : each);
    const weight = stratum.length / size;
    shuffle(stratum, size, random);
    for (const one of stratum.slice(0, size)) chosen.push({ ...one, weight });
  }
  shuffle(chosen, chosen.length, random);
  return chosen;
}

export const acceleratorsOf = ({ count, ratio }: Case): number => Math.round(count * ratio);

export function nameOf({ kind, count, ratio, sloMs, shape }: Case): string {
  return `fig7-${kind}-${count}x${ratio}-slo${sloMs}-shape${shape}`;
}

export function fieldsOf(one: Case): ScenarioFields {
  const { kind, count, sloMs, shape } = one;
  const zoo = ZOO["1080ti"];
  const models =
    kind === MIXED
      ? zoo.map(({ name, alphaMs, betaMs, sloMs: own }) => ({
          name,
          profile: { alpha_ms: alphaMs, beta_ms: betaMs },
          slo_ms: (own * sloMs) / MIXED_SLO_MS,
        }))
      : zoo
          .filter(({ name }) => name === kind)
          .map(({ name, alphaMs, betaMs }) => ({
            name,
            count,
            profile: { alpha_ms: alphaMs, beta_ms: betaMs },
            slo_ms: sloMs,
          }));
  const accelerators = acceleratorsOf(one);
  return {
    accelerators,
    models,
    arrivals: { process: "gamma", shape, rate_rps: accelerators * RATE_PER_ACCELERATOR[kind] },
  };
}

/** Near the peaks, for the time left. */
const RATE_PER_ACCELERATOR: Readonly<Record<Case["kind"], number>> = {
  DenseNet121: 500,
  InceptionV3: 300,
  ResNet50V2: 400,
  VGG16: 250,
  Xception: 190,
  BERT: 130,
  mixed: 110,
};
