import type { Choice, Chooser, Occasion } from "./chooser.js";
import type { GroupTimes } from "./known-times.js";
import type { Line, WaitingByKind } from "./waiting-by-kind.js";

export interface GroupOptions {
  /** Sizes that are weighed, ascending. */
  readonly sizes: readonly number[];
  /** A request whose chance to be in time even alone is below this is given up. */
  readonly hopeless: number;
  /** Weight of who would become hopeless meanwhile. */
  readonly lossWeight: number;
  /** Part of its SLO after which a request that does not go now is expected to have its next chance: mean of an exponential. */
  readonly patience: number;
  /** The same at most with many accelerators, for each time alone that its SLO holds: the next chance comes soon. */
  readonly patienceOfMany: number;
  /** Members have time until this quantile of what a batch of the longest of their kinds takes. */
  readonly sure: number;
  /** What time is worth, relative to what the largest batch of all kinds makes of it. */
  readonly price: number;
  /** Runs of kinds that are weighed grow with the square of the lines: more lines than this are taken together, neighbours by their means. */
  readonly lines: number;
}

/** What `distribution+` has by default: found on one to eight modes, SLOs of 1.5 to 5 P99, loads of 0.8 to 1.2 (docs/decisions/008). */
export const GROUP_OPTIONS = {
  hopeless: 0.05,
  lossWeight: 1,
  patience: 0.45,
  sure: 0.8,
  price: 1.45,
  patienceOfMany: 0.01,
  lines: 12,
} as const;

/** All small sizes, larger ones in steps of an eighth. */
export function denseSizesUpTo(sizeMax: number, given?: readonly number[]): number[] {
  if (given !== undefined) return given.filter((size) => size <= sizeMax);
  const sizes: number[] = [];
  for (let size = 1; size < sizeMax; size += Math.max(1, size >> 3)) sizes.push(size);
  return [...sizes, sizeMax];
}

/**
 * Past the paper: who goes together decides what a batch costs, since all take as long as the longest. Lines are ordered by
 * their kind's mean time; for each run of neighbours in that order and each size, the most urgent that can still be in time
 * are a candidate. Weighed is what going now earns, by the expected time of the batch:
 *
 *     sum over members of w P(in time now) (1 - P(in time later) net) - loss,   net = 1 - price * part of a full batch
 *
 * as in ORLOJ's Eq. 1, what is earned now is less what would be earned later; but who can wait does not cost a batch of its own
 * then, only its part of one, at the price of time. So a few short ones with time left wait until they are more, while long
 * ones that are due run, and where everybody can wait the fullest batch is the best. Later is an exponential delay again, of a
 * mean that is a part of the SLO. The loss is of who could go alone now and could not after the batch, each less what its own
 * time is worth: long ones that are given up in any case are no loss.
 */
export class ByGroup implements Chooser {
  private readonly waiting: WaitingByKind;
  private readonly times: GroupTimes;
  private readonly options: GroupOptions;
  /** Members of the candidate, in order of deadline: line, and position in it. */
  private readonly lineOf: Int32Array;
  private readonly indexOf: Int32Array;
  private readonly bestLine: Int32Array;
  private readonly bestIndex: Int32Array;
  private cursors = new Int32Array(16);
  /** Distribution of the longest member of the candidate. */
  private readonly cdf: Float64Array;

  /** By kind and count; see longestUs. */
  private readonly longest: number[][] = [];
  private version = -1;

  constructor(waiting: WaitingByKind, times: GroupTimes, options: GroupOptions) {
    this.waiting = waiting;
    this.times = times;
    this.options = options;
    this.lineOf = new Int32Array(times.sizeMax);
    this.indexOf = new Int32Array(times.sizeMax);
    this.bestLine = new Int32Array(times.sizeMax);
    this.bestIndex = new Int32Array(times.sizeMax);
    this.cdf = times.table();
  }

  hopelessUs(kind: number): number {
    return this.times.aloneQuantileUs(kind, this.options.hopeless);
  }

  choose(occasion: Occasion): Choice | null {
    const lines = this.linesInOrder();
    if (this.cursors.length < lines.length) this.cursors = new Int32Array(2 * lines.length);
    const step = Math.ceil(lines.length / this.options.lines);
    let best = Number.NEGATIVE_INFINITY;
    let size = 0;
    for (let from = 0; from < lines.length; from += step) {
      let waits = 0;
      for (let to = from; to < lines.length; to++) {
        waits += lines[to]!.pending.length;
        if ((to + 1) % step !== 0 && to + 1 < lines.length) continue;
        for (const wanted of this.options.sizes) {
          if (wanted > Math.min(waits, occasion.sizeMax)) break;
          const value = this.valueOf(lines, from, to, wanted, occasion, best);
          if (value <= best) continue;
          best = value;
          size = wanted;
          this.bestLine.set(this.lineOf.subarray(0, size));
          this.bestIndex.set(this.indexOf.subarray(0, size));
        }
      }
    }
    if (size === 0) return this.mostUrgent(lines);
    // From the last on, so that positions of those before stay true.
    let first = -1;
    for (let member = size - 1; member >= 0; member--) {
      const line = lines[this.bestLine[member]!]!;
      first = this.waiting.link(line, line.pending.handleAt(this.bestIndex[member]!), first);
    }
    return { first, size };
  }

  /** No batch is expected to be in time for anybody: who has a chance alone goes alone. */
  private mostUrgent(lines: readonly Line[]): Choice | null {
    let urgent: Line | null = null;
    for (const line of lines)
      if (urgent === null || line.pending.deadlineAt(0) < urgent.pending.deadlineAt(0)) urgent = line;
    return urgent === null ? null : { first: this.waiting.link(urgent, urgent.pending.handleAt(0), -1), size: 1 };
  }

  private linesInOrder(): Line[] {
    const { times } = this;
    return this.waiting.lines
      .filter(({ pending }) => pending.length > 0)
      .sort((a, b) => times.meanAloneUs(a.kind) - times.meanAloneUs(b.kind) || a.kind - b.kind || a.weight - b.weight);
  }

  /**
   * What the candidate of this size from the lines [from, to] is worth; it is in `lineOf` and `indexOf`.
   * -Infinity: there are not so many in time, or it is worth no more than `best` even without a loss.
   */
  private valueOf(
    lines: readonly Line[],
    from: number,
    to: number,
    size: number,
    occasion: Occasion,
    best: number,
  ): number {
    const { times, lineOf, indexOf, cdf, options } = this;
    const { scale, accelerators } = occasion;
    // Of one accelerator and of many; between them as measured on 2, 4 and 16.
    const manyUs = (options.patienceOfMany * (1 + 3 / (accelerators - 1) ** 2)) / times.execUs[1]!;
    const startAt = occasion.startAt + (size - 1) * occasion.dataUs;
    if (!this.gather(lines, from, to, size, startAt, scale)) return Number.NEGATIVE_INFINITY;
    const execUs = times.batchUs(size, times.meanOf(cdf));
    let earned = 0;
    for (let member = 0; member < size; member++) {
      const { pending, weight, kind, sloUs } = lines[lineOf[member]!]!;
      const slackUs = (pending.deadlineAt(indexOf[member]!) - startAt) / scale;
      const chance = times.chanceOf(cdf, times.longestWithin(size, slackUs));
      const patienceUs = sloUs * Math.min(options.patience, manyUs * sloUs);
      const later = 1 - Math.exp((-scale * Math.max(0, slackUs - execUs)) / patienceUs);
      earned += weight * chance * (1 - later * this.netOf(kind));
    }
    if (earned / (execUs * scale) <= best) return Number.NEGATIVE_INFINITY;
    const lost = options.lossWeight === 0 ? 0 : this.lostMeanwhile(lines, size, startAt, execUs * scale, scale);
    return (earned - (options.lossWeight * lost) / accelerators) / (execUs * scale);
  }

  /** The earliest deadlines of the lines [from, to] that are surely in time in a batch of this size, its part of the longest kind. */
  private gather(
    lines: readonly Line[],
    from: number,
    to: number,
    size: number,
    startAt: number,
    scale: number,
  ): boolean {
    const { times, cursors, lineOf, indexOf, cdf } = this;
    const endAt =
      startAt + times.batchUs(size, this.longestUs(lines[to]!.kind, Math.ceil(size / (to - from + 1)))) * scale;
    for (let index = from; index <= to; index++) cursors[index] = lines[index]!.pending.firstNotBefore(endAt);
    for (let member = 0; member < size; member++) {
      let earliest = Number.POSITIVE_INFINITY;
      let chosen = -1;
      for (let index = from; index <= to; index++) {
        const { pending } = lines[index]!;
        if (cursors[index]! >= pending.length) continue;
        const deadline = pending.deadlineAt(cursors[index]!);
        if (deadline >= earliest) continue;
        earliest = deadline;
        chosen = index;
      }
      if (chosen < 0) return false;
      lineOf[member] = chosen;
      indexOf[member] = cursors[chosen]!++;
      times.join(cdf, lines[chosen]!.kind, member === 0);
    }
    return true;
  }

  /** Time alone of the longest of `count` of this kind that is not exceeded with probability `sure`. */
  private longestUs(kind: number, count: number): number {
    const { times, options, longest } = this;
    if (this.version !== times.version) longest.length = 0;
    this.version = times.version;
    longest[kind] ??= [];
    longest[kind][count] ??= times.aloneQuantileUs(kind, options.sure ** (1 / count));
    return longest[kind][count];
  }

  /** What a finish of this kind is worth beyond the time that it takes in a full batch. */
  private netOf(kind: number): number {
    return Math.max(0, 1 - this.options.price * this.times.partOfFullBatch(kind));
  }

  /** Weight of those who could go alone at `startAt` and could not after the candidate, its members apart. */
  private lostMeanwhile(lines: readonly Line[], size: number, startAt: number, execUs: number, scale: number): number {
    const { times, lineOf, indexOf } = this;
    let lost = 0;
    for (const { pending, weight, kind } of lines) {
      const endAt = startAt + times.meanAloneUs(kind) * scale;
      lost += this.netOf(kind) * weight * (pending.firstNotBefore(endAt + execUs) - pending.firstNotBefore(endAt));
    }
    for (let member = 0; member < size; member++) {
      const { pending, weight, kind } = lines[lineOf[member]!]!;
      const spareUs = pending.deadlineAt(indexOf[member]!) - startAt - times.meanAloneUs(kind) * scale;
      if (spareUs >= 0 && spareUs < execUs) lost -= this.netOf(kind) * weight;
    }
    return lost;
  }
}
