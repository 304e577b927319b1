/** Times are told apart between these; what is beyond counts as one of them. */
export const BINNED_US_MIN = 10;
export const BINNED_US_MAX = 600e6;
const PER_DOUBLING = 112;
const BINS = Math.ceil(Math.log2(BINNED_US_MAX / BINNED_US_MIN) * PER_DOUBLING);
const EDGES = Float64Array.from({ length: BINS + 1 }, (_, bin) => BINNED_US_MIN * 2 ** (bin / PER_DOUBLING));
/** Least width of a bin whose ends were moved to the extremes, relative to its edge: a constant time has one, too. */
const NARROWEST = 1e-6;

const WEIGHT = 0;
const MIN = 1;
const MAX = 2;
const NOTHING = [0, Number.POSITIVE_INFINITY, 0];

/**
 * Times in bins from 10 µs to 10 minutes, 112 to a doubling: each is 0.6 % of its lower edge wide, so a time is known to
 * 0.3 % of itself, and one of 10 s needs no more bins than one of 10 ms. 23 KB; adding allocates nothing.
 */
export class BinnedTimes {
  private readonly counts = new Float64Array(BINS);
  /** Weight of all, least and largest time; a typed array because a changing double field may allocate. */
  private readonly totals = new Float64Array(NOTHING);

  get weight(): number {
    return this.totals[WEIGHT]!;
  }

  /** O(1). */
  add(us: number, weight: number): void {
    const within = Math.min(Math.max(us, BINNED_US_MIN), BINNED_US_MAX);
    this.counts[binOf(within)]! += weight;
    this.include(weight, within, within);
  }

  addAll({ counts, totals }: BinnedTimes, share: number): void {
    if (share === 0 || totals[WEIGHT] === 0) return;
    for (let bin = 0; bin < BINS; bin++) this.counts[bin]! += share * counts[bin]!;
    this.include(share * totals[WEIGHT]!, totals[MIN]!, totals[MAX]!);
  }

  clear(): void {
    this.counts.fill(0);
    this.totals.set(NOTHING);
  }

  /**
   * The bins from the least time to the largest, when there are any. The outer edges are these two: of a model that always
   * takes the same, one bin is left that is as good as a point.
   */
  bins(): { readonly edges: Float64Array; readonly weights: Float64Array } {
    const first = binOf(this.totals[MIN]!);
    const last = binOf(this.totals[MAX]!);
    const edges = EDGES.slice(first, last + 2);
    const bins = last - first + 1;
    edges[0] = Math.min(Math.max(edges[0]!, this.totals[MIN]!), edges[1]! * (1 - NARROWEST));
    edges[bins] = Math.max(Math.min(edges[bins]!, this.totals[MAX]!), edges[bins - 1]! * (1 + NARROWEST));
    return { edges, weights: this.counts.subarray(first, last + 1) };
  }

  private include(weight: number, minUs: number, maxUs: number): void {
    const { totals } = this;
    totals[WEIGHT]! += weight;
    if (minUs < totals[MIN]!) totals[MIN] = minUs;
    if (maxUs > totals[MAX]!) totals[MAX] = maxUs;
  }
}

/** The bin of a time within the bounds. */
function binOf(us: number): number {
  if (us >= EDGES[BINS - 1]!) return BINS - 1;
  const bin = Math.floor(Math.log2(us / BINNED_US_MIN) * PER_DOUBLING);
  // The logarithm may be an ulp off at an edge.
  if (us < EDGES[bin]!) return bin - 1;
  return us >= EDGES[bin + 1]! ? bin + 1 : bin;
}
