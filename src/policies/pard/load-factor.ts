/** How much comes to a module against what it can do, and how steadily (PARD §4.3). */

/** Samples of the input that the smoothed input and its deviation are of. */
export const SAMPLES = 5;

/**
 * The input T_in is counted in intervals; the smoothed input T_s of an interval is the mean of it and those before it, over a
 * window; epsilon = sum |T_in - T_s| / sum T_in over the window. Intervals without arrivals count.
 */
export class LoadFactor {
  /** Of the last whole interval. */
  inputRps = 0;
  /** By how much it departs from what is smooth, relative to it; 0 before anything came. */
  epsilon = 0;
  private readonly intervalUs: number;
  private readonly counts = new Float64Array(SAMPLES);
  private readonly deviations = new Float64Array(SAMPLES);
  private samples = 0;
  private next = 0;
  private count = 0;
  /** Of the interval that is counted; NaN: nothing has come. */
  private endsAt = Number.NaN;

  constructor(intervalUs: number) {
    this.intervalUs = intervalUs;
  }

  /** A request came. @returns whether an interval is over: then the fields are new. */
  arrived(at: number): boolean {
    const isOver = this.look(at);
    this.count++;
    return isOver;
  }

  private look(at: number): boolean {
    if (at < this.endsAt) return false;
    if (Number.isNaN(this.endsAt)) {
      this.endsAt = at + this.intervalUs;
      return false;
    }
    const over = 1 + Math.floor((at - this.endsAt) / this.intervalUs);
    this.endsAt += over * this.intervalUs;
    this.sample(this.count);
    for (let empty = 1; empty < Math.min(over, SAMPLES + 1); empty++) this.sample(0);
    this.count = 0;
    return true;
  }

  private sample(count: number): void {
    const { counts, deviations, next } = this;
    counts[next] = count;
    this.samples = Math.min(SAMPLES, this.samples + 1);
    let sum = 0;
    for (let index = 0; index < this.samples; index++) sum += counts[index]!;
    deviations[next] = Math.abs(count - sum / this.samples);
    let deviation = 0;
    for (let index = 0; index < this.samples; index++) deviation += deviations[index]!;
    this.next = next + 1 === SAMPLES ? 0 : next + 1;
    this.inputRps = (count * 1e6) / this.intervalUs;
    this.epsilon = sum === 0 ? 0 : deviation / sum;
  }
}
