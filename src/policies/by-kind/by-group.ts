import type { Choice, Chooser, Occasion } from "./chooser.js";
import type { GroupTimes } from "./known-times.js";
import { LaterChances } from "./later-chances.js";
import type { Line, WaitingByKind } from "./waiting-by-kind.js";

export interface GroupOptions {
  /** Sizes that are weighed, ascending. */
  readonly sizes: readonly number[];
  /** A request whose chance to be in time even alone is below this is given up. */
  readonly hopeless: number;
  /** Weight of who would become hopeless meanwhile. */
  readonly lossWeight: number;
  /**
   * Mean time until a request that does not go now has its next chance, as a part of what lies between batches of its line, as measured;
   * and the loss is what everybody's chances lose meanwhile. 0, or many accelerators: by `patience` and `patienceOfMany`, and the loss is of who could go alone.
   */
  readonly gapPart: number;
  /** Part of its SLO after which a request that does not go now is expected to have its next chance: mean of an exponential. With gaps: until one is seen. */
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
  lossWeight: 1.2,
  gapPart: 0.6,
  patience: 0.3,
  sure: 0.8,
  price: 1.5,
  patienceOfMany: 0.01,
  lines: 12,
} as const;

/** With more accelerators than this chances go by the SLO: with 16, what gaps say earned 0.85 to 0.62 of what comes, by small changes of the price. */
const GAPS_ACCELERATORS = 8;

/** Part of its time alone that a request must have left for a later chance: of a batch it pays a part. */
const OWN_PART = 0.7;

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
 * mean that follows what lies between batches (LaterChances). The loss is what the chances of all who wait lose while the batch runs,
 * each less what its own time is worth: long ones that are given up in any case are no loss.
 *
 * Without gaps (`gapPart` 0, or many accelerators): of a mean that is a part of the SLO; lost is who could go alone now and could not after the batch.
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
  /** null: by a part of the SLO. */
  private readonly byGaps: LaterChances | null;
  /** The same for the batch that is being chosen. */
  private chances: LaterChances | null = null;

  constructor(waiting: WaitingByKind, times: GroupTimes, options: GroupOptions) {
    this.waiting = waiting;
    this.times = times;
    this.options = options;
    this.lineOf = new Int32Array(times.sizeMax);
    this.indexOf = new Int32Array(times.sizeMax);
    this.bestLine = new Int32Array(times.sizeMax);
    this.bestIndex = new Int32Array(times.sizeMax);
    this.cdf = times.table();
    this.byGaps = options.gapPart > 0 ? new LaterChances(options) : null;
  }

  hopelessUs(kind: number): number {
    return this.times.aloneQuantileUs(kind, this.options.hopeless);
  }

  choose(occasion: Occasion): Choice | null {
    const lines = this.linesInOrder();
    if (this.cursors.length < lines.length) this.cursors = new Int32Array(2 * lines.length);
    const step = Math.ceil(lines.length / this.options.lines);
    this.chances = occasion.accelerators <= GAPS_ACCELERATORS ? this.byGaps : null;
    this.chances?.begin(
      lines,
      occasion.startAt,
      ({ kind }) => OWN_PART * this.times.meanAloneUs(kind) * occasion.scale,
    );
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
    this.noteServed(lines, size, occasion.startAt);
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
    const { times, cdf, options } = this;
    const { scale } = occasion;
    const startAt = occasion.startAt + (size - 1) * occasion.dataUs;
    if (!this.gather(lines, from, to, size, startAt, scale)) return Number.NEGATIVE_INFINITY;
    const execUs = times.batchUs(size, times.meanOf(cdf)) * scale;
    const earned = this.earnedBy(lines, size, startAt, execUs, occasion);
    if (earned / execUs <= best) return Number.NEGATIVE_INFINITY;
    const lost = options.lossWeight === 0 ? 0 : this.lostBy(lines, size, startAt, execUs, occasion);
    return (earned - options.lossWeight * lost) / execUs;
  }

  /** @param execUs of the candidate, on this accelerator. */
  private earnedBy(
    lines: readonly Line[],
    size: number,
    startAt: number,
    execUs: number,
    { scale, accelerators }: Occasion,
  ): number {
    const { times, lineOf, indexOf, cdf, chances } = this;
    let earned = 0;
    for (let member = 0; member < size; member++) {
      const index = lineOf[member]!;
      const { pending, weight, kind, sloUs } = lines[index]!;
      const leftUs = pending.deadlineAt(indexOf[member]!) - startAt;
      const chance = times.chanceOf(cdf, times.longestWithin(size, leftUs / scale));
      const later =
        chances === null
          ? 1 - Math.exp(-Math.max(0, leftUs - execUs) / this.patienceUs(sloUs, accelerators))
          : chances.chanceOf(index, leftUs - execUs / accelerators);
      earned += weight * chance * (1 - later * this.netOf(kind));
    }
    return earned;
  }

  private lostBy(
    lines: readonly Line[],
    size: number,
    startAt: number,
    execUs: number,
    { startAt: from, scale, accelerators }: Occasion,
  ): number {
    const { chances } = this;
    if (chances === null) return this.lostMeanwhile(lines, size, startAt, execUs, scale) / accelerators;
    // Each of the others ends one meanwhile, too.
    const us = startAt - from + execUs / accelerators;
    let lost = 0;
    for (let index = 0; index < lines.length; index++) {
      const { kind, weight } = lines[index]!;
      const net = this.netOf(kind);
      if (net > 0) lost += net * weight * chances.lostWithin(index, us);
    }
    return lost;
  }

  /** Of one accelerator and of many; between them as measured on 2, 4 and 16. */
  private patienceUs(sloUs: number, accelerators: number): number {
    const { patience, patienceOfMany } = this.options;
    const manyUs = (patienceOfMany * (1 + 3 / (accelerators - 1) ** 2)) / this.times.execUs[1]!;
    return sloUs * Math.min(patience, manyUs * sloUs);
  }

  private noteServed(lines: readonly Line[], size: number, at: number): void {
    const { byGaps, bestLine } = this;
    if (byGaps === null) return;
    for (let index = 0; index < lines.length; index++)
      if (bestLine.subarray(0, size).includes(index)) byGaps.served(lines[index]!, at);
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
