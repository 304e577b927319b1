import { invariant, violated } from "../../core/invariant.js";
import { ascendingOf, countBelow } from "../../core/times/ascending.js";
import type { Distribution } from "../../core/times/distribution.js";

/** From `afterUs` past the deadline on, a request that has not ended costs `cost` in all (ORLOJ Figure 5, Appendix B). */
export interface CostStep {
  readonly afterUs: number;
  readonly cost: number;
}

const ONE_DEADLINE: readonly CostStep[] = [{ afterUs: 0, cost: 1 }];

/**
 * How urgent a request is, by its slack s = D - t alone: ORLOJ's priority p(t), Eq. 1 and 2, for one distribution of L (the time
 * of the batch it would be in), one rate b of the anticipated delay and one cost function. All bins of L are one object.
 *
 * What is computed. C_now is c where t + L > D, and C_delay is c where t + tau + L > D, so
 *
 *     E[C_delay] - E[C_now] = c P(L <= s < L + tau) = c integral over l <= s of f(l) e^{-b (s - l)} dl
 *
 * as P(tau > s - l) = e^{-b (s - l)}: the chance that it is in time now and would not be later. A bin [l1, l2) of density
 * h = probability / (l2 - l1) adds (c h / b) (e^{-b (s - l2)} - e^{-b (s - l1)}) where s > l2, (c h / b) (1 - e^{-b (s - l1)}) where
 * l1 < s <= l2, and 0 below. That is Eq. 2, with h as a density where the text says "frequency", and with e^{b l} e^{-bD} e^{bt} taken
 * together: no exponent is above 0, so nothing overflows, and no moment is needed, only the slack.
 *
 * As a whole, g(s) = (E[C_delay] - E[C_now]) / E[L] solves g' = h / E[L] - b g. Between two edges of L it goes from its value
 * at the lower edge to rest = h / (b E[L]) like e^{-b (s - edge)}, rising or falling throughout: so of many requests with the same
 * score function, the most urgent is the first or the last of a stage (best-in-line.ts). Values at the edges are computed
 * once; a value then costs a bisection and two exponentials, and allocates nothing.
 *
 * Several deadlines (Appendix B) are the sum of scores, each with its increase of the cost. The equation is linear in h, so
 * their sum is the same function for the densities moved by `afterUs` and added up: one object again.
 *
 * For a queue that orders lines (priority-queue.ts), the same is alpha e^{b (t - base)} + beta within a stage.
 */
export class Score {
  /** Slacks at which the shape changes, µs, ascending. Stage i is between edges[i] and the next; the last has no end. */
  readonly edges: Float64Array;
  /** Stages by the largest value within them, largest first. */
  readonly byPeak: Int32Array;
  /** b, 1/µs. */
  readonly delayRate: number;
  /** At the edges. */
  private readonly values: Float64Array;
  /** By stage: what the value tends to. */
  private readonly rests: Float64Array;

  /**
   * @param times L, the time of the batch.
   * @param delayRate b: the anticipated delay is exponential with mean 1 / b; 1/µs, > 0.
   * @param steps of the cost function; costs and moments ascending. Default: 1 from the deadline on.
   */
  constructor(times: Distribution, delayRate: number, steps: readonly CostStep[] = ONE_DEADLINE) {
    invariant(
      delayRate > 0 && delayRate < Number.POSITIVE_INFINITY,
      `delayRate must be > 0 and finite; was ${delayRate}`,
    );
    checkSteps(steps);
    this.delayRate = delayRate;
    const edges = edgesOf(times, steps);
    const last = edges.length - 1;
    this.edges = edges;
    this.values = new Float64Array(last + 1);
    this.rests = new Float64Array(last + 1);
    for (let stage = 0; stage < last; stage++) {
      const density = densityAt(times, steps, (edges[stage]! + edges[stage + 1]!) / 2);
      this.rests[stage] = density / (times.mean * delayRate);
      this.values[stage + 1] = this.valueIn(stage, edges[stage + 1]!);
    }
    this.byPeak = Int32Array.from(edges, (_, stage) => stage).sort((a, b) => this.peakOf(b) - this.peakOf(a) || a - b);
  }

  /** g(s), 1/µs: expected cost saved by going now, by the time that the batch takes. @param slackUs D - t. O(log bins). */
  valueAt(slackUs: number): number {
    const stage = this.stageOf(slackUs);
    return stage < 0 ? 0 : this.valueIn(stage, slackUs);
  }

  /** The stage of a slack; -1: it cannot be in time any more, and its score is 0 for ever. */
  stageOf(slackUs: number): number {
    return countBelow(this.edges, slackUs) - 1;
  }

  /** Largest value that a stage has. */
  peakOf(stage: number): number {
    return Math.max(this.values[stage]!, this.values[stage + 1] ?? 0);
  }

  /** Whether more slack is more urgent throughout a stage; else less or equally. */
  isRising(stage: number): boolean {
    return this.rests[stage]! > this.values[stage]!;
  }

  /**
   * While the slack is in this stage, the score at t is alphaOf e^{b (t - base)} + betaOf; stage -1: 0 and 0. Finite: what is
   * still in a stage at `base` has an alpha of at most a score.
   *
   * @param dueInUs D - base, where base is at or before t.
   */
  alphaOf(stage: number, dueInUs: number): number {
    if (stage < 0) return 0;
    return (this.values[stage]! - this.rests[stage]!) * Math.exp(-this.delayRate * (dueInUs - this.edges[stage]!));
  }

  betaOf(stage: number): number {
    return stage < 0 ? 0 : this.rests[stage]!;
  }

  /** First whole µs at which a request with this deadline has left the stage; Infinity: stage -1 is left no more. */
  milestoneOf(stage: number, deadline: number): number {
    // Not rounded up: the difference of a large moment may itself be rounded down to a whole number.
    return stage < 0 ? Number.POSITIVE_INFINITY : Math.floor(deadline - this.edges[stage]!) + 1;
  }

  private valueIn(stage: number, slackUs: number): number {
    const exponent = -this.delayRate * (slackUs - this.edges[stage]!);
    const value = this.values[stage]!;
    const rest = this.rests[stage]!;
    // Two terms that are never negative: their difference would lose its digits where e^exponent is small.
    return (value === 0 ? 0 : value * Math.exp(exponent)) - (rest === 0 ? 0 : rest * Math.expm1(exponent));
  }
}

function checkSteps(steps: readonly CostStep[]): void {
  invariant(steps.length > 0, "a cost function must have at least one step; had 0");
  let before: CostStep = { afterUs: Number.NEGATIVE_INFINITY, cost: 0 };
  for (const step of steps) {
    if (!(step.afterUs > before.afterUs && step.afterUs < Number.POSITIVE_INFINITY))
      violated(`afterUs of cost steps must be ascending and finite; was ${step.afterUs} after ${before.afterUs}`);
    if (!(step.cost >= before.cost && step.cost < Number.POSITIVE_INFINITY))
      violated(`cost of cost steps must be >= 0, non-decreasing and finite; was ${step.cost} after ${before.cost}`);
    before = step;
  }
}

/** In time for a step is in time for the deadline with `afterUs` more slack. */
function edgesOf({ edges }: Distribution, steps: readonly CostStep[]): Float64Array {
  const all = new Float64Array(steps.length * edges.length);
  steps.forEach(({ afterUs }, index) => {
    all.set(
      edges.map((edge) => edge - afterUs),
      index * edges.length,
    );
  });
  return ascendingOf(all);
}

/** Densities of L, moved by the steps and weighted by what each adds to the cost. */
function densityAt({ edges, probabilities }: Distribution, steps: readonly CostStep[], slackUs: number): number {
  let density = 0;
  let before = 0;
  for (const { afterUs, cost } of steps) {
    const bin = countBelow(edges, slackUs + afterUs) - 1;
    if (bin >= 0 && bin < probabilities.length)
      density += ((cost - before) * probabilities[bin]!) / (edges[bin + 1]! - edges[bin]!);
    before = cost;
  }
  return density;
}
