/**
 * What runs at once on one machine: work is let in, about in the order that it comes, while the rates of all that runs stay within what
 * the machine carries. That is learnt: a little more after work that was on time, less after work that was not, within bounds.
 * Not for: work whose cost does not follow its rate.
 */
export interface MachineBounds {
  /** Requests/s of all that runs at once: to begin with, and what is never gone below and above; > 0, ascending. */
  readonly leastRps: number;
  readonly firstRps: number;
  readonly mostRps: number;
}

/** Several report the same bad moment: one step down is small. */
const DOWN = 0.95;
const UP = 1.01;
/** Times that one who waits is passed. */
const PASSES_MAX = 8;

export class SharedMachine {
  private carriedRps: number;
  private busyRps = 0;
  private readonly waiting: { readonly rps: number; passedBy: number; readonly enter: () => void }[] = [];

  constructor(private readonly bounds: MachineBounds) {
    this.carriedRps = bounds.firstRps;
  }

  /** Requests/s that may run at once, as learnt. */
  get rps(): number {
    return this.carriedRps;
  }

  /** @param rps that the work takes; more than the machine carries runs alone. @returns what the work returns, or throws. */
  async run<T>(rps: number, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((enter) => {
      this.waiting.push({ rps, passedBy: 0, enter });
      this.letIn();
    });
    try {
      return await work();
    } finally {
      this.busyRps -= rps;
      // Sums of fractions.
      if (this.busyRps < 1e-6) this.busyRps = 0;
      this.letIn();
    }
  }

  /** What a piece of work that ended says of the machine. */
  learn(wasOnTime: boolean): void {
    const { leastRps, mostRps } = this.bounds;
    this.carriedRps = Math.min(mostRps, Math.max(leastRps, this.carriedRps * (wasOnTime ? UP : DOWN)));
  }

  /** Who fits passes the first that waits and does not, but not for ever: what is large would never run. */
  private letIn(): void {
    for (;;) {
      const [first] = this.waiting;
      if (first === undefined) return;
      const next = this.waiting.findIndex(({ rps }) => this.busyRps === 0 || this.busyRps + rps <= this.carriedRps);
      if (next < 0 || (next > 0 && first.passedBy === PASSES_MAX)) return;
      if (next > 0) first.passedBy++;
      const [entering] = this.waiting.splice(next, 1);
      this.busyRps += entering!.rps;
      entering!.enter();
    }
  }
}
