/** Counts of values in bins, in rows that are cleared apart and read together by weights: a sliding window of intervals. */

/** Which values fall into which bin. */
export interface Scale {
  readonly places: number;
  placeOf(value: number): number;
  /** The value this part of the way through a bin. @param part in [0, 1]. */
  valueAt(place: number, part: number): number;
}

export class BinCounts {
  private readonly scale: Scale;
  private readonly counts: Uint32Array;
  /** Of those included. */
  private readonly weights: Float64Array;

  /** @param rows counted apart. */
  constructor(rows: number, scale: Scale) {
    this.scale = scale;
    this.counts = new Uint32Array(rows * scale.places);
    this.weights = new Float64Array(scale.places);
  }

  add(row: number, value: number): void {
    this.counts[row * this.scale.places + this.scale.placeOf(value)]!++;
  }

  /** @param end row after the last. */
  clear(first: number, end: number): void {
    this.counts.fill(0, first * this.scale.places, end * this.scale.places);
  }

  /** What `quantile` is of: nothing yet. */
  begin(): void {
    this.weights.fill(0);
  }

  include(row: number, weight: number): void {
    const { places } = this.scale;
    for (let bin = 0; bin < places; bin++) this.weights[bin]! += weight * this.counts[row * places + bin]!;
  }

  /** Weight of all that is included. */
  get all(): number {
    let all = 0;
    for (const weight of this.weights) all += weight;
    return all;
  }

  /** Value that this part of all is at most, evenly spread within a bin; the least of the scale where there is none. @param part in [0, 1]. */
  quantile(part: number): number {
    const { scale, weights, all } = this;
    let rest = part * all;
    for (let bin = 0; bin < scale.places; bin++) {
      const weight = weights[bin]!;
      if (weight > 0 && rest <= weight) return scale.valueAt(bin, rest / weight);
      rest -= weight;
    }
    return all === 0 ? scale.valueAt(0, 0) : scale.valueAt(scale.places - 1, 1);
  }
}
