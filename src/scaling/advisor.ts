import { invariant } from "../core/invariant.js";
import { WindowMax } from "./window-max.js";

export interface ScaleOptions {
  /** Bounds of the advice, in accelerators: 1 <= min <= max. */
  readonly min: number;
  readonly max: number;
  /** Share of their time that accelerators should be busy, in (0, 1). */
  readonly targetUtilization: number;
  /** Bad rate up to which nothing is asked for. */
  readonly badRateMax: number;
  /** Least time between two increases; 0: an increase whenever one is needed. */
  readonly upCooldownUs: number;
  /** The advice falls to the largest need of this long, and not sooner than this after its last change. */
  readonly downCooldownUs: number;
}

export const SCALE_DEFAULTS: ScaleOptions = {
  min: 1,
  max: 65_536,
  targetUtilization: 0.8,
  badRateMax: 0.01,
  upCooldownUs: 0,
  downCooldownUs: 300_000_000,
};

/** What one group of accelerators did in the interval that ends now. Times in µs. */
export interface ScaleSample {
  readonly intervalUs: number;
  /** Requests that ended in the interval: in time; or late, dropped, or failed for want of an accelerator. Cancelled ones are in neither. */
  readonly good: number;
  readonly bad: number;
  /** Accelerator time of what arrived, in batches of the size that the scheduler aims for; and of what was given up before it ran. */
  readonly arrivedWorkUs: number;
  readonly droppedWorkUs: number;
  /** Accelerator time spent executing, and accelerator time that was there. */
  readonly busyUs: number;
  readonly presentUs: number;
  /** Accelerators that would finish all that waits now by its deadline. */
  readonly queuedAccelerators: number;
  /** Accelerators that take batches now, and those that were asked for and are not there yet. */
  readonly serving: number;
  readonly starting: number;
}

export const SCALE_REASONS = [
  "steady", // what is there is what is needed, within the margin
  "bad-rate", // requests are lost and the accelerators are busy: as many more as the lost work needs
  "busy", // nothing is lost, but utilization is well above its target
  "queued", // more waits than the accelerators can finish by its deadline
  "probe", // requests are lost though accelerators idle: a few more, to see whether that helps
  "not-capacity", // requests are lost and more accelerators did not help
  "starting", // accelerators that were asked for are not there yet
  "idle", // fewer are enough
  "cooldown", // a change is needed and waits for its cooldown
] as const;
export type ScaleReason = (typeof SCALE_REASONS)[number];

export interface ScaleAdvice {
  /** Accelerators needed for the interval's load at the target utilization, within the bounds; before hysteresis. */
  readonly needed: number;
  /** Accelerators there should be. */
  readonly advice: number;
  /** advice - the advice before: above 0, below 0 or 0, so that growing and shrinking are never asked for at once. */
  readonly change: number;
  readonly reason: ScaleReason;
  /** bad / (good + bad); 0 when nothing ended. */
  readonly badRate: number;
  /** Share of the accelerators' time in which they executed nothing; 1 when none was there. */
  readonly idleFraction: number;
  /** The load in accelerators that are busy all the time. */
  readonly demand: number;
}

/** Measured accelerator time over the profile's, at most this and at least its inverse: a transient must not multiply the advice. */
const COST_MAX = 4;
/** How much a new measurement of that factor counts. */
const COST_WEIGHT = 0.5;
/** Accelerators asked for in vain at a time, as a share of those there are. */
const PROBE_MAX = 0.25;
/** The bad rate after a probe over that before it, above which the probe was in vain. */
const PROBE_HELPS = 0.8;
/** Decisions between an increase that is there and the next look at the bad rate: the first sees what was lost before it. */
const SETTLE_DECISIONS = 2;
/** What was learnt about a load holds this long, and while the load stays within this share of what it was. */
const MEMORY_US = 600_000_000;
const SAME_LOAD = 0.8;
/** Fewer accelerators than this share of the advice are not worth a change; always at least one. */
const SHRINK_MIN = 0.1;

/** Something that was learnt at one load. */
interface Lesson {
  readonly demand: number;
  readonly until: number;
}

/**
 * How many accelerators does this load need? One group's counts in, an advice out, once per interval. Deterministic;
 * time is passed in.
 *
 * Symphony §3.5 gives two signals, the bad rate r and the idle fraction f, and two rules: N r/(1 - r) more when r is
 * above a threshold, N f fewer. They are one formula, the number of accelerators that the load keeps busy,
 *
 *   demand = N (1 - f) / (1 - r),
 *
 * which is N + N r/(1 - r) when nobody idles and N - N f when nothing is lost; so there is one number and it has one
 * sign. What we changed, and why:
 *
 * - *Target utilization.* needed = demand / 0.8. Sized for busy all the time, queues lose requests: at 512 accelerators
 *   and 1 % bad the paper's rule asks for 5 more, and again, for ever, as 1 % is what its own peak goodput allows.
 * - *r by work, of the dropped only.* Requests of models differ in cost, and one that ran late is in N (1 - f) already.
 *   Failures that more accelerators would not have helped (the model refused, a worker crashed) are no signal.
 * - *N is who served*, not who was asked for: while accelerators start, the same need is found again and not added again.
 * - *The idle fraction may overstate the load.* A server that dispatches at once while nothing presses runs small
 *   batches on idle accelerators. Below pressure the demand is therefore at most what the arrivals cost in batches of
 *   the target size. How measured time compares with that is learnt whenever accelerators are pressed, within a factor
 *   of 4: the cap on what a transient can ask for.
 * - *Queued work against its deadline.* A burst has lost nothing yet and keeps no more busy than there are. When more
 *   waits than those there can finish in time, the need is that of finishing it in time, in one decision.
 * - *Bad though idle.* Below pressure, losses may come from bursts (more accelerators help) or from a model whose window
 *   is too narrow (nothing helps). A few more are tried; where the bad rate does not fall by a fifth, no more are asked
 *   for at this load. So the sum asked for in vain is bounded.
 * - *Hysteresis.* Up when utilization passes half-way from its target to 1; down to the largest need of the cooldown.
 *   A size that had to be left upwards is not gone back to at the same load for ten minutes: at constant load the
 *   direction changes at most once.
 */
export class ScaleAdvisor {
  private readonly options: ScaleOptions;
  private wanted: number;
  private readonly needs: WindowMax;
  private readonly demands: WindowMax;
  private cost = 1;
  private isCostKnown = false;
  private changedAt: number;
  private raisedAt = Number.NEGATIVE_INFINITY;
  private direction = 0;
  private badInARow = 0;
  /** Decisions since all that was asked for is there. */
  private settledFor = 0;
  /** Bad rate that a probe was to lower; negative: none is under way. */
  private probed = -1;
  private floor: (Lesson & { readonly size: number }) | null = null;
  private futile: Lesson | null = null;

  /** @param initial accelerators at the start. @param at the moment from which the first sample counts, µs. */
  constructor(options: ScaleOptions, initial: number, at: number) {
    const { min, max, targetUtilization } = options;
    invariant(min >= 1 && min <= max, `min must be in [1, max (${max})]; was ${min}`);
    invariant(
      targetUtilization > 0 && targetUtilization < 1,
      `targetUtilization must be in (0, 1); was ${targetUtilization}`,
    );
    this.options = options;
    this.wanted = Math.min(max, Math.max(min, initial));
    this.needs = new WindowMax(options.downCooldownUs);
    this.demands = new WindowMax(options.downCooldownUs);
    this.changedAt = at;
  }

  get advice(): number {
    return this.wanted;
  }

  /** @param at the end of the sample's interval, µs; never before the last. */
  decide(sample: ScaleSample, at: number): ScaleAdvice {
    const { options } = this;
    const ended = sample.good + sample.bad;
    const badRate = ended === 0 ? 0 : sample.bad / ended;
    const idleFraction = sample.presentUs <= 0 ? 1 : Math.max(0, 1 - sample.busyUs / sample.presentUs);
    const demand = this.demandOf(sample, idleFraction);
    const queued = sample.queuedAccelerators * this.cost;
    const isQueued = queued > sample.serving && queued > this.wanted * options.targetUtilization;
    const needed = this.bounded(
      Math.max(this.sizeFor(demand), isQueued ? this.sizeFor(queued) : 0),
    );
    this.needs.add(needed, at);
    this.demands.add(demand, at);
    this.forget(at);
    // Binomial noise of a few requests is no signal: above the threshold by three standard deviations.
    const expected = options.badRateMax * ended;
    const isBad = sample.bad > expected + 3 * Math.sqrt(expected);
    this.badInARow = isBad ? this.badInARow + 1 : 0;
    this.settledFor = sample.starting > 0 || sample.serving < this.wanted ? 0 : this.settledFor + 1;
    const before = this.wanted;
    const reason = this.choose({ demand, needed, badRate, isBad, isQueued }, at);
    return {
      needed,
      advice: this.wanted,
      change: this.wanted - before,
      reason,
      badRate,
      idleFraction,
      demand,
    };
  }

  private choose(
    now: { demand: number; needed: number; badRate: number; isBad: boolean; isQueued: boolean },
    at: number,
  ): ScaleReason {
    const { demand, needed, badRate, isBad, isQueued } = now;
    const isPressed = demand > this.highUtilization * this.wanted;
    if (needed > this.wanted && (isQueued || isPressed || isBad)) {
      const reason = isBad ? "bad-rate" : isQueued ? "queued" : "busy";
      return this.raise(needed, demand, isQueued, at) ? reason : "cooldown";
    }
    if (isBad) return this.lossesWhileIdle(demand, needed, badRate, at);
    if (this.settledFor >= SETTLE_DECISIONS) this.probed = -1;
    if (needed >= this.wanted) return "steady";
    return this.lower(at);
  }

  private get highUtilization(): number {
    return (1 + this.options.targetUtilization) / 2;
  }

  private demandOf(sample: ScaleSample, idleFraction: number): number {
    const { intervalUs, arrivedWorkUs, droppedWorkUs, busyUs } = sample;
    const spent = busyUs / intervalUs;
    const offered = arrivedWorkUs / intervalUs;
    const lostShare = arrivedWorkUs > 0 ? Math.min(1, droppedWorkUs / arrivedWorkUs) : 0;
    const executed = offered * (1 - lostShare);
    if (executed > 0 && 1 - idleFraction >= this.highUtilization) {
      const measured = Math.min(COST_MAX, Math.max(1 / COST_MAX, spent / executed));
      this.cost = this.isCostKnown ? this.cost + COST_WEIGHT * (measured - this.cost) : measured;
      this.isCostKnown = true;
    }
    const inTargetBatches = offered * this.cost;
    return lostShare < 1 ? Math.min(spent / (1 - lostShare), inTargetBatches) : inTargetBatches;
  }

  /** Accelerators for a demand, at the target utilization. */
  private sizeFor(demand: number): number {
    return Math.ceil(demand / this.options.targetUtilization - 1e-9);
  }

  private bounded(size: number): number {
    return Math.min(this.options.max, Math.max(this.options.min, size));
  }

  /** @param isLesson the new size is one that this load was seen to need. @returns false while the cooldown lasts. */
  private raise(size: number, demand: number, isLesson: boolean, at: number): boolean {
    if (at < this.raisedAt + this.options.upCooldownUs) return false;
    // A size that was gone down to and did not do: this load is not tried with it again.
    if (isLesson || this.direction < 0) this.floor = { size, demand, until: at + MEMORY_US };
    this.wanted = size;
    this.raisedAt = at;
    this.changedAt = at;
    this.direction = 1;
    this.settledFor = 0;
    return true;
  }

  private lossesWhileIdle(demand: number, needed: number, badRate: number, at: number): ScaleReason {
    if (this.futile !== null) {
      if (needed < this.wanted && this.lower(at) === "idle") return "idle";
      return "not-capacity";
    }
    if (this.settledFor < SETTLE_DECISIONS) return "starting";
    // Twice in a row: the interval of a step saw both loads.
    if (this.badInARow < 2) return "steady";
    if (this.probed >= 0 && badRate > PROBE_HELPS * this.probed) {
      this.futile = { demand: this.demands.max(at), until: at + MEMORY_US };
      this.floor = null;
      this.probed = -1;
      return "not-capacity";
    }
    const share = Math.min(PROBE_MAX, badRate < 1 ? badRate / (1 - badRate) : PROBE_MAX);
    const size = this.bounded(this.wanted + Math.max(1, Math.ceil(this.wanted * share - 1e-9)));
    if (size === this.wanted) return "steady";
    if (!this.raise(size, demand, true, at)) return "cooldown";
    this.probed = badRate;
    return "probe";
  }

  private lower(at: number): ScaleReason {
    if (at < this.changedAt + this.options.downCooldownUs) return "cooldown";
    const floor = this.floor === null ? 0 : this.floor.size;
    const size = this.bounded(Math.max(this.needs.max(at), floor));
    if (this.wanted - size < Math.max(1, Math.floor(SHRINK_MIN * this.wanted))) return "steady";
    this.wanted = size;
    this.changedAt = at;
    this.direction = -1;
    this.settledFor = 0;
    return "idle";
  }

  private forget(at: number): void {
    const demand = this.demands.max(at);
    const isOver = (lesson: Lesson): boolean =>
      at >= lesson.until || demand < SAME_LOAD * lesson.demand || demand > lesson.demand / SAME_LOAD;
    if (this.futile !== null && isOver(this.futile)) this.futile = null;
    // More load needs no less.
    if (this.floor !== null && (at >= this.floor.until || demand < SAME_LOAD * this.floor.demand)) this.floor = null;
  }
}
