import type { AcceleratorView, QueueKey } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { Rehearsal } from "./rehearsal/rehearsal.js";

/** Weight of a new batch in the mean time of batches. */
const BATCH_WEIGHT = 1 / 32;
/** Part of all arrivals that makes a queue the only one: sums are not exact. */
const ALONE = 0.999;
/** What each queue last said, by column. */
const ARRIVALS = 0;
const NEED = 1;
const DISPERSION = 2;
export const COLUMNS = 3;
const NOTHING_SAID = new Float64Array(COLUMNS);

/**
 * What the queues of one scheduler and its arbiter know of each other's load under `deferred+`: a few numbers, each
 * written by one actor and read by others. On queue threads each has its own, and records carry what others wrote (load-share).
 */
export class SharedLoad {
  /** How much before its window the offer that is being granted may leave now, whole µs; set by the arbiter. */
  earlyUs = 0;
  /** How much an offer may on average, as a part of its execution time. */
  early = 0;
  /** Requests given up, of all queues, since the start. */
  bad = 0;
  /** A queue of `deferred+` is or was there: an arbiter of mixed policies decides as without it before. */
  isAskedFor = false;
  /** A queue looks ahead, so it must know when accelerators come free. */
  looksAhead = false;
  /** Mean time of batches, µs. */
  batchUs = 0;
  /** Told of each queue that said something; null: all read it here. */
  onSay: ((key: QueueKey) => void) | null = null;
  /** When each accelerator but the one that is being granted comes free, as told with the grant; null: they are looked at. */
  toldFreeAt: { readonly times: Float64Array; count: number } | null = null;
  /** Off while all queues are served in a way without its parts. */
  isOn = true;
  /** Where the queues ask themselves what other ways of serving would have earned; null: they do not. */
  rehearsal: Rehearsal | null = null;
  private said = new Float64Array(16 * COLUMNS);
  private readonly totals = new Float64Array(COLUMNS);
  /** Totals of the queues of all other threads. */
  private readonly others = new Float64Array(COLUMNS);
  readonly accelerators: AcceleratorView;
  /** What `capacity` was counted from. */
  private countedCount = -1;
  private countedScale = 0;
  private counted = 1;
  /** How many times slower than the fastest an accelerator may be to serve a request in time; 0: not said. */
  slowestUsed = 0;
  private usefulCounted = -1;
  private usefulScale = 0;
  private uselessSeen = 0;

  constructor(accelerators: AcceleratorView) {
    this.accelerators = accelerators;
  }

  /**
   * @param perUs arrivals per microsecond. @param need accelerators that this rate needs at the least.
   * @param dispersion variance of the arrivals in a time over their mean: 1 for Poisson arrivals.
   */
  say(key: QueueKey, perUs: number, need: number, dispersion: number): void {
    this.makeRoomFor(key);
    this.put(key, ARRIVALS, perUs);
    this.put(key, NEED, need);
    this.put(key, DISPERSION, perUs * dispersion);
    this.onSay?.(key);
  }

  /** The queue has gone: nothing of it counts any more. */
  forget(key: QueueKey): void {
    this.hear(key, NOTHING_SAID, 0);
    this.onSay?.(key);
  }

  /** What `saidOf` gave in another thread. */
  hear(key: QueueKey, cells: Float64Array, from: number): void {
    this.makeRoomFor(key);
    for (let column = 0; column < COLUMNS; column++) this.put(key, column, cells[from + column]!);
  }

  /** @returns a number that the queue said, in [0, COLUMNS): for another thread. */
  saidOf(key: QueueKey, column: number): number {
    return this.said[key * COLUMNS + column] ?? 0;
  }

  /** @param cells COLUMNS totals of the queues of all other threads. */
  othersSay(cells: Float64Array, from: number): void {
    for (let column = 0; column < COLUMNS; column++) this.others[column] = cells[from + column]!;
  }

  /** This queue's part of all arrivals, in [0, 1]; 1 while nothing is known. */
  shareOf(key: QueueKey): number {
    const total = this.total(ARRIVALS);
    return total > 0 ? (this.said[key * COLUMNS + ARRIVALS] ?? 0) / total : 1;
  }

  /** How many times as many accelerators there are as all queues need at the least, each counted by its speed. */
  get room(): number {
    return this.capacity() / Math.max(1e-9, this.total(NEED));
  }

  /** No other queue has arrivals. */
  isAlone(key: QueueKey): boolean {
    return this.shareOf(key) > ALONE;
  }

  /**
   * When each accelerator but one comes free, soonest first, into `times`.
   * @returns how many; -1: it was not told.
   */
  othersFreeAt(granted: AcceleratorId, at: number, times: Float64Array): number {
    const { accelerators, toldFreeAt } = this;
    if (toldFreeAt !== null) {
      if (toldFreeAt.count > 0) times.set(toldFreeAt.times.subarray(0, toldFreeAt.count));
      return toldFreeAt.count;
    }
    let count = 0;
    for (let id = 0; id < accelerators.capacity && count < times.length; id++) {
      if (id === granted || accelerators.present[id] === 0) continue;
      times[count++] = accelerators.inFlight(id) === 0 ? at : Math.max(at, accelerators.freeAt[id]!);
    }
    times.subarray(0, count).sort();
    return count;
  }

  /**
   * Batch size from which an idle accelerator is better used than kept waiting, where batching saves `saving` runs' worth
   * (beta / alpha of a linear profile).
   *
   * All n accelerators keep up in batches of t with r = n / (alpha + beta / t) arrivals. Waiting for one more idles an
   * accelerator for 1 / r and saves the others beta / t, so it is worth it only where t < (n - 1) beta / alpha = y.
   * Large batches come in more even gaps than Poisson's small ones, and even launches are worth something too:
   * y (1 + y / 4) is where leaving is better, by trial. One accelerator never waits.
   */
  enough(saving: number): number {
    const worth = Math.max(0, this.capacity() - 1) * saving;
    return worth * (1 + worth / 4);
  }

  /**
   * Part of the capacity, each accelerator counted by its speed, that serves a queue in time.
   * @param execUs on the fastest. @param largest batch that the fastest sustains.
   */
  usable(execUs: Float64Array, largest: number): number {
    const { accelerators } = this;
    // Of none nothing can be said; a sum that is no number once would never be one again.
    if (this.capacity() === 0) return 1;
    const mostUs = execUs[largest]!;
    let served = 0;
    let sizedFor = 1;
    let size = largest;
    for (let id = 0; id < accelerators.capacity; id++) {
      if (accelerators.present[id] === 0) continue;
      const slower = accelerators.scale[id]! / accelerators.fastestScale;
      if (slower !== sizedFor) {
        sizedFor = slower;
        size = largest;
        while (size > 0 && execUs[size]! * slower > mostUs) size--;
      }
      if (size > 0) served += ((size / execUs[size]!) * (mostUs / largest)) / slower;
    }
    return Math.max(1e-9, served / this.capacity());
  }

  /** A queue whose requests take `aloneUs` on the fastest accelerator have `sloUs`: slower ones may be of use to it. */
  mayTake(aloneUs: number, sloUs: number): void {
    if (sloUs / aloneUs <= this.slowestUsed) return;
    this.slowestUsed = sloUs / aloneUs;
    this.usefulCounted = -1;
  }

  /** Accelerators too slow for a single request of any queue that said so: they idle always. */
  get useless(): number {
    const { accelerators } = this;
    if (this.slowestUsed === 0) return 0;
    if (this.usefulCounted === accelerators.count && this.usefulScale === accelerators.fastestScale)
      return this.uselessSeen;
    this.usefulCounted = accelerators.count;
    this.usefulScale = accelerators.fastestScale;
    this.uselessSeen = 0;
    for (let id = 0; id < accelerators.capacity; id++)
      if (accelerators.present[id] === 1 && accelerators.scale[id]! > this.slowestUsed * accelerators.fastestScale)
        this.uselessSeen++;
    return this.uselessSeen;
  }

  /** Mean dispersion over arrivals; at least 1. */
  get dispersion(): number {
    const total = this.total(ARRIVALS);
    return total > 0 ? Math.max(1, this.total(DISPERSION) / total) : 1;
  }

  /** Accelerators are others, though not in number. */
  recount(): void {
    this.countedCount = -1;
    this.usefulCounted = -1;
  }

  batchSent(execUs: number): void {
    const weight = this.batchUs === 0 ? 1 : BATCH_WEIGHT;
    this.batchUs += weight * (execUs - this.batchUs);
  }

  /** Mean time between two accelerators coming free while all work, µs; 0 before the first batch. */
  get intervalUs(): number {
    return this.batchUs / Math.max(1, this.accelerators.count);
  }

  /** Accelerators present, each counted by its speed relative to the fastest. Counted anew when any came, went or led. */
  capacity(): number {
    const { accelerators } = this;
    if (this.countedCount === accelerators.count && this.countedScale === accelerators.fastestScale)
      return this.counted;
    this.countedCount = accelerators.count;
    this.countedScale = accelerators.fastestScale;
    let capacity = 0;
    for (let id = 0; id < accelerators.capacity; id++)
      if (accelerators.present[id] === 1) capacity += accelerators.fastestScale / accelerators.scale[id]!;
    this.counted = capacity;
    return capacity;
  }

  private total(column: number): number {
    return this.totals[column]! + this.others[column]!;
  }

  private makeRoomFor(key: QueueKey): void {
    if ((key + 1) * COLUMNS <= this.said.length) return;
    const grown = new Float64Array(Math.max(this.said.length * 2, (key + 1) * COLUMNS));
    grown.set(this.said);
    this.said = grown;
  }

  private put(key: QueueKey, column: number, value: number): void {
    const at = key * COLUMNS + column;
    this.totals[column] = this.totals[column]! + value - this.said[at]!;
    this.said[at] = value;
  }
}
