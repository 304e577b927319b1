import type { AcceleratorId, AcceleratorTable } from "./accelerator-table.js";
import type { QueueKey, QueueSpec } from "./policy.js";
import type { DurationUs } from "./time.js";

/** A measurement this many times off the expected one is a step, not a fluctuation. */
const STEP = 1.5;
/** How long a model is believed to be too slow for its own promise. */
const RESET_AFTER_US = 1_000_000;
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
  private resetAt = Number.POSITIVE_INFINITY;
  /** The queue whose batch last surprised on an accelerator (-1: none since), and the accelerator's scale before. */
  private readonly surprisedBy: Int32Array;
  private readonly scaleBefore: Float64Array;
  private readonly accelerators: AcceleratorTable;
  /** By queue key; undefined = removed. */
  private readonly specs: readonly (QueueSpec | undefined)[];

  constructor(accelerators: AcceleratorTable, specs: readonly (QueueSpec | undefined)[]) {
    this.accelerators = accelerators;
    this.specs = specs;
    this.surprisedBy = new Int32Array(accelerators.capacity).fill(-1);
    this.scaleBefore = new Float64Array(accelerators.capacity);
  }

  /** @returns true when plans must be made anew. */
  measured(accelerator: AcceleratorId, key: QueueKey, size: number, measuredUs: number, at: number): boolean {
    const { accelerators } = this;
    const spec = this.specs[key];
    if (spec === undefined) return accelerators.unmeasured(accelerator, at);
    const ratio = measuredUs / spec.latency.execUs[size]!;
    const isReplanned = accelerators.isSurprise(accelerator, ratio)
      ? this.surprised(accelerator, key, ratio, at)
      : this.confirmed(accelerator, spec, size, measuredUs, ratio, at);
    if (isReplanned && this.isHopeless(spec)) this.resetAt = Math.min(this.resetAt, at + RESET_AFTER_US);
    this.lookAt = Math.min(this.resetAt, accelerators.nextTrialAt);
    return isReplanned;
  }

  /**
   * What looks too slow to be used is never measured again: accelerators get a trial, models their profile back.
   * @param onTrial an accelerator that may be asked again. @returns true when plans must be made anew.
   */
  giveChances(at: number, onTrial: (id: AcceleratorId) => void): boolean {
    const { accelerators } = this;
    let isReplanned = accelerators.startTrials(at, onTrial);
    if (at >= this.resetAt) {
      this.resetAt = Number.POSITIVE_INFINITY;
      for (const spec of this.specs) {
        if (spec === undefined || !this.isHopeless(spec)) continue;
        spec.latency.reset();
        isReplanned = true;
      }
    }
    this.lookAt = Math.min(this.resetAt, accelerators.nextTrialAt);
    return isReplanned;
  }

  private confirmed(
    accelerator: AcceleratorId,
    spec: QueueSpec,
    size: number,
    measuredUs: number,
    ratio: number,
    at: number,
  ): boolean {
    const { accelerators } = this;
    this.surprisedBy[accelerator] = -1;
    const onScaleOne = (measuredUs / accelerators.measuredScale(accelerator)) as DurationUs;
    const isModelChanged = spec.latency.observe({ size }, onScaleOne);
    return accelerators.observe(accelerator, ratio, at) || isModelChanged;
  }

  private surprised(accelerator: AcceleratorId, key: QueueKey, ratio: number, at: number): boolean {
    const { accelerators, surprisedBy } = this;
    const scale = accelerators.measuredScale(accelerator);
    const suspect = surprisedBy[accelerator]!;
    const before = this.scaleBefore[accelerator]!;
    const isContradicted = suspect >= 0 && suspect !== key && ratio <= before * STEP && ratio * STEP >= before;
    const suspectSpec = isContradicted ? this.specs[suspect] : undefined;
    if (suspectSpec === undefined) {
      surprisedBy[accelerator] = key;
      this.scaleBefore[accelerator] = scale;
      return accelerators.observe(accelerator, ratio, at);
    }
    suspectSpec.latency.shift(Math.min(BLAME_MAX, Math.max(1 / BLAME_MAX, scale / before)));
    accelerators.exonerate(accelerator, ratio, at);
    surprisedBy[accelerator] = -1;
    return true;
  }

  /** By its present estimate no request of the model can meet the model's own promise: it would never be measured again. */
  private isHopeless(spec: QueueSpec): boolean {
    return spec.latency.execUs[1]! * this.accelerators.fastestScale > spec.sloUs;
  }
}
