/** Counts of waits in a batch, each relative to the batch's time: in [0, 1], with those of 0 and of 1 apart from what is between. */

/** Of equal width, between the ends. */
const BINS = 64;
const PLACES = BINS + 2;

export class WaitCounts {
  private readonly counts: Uint32Array;
  /** Of those included. */
  private readonly weights = new Float64Array(PLACES);

  /** @param rows counted apart. */
  constructor(rows: number) {
    this.counts = new Uint32Array(rows * PLACES);
  }

  /** @param wait in [0, 1]. */
  add(row: number, wait: number): void {
    const bin = wait <= 0 ? 0 : wait >= 1 ? PLACES - 1 : 1 + Math.floor(wait * BINS);
    this.counts[row * PLACES + bin]!++;
  }

  /** @param end row after the last. */
  clear(first: number, end: number): void {
    this.counts.fill(0, first * PLACES, end * PLACES);
  }

  /** What `quantile` is of: nothing yet. */
  begin(): void {
    this.weights.fill(0);
  }

  include(row: number, weight: number): void {
    for (let bin = 0; bin < PLACES; bin++) this.weights[bin]! += weight * this.counts[row * PLACES + bin]!;
  }

  /** Wait that this part of all is at most, evenly spread within a bin; 0 where there is none. @param part in [0, 1]. */
  quantile(part: number): number {
    const { weights } = this;
    let all = 0;
    for (const weight of weights) all += weight;
    let rest = part * all;
    for (let bin = 0; bin < PLACES; bin++) {
      const weight = weights[bin]!;
      if (weight === 0 || rest > weight) {
        rest -= weight;
        continue;
      }
      if (bin === 0) return 0;
      if (bin === PLACES - 1) return 1;
      return (bin - 1 + rest / weight) / BINS;
    }
    return all === 0 ? 0 : 1;
  }
}
