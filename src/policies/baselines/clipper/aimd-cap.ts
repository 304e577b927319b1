import type { BatchCap } from "./batch-cap.js";

export interface AimdOptions {
  /** Added to the cap by a batch that held the objective. */
  readonly additiveStep: number;
  /** What is left of the cap after one that did not. */
  readonly backOff: number;
}

/**
 * Additive increase, multiplicative decrease (Clipper §4.3.1): the cap grows while batches take no longer than the SLO.
 * It reacts to what was measured and knows no deadlines.
 *
 * Ours, where the paper is silent: a batch that the queue could not fill says nothing of the cap and does not raise it.
 */
export class AimdCap implements BatchCap {
  private cap = 1;
  private readonly objectiveUs: number;
  private readonly sizeMax: number;
  private readonly options: AimdOptions;

  constructor(objectiveUs: number, sizeMax: number, options: AimdOptions) {
    this.objectiveUs = objectiveUs;
    this.sizeMax = sizeMax;
    this.options = options;
  }

  next(): number {
    return Math.floor(this.cap);
  }

  explores(): boolean {
    return false;
  }

  ended(size: number, latencyUs: number): void {
    const { additiveStep, backOff } = this.options;
    if (latencyUs > this.objectiveUs) this.cap = Math.max(1, this.cap * backOff);
    else if (size >= this.next()) this.cap = Math.min(this.sizeMax, this.cap + additiveStep);
  }
}
