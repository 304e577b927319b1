import type { NetworkDelays } from "../../core/policy.js";
import { Release } from "../../core/release.js";

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
/**
 * And no allowance takes more than this part of what the model's promise leaves beside a run alone. More would refuse, on
 * idle accelerators, requests of which most would be in time: the delays of one in a hundred must not cost the others.
 */
const SLACK_SHARE = 0.25;
/** Plans are made anew for a change of at least this share and this many µs. */
const CHANGE_SHARE = 0.15;
const CHANGE_US = 30;
/** How often plans may take measured delays over. */
const LOOK_US = 250_000;

/**
 * A quantile of a delay that drifts, tracked in one number: up by 0.99 of a step when an observation exceeds it, down by
 * 0.01 of a step when not, so that it rests where 99 % lie below. Each observation says no more than "above" or "below",
 * which is all that is known of a delay that the plan had covered.
 */
class TrackedDelay {
  us: number;
  private readonly startUs: number;
  private readonly mostUs: number;
  /** Below the start without a measurement that said so: the first one is believed. */
  private isHope = false;
  private calm = 0;
  private calmRounds = 0;

  constructor(startUs: number, mostUs: number) {
    this.us = startUs;
    this.startUs = startUs;
    this.mostUs = mostUs;
  }

  /** Back to the start; where that is what refused, half of it. */
  release(): void {
    this.isHope = this.us <= this.startUs;
    this.us = this.isHope ? Math.max(DELAY_US_MIN, this.us / 2) : this.startUs;
    this.calm = 0;
    this.calmRounds = 0;
  }

  observe(us: number): void {
    if (this.isHope && us > this.us) this.us = Math.min(this.startUs, us);
    this.isHope = false;
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
    this.us = Math.min(this.mostUs, Math.max(DELAY_US_MIN, this.us));
  }
}

/**
 * What the plans of one model must allow for before and after execution, measured: Symphony §4.3 takes a high percentile
 * of the network's latency, and here sockets, threads and a shared machine are that network. Of one model, because what
 * pages of 10 MB take on their way is not what a frame of sound takes.
 *
 * Its own measurements depend on what it lets run, so it is under the rule of Release.
 */
export class DelayMeter {
  private readonly release = new Release();
  private readonly control: TrackedDelay;
  private readonly response: TrackedDelay;
  private planned: NetworkDelays;
  private lookAt = Number.NEGATIVE_INFINITY;

  /** @param slackUs what the model's promise leaves beside a run alone, µs. */
  constructor(start: NetworkDelays, slackUs = Number.POSITIVE_INFINITY) {
    const mostUs = Math.min(DELAY_US_MAX, Math.max(DELAY_US_MIN, SLACK_SHARE * slackUs));
    this.planned = start;
    this.control = new TrackedDelay(start.controlUs, mostUs);
    this.response = new TrackedDelay(start.responseUs, mostUs);
  }

  /** The delays to plan with. */
  get current(): NetworkDelays {
    return this.planned;
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
    this.release.measured();
    this.response.observe(delayUs);
  }

  /** A request was given up because not even alone and now it would be answered in time. @returns whether `current` changed. */
  refused(at: number): boolean {
    this.release.refused(at);
    if (at < this.release.dueAt) return false;
    this.release.released();
    this.control.release();
    this.response.release();
    return this.follow();
  }

  /** Plans may take over what was measured. @returns whether `current` changed. */
  look(at: number): boolean {
    if (at < this.lookAt) return false;
    this.lookAt = at + LOOK_US;
    return this.follow();
  }

  private follow(): boolean {
    const { planned } = this;
    const controlUs = Math.ceil(this.control.us);
    const responseUs = Math.ceil(this.response.us);
    if (!isOther(controlUs, planned.controlUs) && !isOther(responseUs, planned.responseUs)) return false;
    this.planned = { controlUs, dataUsPerRequest: planned.dataUsPerRequest, responseUs };
    return true;
  }
}

const isOther = (us: number, planned: number): boolean =>
  Math.abs(us - planned) >= CHANGE_US && Math.abs(us - planned) >= CHANGE_SHARE * planned;
