import type { Line } from "./waiting-by-kind.js";

/** Batches that a line's mean gap is of. */
const GAP_MEMORY = 50;
/** Patience as a part of the SLO, at least: where accelerators are idle gaps say that all can wait, and then some wait in vain. */
const LEAST_PART = 0.15;
/** Patiences within which e^-y is a number that sums can be made of. */
const FAR = 500;

export interface LaterOptions {
  /** Mean time until a line's next chance, as a part of the time that lies between its batches. */
  readonly gapPart: number;
  /** The same before a gap was seen, as a part of the line's SLO. */
  readonly patience: number;
}

/**
 * What those who wait may hope for: whoever has y left at some moment, beyond what it needs itself, is served yet with probability
 * h(y) = 1 - e^(-y / p), where p is a part of what lies between batches of its line, as it is measured. So one whose like go at each turn
 * can wait longer than one who seldom finds an accelerator, whatever their SLOs; and a line that waits longer than it used to is served sooner.
 *
 * Sums over all who wait of what a batch leaves of h need two bisections a line: of those with more than x left,
 * sum h(y - x) = count - e^(x / p) sum e^(-y / p).
 */
export class LaterChances {
  private readonly options: LaterOptions;
  private lines: readonly Line[] = [];
  private startAt = 0;
  /** By line: p; what one of it needs itself; where its sums begin. Times in µs. */
  private readonly patienceUs: number[] = [];
  private readonly ownUs: number[] = [];
  private readonly offset: number[] = [];
  /** By line and place in it: sum of e^(-y / p) from there to its end; those of y < 0 count as y = 0, and are never asked for. */
  private sums = new Float64Array(64);

  constructor(options: LaterOptions) {
    this.options = options;
  }

  /** Those who wait now. @param ownUs what one of a line needs itself, on this accelerator. */
  begin(lines: readonly Line[], startAt: number, ownUs: (line: Line) => number): void {
    this.lines = lines;
    this.startAt = startAt;
    let end = 0;
    for (let index = 0; index < lines.length; index++) {
      const line = lines[index]!;
      const { pending, sloUs } = line;
      const gapUs = line.gapUs < 0 ? sloUs * this.options.patience : line.gapUs * this.options.gapPart;
      this.patienceUs[index] = Math.max(1, sloUs * LEAST_PART, Math.min(sloUs, gapUs));
      this.ownUs[index] = ownUs(line);
      this.offset[index] = end;
      end += pending.length + 1;
    }
    if (this.sums.length < end) this.sums = new Float64Array(2 * end);
    for (let index = 0; index < lines.length; index++) this.sum(index);
  }

  /** h of one of the line that has `leftUs` until its deadline. */
  chanceOf(index: number, leftUs: number): number {
    return 1 - Math.exp(-Math.max(0, leftUs - this.ownUs[index]!) / this.patienceUs[index]!);
  }

  /** By how much the sum of h over a line falls within the next `us`. */
  lostWithin(index: number, us: number): number {
    const { lines, startAt, sums } = this;
    const { pending } = lines[index]!;
    const offset = this.offset[index]!;
    const dueAt = startAt + this.ownUs[index]!;
    const first = pending.firstNotBefore(dueAt);
    const kept = pending.firstNotBefore(dueAt + us);
    const growth = Math.exp(Math.min(FAR, us / this.patienceUs[index]!));
    return kept - first - sums[offset + first]! + growth * sums[offset + kept]!;
  }

  /** A batch of some of the line starts: what lay between it and the last, or its oldest request's arrival, is a gap. */
  served(line: Line, at: number): void {
    const waitedUs = at - Math.max(line.servedAt, line.pending.deadlineAt(0) - line.sloUs);
    const before = line.gapUs < 0 ? (line.sloUs * this.options.patience) / this.options.gapPart : line.gapUs;
    line.gapUs = before + (Math.max(0, waitedUs) - before) / GAP_MEMORY;
    line.servedAt = at;
  }

  private sum(index: number): void {
    const { pending } = this.lines[index]!;
    const offset = this.offset[index]!;
    const dueAt = this.startAt + this.ownUs[index]!;
    const patienceUs = this.patienceUs[index]!;
    let sum = 0;
    this.sums[offset + pending.length] = 0;
    for (let place = pending.length - 1; place >= 0; place--) {
      sum += Math.exp(-Math.max(0, pending.deadlineAt(place) - dueAt) / patienceUs);
      this.sums[offset + place] = sum;
    }
  }
}
