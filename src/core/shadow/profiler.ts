/**
 * ORLOJ's online profiler (§3.2): a share of the requests that ran is run again alone, where their model wants to know. Which,
 * and whether there is time for it, is decided here; when a run starts, by the scheduler (ShadowRoom).
 */
import { DROP_CANCELLED, DROP_EXPIRED, FAIL_DRAINING, FAILED, FINISHED, LATE } from "../outcome.js";

export interface ProfilerOptions {
  /** Most of the accelerators' time that it takes, in (0, 1). */
  readonly timeShare: number;
  /** Part of the requests that ran in a batch of several that is considered, in (0, 1]. */
  readonly requestShare: number;
  /** A kind of which so many times alone were measured of late is asked for no more. */
  readonly observations: number;
}

export const PROFILER_DEFAULTS: ProfilerOptions = { timeShare: 0.002, requestShare: 0.02, observations: 100 };

/** A request waits so long for an accelerator that nobody wants, µs. */
export const SHADOW_WAIT_US = 1_000_000;
/** Time that was not taken may be taken later, up to what so much accelerator time gives, µs. */
const SAVED_US = 600_000_000;

/** How a shadow run ends. ran: measured. expired: no accelerator had room for it in time. cancelled: its model or server went. failed: its worker did. */
export const SHADOW_OUTCOMES = ["ran", "expired", "cancelled", "failed"] as const;
export type ShadowOutcome = (typeof SHADOW_OUTCOMES)[number];

/** What became of a shadow request, by the codes of its end. */
export function shadowOutcome(outcome: number, reason: number): ShadowOutcome {
  if (outcome === FINISHED || outcome === LATE) return "ran";
  if (outcome === FAILED) return reason === FAIL_DRAINING ? "cancelled" : "failed";
  if (reason === DROP_CANCELLED) return "cancelled";
  return reason === DROP_EXPIRED ? "expired" : "failed";
}

/** Of one scheduler. One request is out at a time. Time is passed in, and randomness: numbers in [0, 1). */
export class Profiler {
  readonly options: ProfilerOptions;
  readonly counts: Record<ShadowOutcome, number> = { ran: 0, expired: 0, cancelled: 0, failed: 0 };
  /** Time on accelerators that runs took, and that accelerators were there, µs. */
  ranUs = 0;
  presentUs = 0;
  private readonly uniform: () => number;
  private creditUs = 0;
  private count = 0;
  private countedAt = 0;
  private isOut = false;

  constructor(options: ProfilerOptions, uniform: () => number) {
    this.options = options;
    this.uniform = uniform;
  }

  /** So many accelerators are there from now on. */
  present(count: number, at: number): void {
    this.advance(at);
    this.count = count;
  }

  /**
   * A batch ended well.
   * @param wantedUs what a member takes alone at most, by its place; 0: it is not wanted to be known.
   * @returns the place of the member that is to be run again; -1: none. After a member, `ended` must come.
   */
  pick(size: number, at: number, wantedUs: (place: number) => number): number {
    // Alone it has been measured.
    if (size === 1 || this.isOut || this.count === 0) return -1;
    const place = Math.floor(this.uniform() / Math.min(this.options.requestShare, 1 / size));
    if (place >= size) return -1;
    this.advance(at);
    const us = wantedUs(place);
    if (us === 0 || this.creditUs < Math.min(us, this.creditMaxUs)) return -1;
    this.isOut = true;
    return place;
  }

  /** @param us that it took on an accelerator; 0: it did not run. */
  ended(outcome: ShadowOutcome, us: number): void {
    this.isOut = false;
    this.counts[outcome]++;
    this.ranUs += us;
    this.creditUs -= us;
  }

  private get creditMaxUs(): number {
    return this.options.timeShare * this.count * SAVED_US;
  }

  private advance(at: number): void {
    const us = this.count * Math.max(0, at - this.countedAt);
    this.countedAt = Math.max(this.countedAt, at);
    this.presentUs += us;
    this.creditUs = Math.min(this.creditMaxUs, this.creditUs + us * this.options.timeShare);
  }
}
