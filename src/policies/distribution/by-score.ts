import type { Choice, Chooser, Occasion } from "../by-kind/chooser.js";
import type { TimesByKind } from "../by-kind/times-by-kind.js";
import type { Line, WaitingByKind } from "../by-kind/waiting-by-kind.js";
import { bestInLine } from "./best-in-line.js";
import { Score } from "./score.js";

export interface ScoreOptions {
  /** Sizes that batches may have, ascending. */
  readonly sizes: readonly number[];
  /** Rate b of the anticipated delay, 1/µs. */
  readonly delayRate: number;
  /** Order in which sizes are tried: line 16 of Algorithm 1, or the text's. */
  readonly size: "descending" | "earliest";
  /** Bins of a batch's time that scores are made of. */
  readonly bins: number;
}

/** Scales of accelerators that scores are kept for. */
const SCALES_MAX = 64;

/** What is known of a batch of one size that one of some kind is in. */
interface Prospect {
  readonly score: Score;
  /** EstimateBatchLatency of Algorithm 1: its mean, µs. [choice: the paper does not say which number it takes.] */
  readonly meanUs: number;
}

/**
 * ORLOJ's Algorithm 1. A request is viable for a batch size while a batch of that size, with it and others of any kind,
 * is expected to end by its deadline. Members of a batch are the viable ones of the highest scores.
 *
 * Which size: line 16 goes through sizes "ordered by (D_Q, bs) in descending order", D_Q the earliest deadline of who is viable
 * for the size; the text says "the batch size with the overall earliest deadline". Who is viable for a size is viable for all
 * smaller ones, so D_Q ascends with the size: descending is the largest size for which enough are viable, earliest the smallest
 * one whenever somebody is short of time, and then one urgent request makes all batches small until nobody is in time. Taken is line 16
 * (`size: descending`; a size for which too few are viable is passed over, line 17, or an idle accelerator would serve nobody); the text's is an
 * option, the larger size on a tie. What each has in time: docs/decisions/008.
 *
 * There are no queues by size, milestones or base times: who is viable for a size are all of a kind from some deadline on,
 * and the best of them is found by bestInLine.
 */
export class ByScore implements Chooser {
  private readonly waiting: WaitingByKind;
  private readonly times: TimesByKind;
  private readonly options: ScoreOptions;
  /** By scale of accelerators, then by kind, then by index of size. */
  private readonly prospects = new Map<number, Prospect[][]>();
  private version = -1;

  constructor(waiting: WaitingByKind, times: TimesByKind, options: ScoreOptions) {
    this.waiting = waiting;
    this.times = times;
    this.options = options;
  }

  hopelessUs(kind: number): number {
    return this.of(kind, 1)[0]!.meanUs;
  }

  choose(occasion: Occasion): Choice | null {
    const index = this.sizeFor(occasion);
    return index < 0 ? null : this.pop(index, occasion);
  }

  /** Index of the size; -1: too few are viable for any. Who is viable for a size is so for all smaller ones. */
  private sizeFor(occasion: Occasion): number {
    const { sizes, size: order } = this.options;
    let best = -1;
    let earliest = Number.POSITIVE_INFINITY;
    for (let index = sizes.length - 1; index >= 0; index--) {
      if (sizes[index]! > occasion.sizeMax) continue;
      let viable = 0;
      let dueAt = Number.POSITIVE_INFINITY;
      for (const line of this.waiting.lines) {
        const from = this.firstViable(line, index, occasion);
        const { pending } = line;
        viable += pending.length - from;
        if (from < pending.length) dueAt = Math.min(dueAt, pending.deadlineAt(from));
      }
      if (viable < sizes[index]!) continue;
      if (order === "descending") return index;
      if (dueAt >= earliest) continue;
      earliest = dueAt;
      best = index;
    }
    return best;
  }

  private firstViable({ kind, pending }: Line, index: number, occasion: Occasion): number {
    if (pending.length === 0) return 0;
    return pending.firstNotBefore(this.startAt(index, occasion) + this.of(kind, occasion.scale)[index]!.meanUs);
  }

  private startAt(index: number, { startAt, dataUs }: Occasion): number {
    return startAt + (this.options.sizes[index]! - 1) * dataUs;
  }

  /** The highest scores: the best of each line, and again of the line that lost its best. */
  private pop(index: number, occasion: Occasion): Choice {
    const { waiting, options } = this;
    const size = options.sizes[index]!;
    const found = waiting.lines.map((line) => this.bestOf(line, index, occasion));
    let first = -1;
    for (let member = 0; member < size; member++) {
      let chosen = -1;
      let highest = Number.NEGATIVE_INFINITY;
      for (let each = 0; each < found.length; each++) {
        if (found[each]!.at < 0 || found[each]!.value <= highest) continue;
        highest = found[each]!.value;
        chosen = each;
      }
      const line = waiting.lines[chosen]!;
      first = waiting.link(line, line.pending.handleAt(found[chosen]!.at), first);
      found[chosen] = this.bestOf(line, index, occasion);
    }
    return { first, size };
  }

  private bestOf(line: Line, index: number, occasion: Occasion): { readonly at: number; readonly value: number } {
    const { pending, kind, weight } = line;
    const from = this.firstViable(line, index, occasion);
    if (from >= pending.length) return { at: -1, value: 0 };
    const { score } = this.of(kind, occasion.scale)[index]!;
    const startAt = this.startAt(index, occasion);
    // Where a score is too small for a number, the most urgent is the best.
    const best = bestInLine(pending, score, startAt, 0, from);
    const at = best < 0 ? from : best;
    return { at, value: weight * score.valueAt(pending.deadlineAt(at) - startAt) };
  }

  private of(kind: number, scale: number): readonly Prospect[] {
    const { times, options, prospects } = this;
    if (this.version !== times.version || prospects.size > SCALES_MAX) prospects.clear();
    this.version = times.version;
    let byKind = prospects.get(scale);
    if (byKind === undefined) {
      byKind = [];
      prospects.set(scale, byKind);
    }
    byKind[kind] ??= options.sizes.map((size) => {
      const batch = times.batchWith(kind, size).scaled(scale);
      return { score: new Score(batch.coarsened(options.bins), options.delayRate), meanUs: batch.mean };
    });
    return byKind[kind];
  }
}
