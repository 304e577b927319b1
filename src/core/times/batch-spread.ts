/** Part of batches below, and as many above, the interval that spreads are learnt by: 90 % are within. */
export const INTERVAL_TAIL = 0.05;
/** Least and most that is believed; the least before anything is measured. */
const SPREAD_MIN = 0.001;
const SPREAD_MAX = 1;
/** Step of the logarithm for a batch beyond the interval; one within it takes as much back as makes INTERVAL_TAIL of them stand still. */
const STEP = 0.1;
const NODES = 32;

/**
 * How far batches are from what their members' distributions say (ORLOJ has none: Eq. 3 is exact there). A batch takes the
 * time of Eq. 3 times a factor of its own: a log-normal whose halves below and above 1 have deviations of their own, since what
 * comes between (a collection, a neighbour) only ever makes a batch longer.
 *
 * Each deviation follows the share of batches beyond its end of the 90 % interval, up where they are more than 5 %, down
 * where they are fewer (Robbins and Monro; adaptive conformal inference, Gibbs and Candès 2021). So the interval covers
 * 90 % whatever the shape of the truth, and a stall of a second counts as one batch. O(1) memory.
 */
export class BatchSpread {
  /** Standard deviations of the logarithm of the factor, below and above 1. */
  below = SPREAD_MIN;
  above = SPREAD_MIN;
  /** The factor at equally probable nodes. */
  private readonly factors = new Float64Array(NODES);

  constructor() {
    this.tabulate();
  }

  /** P(batch takes at most us). @param exactly the same, were the factor 1. */
  chanceOf(us: number, exactly: (us: number) => number): number {
    let chance = 0;
    for (let node = 0; node < NODES; node++) chance += exactly(us / this.factors[node]!);
    return chance / NODES;
  }

  /** @param quantile of what it was expected to take, that the batch's time is. */
  observe(quantile: number): void {
    this.below = follow(this.below, quantile < INTERVAL_TAIL);
    this.above = follow(this.above, quantile > 1 - INTERVAL_TAIL);
    this.tabulate();
  }

  private tabulate(): void {
    for (let node = 0; node < NODES; node++)
      this.factors[node] = Math.exp(NORMAL[node]! * (NORMAL[node]! < 0 ? this.below : this.above));
  }
}

function follow(spread: number, isBeyond: boolean): number {
  const next = spread * Math.exp(STEP * ((isBeyond ? 1 : 0) - INTERVAL_TAIL));
  return Math.min(SPREAD_MAX, Math.max(SPREAD_MIN, next));
}

/** Quantiles of the standard normal at (i + 1/2) / NODES; Tukey's lambda stands for them, within 0.003. */
const NORMAL = Float64Array.from({ length: NODES }, (_, node) => {
  const q = (node + 0.5) / NODES;
  return 4.91 * (q ** 0.14 - (1 - q) ** 0.14);
});
