/**
 * An elastic transformer as OTAS has it: times anchored at the throughputs that it states, Table II's query types, accuracies in the
 * shape of its Figure 4.
 *
 * Batches of 64: 1500, 1000, 580 and 220 requests/s at gamma -25, -15, 0 and 32 (§II, §III-C). Between them time per request is linear
 * in gamma where tokens are merged; where prompts are added it has the square of the longer sequence. A batch takes 9 ms whatever is in it:
 * 100 requests/s one by one at -15 (§III-C).
 */
import { DATA_SETS, TABLE_2 } from "../../reproduce/otas/query-types.js";
import { BATCH_MAX, GAMMAS } from "../../reproduce/otas/vision-transformer.js";

const FIXED_US = 9000;
const MERGED: readonly [gamma: number, perS: number][] = [
  [-25, 1500],
  [-15, 1000],
  [0, 580],
];
/** Of DATA_SETS. */
const ACCURACY: Readonly<Record<number, readonly [number, number, number]>> = {
  [-25]: [0.5, 0.28, 0.5],
  [-20]: [0.8, 0.62, 0.8],
  [-15]: [0.935, 0.775, 0.93],
  [-10]: [0.945, 0.795, 0.945],
  [-5]: [0.948, 0.805, 0.95],
  0: [0.95, 0.81, 0.955],
  2: [0.965, 0.86, 0.97],
  4: [0.97, 0.87, 0.974],
  8: [0.975, 0.88, 0.978],
};
/** With the strongest merging of Figure 4. */
export const NINE_GAMMAS: readonly number[] = [-25, ...GAMMAS];

/** Table II, all equally often. */
export const QUERY_TYPES = TABLE_2.map(({ of, sloMs, utility }) => ({
  task: DATA_SETS.indexOf(of),
  sloUs: sloMs * 1000,
  utility,
}));

export class ElasticProfile {
  /** [tasks x gammas] */
  readonly accuracy: Float64Array;
  private readonly requestUs: Float64Array;

  constructor(readonly gammas: readonly number[]) {
    this.accuracy = Float64Array.from([0, 1, 2].flatMap((task) => gammas.map((gamma) => ACCURACY[gamma]![task]!)));
    this.requestUs = Float64Array.from(gammas, (gamma) => fullBatchUs(gamma) - FIXED_US / BATCH_MAX);
  }

  /** Of a batch. */
  readonly timeUs = (gamma: number, size: number): number => Math.ceil(FIXED_US + size * this.requestUs[gamma]!);
}

/** For each request of a batch of 64. */
function fullBatchUs(gamma: number): number {
  if (gamma >= 0) return (1e6 / 580) * (1 + 0.038 * gamma + 0.00041 * gamma ** 2);
  const above = MERGED.findIndex(([anchor]) => anchor >= gamma && anchor > MERGED[0]![0]);
  const [[from, fromPerS], [to, toPerS]] = [MERGED[above - 1]!, MERGED[above]!];
  return 1e6 / fromPerS + ((gamma - from) / (to - from)) * (1e6 / toPerS - 1e6 / fromPerS);
}
