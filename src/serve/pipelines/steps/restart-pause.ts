const MIN_US = 100_000;
const MAX_US = 10_000_000;
/** A process that was up for so long was healthy: what ended it is no habit. */
const HEALTHY_US = 10_000_000;

/** Pause before the next process of steps: doubles while they end soon after they were up. */
export class RestartPause {
  private nextUs = MIN_US;

  /** @param upUs for which the one that ended was up; 0: it never was. @returns microseconds. */
  after(upUs: number): number {
    const us = upUs >= HEALTHY_US ? MIN_US : this.nextUs;
    this.nextUs = Math.min(MAX_US, 2 * us);
    return us;
  }
}
