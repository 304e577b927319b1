import type { QueueKey } from "../../core/policy.js";
import type { SharedLoad } from "./shared-load.js";
import { keepUpSize } from "./target-size.js";

/** Parts of `deferred+` that a queue switches; see policy-options.ts. */
export interface QueuePlusOptions {
  readonly load: SharedLoad;
  readonly keepUp: boolean;
  readonly strain: boolean;
  readonly headsReturn: boolean;
  readonly feedback: boolean;
}

/** How much more of the target the drop rule protects per unit of strain above 1. */
const STRAIN_GAIN = 0.6;
/**
 * Boost in intervals per request given up, and its limit: with more than fits, all models give up many and boosts wander;
 * a window that opens many intervals early makes small batches, where none can be afforded.
 */
const BOOST_STEP = 0.3;
const BOOST_MAX = 4;

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
  private readonly key: QueueKey;
  private readonly options: QueuePlusOptions;

  constructor(key: QueueKey, options: QueuePlusOptions) {
    this.key = key;
    this.options = options;
    options.load.isAskedFor = true;
    this.badSeen = options.load.bad;
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
    const { load, keepUp } = this.options;
    if (Number.isNaN(ratePerUs)) return largest;
    const costUs = execUs[largest]! / largest;
    load.say(this.key, ratePerUs, ratePerUs * costUs, dispersion);
    return keepUp ? keepUpSize(execUs, largest, costUs * load.room) : largest;
  }

  /**
   * What a head costs when it keeps a batch small is accelerator time, and its price changes: with work left over on
   * the accelerators fewer heads are worth it, with idle ones more.
   */
  protectedSize(target: number, sizeMax: number, at: number): number {
    if (!this.options.strain) return target;
    const size = Math.round(target * (1 + STRAIN_GAIN * (this.options.load.strain(at) - 1)));
    return Math.max(1, Math.min(sizeMax, size));
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

  /** Heads set aside are given up only when a batch leaves without them. */
  get headsReturn(): boolean {
    return this.options.headsReturn;
  }

  /** How far forward, whole µs. */
  get boostUs(): number {
    return this.boost === 0 ? 0 : Math.floor(this.boost * this.options.load.intervalUs);
  }

  /** How much before its window a batch of this execution time may leave now, whole µs. */
  earlyUs(execUs: number): number {
    return this.options.load.earlyUs(execUs);
  }

  batchSent(execUs: number): void {
    this.options.load.batchSent(execUs);
  }
}
