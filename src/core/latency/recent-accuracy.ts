/**
 * How often the answers of an elastic model's tasks are right of late, estimated from how sure the model was of them (past OTAS, which has one
 * number for each task and gamma for ever). Whoever drives feeds it when batches end and tells the policies; it is the same live and simulated.
 *
 * Confidence need not be accuracy: it is held against what it was before. Of each task and gamma the first answers are the reference, at which the
 * accuracy is the profile's; no profile has to know confidences, and a model that is always 10 % too sure is not taken for one that got better.
 * What counts is by which part confidence has changed since: one part that all gammas of a task share, since images that became harder are harder at each
 * (random effects after DerSimonian and Laird: where the gammas disagree little is shared), and what a gamma departs from that.
 *
 * Gammas differ by less than a percent of accuracy, so noise must not be taken for change: each part is shrunk by the positive-part garrote
 * x max(0, 1 - (Z sigma / x)^2), to nothing where it may be chance, and to next to nothing where it is far beyond. With few answers, and again when
 * a gamma has not been seen for long, sigma is large and the estimate is the profile: so a gamma that was given up is tried again.
 */

/** Standard errors that a change must exceed. */
const Z = 3;
/** Answers of a task and gamma that make its reference; while it grows each counts less what is known to have changed. */
const REFERENCE = 1000;
/** Of either side, before they are compared. */
const LEAST = 20;
const VARIANCE_MIN = 1e-4;
/** An accuracy that has moved by less is not told. */
const MOVED = 0.002;
/** Variance of what may have changed of a gamma that was not seen for `FORGET_US`: 5 % of its confidence. */
const AGED = 0.003;
/** 1/e of what was seen is forgotten after so long, µs. */
const FORGET_US = 10_000_000;

/** What is known of one task. Columns by gamma. */
interface Task {
  readonly count: Float64Array;
  readonly sum: Float64Array;
  readonly squares: Float64Array;
  /** Of late, forgotten with time since `seenAt`. */
  readonly recent: Float64Array;
  readonly recentSum: Float64Array;
  readonly seenAt: Float64Array;
  /** By which part confidence has changed, as far as it is no chance. */
  readonly change: Float64Array;
}

export class RecentAccuracy {
  private readonly gammas: number;
  private readonly forgetUs: number;
  private readonly tasks: (Task | undefined)[] = [];
  private told: readonly ArrayLike<number>[] = [];
  /** Reused: relative change by gamma, and the variance of that. */
  private readonly apart: Float64Array;
  private readonly variance: Float64Array;

  /** @param gammas variants of the profile. */
  constructor(gammas: number, forgetUs = FORGET_US) {
    this.gammas = gammas;
    this.forgetUs = forgetUs;
    this.apart = new Float64Array(gammas);
    this.variance = new Float64Array(gammas);
  }

  /** @param kind the task. @param index of the variant in the profile. @param confidence anything but a number of [0, 1] is left out. */
  observed(kind: number, index: number, confidence: number, at: number): void {
    if (!(confidence >= 0 && confidence <= 1)) return;
    this.tasks[kind] ??= blank(this.gammas);
    const { count, sum, squares, recent, recentSum, seenAt, change } = this.tasks[kind];
    if (count[index]! < REFERENCE) {
      const before = Math.min(1, confidence / Math.max(0.01, 1 + change[index]!));
      count[index]!++;
      sum[index]! += before;
      squares[index]! += before * before;
    }
    const kept = Math.exp(-Math.max(0, at - seenAt[index]!) / this.forgetUs);
    recent[index] = recent[index]! * kept + 1;
    recentSum[index] = recentSum[index]! * kept + confidence;
    seenAt[index] = at;
  }

  /** The task of this kind is another one now. */
  forget(kind: number): void {
    this.tasks[kind] = undefined;
  }

  /**
   * @param profile accuracy by kind and variant; an empty row: not known.
   * @returns what to plan with, in [0, 1]: the same array as before while nothing has moved, and the profile's own rows where nothing has changed.
   */
  estimates(profile: readonly ArrayLike<number>[], at: number): readonly ArrayLike<number>[] {
    const rows = profile.map((row, kind) => this.estimate(row, kind, at));
    if (rows.length !== this.told.length || rows.some((row, kind) => hasMoved(row, this.told[kind]!))) this.told = rows;
    return this.told;
  }

  private estimate(profiled: ArrayLike<number>, kind: number, at: number): ArrayLike<number> {
    const task = this.tasks[kind];
    if (task === undefined || profiled.length === 0) return profiled;
    this.compare(task, at);
    const { change } = task;
    if (change.every((part) => part === 0)) return profiled;
    return Float64Array.from(change, (part, index) => Math.min(1, Math.max(0, profiled[index]! * (1 + part))));
  }

  /** Reads `change` of a task. */
  private compare(task: Task, at: number): void {
    const { apart, variance } = this;
    const { count, sum, squares, recent, recentSum, seenAt, change } = task;
    for (let index = 0; index < this.gammas; index++) {
      const age = Math.max(0, at - seenAt[index]!) / this.forgetUs;
      const n = recent[index]! * Math.exp(-age);
      const before = sum[index]! / count[index]!;
      apart[index] = 0;
      variance[index] = Number.POSITIVE_INFINITY;
      if (!(count[index]! >= LEAST && recent[index]! >= LEAST && n > 0 && before > 0)) continue;
      const spread = Math.max(VARIANCE_MIN, squares[index]! / count[index]! - before * before);
      apart[index] = recentSum[index]! / recent[index]! / before - 1;
      variance[index] = (spread / (before * before)) * (1 / n + 1 / count[index]!) + AGED * age;
    }
    const shared = sharedPart(apart, variance);
    for (let index = 0; index < this.gammas; index++)
      change[index] =
        shared + shrunk(variance[index] === Number.POSITIVE_INFINITY ? 0 : apart[index]! - shared, variance[index]!);
  }
}

/** Mean over the gammas, less sure the more they disagree; as far as it is no chance. */
function sharedPart(apart: Float64Array, variance: Float64Array): number {
  const between = varianceBetween(apart, variance);
  const { mean, weight } = weighted(apart, variance, between);
  return weight > 0 ? shrunk(mean, 1 / weight) : 0;
}

/** DerSimonian and Laird (1986): by how much the gammas differ beyond what each is off by chance. */
function varianceBetween(apart: Float64Array, variance: Float64Array): number {
  const { mean, weight, squares, seen } = weighted(apart, variance, 0);
  if (seen < 2) return 0;
  const off = apart.reduce((sum, each, index) => sum + (each - mean) ** 2 / variance[index]!, 0);
  return Math.max(0, (off - (seen - 1)) / (weight - squares / weight));
}

function weighted(apart: Float64Array, variance: Float64Array, between: number) {
  let [weight, squares, sum, seen] = [0, 0, 0, 0];
  for (let index = 0; index < apart.length; index++) {
    const of = 1 / (variance[index]! + between);
    if (of === 0) continue;
    seen++;
    weight += of;
    squares += of * of;
    sum += of * apart[index]!;
  }
  return { mean: weight > 0 ? sum / weight : 0, weight, squares, seen };
}

const shrunk = (part: number, variance: number): number =>
  part === 0 ? 0 : part * Math.max(0, 1 - (Z * Z * variance) / (part * part));

const hasMoved = (row: ArrayLike<number>, before: ArrayLike<number>): boolean => {
  if (row.length !== before.length) return true;
  for (let index = 0; index < row.length; index++) if (Math.abs(row[index]! - before[index]!) > MOVED) return true;
  return false;
};

const blank = (gammas: number): Task => ({
  count: new Float64Array(gammas),
  sum: new Float64Array(gammas),
  squares: new Float64Array(gammas),
  recent: new Float64Array(gammas),
  recentSum: new Float64Array(gammas),
  seenAt: new Float64Array(gammas),
  change: new Float64Array(gammas),
});
