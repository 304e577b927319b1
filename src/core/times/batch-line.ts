import { invariant, violated } from "../invariant.js";

export interface BatchLineOptions {
  /** What is believed before anything is measured, >= 0. */
  readonly c0Us: number;
  /** > 0. */
  readonly c1: number;
  /** Batches that this counts as. Default 10. */
  readonly weight?: number;
  /** About so many batches are remembered. Default 200. */
  readonly memory?: number;
}

const WEIGHT = 10;
const MEMORY = 200;
/** Spread of the batches that the prior stands for, relative to the first one measured. */
const PRIOR_SPREAD = 0.5;
/** c1 is at least this part of the prior's. */
const C1_MIN = 0.01;
/** And is not raised beyond this many times the prior's to keep c0 from being negative. */
const C1_MAX = 100;
/** A batch counts as at most this many times its expected time, and at least the inverse: a stall is no evidence. */
const OUTLIER = 10;
/** A new version differs from the one before by more than this part of a batch's time. */
const CHANGE = 0.01;

/**
 * What a batch takes by its longest member: l_B = c0 + c1 x with x = k E[longest | kinds of the members] (ORLOJ Eq. 3 and 5),
 * fitted to what batches took.
 *
 * The longest member itself is not measured (all take as long as the batch), only expected. That leaves c1 unbiased: the truth
 * differs from the expectation by something that the expectation does not tell (Berkson's error), so the mean time at x is
 * c0 + c1 x still. Were x a measurement with an error of its own, the slope would come out too small.
 *
 * Least squares of y / l_prior(x) over u = 1 / l_prior(x): times vary in proportion to their size, and so a long batch counts as
 * much as a short one. With the mean m at the mean u and the tilt e, that is l_B = (m - e mean u) l_prior + e: m corrects c0 and
 * c1 in proportion, e gives to c0 what c1 loses. Where all x are alike there is no tilt to be seen, and only m is corrected.
 *
 * m forgets exponentially with each batch; e only as far as a batch tells of it, so that hours of one batch size do not
 * make the line forget what other sizes taught. The prior is where both begin. Pure numbers: O(1) a batch.
 */
export class BatchLine {
  /** As fitted now. */
  c0Us: number;
  c1: number;
  /** Changes when these have moved by more than 1 % of a batch's time since it last did. */
  version = 0;
  private versionC0Us: number;
  private versionC1: number;
  private readonly priorC0Us: number;
  private readonly priorC1: number;
  private readonly memory: number;
  private readonly priorWeight: number;
  /** Of the mean: batches that count, mean of u (NaN: nothing was measured) and of y u. */
  private weight: number;
  private meanInverse = Number.NaN;
  private meanRatio = 1;
  /** Of the tilt: weight, sum of squares of u, and of products with y u, about the means. */
  private tiltWeight: number;
  private spread = 0;
  private covariance = 0;

  constructor({ c0Us, c1, weight = WEIGHT, memory = MEMORY }: BatchLineOptions) {
    invariant(c0Us >= 0 && c0Us < Number.POSITIVE_INFINITY, `c0Us must be >= 0 and finite; was ${c0Us}`);
    invariant(c1 > 0 && c1 < Number.POSITIVE_INFINITY, `c1 must be > 0 and finite; was ${c1}`);
    invariant(weight > 0, `weight of the prior must be > 0; was ${weight}`);
    invariant(memory >= 2, `memory must be >= 2 batches; was ${memory}`);
    this.c0Us = c0Us;
    this.c1 = c1;
    this.versionC0Us = c0Us;
    this.versionC1 = c1;
    this.priorC0Us = c0Us;
    this.priorC1 = c1;
    this.memory = memory;
    this.priorWeight = weight;
    this.weight = weight;
    this.tiltWeight = weight;
  }

  /** Expected time of a batch. @param x size times expected longest time of its members, µs. */
  at(x: number): number {
    return this.c0Us + this.c1 * x;
  }

  /** @param x as in `at`, > 0. @param us what the batch took, > 0. @returns true when the version changed. */
  observe(x: number, us: number): boolean {
    if (!(x > 0 && x < Number.POSITIVE_INFINITY)) violated(`x of a batch must be > 0 and finite; was ${x}`);
    if (!(us > 0 && us < Number.POSITIVE_INFINITY)) violated(`time of a batch must be > 0 µs and finite; was ${us}`);
    const inverse = 1 / (this.priorC0Us + this.priorC1 * x);
    const expectedUs = this.at(x);
    const ratio = inverse * Math.min(Math.max(us, expectedUs / OUTLIER), expectedUs * OUTLIER);
    if (Number.isNaN(this.meanInverse)) {
      this.meanInverse = inverse;
      this.spread = this.priorWeight * (PRIOR_SPREAD * inverse) ** 2;
    }
    this.weight = (1 - 1 / this.memory) * this.weight + 1;
    const across = inverse - this.meanInverse;
    const up = ratio - this.meanRatio;
    this.meanInverse += across / this.weight;
    this.meanRatio += up / this.weight;
    const tells = Math.min(1, (across * across * this.tiltWeight) / this.spread);
    const kept = 1 - tells / this.memory;
    const rest = 1 - 1 / this.weight;
    this.tiltWeight = kept * this.tiltWeight + tells;
    this.spread = kept * this.spread + rest * across * across;
    this.covariance = kept * this.covariance + rest * across * up;
    return this.fit();
  }

  private fit(): boolean {
    const { priorC0Us, priorC1, meanInverse, meanRatio } = this;
    const tilt = this.covariance / this.spread;
    const level = meanRatio - tilt * meanInverse;
    // Where the line is known best: the time of a batch there, and its x.
    const us = meanRatio / meanInverse;
    const x = Math.max(0, (1 / meanInverse - priorC0Us) / priorC1);
    let c0Us = level * priorC0Us + tilt;
    let c1 = level * priorC1;
    if (c0Us < 0) {
      c0Us = 0;
      c1 = Math.min(us / x, C1_MAX * priorC1);
    } else if (c1 < C1_MIN * priorC1) {
      c1 = C1_MIN * priorC1;
      c0Us = Math.max(0, us - c1 * x);
    }
    this.c0Us = c0Us;
    this.c1 = c1;
    const isNew = Math.abs(c0Us - this.versionC0Us) > CHANGE * us || Math.abs(c1 - this.versionC1) * x > CHANGE * us;
    if (isNew) {
      this.versionC0Us = c0Us;
      this.versionC1 = c1;
      this.version++;
    }
    return isNew;
  }
}
