/** What the requests of one accelerator group came to since the autoscaler last looked: its signals, counted as they end. */
export class GroupLoad {
  good = 0;
  bad = 0;
  private presentCount = 0;
  private presentSince = 0;
  private presentUs = 0;

  /**
   * @param queue counts what is dropped. @param outcome finished, late, dropped or failed; @param reason the drop reason
   * or failure cause. What more accelerators would not have changed (cancelled, a broken model, a crash) is neither good
   * nor bad.
   */
  ended(queue: { dropped: number }, outcome: string, reason: string): void {
    if (outcome === "finished") this.good++;
    else if (outcome === "late") this.bad++;
    else if (outcome === "dropped" ? reason !== "cancelled" : reason === "no-accelerator") {
      this.bad++;
      queue.dropped++;
    }
  }

  /** From now on this many accelerators take batches. */
  present(count: number, now: number): void {
    this.presentUs += this.presentCount * (now - this.presentSince);
    this.presentCount = count;
    this.presentSince = now;
  }

  /** Starts counting anew. @returns what was counted, and the time that accelerators were there, µs. */
  take(now: number): { readonly good: number; readonly bad: number; readonly presentUs: number } {
    this.present(this.presentCount, now);
    const { good, bad, presentUs } = this;
    this.good = 0;
    this.bad = 0;
    this.presentUs = 0;
    return { good, bad, presentUs };
  }
}
