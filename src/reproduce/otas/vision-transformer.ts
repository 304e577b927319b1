/**
 * The paper's machine: ViT-Base on an RTX 4080, by its two anchors of speed (Figure 4b: 1500 requests/s at gamma -25, 580 at 0, 220 at +32), its
 * batching effect (Figure 7: at -15 from 100 requests/s for one to 1000 from about 20 on) and multiply-adds in between.
 */
import { TABLE_1 } from "../../policies/elastic/planners/rate-limits.js";

/** Gammas of the evaluation (§V). */
export const GAMMAS = [-20, -15, -10, -5, 0, 2, 4, 8] as const;
export const BATCH_MAX = 64;

const LAYERS = 12;
const WIDTH = 768;
/** 14 x 14 patches and the class token. */
const TOKENS = 197;
const ANCHORS = { merged: { gamma: -25, perS: 1500 }, plain: 580, prompted: { gamma: 32, perS: 220 } };
/** A run of one request: Figure 7 has 100 a second. What a GPU takes to launch it does not depend on tokens. */
const LAUNCH_MS = 10;
/** How soon batches fill the device: at -15 a batch of 20 has 0.98 of what one of 64 has. */
const FILLING = 4;

/** Multiply-adds of a pass by tokens of each layer: attention at n, the MLP at what merging left; prompts accumulate. */
function workOf(gamma: number): number {
  let tokens = TOKENS;
  let work = 0;
  for (let layer = 0; layer < LAYERS; layer++) {
    if (gamma > 0) tokens += gamma;
    const left = gamma < 0 ? tokens - Math.min(-gamma, Math.floor((tokens - 1) / 2)) : tokens;
    work += 4 * tokens * WIDTH ** 2 + 2 * tokens ** 2 * WIDTH + 8 * left * WIDTH ** 2;
    tokens = left;
  }
  return work;
}

/** Requests/s of full batches: in proportion to multiply-adds, bent so that both anchors are met. */
function fullPerS(gamma: number): number {
  if (gamma === 0) return ANCHORS.plain;
  const anchor = gamma < 0 ? ANCHORS.merged : ANCHORS.prompted;
  const bend = Math.log(anchor.perS / ANCHORS.plain) / Math.log(workOf(0) / workOf(anchor.gamma));
  return ANCHORS.plain * (workOf(0) / workOf(gamma)) ** bend;
}

/** What full batches do per second by gamma. */
export interface Machine {
  readonly name: string;
  readonly perS: (gamma: number) => number;
}

export const FIGURE_4B: Machine = { name: "figure 4b", perS: fullPerS };

/**
 * Table I says up to which rate each gamma is chosen: what their server, with all that it does beside the model, keeps up with. At gamma 0
 * that is 0.65 of Figure 4b's 580 requests/s. -20 has no upper end there: its part of -15 is Figure 4b's.
 */
export const TABLE_I: Machine = {
  name: "table 1",
  perS: (gamma) => statedPerS(gamma) ?? (statedPerS(-15)! * fullPerS(gamma)) / fullPerS(-15),
};

const statedPerS = (gamma: number): number | undefined =>
  TABLE_1.find(([of, perS]) => of === gamma && Number.isFinite(perS))?.[1];

export const MACHINES: readonly Machine[] = [FIGURE_4B, TABLE_I];

/** l(b) for b = 1 to BATCH_MAX, ms: launching and computing overlap, so that the longer of the two counts, smoothly. */
export const tableMs = (perS: number): number[] =>
  Array.from({ length: BATCH_MAX }, (_, index) => {
    const computeMs = ((index + 1) * 1000) / perS;
    return Number(((LAUNCH_MS ** FILLING + computeMs ** FILLING) ** (1 / FILLING)).toFixed(2));
  });

/** The family of INFaaS beside ViT-Base: what full batches do, relative to it (ToMe's README has 953, 309 and 95 images/s on a V100), and parameters. */
const SMALL = { speed: 953 / 309, parameters: 22e6 };
const BASE = { parameters: 86e6 };
const LARGE = { speed: 95 / 309, parameters: 304e6 };
/** [choice] Weights come from disk at so many bytes/s: "model I/O" is what OTAS blames INFaaS's loss on. */
const LOAD_BYTES_PER_S = 1e9;

const loadMs = ({ parameters }: { readonly parameters: number }): number => (parameters * 4 * 1000) / LOAD_BYTES_PER_S;

/** profile.by_gamma of a scenario: the gammas, then the small and the large model. */
export const byGamma = ({ perS }: Machine): Record<string, unknown>[] => [
  ...GAMMAS.map((gamma) => ({ gamma, load_ms: loadMs(BASE), table_ms: tableMs(perS(gamma)) })),
  { gamma: 0, model: "small", load_ms: loadMs(SMALL), table_ms: tableMs(perS(0) * SMALL.speed) },
  { gamma: 0, model: "large", load_ms: loadMs(LARGE), table_ms: tableMs(perS(0) * LARGE.speed) },
];
