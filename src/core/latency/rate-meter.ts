const SAMPLE_US = 50_000;

/**
 * Arrival rate as the mean of 50 ms samples over a window (Symphony's public code: 100 samples, 5 s).
 *
 * O(1) per arrival; the sample in progress does not count. A sample border is when a policy may look again
 * at what depends on the rate, so `observe` says when one was crossed.
 */
export class RateMeter {
  private readonly samples: Uint32Array;
  private sum = 0;
  private squares = 0;
  private complete = 0;
  private cursor = 0;
  private current = 0;
  private sampleEndsAt = Number.NaN;

  constructor(windowUs: number) {
    this.samples = new Uint32Array(Math.max(1, Math.round(windowUs / SAMPLE_US)));
  }

  /** Counts one arrival. @returns true when a sample ended since the last one. */
  observe(at: number): boolean {
    const crossed = this.advance(at);
    this.current++;
    return crossed;
  }

  /** Ends samples up to `at`. @returns true when at least one ended. */
  advance(at: number): boolean {
    if (at < this.sampleEndsAt) return false;
    if (Number.isNaN(this.sampleEndsAt)) {
      this.sampleEndsAt = at + SAMPLE_US;
      return false;
    }
    const { samples } = this;
    let ended = Math.floor((at - this.sampleEndsAt) / SAMPLE_US) + 1;
    this.sampleEndsAt += ended * SAMPLE_US;
    if (ended > samples.length) {
      samples.fill(0);
      this.sum = 0;
      this.squares = 0;
      this.complete = samples.length;
      this.current = 0;
      return true;
    }
    for (; ended > 0; ended--) {
      const forgotten = samples[this.cursor]!;
      this.sum += this.current - forgotten;
      this.squares += this.current ** 2 - forgotten ** 2;
      samples[this.cursor] = this.current;
      this.cursor = this.cursor + 1 === samples.length ? 0 : this.cursor + 1;
      if (this.complete < samples.length) this.complete++;
      this.current = 0;
    }
    return true;
  }

  /** Arrivals per microsecond; NaN before the first sample is complete. */
  get perUs(): number {
    return this.complete === 0 ? Number.NaN : this.sum / (this.complete * SAMPLE_US);
  }

  /** Variance of the arrivals in a sample over their mean, from the window: near 1 for Poisson arrivals, 1 when unknown. */
  get dispersion(): number {
    if (this.complete < 2 || this.sum === 0) return 1;
    const mean = this.sum / this.complete;
    return (this.squares - this.sum * mean) / ((this.complete - 1) * mean);
  }
}

/** Rate from the time the last few arrivals took: noisy, but knows of a change within a few arrivals. */
export class RecentRate {
  private readonly times: Float64Array;
  private cursor = 0;
  private count = 0;

  constructor(arrivals: number) {
    this.times = new Float64Array(arrivals);
  }

  observe(at: number): void {
    this.times[this.cursor] = at;
    this.cursor = this.cursor + 1 === this.times.length ? 0 : this.cursor + 1;
    if (this.count < this.times.length) this.count++;
  }

  /** Arrivals per microsecond over the last arrivals up to `now`; 0 before two arrivals. */
  perUs(now: number): number {
    if (this.count < 2) return 0;
    const oldest = this.times[this.count < this.times.length ? 0 : this.cursor]!;
    // The newest arrival opens the interval that is still running, so `count - 1` gaps lie behind it, or more when nothing came since.
    return (this.count - 1) / Math.max(1, now - oldest);
  }
}
