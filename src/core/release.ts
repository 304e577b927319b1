/**
 * The one rule for what is learnt from work done: **an estimate must not forbid its own measurement**.
 *
 * An estimate that is too high refuses the work that would correct it, and then stands for ever: a stall of a second kept
 * a model at 0 % on idle accelerators for minutes. So whoever plans with an estimate says when it refused and when it was
 * measured. Refused for a pause with nothing measured, it is released: back to what was believed before anything was
 * learnt (its prior), and where the prior itself refuses, one request is let through as if it were wrong. Each release
 * in a row that ends in refusal again doubles the pause: who asks for the impossible costs less and less.
 *
 * Under the rule: the times of a model (`latency`: prior is its profile), the scale of an accelerator
 * (`accelerator-table`: as declared), the delays before and after execution (`serve/groups/delay-meter`: the guess of the start).
 * Not under it, because refused requests are measured too: rates of arrival, and what follows from them (targets, demand,
 * shares, boosts).
 */
const PAUSE_US_MAX = 4_000_000;
/** How long a queue's requests may be refused without one of them being run. */
const REFUSED_US = 1_000_000;
/** Doublings counted: beyond them the pause is at its longest in any case. */
const FRUITLESS_MAX = 8;

/** Pause before another try, after so many in a row that changed nothing. */
export const pauseUs = (firstUs: number, fruitless: number): number => Math.min(PAUSE_US_MAX, firstUs * 2 ** fruitless);

/** When the estimates that refuse the requests of one queue or model are released. */
export class Release {
  /** Infinity: nothing was refused since it was last measured. */
  dueAt = Number.POSITIVE_INFINITY;
  private fruitless = 0;
  /** Released, and not measured since: the next measurement is that of the try. */
  private isTried = false;

  /** A request was refused that would have been run by the prior, or could have been. */
  refused(at: number): void {
    if (this.dueAt === Number.POSITIVE_INFINITY) this.dueAt = at + pauseUs(REFUSED_US, this.fruitless);
  }

  measured(): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    if (!this.isTried) this.fruitless = 0;
    this.isTried = false;
  }

  /** @param isTried false: nothing was there to try it with, which says nothing. */
  released(isTried = true): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    if (!isTried) return;
    this.isTried = true;
    if (this.fruitless < FRUITLESS_MAX) this.fruitless++;
  }
}
