import { IndexedHeap } from "../indexed-heap.js";
import { invariant, violated } from "../invariant.js";
import { ascendingOf, countBelow } from "./ascending.js";
import { BinnedTimes } from "./binned-times.js";

/**
 * How long something takes, as a random variable: bins with a probability each, uniform within a bin, µs.
 *
 * So the CDF is a line within each bin, which is what the order statistics of Longest and the scores of ORLOJ are exact
 * for. Never changes once it is made.
 */
export class Distribution {
  /** Ascending, one more than there are bins; the first and the last bin hold something. */
  readonly edges: Float64Array;
  /** By bin; they add up to 1. */
  readonly probabilities: Float64Array;
  readonly mean: number;
  /** P(time <= edges[i]). */
  private readonly cumulative: Float64Array;

  private constructor(edges: Float64Array, probabilities: Float64Array) {
    this.edges = edges;
    this.probabilities = probabilities;
    const bins = probabilities.length;
    this.cumulative = new Float64Array(bins + 1);
    let mean = 0;
    for (let bin = 0; bin < bins; bin++) {
      this.cumulative[bin + 1] = Math.min(1, this.cumulative[bin]! + probabilities[bin]!);
      mean += (probabilities[bin]! * (edges[bin]! + edges[bin + 1]!)) / 2;
    }
    this.cumulative[bins] = 1;
    this.mean = mean;
  }

  /** @param edges µs >= 0, ascending, one more than weights. @param weights of the bins, >= 0, in any unit. */
  static of(edges: ArrayLike<number>, weights: ArrayLike<number>): Distribution {
    const bins = weights.length;
    invariant(
      edges.length === bins + 1,
      `edges of a distribution must be ${bins + 1} for ${bins} bins; were ${edges.length}`,
    );
    let total = 0;
    let first = bins;
    let last = -1;
    for (let bin = 0; bin < bins; bin++) {
      const weight = weights[bin]!;
      if (!(weight >= 0 && weight < Number.POSITIVE_INFINITY))
        violated(`weight ${bin} must be >= 0 and finite; was ${weight}`);
      if (!(edges[bin]! >= 0 && edges[bin]! < edges[bin + 1]! && edges[bin + 1]! < Number.POSITIVE_INFINITY))
        violated(`edges must be >= 0, ascending and finite; were ${edges[bin]}, ${edges[bin + 1]} around bin ${bin}`);
      if (weight === 0) continue;
      total += weight;
      first = Math.min(first, bin);
      last = bin;
    }
    invariant(
      total > 0 && total < Number.POSITIVE_INFINITY,
      `weights of a distribution must add up to more than 0; were ${total} in all`,
    );
    const size = last - first + 1;
    return new Distribution(
      Float64Array.from({ length: size + 1 }, (_, index) => edges[first + index]!),
      Float64Array.from({ length: size }, (_, index) => weights[first + index]! / total),
    );
  }

  /** @param ascending times in µs, at least one; what is beyond 10 µs or 10 minutes counts as that. */
  static ofSample(ascending: ArrayLike<number>): Distribution {
    const count = ascending.length;
    invariant(count > 0, "a sample must hold at least one time; held 0");
    const times = new BinnedTimes();
    let before = 0;
    for (let index = 0; index < count; index++) {
      const us = ascending[index]!;
      if (!(us >= before)) violated(`a sample must be ascending and >= 0; was ${us} after ${before}`);
      times.add(us, 1);
      before = us;
    }
    return Distribution.ofBinned(times);
  }

  /** @param times at least one. */
  static ofBinned(times: BinnedTimes): Distribution {
    const { edges, weights } = times.bins();
    return Distribution.of(edges, weights);
  }

  /** Of one drawn from a part that is drawn by the shares. @param shares >= 0, in any unit, as many as parts. */
  static mixture(parts: readonly Distribution[], shares: ArrayLike<number>): Distribution {
    invariant(
      parts.length === shares.length,
      `shares must be ${parts.length}, one for each part; were ${shares.length}`,
    );
    const edges = Distribution.edgesOf(parts);
    const weights = new Float64Array(edges.length - 1);
    parts.forEach((part, index) => {
      let bin = 0;
      for (let at = 0; at < weights.length && bin < part.probabilities.length; at++) {
        if (edges[at]! < part.edges[bin]!) continue;
        const width = part.edges[bin + 1]! - part.edges[bin]!;
        weights[at]! += (shares[index]! * part.probabilities[bin]! * (edges[at + 1]! - edges[at]!)) / width;
        if (edges[at + 1] === part.edges[bin + 1]) bin++;
      }
    });
    return Distribution.of(edges, weights);
  }

  /** Edges of all of them, each once: between two of these every CDF is a line. */
  static edgesOf(parts: readonly Distribution[]): Float64Array {
    const all = new Float64Array(parts.reduce((count, { edges }) => count + edges.length, 0));
    let count = 0;
    for (const { edges } of parts) {
      all.set(edges, count);
      count += edges.length;
    }
    return ascendingOf(all);
  }

  get min(): number {
    return this.edges[0]!;
  }

  get max(): number {
    return this.edges[this.edges.length - 1]!;
  }

  /** P(time <= us). O(log bins). */
  cdf(us: number): number {
    const { edges, cumulative, probabilities } = this;
    const bin = countBelow(edges, us) - 1;
    if (bin < 0) return 0;
    if (bin === probabilities.length) return 1;
    const part = (us - edges[bin]!) / (edges[bin + 1]! - edges[bin]!);
    return Math.min(cumulative[bin + 1]!, cumulative[bin]! + probabilities[bin]! * part);
  }

  /** The least time that is not exceeded with probability q. @param q in [0, 1]; 0 gives the least of all, 1 the largest. */
  quantile(q: number): number {
    if (!(q >= 0 && q <= 1)) violated(`quantile must be in [0, 1]; was ${q}`);
    const { edges, cumulative, probabilities } = this;
    const bin = countBelow(cumulative, q) - 1;
    if (bin < 0) return this.min;
    const part = (q - cumulative[bin]!) / probabilities[bin]!;
    return Math.min(edges[bin + 1]!, edges[bin]! + part * (edges[bin + 1]! - edges[bin]!));
  }

  /**
   * In at most so many bins: the edge whose loss moves the CDF by the least area is dropped again and again (Visvalingam
   * and Whyatt 1993, on the CDF as a polyline). The area is also what the mean moves by, µs; modes and the gaps between
   * them stay where bins of equal probability would smear over gaps. O(n log n).
   */
  coarsened(bins: number): Distribution {
    invariant(Number.isInteger(bins) && bins >= 1, `bins must be a whole number >= 1; was ${bins}`);
    const { edges, cumulative } = this;
    const last = edges.length - 1;
    if (last <= bins) return this;
    const previous = Int32Array.from(edges, (_, index) => index - 1);
    const next = Int32Array.from(edges, (_, index) => index + 1);
    const areas = new IndexedHeap(edges.length);
    const areaOf = (at: number): number => {
      const from = previous[at]!;
      const to = next[at]!;
      const across = (edges[at]! - edges[from]!) * (cumulative[to]! - cumulative[from]!);
      const along = (edges[to]! - edges[from]!) * (cumulative[at]! - cumulative[from]!);
      return Math.abs(across - along) / 2;
    };
    for (let at = 1; at < last; at++) areas.set(at, areaOf(at));
    for (let left = last; left > bins; left--) {
      const area = areas.topPriority();
      const at = areas.pop();
      const from = previous[at]!;
      const to = next[at]!;
      next[from] = to;
      previous[to] = from;
      // Not less than what was lost already: a corner is not smoothed away step by step.
      if (from > 0) areas.set(from, Math.max(area, areaOf(from)));
      if (to < last) areas.set(to, Math.max(area, areaOf(to)));
    }
    const kept: number[] = [];
    for (let at = 0; at <= last; at = next[at]!) kept.push(at);
    return Distribution.of(
      kept.map((at) => edges[at]!),
      kept.slice(1).map((at, index) => cumulative[at]! - cumulative[kept[index]!]!),
    );
  }

  /** Of plusUs + factor * time. @param factor > 0. */
  scaled(factor: number, plusUs = 0): Distribution {
    invariant(
      factor > 0 && factor < Number.POSITIVE_INFINITY,
      `factor of a distribution must be > 0 and finite; was ${factor}`,
    );
    const edges = this.edges.map((edge) => plusUs + factor * edge);
    invariant(edges[0]! >= 0, `times must be >= 0 µs; least is ${this.min} * ${factor} + ${plusUs}`);
    return new Distribution(edges, this.probabilities);
  }
}
