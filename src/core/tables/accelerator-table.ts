import { invariant } from "../invariant.js";
import { pauseUs } from "../release.js";

/** Index of an accelerator in its scheduler; stable while it comes and goes. */
export type AcceleratorId = number;

/** Slower than the fastest present by more than this: used only when nothing faster can serve in time. */
const STRAGGLER = 1.5;
/** Pause before a slow accelerator is tried again after its second bad measurement; doubles with each further one. */
const DOUBT_US = 250_000;
const EWMA_WEIGHT = 0.2;
/** Slower than declared by no more than this says nothing. */
const NOTICED = 1.05;

/** Trust in an accelerator: as measured; to be tried with one request as if it were as declared; that trial is under way. */
const MEASURED = 0;
const TRIAL_DUE = 1;
const TRIAL_SENT = 2;

/**
 * The accelerators of one scheduler: who is here, how fast each is, and when each will be free.
 *
 * An accelerator holds one batch that runs and one committed behind it while the first is about to end; more of them
 * where the policy commits further ahead (BatchTable.behind chains those).
 *
 * A slow measurement is believed at once, but what makes everything look infeasible is never measured again. So a slow
 * accelerator is tried with a batch of one, planned as if it were as fast as declared: at once after the first bad
 * measurement (it may have been a stall), then after pauses of 0.25 s doubling to 4 s.
 */
export class AcceleratorTable {
  readonly capacity: number;
  readonly present: Uint8Array;
  /** Time on it relative to the profile that plans use: 1 = as profiled, 5 = five times slower. */
  readonly scale: Float64Array;
  /** Planned end of everything committed to it. */
  readonly freeAt: Float64Array;
  /** Batch that runs, then the one behind it; -1 = none. */
  readonly running: Int32Array;
  readonly waiting: Int32Array;
  /** Batches beyond those two. */
  readonly more: Int32Array;
  /** As declared at join, as measured. */
  private readonly declared: Float64Array;
  private readonly measured: Float64Array;
  private readonly trust: Uint8Array;
  /** Bad measurements in a row, and when the next trial is due (Infinity: none). */
  private readonly doubts: Uint8Array;
  private readonly trialAt: Float64Array;
  /** When it was last believed to be as it is. */
  private readonly believedAt: Float64Array;
  private presentCount = 0;
  private fastest = 1;
  private firstTrialAt = Number.POSITIVE_INFINITY;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.present = new Uint8Array(capacity);
    this.scale = new Float64Array(capacity).fill(1);
    this.freeAt = new Float64Array(capacity);
    this.running = new Int32Array(capacity).fill(-1);
    this.waiting = new Int32Array(capacity).fill(-1);
    this.more = new Int32Array(capacity);
    this.declared = new Float64Array(capacity).fill(1);
    this.measured = new Float64Array(capacity).fill(1);
    this.trust = new Uint8Array(capacity);
    this.doubts = new Uint8Array(capacity);
    this.trialAt = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
    this.believedAt = new Float64Array(capacity);
  }

  get count(): number {
    return this.presentCount;
  }

  /** Scale of the fastest accelerator present; 1 when none is. Queues plan with it: never drop what it could still serve. */
  get fastestScale(): number {
    return this.fastest;
  }

  /** When `startTrials` has something to do; Infinity when no accelerator is doubted. */
  get nextTrialAt(): number {
    return this.firstTrialAt;
  }

  /** Present and declared anew; what it still holds from before stays planned. */
  join(id: AcceleratorId, scale: number, at: number): void {
    invariant(id >= 0 && id < this.capacity, `accelerator must be in [0, ${this.capacity}); was ${id}`);
    invariant(scale > 0, `accelerator scale must be above 0; was ${scale}`);
    const wasPresent = this.present[id] === 1;
    if (!wasPresent) this.presentCount++;
    this.present[id] = 1;
    this.declared[id] = scale;
    this.measured[id] = scale;
    this.scale[id] = scale;
    this.freeAt[id] = this.inFlight(id) === 0 ? at : Math.max(at, this.freeAt[id]!);
    this.trust[id] = MEASURED;
    this.doubts[id] = 0;
    this.trialAt[id] = Number.POSITIVE_INFINITY;
    this.believedAt[id] = at;
    // One more can only be faster; looking at all for each of 65,536 would take as long as a run.
    if (wasPresent || this.presentCount === 1) this.refresh();
    else if (scale < this.fastest) this.fastest = scale;
  }

  leave(id: AcceleratorId): void {
    if (this.present[id] === 1) this.presentCount--;
    this.present[id] = 0;
    this.refresh();
  }

  inFlight(id: AcceleratorId): number {
    return (this.running[id]! >= 0 ? 1 : 0) + (this.waiting[id]! >= 0 ? 1 : 0) + this.more[id]!;
  }

  get isAnyIdle(): boolean {
    for (let id = 0; id < this.capacity; id++) if (this.present[id] === 1 && this.inFlight(id) === 0) return true;
    return false;
  }

  isStraggler(id: AcceleratorId): boolean {
    return this.scale[id]! > this.fastest * STRAGGLER;
  }

  /**
   * Would this measurement be a step, not a fluctuation? `ratio` = measured time over the model's expected time at scale 1.
   * @param limit how many times off is a step, at least; what is doubted is believed to be well with less.
   */
  isSurprise(id: AcceleratorId, ratio: number, limit = STRAGGLER): boolean {
    const old = this.measured[id]!;
    if (this.isDoubted(id)) return ratio > old * limit || ratio * STRAGGLER < old;
    return ratio > old * limit || (ratio * limit < old && old > this.floorOf(id));
  }

  /** Found slower than declared, and not yet found otherwise. */
  isDoubted(id: AcceleratorId): boolean {
    return this.doubts[id]! > 0;
  }

  /** Least scale believed: who is faster than that owes it to the model. */
  private floorOf(id: AcceleratorId): number {
    return this.declared[id]! / STRAGGLER;
  }

  measuredScale(id: AcceleratorId): number {
    return this.measured[id]!;
  }

  /**
   * Learns from one execution: a surprise (a straggler, a stall) is believed at once, recovery too; small differences
   * are averaged.
   * @returns true when the plan of some queue may change.
   */
  observe(id: AcceleratorId, ratio: number, at: number, isSurprise = this.isSurprise(id, ratio)): boolean {
    const old = this.measured[id]!;
    this.believe(id, isSurprise ? ratio : old + EWMA_WEIGHT * (ratio - old), at);
    return this.replan(id);
  }

  /** Takes back the last measurement: it was the model's doing. */
  exonerate(id: AcceleratorId, scale: number, at: number): void {
    this.believe(id, scale, at);
    this.replan(id);
  }

  /** Those that are not doubted are as declared again. @returns true when the fastest changed. */
  forgetAll(): boolean {
    return this.forget((id) => this.measured[id] !== this.declared[id]);
  }

  /** Those that are slower than declared and not doubted are as declared again. @returns true when the fastest changed. */
  forgetSmall(): boolean {
    return this.forget((id) => this.measured[id]! > this.declared[id]!);
  }

  /**
   * Requests are given up while some accelerator idles that is a little slower than declared, so that it has no trials: it may be too slow for all
   * that comes, and is then never measured again. Those that nothing ran on since `before` are as declared again.
   * @param onForgotten is told of each. @returns true when the fastest changed.
   */
  forgetUnused(before: number, onForgotten: (id: AcceleratorId) => void): boolean {
    return this.forget(
      (id) =>
        this.believedAt[id]! <= before && this.inFlight(id) === 0 && this.measured[id]! > this.declared[id]! * NOTICED,
      onForgotten,
    );
  }

  /** Never those that are doubted: they have trials. @param onForgotten is told when plans can be made with all of them. */
  private forget(
    isMeant: (id: AcceleratorId) => boolean,
    onForgotten: (id: AcceleratorId) => void = () => {},
  ): boolean {
    const before = this.fastest;
    const forgotten: AcceleratorId[] = [];
    for (let id = 0; id < this.capacity; id++) {
      if (this.present[id] === 0 || this.isDoubted(id) || !isMeant(id)) continue;
      this.measured[id] = this.declared[id]!;
      this.scale[id] = this.declared[id]!;
      forgotten.push(id);
    }
    this.refresh();
    for (const id of forgotten) onForgotten(id);
    return this.fastest !== before;
  }

  private believe(id: AcceleratorId, measured: number, at: number): void {
    // Only the product of a model's factor and a scale is ever measured. Unbounded, the two walk apart: noise took one
    // accelerator to a scale of 1/300,000 and its model to the inverse, and the next model found the scale far off.
    const scale = Math.max(measured, this.floorOf(id));
    this.measured[id] = scale;
    this.believedAt[id] = at;
    const wasTrial = this.trust[id] !== MEASURED;
    this.trust[id] = MEASURED;
    if (scale <= this.declared[id]! * STRAGGLER) {
      this.doubts[id] = 0;
      this.trialAt[id] = Number.POSITIVE_INFINITY;
      return;
    }
    if (this.doubts[id] === 0 || (wasTrial && this.doubts[id]! < 8)) this.doubts[id] = this.doubts[id]! + 1;
    // A slow accelerator that works is measured with every batch: only one that falls idle is tried.
    const doubts = this.doubts[id]!;
    if (doubts > 1) this.trialAt[id] = at + pauseUs(DOUBT_US, doubts - 2);
    else this.trust[id] = TRIAL_DUE;
  }

  /** Marks those whose trial is due; `started` is told of each. @returns true when plans must be made anew. */
  startTrials(at: number, started: (id: AcceleratorId) => void): boolean {
    const before = this.fastest;
    for (let id = 0; id < this.capacity; id++) {
      if (this.trialAt[id]! > at) continue;
      this.trialAt[id] = Number.POSITIVE_INFINITY;
      if (this.present[id] === 0) continue;
      this.trust[id] = TRIAL_DUE;
      this.scale[id] = this.declared[id]!;
    }
    this.refresh();
    for (let id = 0; id < this.capacity; id++) if (this.trust[id] === TRIAL_DUE && this.present[id] === 1) started(id);
    return this.fastest !== before;
  }

  /** The next batch on it must be of one request. */
  isOnTrial(id: AcceleratorId): boolean {
    return this.trust[id] === TRIAL_DUE;
  }

  /**
   * The trial is on its way. After a single bad measurement plans stay hopeful meanwhile; later ones must prove it first.
   * @returns true when plans must be made anew.
   */
  trialSent(id: AcceleratorId): boolean {
    this.trust[id] = TRIAL_SENT;
    return this.replan(id);
  }

  /**
   * A batch ended whose time was planned by its members. That tells too little of an accelerator to learn from, as times of kinds differ; but
   * one that is doubted would be so for ever.
   * @param overPlan what it took over what was planned. @returns true when plans must be made anew.
   */
  measuredByPlan(id: AcceleratorId, overPlan: number, at: number): boolean {
    if (!this.isDoubted(id)) return false;
    return this.observe(id, overPlan * (this.trust[id] === MEASURED ? this.measured[id]! : this.declared[id]!), at);
  }

  /** A batch on it ended without a measurement: a trial that was under way is due again after its pause. */
  unmeasured(id: AcceleratorId, at: number): boolean {
    if (this.trust[id] !== TRIAL_SENT) return false;
    this.believe(id, this.measured[id]!, at);
    return this.replan(id);
  }

  /** @returns true when the fastest changed. */
  private replan(id: AcceleratorId): boolean {
    const before = this.fastest;
    const old = this.scale[id]!;
    const trust = this.trust[id];
    const isHopeful = trust === TRIAL_DUE || (trust === TRIAL_SENT && this.doubts[id]! <= 1);
    const scale = isHopeful ? this.declared[id]! : this.measured[id]!;
    this.scale[id] = scale;
    if (this.present[id] === 0) return false;
    if (this.trialAt[id]! < this.firstTrialAt) this.firstTrialAt = this.trialAt[id]!;
    if (scale < before) this.fastest = scale;
    else if (old === before && scale > before) this.refresh();
    return this.fastest !== before;
  }

  private refresh(): void {
    let fastest = Number.POSITIVE_INFINITY;
    let trialAt = Number.POSITIVE_INFINITY;
    for (let id = 0; id < this.capacity; id++) {
      if (this.present[id] === 0) continue;
      if (this.scale[id]! < fastest) fastest = this.scale[id]!;
      if (this.trialAt[id]! < trialAt) trialAt = this.trialAt[id]!;
    }
    this.fastest = Number.isFinite(fastest) ? fastest : 1;
    this.firstTrialAt = trialAt;
  }
}
