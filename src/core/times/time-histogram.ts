import { invariant, violated } from "../invariant.js";
import { BINNED_US_MAX, BINNED_US_MIN, BinnedTimes } from "./binned-times.js";
import { Distribution } from "./distribution.js";

export interface TimeHistogramOptions {
  /** Nothing older counts, where enough is known that is newer. */
  readonly windowUs: number;
  /** Observations that the younger generation must hold before the older is gone. Default 100. */
  readonly countMin?: number;
}

const COUNT_MIN = 100;
/** A distribution is made anew when the older generation's share of its weight moved by this. */
const SHARE_STEP = 1 / 32;

/**
 * Times as they are observed, over a window: ORLOJ's profiler (§3.2, "Long-Term Feedback Loop"), whose memory is "reset every
 * once a while".
 *
 * Ours, not the paper's: a reset is no cliff. There are two generations, each half a window long. The younger fills
 * while the older fades linearly, to nothing when the younger is complete; then the younger is the older, and begins to fade
 * from its whole weight. So always about half a window's worth is known, and a window after a change nothing from before it
 * is left. The older fades with the number of observations, too: a kind that is seldom asked for keeps what it knows until
 * it knows better.
 *
 * A prior is an older generation: it fades in the same way, and stays where nothing is observed.
 */
export class TimeHistogram {
  /** Observations below 10 µs and above 10 minutes: they count as these. */
  under = 0;
  over = 0;
  private younger = new BinnedTimes();
  private older = new BinnedTimes();
  /** When the younger generation began; NaN: nothing was observed. */
  private beganAt = Number.NaN;
  private readonly halfUs: number;
  private readonly countMin: number;
  /** Observations, each fading by a factor of e in a window, as of `seenAt`. */
  private seen = 0;
  private seenAt = 0;
  /** Observations, merges and priors: what was built is as old as the number it was built at. */
  private changes = 0;
  private built: Distribution | null = null;
  private builtChanges = -1;
  private builtShare = 0;

  constructor({ windowUs, countMin = COUNT_MIN }: TimeHistogramOptions) {
    invariant(windowUs > 0, `windowUs must be > 0; was ${windowUs}`);
    invariant(countMin >= 1, `countMin must be >= 1; was ${countMin}`);
    this.halfUs = windowUs / 2;
    this.countMin = countMin;
  }

  /** O(1), allocates nothing. @param at not before what was observed last. */
  observe(us: number, at: number): void {
    if (!(us >= 0)) violated(`an observed time must be >= 0 µs; was ${us}`);
    this.turn(at);
    if (us < BINNED_US_MIN) this.under++;
    else if (us > BINNED_US_MAX) this.over++;
    this.younger.add(us, 1);
    this.seen = this.recent(at) + 1;
    this.seenAt = at;
    this.changes++;
  }

  /** About how many were observed in the last window: priors and merges apart. */
  recent(at: number): number {
    return this.seen * Math.exp((this.seenAt - at) / (2 * this.halfUs));
  }

  /** What is believed before anything is observed. @param sample times in µs. @param weight observations that it counts as, > 0. */
  believe(sample: ArrayLike<number>, weight: number): void {
    invariant(weight > 0, `weight of a prior must be > 0; was ${weight}`);
    for (let index = 0; index < sample.length; index++) {
      const us = sample[index]!;
      if (!(us >= 0)) violated(`time ${index} of a prior must be >= 0 µs; was ${us}`);
      this.older.add(us, weight / sample.length);
    }
    this.changes++;
  }

  /** Takes what another knows at this moment as if it were observed now. */
  merge(other: TimeHistogram, at: number): void {
    this.turn(at);
    this.younger.addAll(other.younger, 1);
    this.younger.addAll(other.older, other.olderShare(at));
    this.under += other.under;
    this.over += other.over;
    this.changes++;
  }

  /** Observations that count at this moment, the faded ones in part. */
  weight(at: number): number {
    return this.younger.weight + this.olderShare(at) * this.older.weight;
  }

  /** @returns null while nothing is known; the same object as before while it would be alike. O(bins) otherwise. */
  distribution(at: number): Distribution | null {
    const share = this.olderShare(at);
    const isAlike = this.changes === this.builtChanges && Math.abs(share - this.builtShare) < SHARE_STEP;
    if (!isAlike) {
      const now = new BinnedTimes();
      now.addAll(this.younger, 1);
      now.addAll(this.older, share);
      this.built = now.weight === 0 ? null : Distribution.ofBinned(now);
      this.builtChanges = this.changes;
      this.builtShare = share;
    }
    return this.built;
  }

  /** What the older generation counts, in [0, 1]. */
  private olderShare(at: number): number {
    if (this.older.weight === 0) return 0;
    if (Number.isNaN(this.beganAt)) return 1;
    return 1 - Math.max(0, this.filled(at));
  }

  /** How far the younger generation has come, at most 1. */
  private filled(at: number): number {
    return Math.min(1, (at - this.beganAt) / this.halfUs, this.younger.weight / this.countMin);
  }

  private turn(at: number): void {
    if (Number.isNaN(this.beganAt)) this.beganAt = at;
    if (this.filled(at) < 1) return;
    const spent = this.older;
    spent.clear();
    this.older = this.younger;
    this.younger = spent;
    this.beganAt = at;
  }
}
