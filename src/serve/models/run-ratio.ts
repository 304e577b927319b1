/** Part of a measurement in the mean: some ten batches tell of a change. */
const STEP = 1 / 8;
/** Until batches say how far run times lie from each other. */
const START_DEVIATION = 0.1;

/** How long the batches of a queue run against the profile, by those that ended last. */
export class RunRatio {
  mean = 1;
  private deviation = START_DEVIATION;

  /** @param profiledUs l(b) by the profile. */
  measured(execUs: number, profiledUs: number): void {
    const off = execUs / Math.max(1, profiledUs) - this.mean;
    this.mean += STEP * off;
    this.deviation += STEP * (Math.abs(off) - this.deviation);
  }

  /** Mean deviation of a run, as a part of it. */
  get spread(): number {
    return this.deviation / this.mean;
  }
}
