/**
 * A changing load like Figure 15's. The paper's is not public: 24 models of different batching characteristics and SLOs
 * on 512 accelerators, "the request rate for each model is synthesized from 150 hours of videos".
 *
 * Here: 24 models of the A100 zoo, every third left out in the order of their batching effect. A model's rate is what all
 * share (a level that climbs, overshoots the cluster, falls and climbs again) times its own wandering: a log-normal
 * autoregressive process, as objects per frame of a video wander. The wandering has a correlation of 20 s and a standard
 * deviation of 0.35 in its logarithm; both are choices.
 */
import { ZOO, type ZooModel } from "../../config/scenario/zoo.js";
import { stream } from "../../sim/random.js";
import type { ScenarioFields } from "../point.js";

export const MODELS = 24;
const CORRELATION_S = 20;
const DEVIATION = 0.35;
/** Part of the run -> part of the reference rate, straight lines between. The third and fourth exceed what fits. */
const LEVEL = [
  [0, 0.25],
  [0.2, 0.6],
  [0.4, 1.2],
  [0.5, 1.2],
  [0.6, 0.45],
  [0.75, 0.3],
  [0.9, 0.9],
  [1, 0.9],
] as const;
/** Requests per second and accelerator that the mix takes at its peak, nearly; sets the reference rate. */
export const RATE_PER_ACCELERATOR = 325;

export function modelsOfFigure15(): readonly ZooModel[] {
  return ZOO.a100.filter((_, index) => index % 3 !== 2).slice(0, MODELS);
}

export interface Figure15Options {
  readonly accelerators: number;
  readonly durationS: number;
  /** Between changes of rates. */
  readonly stepS: number;
  readonly seed: number;
}

export function fieldsOfFigure15({ accelerators, durationS, stepS, seed }: Figure15Options): ScenarioFields {
  const models = modelsOfFigure15();
  const rateRps = accelerators * RATE_PER_ACCELERATOR;
  return {
    name: "fig15",
    duration_s: durationS,
    accelerators,
    models: models.map(({ name, alphaMs, betaMs, sloMs }) => ({
      name,
      profile: { alpha_ms: alphaMs, beta_ms: betaMs },
      slo_ms: sloMs,
      rate_rps: rateRps / models.length,
      steps: wandering(name, durationS, stepS, seed),
    })),
    arrivals: { process: "poisson" },
    // A dry run: what it would ask for, in the paper's third subplot. Falls wait for a sixth of the run.
    autoscale: { dry_run: true, interval_s: Math.max(0.1, stepS), down_cooldown_s: durationS / 6 },
  };
}

function wandering(name: string, durationS: number, stepS: number, seed: number): { at_s: number; factor: number }[] {
  const uniform = stream(seed, `fig15/${name}`);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const keep = Math.exp(-stepS / CORRELATION_S);
  const steps: { at_s: number; factor: number }[] = [];
  let state = normal();
  for (let atS = 0; atS < durationS; atS += stepS) {
    // Mean 1: a log-normal's mean exceeds its median.
    const own = Math.exp(DEVIATION * state - DEVIATION ** 2 / 2);
    steps.push({ at_s: Math.round(atS * 1000) / 1000, factor: Math.round(levelAt(atS / durationS) * own * 1e4) / 1e4 });
    state = keep * state + Math.sqrt(1 - keep ** 2) * normal();
  }
  return steps;
}

function levelAt(part: number): number {
  for (let index = 1; index < LEVEL.length; index++) {
    const [from, low] = LEVEL[index - 1]!;
    const [to, high] = LEVEL[index]!;
    if (part <= to) return low + ((high - low) * (part - from)) / (to - from);
  }
  return LEVEL.at(-1)![1];
}
