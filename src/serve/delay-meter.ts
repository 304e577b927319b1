import type { NetworkDelays } from "../core/policy.js";

/**
 * Share of batches that the allowance is to cover: an accelerator that starts late makes the head of its batch late, and
 * the promise is 99 %. Live bad rate at 0.9 of peak, one model on 4 emulated accelerators: 0.98 % with 0.95, 0.51 % with 0.99.
 */
const COVERED = 0.99;
/** Step of the estimate per observation, as a share of it, and at least this many µs. */
const STEP_SHARE = 0.05;
const STEP_US_MIN = 5;
/** So many in a row below the estimate: it is too high, and shrinks by this, and more each time it happens again. */
const CALM = 256;
const CALM_SHARE = 0.8;
const DELAY_US_MIN = 50;
/** Beyond this a delay is a stall of the machine, which no allowance should learn. */
const DELAY_US_MAX = 20_000;
/** Plans are made anew for a change of at least this share and this many µs. */
const CHANGE_SHARE = 0.15;
const CHANGE_US = 30;
/**
 * A quantile of a delay that drifts, tracked in one number: up by 0.99 of a step when an observation exceeds it, down by
 * 0.01 of a step when not, so that it rests where 99 % lie below. Each observation says no more than "above" or "below",
 * which is all that is known of a delay that the plan had covered.
 */
class TrackedDelay {
  us: number;
  private calm = 0;
  private calmRounds = 0;

  constructor(startUs: number) {
    this.us = startUs;
  }

  observe(us: number): void {
    const step = Math.max(STEP_US_MIN, this.us * STEP_SHARE);
    if (us > this.us) {
      this.us += COVERED * step;
      this.calm = 0;
      this.calmRounds = 0;
    } else {
      this.us -= (1 - COVERED) * step;
      if (++this.calm === CALM) {
        this.calm = 0;
        this.us *= CALM_SHARE ** ++this.calmRounds;
      }
    }
    this.us = Math.min(DELAY_US_MAX, Math.max(DELAY_US_MIN, this.us));
  }
}

/**
 * What the plans of one accelerator group must allow for before and after execution, measured: Symphony §4.3 takes a
 * high percentile of the network's latency, and here sockets, threads and a shared machine are that network.
 */
export class DelayMeter {
  private readonly control: TrackedDelay;
  private readonly response: TrackedDelay;
  private current: NetworkDelays;

  constructor(start: NetworkDelays) {
    this.current = start;
    this.control = new TrackedDelay(start.controlUs);
    this.response = new TrackedDelay(start.responseUs);
  }

  /**
   * @param delayUs from the decision to dispatch until execution began, on an accelerator that was waiting for it; null:
   *   within the plan, by how much is not known (an emulated accelerator never starts early).
   */
  started(delayUs: number | null): void {
    this.control.observe(delayUs ?? 0);
  }

  /** @param delayUs from the end of execution until the answer was handed to the client's connection. */
  answered(delayUs: number): void {
    this.response.observe(delayUs);
  }

  /** The delays to plan with from now on, or null while they are much as they were. */
  changed(): NetworkDelays | null {
    const controlUs = Math.ceil(this.control.us);
    const responseUs = Math.ceil(this.response.us);
    if (!isOther(controlUs, this.current.controlUs) && !isOther(responseUs, this.current.responseUs)) return null;
    this.current = { controlUs, dataUsPerRequest: this.current.dataUsPerRequest, responseUs };
    return this.current;
  }
}

const isOther = (us: number, planned: number): boolean =>
  Math.abs(us - planned) >= CHANGE_US && Math.abs(us - planned) >= CHANGE_SHARE * planned;
