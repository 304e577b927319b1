/** Times that may pass, sampled, each with what of it is reckoned at its mean; and the slowest of several such. */

/** Fewer than PARD's 10,000: the draws behind them are spread evenly (see evenDraws). */
export const SAMPLES = 2048;

export class Samples {
  readonly totalUs = new Float64Array(SAMPLES);
  /** Of the total, what is not left to chance where lambda is of waits alone. */
  readonly fixedUs = new Float64Array(SAMPLES);

  clear(): void {
    this.totalUs.fill(0);
    this.fixedUs.fill(0);
  }

  copy({ totalUs, fixedUs }: Samples): void {
    this.totalUs.set(totalUs);
    this.fixedUs.set(fixedUs);
  }

  /** @param from null: no time passes. */
  take(sample: number, from: Samples | null, of = sample): void {
    this.totalUs[sample] = from === null ? 0 : from.totalUs[of]!;
    this.fixedUs[sample] = from === null ? 0 : from.fixedUs[of]!;
  }

  add({ totalUs, fixedUs }: Samples): void {
    for (let sample = 0; sample < SAMPLES; sample++) {
      this.totalUs[sample]! += totalUs[sample]!;
      this.fixedUs[sample]! += fixedUs[sample]!;
    }
  }

  /** Both begin at once and are waited for. */
  longer(other: Samples): void {
    for (let sample = 0; sample < SAMPLES; sample++)
      if (other.totalUs[sample]! > this.totalUs[sample]!) this.take(sample, other);
  }
}

/**
 * The slowest of n independent parts, each of which takes one of the same samples: where F is the distribution of one, that of the slowest is
 * F^n, and so its quantile at u is that of one at u^(1/n).
 */
export class Slowest {
  private readonly parts = new Samples();
  /** Samples of one part, the shortest first. */
  private readonly ranked = new Float64Array(SAMPLES);

  /** What one part takes. */
  of(parts: Samples): void {
    const { ranked } = this;
    this.parts.copy(parts);
    // Whole µs before the place, in one number each: typed arrays sort many times as fast without a comparison of ours.
    for (let sample = 0; sample < SAMPLES; sample++)
      ranked[sample] = Math.round(parts.totalUs[sample]!) * SAMPLES + sample;
    ranked.sort();
  }

  /** @param at u^(1/n), by sample; below 0: there is no part, and no time passes. */
  take(at: Float64Array, into: Samples): void {
    for (let sample = 0; sample < SAMPLES; sample++)
      if (at[sample]! < 0) into.take(sample, null);
      else into.take(sample, this.parts, this.ranked[Math.floor(at[sample]! * SAMPLES)]! % SAMPLES);
  }
}
