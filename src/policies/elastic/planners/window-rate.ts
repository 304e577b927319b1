/**
 * q of OTAS: "the arriving rate within the previous inference window" (§III-D), from one batch's start to the next. Before the first
 * batch it counts from the first request on.
 */
export class WindowRate {
  private sinceAt = Number.NaN;
  private arrived = 0;
  private rate = 0;

  observe(at: number): void {
    if (Number.isNaN(this.sinceAt)) this.sinceAt = at;
    this.arrived++;
  }

  /** A batch starts: the next window begins. Batches of one moment (several accelerators) are of one window. */
  closed(at: number): void {
    this.rate = this.perS(at);
    this.arrived = 0;
    this.sinceAt = at;
  }

  /** Requests/s of the window that would end now. */
  perS(at: number): number {
    return at > this.sinceAt ? (this.arrived * 1e6) / (at - this.sinceAt) : this.rate;
  }
}
