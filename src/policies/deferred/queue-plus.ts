import type { DeadlineQueue } from "../../core/deadline-queue.js";
import type { QueueKey } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import { LookAhead, type Outlook } from "./look-ahead.js";
import type { SharedLoad } from "./shared-load.js";
import { keepUpSize } from "./target-size.js";

/** Parts of `deferred+` that a queue switches; see deferred-plus.ts. */
export interface QueuePlusOptions {
  readonly load: SharedLoad;
  readonly keepUp: boolean;
  readonly feedback: boolean;
  readonly lookAhead: boolean;
  readonly leaveWhenEnough: boolean;
  readonly usableCapacity: boolean;
  readonly marginalEarly: boolean;
  readonly feedbackPastTarget: boolean;
  readonly rehearse: boolean;
  readonly byApp: boolean;
  readonly handOn: boolean;
  readonly backlogTarget: boolean;
}

/** No look ahead with more accelerators: what a batch keeps or loses is made up for by the next one that comes free. */
export const LOOKED_AT = 64;
/**
 * Boost in intervals per request given up, and its limit: with more than fits, all models give up many and boosts wander;
 * a window that opens many intervals early makes small batches, where none can be afforded.
 */
const BOOST_STEP = 0.3;
const BOOST_MAX = 4;
/** And no window opens for it where even the largest batches do not keep up: room is relative to what all need at the least. */
const FEEDBACK_ROOM = 0.85;

/**
 * What `deferred+` adds to one queue: its own target, what it may take before others, and what it tells the others.
 *
 * Boost (feedback). Each request that any model gives up moves its queue forward by a step and all queues back by the
 * same step in proportion to their arrivals; so queues drift apart only where their bad rates differ, and stop where those
 * are equal. A model alone never moves. Forward means: its window opens earlier and it ranks before others, both by
 * `boost` times the interval in which accelerators come free.
 */
export class QueuePlus {
  private boost = 0;
  private badSeen = 0;
  /** Batch size from which nothing is waited for. */
  private enough = Number.POSITIVE_INFINITY;
  private readonly othersFreeAt = new Float64Array(LOOKED_AT);
  private readonly ahead = new LookAhead(LOOKED_AT);
  private readonly key: QueueKey;
  private readonly options: QueuePlusOptions;

  constructor(key: QueueKey, options: QueuePlusOptions) {
    this.key = key;
    this.options = options;
    options.load.isAskedFor = true;
    if (options.lookAhead) options.load.looksAhead = true;
    this.badSeen = options.load.bad;
  }

  /** On from now on: what others gave up before is no matter. */
  begin(): void {
    this.boost = 0;
    this.badSeen = this.options.load.bad;
  }

  /** What accelerators can be of use to it. @param aloneUs time of one request on the fastest. */
  mayTake(aloneUs: number, sloUs: number): void {
    const { load, usableCapacity } = this.options;
    if (usableCapacity) load.mayTake(aloneUs, sloUs);
    load.onSay?.(this.key);
  }

  /** Its queue goes. */
  leave(): void {
    this.options.load.forget(this.key);
  }

  /**
   * The target batch: the smallest at which all queues together keep up with their arrivals.
   *
   * Every queue needs at least r * l(b) / b accelerators at its largest sustainable batch b (targetSize). If there are
   * `room` times as many, each may spend `room` times that time per request; larger batches would only wait longer and
   * have more heads dropped for them. For one model: the smallest b with b / l(b) * accelerators >= r.
   *
   * @param largest targetSize at this rate. @param dispersion see SharedLoad.say.
   */
  target(execUs: Float64Array, largest: number, ratePerUs: number, dispersion: number): number {
    const { load, keepUp, leaveWhenEnough, usableCapacity } = this.options;
    if (leaveWhenEnough) this.enough = load.enough(savingOver(execUs));
    if (Number.isNaN(ratePerUs)) return largest;
    const costUs = execUs[largest]! / largest;
    const usable = usableCapacity ? load.usable(execUs, largest) : 1;
    load.say(this.key, ratePerUs, (ratePerUs * costUs) / usable, dispersion);
    return keepUp ? keepUpSize(execUs, largest, costUs * load.room) : largest;
  }

  /** To be asked before each look at the queue: catches up with what others gave up. */
  follow(): void {
    const { load, feedback } = this.options;
    if (!feedback || this.badSeen === load.bad) return;
    const back = BOOST_STEP * (load.bad - this.badSeen) * load.shareOf(this.key);
    this.badSeen = load.bad;
    this.boost = Math.max(0, Math.min(BOOST_MAX, this.boost - back));
  }

  gaveUp(): void {
    this.options.load.bad++;
    if (this.options.feedback) this.boost += BOOST_STEP;
  }

  /**
   * How many heads to give up for the batch that is about to leave: more of them, or fewer, as long as the projection
   * (LookAhead) loses fewer requests in all.
   *
   * @param first heads set aside already. @param sizeOf the largest batch that the head at an index allows.
   */
  headsToGiveUp(
    pending: DeadlineQueue,
    granted: AcceleratorId,
    first: number,
    at: number,
    outlook: Outlook,
    sizeOf: (index: number) => number,
  ): number {
    if (!this.looksAhead) return first;
    const others = this.options.load.othersFreeAt(granted, at, this.othersFreeAt);
    if (others < 0) return first;
    const lostFrom = (index: number, size: number): number =>
      this.ahead.lost(pending, outlook, this.othersFreeAt, others, index, size, at);
    const sizeNow = sizeOf(first);
    let best = first;
    let least = lostFrom(first, sizeNow);
    let size = sizeNow;
    for (let index = first + 1; index < pending.length && index < least && size < outlook.sizeMax; index++) {
      if (sizeOf(index) <= size) continue;
      size = sizeOf(index);
      const lost = lostFrom(index, size);
      if (lost > least) break;
      if (lost < least) {
        least = lost;
        best = index;
      }
    }
    if (best > first) return best;
    for (let index = first - 1; index >= 0; index--) {
      if (index > 0 && sizeOf(index - 1) === sizeOf(index)) continue;
      const lost = lostFrom(index, sizeOf(index));
      if (lost >= least) break;
      least = lost;
      best = index;
    }
    return best;
  }

  /** Heads set aside are given up only when a batch leaves without them. */
  get looksAhead(): boolean {
    const { load, lookAhead } = this.options;
    return lookAhead && load.isAlone(this.key) && load.accelerators.count <= LOOKED_AT;
  }

  /** What goes on to later modules waits for nobody once an accelerator idles. @param isBegun modules before it ran on the same accelerators. */
  handsOn(isBegun: boolean): boolean {
    const { load, handOn } = this.options;
    return handOn && (isBegun || load.isAlone(this.key));
  }

  /** Size of a batch of what goes on at once: what waits is shared out over the accelerators that idle, by who gives one out. */
  shareOfIdle(waiting: number, granted: AcceleratorId, at: number): number {
    const { load } = this.options;
    // On another thread than the accelerators nobody knows.
    if (load.toldFreeAt !== null) return waiting;
    const count = load.othersFreeAt(granted, at, this.othersFreeAt);
    let idle = 1;
    while (idle <= count && this.othersFreeAt[idle - 1]! <= at) idle++;
    return Math.ceil(waiting / idle);
  }

  /** Its target is at least what each accelerator has of all that wait. */
  get followsBacklog(): boolean {
    const { load, backlogTarget } = this.options;
    return backlogTarget && load.isAlone(this.key);
  }

  /** Nothing is waited for any more. */
  isEnough(size: number): boolean {
    return size >= this.enough;
  }

  /** What a projection is to know of waiting. */
  get waits(): { readonly enough: number; readonly early: number } {
    return { enough: this.enough, early: this.options.load.early };
  }

  /**
   * How much earlier the window of a batch opens for what its queue lost, whole µs: below the target all would keep up no more.
   * @param target what `target` said.
   */
  opensBoostUs(size: number, target: number): number {
    return this.options.feedbackPastTarget && size < target ? 0 : this.boostUs;
  }

  /** How far forward, whole µs. */
  get boostUs(): number {
    const { load } = this.options;
    return this.boost === 0 || load.room < FEEDBACK_ROOM ? 0 : Math.floor(this.boost * load.intervalUs);
  }

  /** How much before its window the batch that is being granted may leave, whole µs. */
  get earlyUs(): number {
    return this.options.load.earlyUs;
  }

  /** What of the time of a batch earliness counts, whole µs. @param nextUs of a batch of one more. */
  earlyUnitUs(size: number, execUs: number, nextUs: number): number {
    return this.options.marginalEarly ? Math.max(1, Math.min(execUs, size * (nextUs - execUs))) : execUs;
  }

  batchSent(execUs: number): void {
    this.options.load.batchSent(execUs);
  }
}

/** beta / alpha of the line through the times of one and of the most; 0 where a batch holds one. */
function savingOver(execUs: Float64Array): number {
  const sizeMax = execUs.length - 2;
  const riseUs = execUs[sizeMax]! - execUs[1]!;
  return Math.max(0, (sizeMax * execUs[1]! - execUs[sizeMax]!) / Math.max(1, riseUs));
}
