import type { QueueKey, QueueSpec } from "../policy.js";
import { Release } from "../release.js";
import type { AcceleratorId, AcceleratorTable } from "../tables/accelerator-table.js";
import type { DurationUs } from "../time.js";
import { type ProfiledLatency, profileOf } from "./latency.js";

/**
 * Whether and how models are learnt from measured batches: not, by one factor for the whole profile (records of before), or by
 * that and slowly by size.
 */
export type Learning = boolean | "sizes";

/** A measurement this many times off the expected one is a step, not a fluctuation. */
const STEP = 1.5;
/** Or this many standard deviations of the model's times, where those vary more. */
const STEP_DEVIATIONS = 4;
/** Differences below this are the operating system's: they say nothing of models and accelerators. */
const NOISE_US = 300;
/** While requests are given up it is looked this often, µs, whether an accelerator was not used for as long. */
const UNUSED_US = 1_000_000;
/** Most that one contradiction shifts a model's curve: a stall must not be blamed on it whole. */
const BLAME_MAX = 2;

/**
 * Corrects latency models and accelerators' scales from measured batches.
 *
 * One measurement, two unknowns: what all accelerators share is the model's, what one differs by is its own. A step is
 * put down to the accelerator; if the next batch of another model contradicts it there, it was the model's.
 */
export class Learner {
  /** When an accelerator or a model that looks too slow is given another chance; Infinity when none does. */
  lookAt = Number.POSITIVE_INFINITY;
  private releaseAt = Number.POSITIVE_INFINITY;
  /** When accelerators are looked at that were not used, and when that was done last. */
  private unusedAt = Number.POSITIVE_INFINITY;
  private unusedSeenAt = Number.NEGATIVE_INFINITY;
  /** Of queues that ever gave a request up as infeasible, by key. */
  private readonly releases = new Map<QueueKey, Release>();
  /** The queue whose batch last surprised on an accelerator (-1: none since), and the accelerator's scale before. */
  private readonly surprisedBy: Int32Array;
  private readonly scaleBefore: Float64Array;
  private readonly accelerators: AcceleratorTable;
  /** By queue key; undefined = removed. */
  private readonly specs: readonly (QueueSpec | undefined)[];

  private readonly isBySize: boolean;
  /** By queue key, whether a batch was ever planned by its members; undefined: none ended. */
  private readonly isByMembers: (boolean | undefined)[] = [];

  constructor(accelerators: AcceleratorTable, specs: readonly (QueueSpec | undefined)[], learning: Learning) {
    this.accelerators = accelerators;
    this.isBySize = learning === "sizes";
    this.specs = specs;
    this.surprisedBy = new Int32Array(accelerators.capacity).fill(-1);
    this.scaleBefore = new Float64Array(accelerators.capacity);
  }

  /** @param planByMembersUs what was planned for a batch by its members (see Queue.isByKind); 0: its size says all. @returns true when plans must be made anew. */
  measured(
    accelerator: AcceleratorId,
    key: QueueKey,
    size: number,
    measuredUs: number,
    at: number,
    planByMembersUs = 0,
  ): boolean {
    const { accelerators } = this;
    this.releases.get(key)?.measured();
    if (planByMembersUs > 0) {
      const isForgotten = this.plannedByMembers(key);
      const isReplanned = accelerators.measuredByPlan(accelerator, measuredUs / planByMembersUs, at);
      this.setLookAt();
      return isReplanned || isForgotten;
    }
    this.isByMembers[key] ??= false;
    const latency = profileOf(this.specs[key]);
    if (latency === undefined) return accelerators.unmeasured(accelerator, at);
    const meanUs = latency.meanUs(size);
    const ratio = measuredUs / meanUs;
    const scale = accelerators.measuredScale(accelerator);
    const isDoubted = accelerators.isDoubted(accelerator);
    const isNoise = Math.abs(measuredUs - meanUs * scale) <= NOISE_US && !isDoubted;
    const onScaleOne = (measuredUs / scale) as DurationUs;
    let isReplanned: boolean;
    if (latency.isHope) {
      isReplanned = latency.learnAnew(size, onScaleOne);
      accelerators.unmeasured(accelerator, at);
    } else if (isNoise) isReplanned = latency.observe(size, onScaleOne, this.isBySize);
    else if (accelerators.isSurprise(accelerator, ratio, stepOf(latency)))
      isReplanned = this.surprised(accelerator, key, ratio, at);
    else {
      this.surprisedBy[accelerator] = -1;
      // An accelerator that is off says nothing of the model; and what it is off by must not be learnt as the inverse.
      const isModelChanged = !isDoubted && latency.observe(size, onScaleOne, this.isBySize);
      isReplanned = accelerators.observe(accelerator, ratio, at, false) || isModelChanged;
    }
    this.setLookAt();
    return isReplanned;
  }

  /** The first time, what was learnt while size said all is let go: unlike requests looked like slow accelerators. */
  private plannedByMembers(key: QueueKey): boolean {
    const wasBySize = this.isByMembers[key] === false;
    this.isByMembers[key] = true;
    return wasBySize && this.accelerators.forgetAll();
  }

  /** A request of the queue was given up because not even alone and now it would end in time. */
  gaveUp(key: QueueKey, at: number): void {
    let release = this.releases.get(key);
    if (release === undefined) {
      release = new Release();
      this.releases.set(key, release);
    }
    release.refused(at);
    this.releaseAt = Math.min(this.releaseAt, release.dueAt);
    if (at >= this.unusedSeenAt + UNUSED_US) this.unusedAt = Math.min(this.unusedAt, at);
    this.setLookAt();
  }

  private setLookAt(): void {
    this.lookAt = Math.min(this.releaseAt, this.unusedAt, this.accelerators.nextTrialAt);
  }

  /**
   * What looks too slow to be used is never measured again (see Release): accelerators get a trial, models their profile back.
   * @param onTrial an accelerator that may be asked again. @param onRelease a queue whose model was released, perhaps for nothing.
   * @returns true when plans must be made anew.
   */
  giveChances(at: number, onTrial: (id: AcceleratorId) => void, onRelease: (key: QueueKey) => void): boolean {
    const { accelerators } = this;
    let isReplanned = accelerators.startTrials(at, onTrial);
    if (at >= this.unusedAt) {
      this.unusedAt = Number.POSITIVE_INFINITY;
      this.unusedSeenAt = at;
      if (accelerators.forgetUnused(at - UNUSED_US, onTrial)) isReplanned = true;
    }
    if (at >= this.releaseAt) {
      this.releaseAt = Number.POSITIVE_INFINITY;
      const mayHope = accelerators.isAnyIdle;
      let isAnyDue = false;
      for (const [key, release] of this.releases) {
        if (release.dueAt > at) {
          this.releaseAt = Math.min(this.releaseAt, release.dueAt);
          continue;
        }
        isAnyDue = true;
        const latency = profileOf(this.specs[key]);
        const isOther = latency !== undefined && (latency.reset() || (mayHope && latency.hope()));
        if (isOther) isReplanned = true;
        release.released(isOther || mayHope);
        if (latency === undefined) this.releases.delete(key);
        onRelease(key);
      }
      // Accelerators that are much slower have their trials.
      if (isAnyDue && accelerators.forgetSmall()) isReplanned = true;
    }
    this.setLookAt();
    return isReplanned;
  }

  private surprised(accelerator: AcceleratorId, key: QueueKey, ratio: number, at: number): boolean {
    const { accelerators, surprisedBy } = this;
    const scale = accelerators.measuredScale(accelerator);
    const suspect = surprisedBy[accelerator]!;
    const before = this.scaleBefore[accelerator]!;
    const isContradicted = suspect >= 0 && suspect !== key && ratio <= before * STEP && ratio * STEP >= before;
    const suspected = isContradicted ? profileOf(this.specs[suspect]) : undefined;
    if (suspected === undefined) {
      surprisedBy[accelerator] = key;
      this.scaleBefore[accelerator] = scale;
      return accelerators.observe(accelerator, ratio, at, true);
    }
    suspected.shift(Math.min(BLAME_MAX, Math.max(1 / BLAME_MAX, scale / before)));
    accelerators.exonerate(accelerator, ratio, at);
    surprisedBy[accelerator] = -1;
    return true;
  }
}

const stepOf = (latency: ProfiledLatency): number => Math.max(STEP, 1 + STEP_DEVIATIONS * latency.spread);
