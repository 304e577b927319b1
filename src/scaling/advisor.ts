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
/** Accelerators that one probe asks for at most, as a share of those there are. */
const PROBE_MAX = 0.25;
/** The bad rate after a probe over that before it, above which the probe was in vain; and how many in a row end probing. */
const PROBE_HELPS = 0.8;
const PROBES_MAX = 3;
/** Decisions that a bad rate is taken over before a probe: at least, and the last so many. */
const LOOK_DECISIONS = 3;
const LOOK_DECISIONS_MAX = 6;
/** What was learnt about a load holds this long, and while the load stays within this share of what it was. */
const MEMORY_US = 600_000_000;
const SAME_LOAD = 0.7;
/** Busy accelerators that two loads may differ by and be the same: small loads are mostly noise. */
const SAME_DEMAND = 0.25;
/** More than this times the load of late is a new load, and no lesson about the old. */
const STEP = 1.5;
/** Fewer accelerators than this share of the advice are not worth a change; always at least one. */
const SHRINK_MIN = 0.1;
/** The load of late is smoothed over the down cooldown, at least over this many decisions. */
const SMOOTH_DECISIONS_MIN = 6;

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
 *   is too narrow (nothing helps). A few more are tried; where three tries did not lower the bad rate by a fifth, no more
 *   are asked for at this load. So the sum asked for in vain is bounded.
 * - *Hysteresis.* Up when utilization passes half-way from its target to 1; down to the largest need of the cooldown.
 *   A size that had to be left upwards is not gone back to at the same load for ten minutes, so that at constant load
 *   the direction changes at most once.
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
  /** Demand of late: exponentially weighted; NaN before the first decision. */
  private smoothed = Number.NaN;
  /** Decisions since all that was asked for is there. */
  private settledFor = 0;
  /** Bad requests and all that ended in the last decisions of these; how many decisions there were. */
  private readonly lookedBad = new Float64Array(LOOK_DECISIONS_MAX);
  private readonly lookedEnded = new Float64Array(LOOK_DECISIONS_MAX);
  private looks = 0;
  /** Bad rate that the last probe was to lower, negative: none was made; probes in a row that did not. */
  private probed = -1;
  private vainProbes = 0;
  /** Advice before it last fell; 0: it has risen since. */
  private loweredFrom = 0;
  private floor: (Lesson & { readonly size: number }) | null = null;
  private futile: (Lesson & { readonly badRate: number }) | null = null;

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
    const needed = this.bounded(Math.max(this.sizeFor(demand), isQueued ? this.sizeFor(queued) : 0));
    this.needs.add(needed, at);
    this.demands.add(demand, at);
    const weight = Math.min(
      1,
      sample.intervalUs / Math.max(options.downCooldownUs, SMOOTH_DECISIONS_MIN * sample.intervalUs),
    );
    this.smoothed = Number.isNaN(this.smoothed) ? demand : this.smoothed + weight * (demand - this.smoothed);
    this.forget(at);
    const isBad = this.isTooBad(sample.bad, ended);
    this.settledFor = sample.starting > 0 || sample.serving < this.wanted ? 0 : this.settledFor + 1;
    // The first interval in which all are there saw fewer at its beginning.
    if (this.settledFor >= 2) this.look(sample.bad, ended);
    const before = this.wanted;
    const reason = this.choose({ demand, needed, isBad, isQueued }, at);
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

  private choose(now: { demand: number; needed: number; isBad: boolean; isQueued: boolean }, at: number): ScaleReason {
    const { demand, needed, isBad, isQueued } = now;
    const isPressed = demand > this.highUtilization * this.wanted;
    if (needed > this.wanted && (isQueued || isPressed || isBad)) {
      const reason = isBad ? "bad-rate" : isQueued ? "queued" : "busy";
      return this.raise(needed, demand, isQueued, at) ? reason : "cooldown";
    }
    if (this.looks >= LOOK_DECISIONS && this.isTooBad(this.lookBad, this.lookEnded))
      return this.futile === null ? this.probe(demand, at) : this.lossesAsBefore(this.futile, demand, needed, at);
    if (isBad) return this.settledFor === 0 ? "starting" : "steady";
    if (this.looks >= LOOK_DECISIONS) this.probed = -1;
    if (needed >= this.wanted) return "steady";
    return this.lower(at);
  }

  /** Binomial noise of a few requests is no signal: above the threshold by three standard deviations. */
  private isTooBad(bad: number, ended: number): boolean {
    const expected = this.options.badRateMax * ended;
    return bad > expected + 3 * Math.sqrt(expected);
  }

  private look(bad: number, ended: number): void {
    const index = this.looks % LOOK_DECISIONS_MAX;
    this.lookedBad[index] = bad;
    this.lookedEnded[index] = ended;
    this.looks++;
  }

  private lookAnew(): void {
    this.settledFor = 0;
    this.looks = 0;
    this.lookedBad.fill(0);
    this.lookedEnded.fill(0);
  }

  private get lookBad(): number {
    return this.lookedBad.reduce((sum, bad) => sum + bad, 0);
  }

  private get lookEnded(): number {
    return this.lookedEnded.reduce((sum, ended) => sum + ended, 0);
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

  /** @param isLesson this load was seen to need the new size. @returns false while the cooldown lasts. */
  private raise(size: number, demand: number, isLesson: boolean, at: number): boolean {
    if (at < this.raisedAt + this.options.upCooldownUs) return false;
    const isStep = demand > STEP * this.smoothed;
    // A size that did not do is not gone back to. What a step asks for in its first moments may be too much.
    if (isLesson || !isStep || this.direction < 0)
      this.floor = { size, demand: isStep ? demand : this.smoothed, until: at + MEMORY_US };
    this.wanted = size;
    this.raisedAt = at;
    this.changedAt = at;
    this.direction = 1;
    this.loweredFrom = 0;
    this.lookAnew();
    return true;
  }

  /** Requests are lost though accelerators idle. */
  private probe(demand: number, at: number): ScaleReason {
    const badRate = this.lookBad / this.lookEnded;
    if (this.probed >= 0) this.vainProbes = badRate > PROBE_HELPS * this.probed ? this.vainProbes + 1 : 0;
    this.probed = -1;
    if (this.vainProbes >= PROBES_MAX) {
      this.futile = { demand: this.smoothed, badRate, until: at + MEMORY_US };
      this.vainProbes = 0;
      this.floor = null;
      return "not-capacity";
    }
    const share = Math.min(PROBE_MAX, badRate < 1 ? badRate / (1 - badRate) : PROBE_MAX);
    const size = this.bounded(this.wanted + Math.max(1, Math.ceil(this.wanted * share - 1e-9)));
    if (size === this.wanted) return "steady";
    if (!this.raise(size, demand, true, at)) return "cooldown";
    this.probed = badRate;
    return "probe";
  }

  /** More did not help; fewer are tried, and taken back if that made it worse. */
  private lossesAsBefore(futile: { badRate: number }, demand: number, needed: number, at: number): ScaleReason {
    if (this.loweredFrom > 0 && this.lookBad / this.lookEnded > futile.badRate / PROBE_HELPS)
      return this.raise(this.bounded(this.loweredFrom), demand, true, at) ? "bad-rate" : "cooldown";
    // What was tried in vain is given back to the last.
    if (needed < this.wanted && this.lower(at, 1) === "idle") return "idle";
    return "not-capacity";
  }

  /** @param least smallest change worth making. */
  private lower(at: number, least = Math.max(1, Math.floor(SHRINK_MIN * this.wanted))): ScaleReason {
    if (at < this.changedAt + this.options.downCooldownUs) return "cooldown";
    const floor = this.floor === null ? 0 : this.floor.size;
    const size = this.bounded(Math.max(this.needs.max(at), floor));
    if (this.wanted - size < least) return "steady";
    this.loweredFrom = this.wanted;
    this.wanted = size;
    this.changedAt = at;
    this.direction = -1;
    this.lookAnew();
    return "idle";
  }

  /** Drops lessons about another load: all of the cooldown was below it. More load needs no fewer accelerators. */
  private forget(at: number): void {
    const { floor, futile } = this;
    const demand = this.demands.max(at);
    if (floor !== null && (at >= floor.until || isLess(demand, floor.demand))) this.floor = null;
    if (futile === null) return;
    if (at >= futile.until || isLess(demand, futile.demand) || isLess(futile.demand, this.smoothed)) this.futile = null;
  }
}

const isLess = (demand: number, than: number): boolean => demand < SAME_LOAD * than - SAME_DEMAND;
