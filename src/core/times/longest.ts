import { invariant, violated } from "../invariant.js";
import { countBelow } from "./ascending.js";
import { Distribution } from "./distribution.js";
import { gaussLegendre } from "./gauss-legendre.js";

/** So many members of a batch, each with a time of this distribution. */
export interface Members {
  readonly times: Distribution;
  readonly count: number;
}

/** A CDF below this adds nothing to an integral of 1 - CDF. */
const NEGLIGIBLE = 1e-18;

/**
 * The longest of independent times, alike or not: what a padded batch takes as its length (ORLOJ §4.2, Eq. 4 to 8).
 *
 * The CDF of a maximum is the product of the CDFs (Eq. 6 is its case of equal ones). Its density is then
 * sum_i f_i prod_{j != i} F_j, which Eq. 8 (Özbey et al.) writes as a sum over all 2^k subsets of the batch: the tests show that
 * they are the same. The paper says that a mean from the CDF "would be far too inaccurate, as we only have a discrete
 * histogram": with bins that are uniform within it is exact, as E[max] = least + integral of (1 - F), and between two edges F is
 * a polynomial, whose integral Gauss and Legendre's rule gives without error. Eq. 5's integrand is printed as
 * L_r(k) f(l); meant is l f(l), the mean of the density.
 */
export class Longest {
  /** From the first moment at which all may have ended to the last; µs. */
  readonly edges: Float64Array;
  private readonly counts: readonly number[];
  /** By distribution: its CDF at the edges. */
  private readonly cdfs: readonly Float64Array[];
  /** P(longest <= edges[i]). */
  private readonly cumulative: Float64Array;
  private meanUs = Number.NaN;

  constructor(members: readonly Members[]) {
    const given = members.filter(({ count }) => count !== 0);
    invariant(given.length > 0, "the longest of no members is not defined");
    for (const { count } of given)
      if (!(Number.isInteger(count) && count > 0))
        violated(`count of members must be a whole number >= 0; was ${count}`);
    const least = Math.max(...given.map(({ times }) => times.min));
    const all = Distribution.edgesOf(given.map(({ times }) => times));
    const edges = all.slice(countBelow(all, least));
    this.edges = edges;
    this.counts = given.map(({ count }) => count);
    this.cdfs = given.map(({ times }) => edges.map((edge) => times.cdf(edge)));
    this.cumulative = edges.map((_, at) =>
      this.cdfs.reduce((product, cdf, index) => product * cdf[at]! ** this.counts[index]!, 1),
    );
  }

  /** Exact; O(edges * distributions * members), and once. */
  get mean(): number {
    if (Number.isNaN(this.meanUs)) this.meanUs = this.computeMean();
    return this.meanUs;
  }

  /** P(longest <= us). */
  cdf(us: number): number {
    const { edges, cumulative } = this;
    const at = countBelow(edges, us) - 1;
    if (at < 0) return 0;
    if (at === edges.length - 1) return 1;
    return Math.min(cumulative[at + 1]!, this.between(at, (us - edges[at]!) / (edges[at + 1]! - edges[at]!)));
  }

  /** The least time that is not exceeded with probability q, to the last digits. @param q in [0, 1]. */
  quantile(q: number): number {
    if (!(q >= 0 && q <= 1)) violated(`quantile must be in [0, 1]; was ${q}`);
    const { edges } = this;
    const at = countBelow(this.cumulative, q) - 1;
    if (at < 0) return edges[0]!;
    let low = 0;
    let high = 1;
    for (let step = 0; step < 52; step++) {
      const middle = (low + high) / 2;
      if (this.between(at, middle) < q) low = middle;
      else high = middle;
    }
    return edges[at]! + high * (edges[at + 1]! - edges[at]!);
  }

  /** In the bins between the edges, uniform within: its mean is near to `mean`, which is exact. */
  distribution(): Distribution {
    const { edges, cumulative } = this;
    return Distribution.of(
      edges,
      cumulative.subarray(1).map((below, bin) => below - cumulative[bin]!),
    );
  }

  /** P(longest <= that part of the way from an edge to the next). */
  private between(at: number, part: number): number {
    const { cdfs, counts } = this;
    let product = 1;
    for (let index = 0; index < cdfs.length; index++) {
      const from = cdfs[index]![at]!;
      product *= (from + part * (cdfs[index]![at + 1]! - from)) ** counts[index]!;
    }
    return product;
  }

  private computeMean(): number {
    const { edges, counts, cumulative } = this;
    const { points, weights } = gaussLegendre(counts.reduce((sum, count) => sum + count, 0));
    let mean = edges[0]!;
    for (let at = 0; at + 1 < edges.length; at++) {
      const width = edges[at + 1]! - edges[at]!;
      let integral = 0;
      if (cumulative[at + 1]! > NEGLIGIBLE)
        for (let point = 0; point < points.length; point++)
          integral += weights[point]! * this.between(at, points[point]!);
      mean += width * (1 - integral);
    }
    return mean;
  }
}
