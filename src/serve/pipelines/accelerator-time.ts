/** What a request's parts had of accelerators, counted by how the request ends; apart from its tensors, for parts run on when those are gone. */
export class AcceleratorTime {
  private us = 0;
  private countIn: ((us: number) => void) | null = null;

  /** @param us share of a batch's time; also after the end, of parts that ran on. */
  spent(us: number): void {
    if (this.countIn === null) this.us += us;
    else this.countIn(us);
  }

  /** The request ended: what it had, and will have, is counted there. */
  ended(countIn: (us: number) => void): void {
    this.countIn = countIn;
    countIn(this.us);
  }
}
