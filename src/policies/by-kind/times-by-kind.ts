import type { GivenBatch, LatencyModel } from "../../core/latency/latency.js";
import type { QueueSpec } from "../../core/policy.js";
import { BatchLine } from "../../core/times/batch-line.js";
import { BatchSpread } from "../../core/times/batch-spread.js";
import { Distribution } from "../../core/times/distribution.js";
import { TimeHistogram } from "../../core/times/time-histogram.js";

/** Moments of time alone on which distributions are tabulated for the hot path: half where they bend, half between. */
const GRID = 64;
const BENDS = GRID / 2;
/** Tables follow what was measured at most this often, µs. */
const COMPILE_US = 1_000_000;
/** Kinds beyond this are taken to be like all others together. */
const KINDS_MAX = 1024;
/** How often kinds come is what the last so many requests say. */
const ARRIVALS_MAX = 4096;
/** Observations that what was known beforehand counts as. */
const PRIOR_WEIGHT = 100;
/** Width of what is known exactly, relative: the profile, where nothing else is. */
const EXACT = 1e-9;

export interface TimesByKindOptions {
  /** Times of requests alone are remembered this long, µs. */
  readonly windowUs: number;
}

/**
 * How long a batch takes whose requests differ (ORLOJ §4.2): by the longest of its members, whose time alone is known as a
 * distribution for each kind.
 *
 * Eq. 3, l_B = c0 + c1 k l, and "l is the time alone" agree at k = 1 only where l = c0 + c1 l. So here y is the time of a
 * run alone, as it is measured, and l what it is above the cost of a batch: a batch takes c0 + k (max y - c0), and y where k = 1.
 * Where only a profile l(b) is known, that is l(k) + k (max y - l(1)): the profile itself for a request that takes what it says.
 * What batches took corrects it by a line (BatchLine), which begins as the identity.
 *
 * Where no kind has been measured, all of this is the profile to the last µs.
 */
export class TimesByKind implements LatencyModel {
  readonly sizeMax: number;
  readonly execUs: Float64Array;
  version = 0;
  /** Some kind was measured, or told of: all of this is more than the profile. */
  isKnown = false;
  /** By kind: mean time alone, µs. */
  readonly aloneUs: number[] = [];
  /** Times alone at which distributions are tabulated, µs, ascending. */
  private readonly grid = new Float64Array(GRID);
  /** By kind: P(time alone <= grid[i]). */
  private readonly cdfs: Float64Array[] = [];
  /** Of a request of any kind, as often as they come. */
  private readonly mixture = new Float64Array(GRID);
  private readonly histograms: TimeHistogram[] = [];
  private readonly arrivals: number[] = [];
  private arrivalsTotal = 0;
  private readonly line: BatchLine;
  /** Of batches about the line, beyond what the distributions of their members say. */
  private readonly spread = new BatchSpread();
  /** By size: what a batch takes less k times its longest member's time alone, as known beforehand. Never changes: the line has one meaning for ever. */
  private readonly baseUs: Float64Array;
  private readonly profileUs: number;
  private readonly product = new Float64Array(GRID);
  private readonly windowUs: number;
  private compiledAt = Number.NEGATIVE_INFINITY;
  private isStale = false;

  constructor({ latency, kinds = [], batchTime }: QueueSpec, { windowUs }: TimesByKindOptions) {
    const { sizeMax, execUs } = latency;
    this.windowUs = windowUs;
    this.sizeMax = sizeMax;
    this.execUs = new Float64Array(sizeMax + 2);
    this.execUs[sizeMax + 1] = Number.POSITIVE_INFINITY;
    this.profileUs = execUs[1]!;
    this.baseUs = Float64Array.from({ length: sizeMax + 1 }, (_, size) =>
      batchTime === undefined ? execUs[size]! - size * execUs[1]! : (1 - size) * batchTime.c0Us,
    );
    this.line = new BatchLine({ c0Us: 0, c1: 1 });
    for (const { share, aloneUs } of kinds.slice(0, KINDS_MAX)) this.addKind(share * PRIOR_WEIGHT, aloneUs);
    if (kinds.length === 0) this.addKind(PRIOR_WEIGHT, new Float64Array());
    this.compile(0);
  }

  /** A request of this kind came: how often each does is what `mixture` is made of. */
  arrived(kind: number): void {
    this.know(kind);
    this.arrivals[kind]!++;
    if (++this.arrivalsTotal < ARRIVALS_MAX) return;
    for (let each = 0; each < this.arrivals.length; each++) this.arrivals[each]! /= 2;
    this.arrivalsTotal /= 2;
  }

  quantileUs(size: number, q: number): number {
    return this.batchUs(size, this.quantileOf(this.mixture, q ** (1 / size)));
  }

  givenUs(given: GivenBatch): number {
    return this.batchUs(given.batches.executedSize[given.batch]!, this.longestOf(given));
  }

  quantileOfGiven(given: GivenBatch, us: number): number {
    if (!this.isKnown) return Number.NaN;
    this.longestOf(given);
    const size = given.batches.executedSize[given.batch]!;
    return size === 1 ? this.chanceOf(this.product, us) : this.spread.chanceOf(us, this.chanceWithin(size));
  }

  measured(given: GivenBatch, us: number): boolean {
    const { batch, batches, requests } = given;
    const size = batches.executedSize[batch]!;
    const at = batches.execAt[batch]!;
    if (size === 1) {
      const kind = requests.kind[batches.first[batch]!]!;
      this.know(kind);
      this.histograms[kind]!.observe(us, at);
      this.isStale = true;
    } else {
      const longestUs = this.longestOf(given);
      this.spread.observe(this.spread.chanceOf(us, this.chanceWithin(size)));
      if (this.line.observe(this.knownUs(size, longestUs), us)) this.isStale = true;
    }
    if (!this.isStale || at - this.compiledAt < COMPILE_US) return false;
    this.compile(at);
    return true;
  }

  /** Time of a batch whose longest member takes `longestUs` alone. */
  batchUs(size: number, longestUs: number): number {
    return size === 1 ? longestUs : this.line.at(this.knownUs(size, longestUs));
  }

  /** Time alone of the longest member with which a batch takes `us`: the inverse. */
  longestWithin(size: number, us: number): number {
    return size === 1 ? us : ((us - this.line.c0Us) / this.line.c1 - this.baseUs[size]!) / size;
  }

  /** Tabulated distribution of the maximum: `cdf` times that of one more request of this kind. */
  join(cdf: Float64Array, kind: number, isFirst: boolean): void {
    const other = this.cdfs[kind] ?? this.mixture;
    if (isFirst) cdf.set(other);
    else for (let index = 0; index < GRID; index++) cdf[index]! *= other[index]!;
  }

  /** Mean of a tabulated distribution, linear between the moments of the grid. */
  meanOf(cdf: Float64Array): number {
    const { grid } = this;
    let mean = grid[GRID - 1]!;
    for (let index = 1; index < GRID; index++)
      mean -= ((cdf[index]! + cdf[index - 1]!) / 2) * (grid[index]! - grid[index - 1]!);
    return mean;
  }

  /** P(time <= us). */
  chanceOf(cdf: Float64Array, us: number): number {
    const { grid } = this;
    if (us < grid[0]!) return 0;
    if (us >= grid[GRID - 1]!) return 1;
    let index = 0;
    for (let step = GRID / 2; step >= 1; step /= 2) if (us >= grid[index + step]!) index += step;
    const part = (us - grid[index]!) / (grid[index + 1]! - grid[index]!);
    return cdf[index]! + part * (cdf[index + 1]! - cdf[index]!);
  }

  quantileOf(cdf: Float64Array, q: number): number {
    const { grid } = this;
    let index = 0;
    while (index < GRID - 1 && cdf[index]! < q) index++;
    if (index === 0) return grid[0]!;
    const rise = cdf[index]! - cdf[index - 1]!;
    const part = rise <= 0 ? 1 : (q - cdf[index - 1]!) / rise;
    return grid[index - 1]! + Math.min(1, part) * (grid[index]! - grid[index - 1]!);
  }

  /** Time alone that one of the kind stays within with probability q. */
  aloneQuantileUs(kind: number, q: number): number {
    return this.quantileOf(this.cdfs[kind] ?? this.mixture, q);
  }

  /** About how many runs alone of the kind were measured in the last window. */
  aloneSeen(kind: number, at: number): number {
    return this.histograms[kind]?.recent(at) ?? 0;
  }

  /** Mean time alone of one of the kind. */
  meanAloneUs(kind: number): number {
    return this.aloneUs[kind] ?? this.execUs[1]!;
  }

  /** What one of the kind adds to a batch, as a part of what a full batch of all kinds takes for each member. */
  partOfFullBatch(kind: number): number {
    const { sizeMax, execUs } = this;
    const aloneUs = this.meanAloneUs(kind);
    const eachUs = sizeMax === 1 ? aloneUs : (this.batchUs(sizeMax, aloneUs) - aloneUs) / (sizeMax - 1);
    return (eachUs * sizeMax) / execUs[sizeMax]!;
  }

  /** An empty table, for `join`. */
  table(): Float64Array {
    return new Float64Array(GRID);
  }

  /** Distribution of a batch of `size` of which one is of this kind and the others of any, µs (ORLOJ §4.3). */
  batchWith(kind: number, size: number): Distribution {
    const { product, grid, mixture } = this;
    product.set(this.cdfs[kind] ?? mixture);
    for (let other = 1; other < size; other++)
      for (let index = 0; index < GRID; index++) product[index]! *= mixture[index]!;
    const edges = grid.map((us) => this.batchUs(size, us));
    return Distribution.of(
      edges,
      product.subarray(1).map((below, index) => below - product[index]!),
    );
  }

  /** By the line, that a batch whose longest member is in `product` takes at most so long. */
  private chanceWithin(size: number): (us: number) => number {
    return (us) => this.chanceOf(this.product, this.longestWithin(size, us));
  }

  /** As known beforehand; at least the longest member's own time. */
  private knownUs(size: number, longestUs: number): number {
    return Math.max(longestUs, this.baseUs[size]! + size * longestUs);
  }

  /** Mean time alone of the longest member, by what is known of their kinds. */
  private longestOf({ batch, batches, requests }: GivenBatch): number {
    const { product } = this;
    let isFirst = true;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      this.join(product, requests.kind[member]!, isFirst);
      isFirst = false;
    }
    return this.meanOf(product);
  }

  /** A kind that was not seen before is like all others until it is measured. */
  private know(kind: number): void {
    if (kind < this.histograms.length || kind >= KINDS_MAX) return;
    while (this.histograms.length <= kind) this.addKind(1, new Float64Array());
    this.compile(Math.max(0, this.compiledAt));
  }

  private addKind(arrivals: number, aloneUs: Float64Array): void {
    const histogram = new TimeHistogram({ windowUs: this.windowUs });
    if (aloneUs.length > 0) histogram.believe(aloneUs, PRIOR_WEIGHT);
    this.histograms.push(histogram);
    this.cdfs.push(new Float64Array(GRID));
    this.arrivals.push(arrivals);
    this.arrivalsTotal += arrivals;
  }

  /** Tables of what is known at this moment. */
  private compile(at: number): void {
    const { grid, cdfs, mixture, histograms, arrivals } = this;
    this.compiledAt = at;
    this.isStale = false;
    this.version++;
    const known: (Distribution | null)[] = histograms.map((histogram) => histogram.distribution(at));
    const some = known.filter((each) => each !== null);
    this.isKnown = some.length > 0;
    const any =
      some.length === 0
        ? Distribution.of([this.profileUs * (1 - EXACT), this.profileUs], [1])
        : Distribution.mixture(
            some,
            arrivals.filter((_, kind) => known[kind] !== null),
          );
    const last = GRID - 1;
    // Each kind counts alike: a rare one makes the longest member, too.
    tabulateAt(some.length === 0 ? any : Distribution.mixture(some, new Float64Array(some.length).fill(1)), grid);
    for (let index = 0; index < GRID; index++) mixture[index] = any.cdf(grid[index]!);
    for (let kind = 0; kind < known.length; kind++) {
      const times = known[kind] ?? any;
      this.aloneUs[kind] = times.mean;
      for (let index = 0; index < GRID; index++) cdfs[kind]![index] = times.cdf(grid[index]!);
      cdfs[kind]![last] = 1;
    }
    mixture[last] = 1;
    const { product, execUs } = this;
    product.set(mixture);
    for (let size = 1; size <= this.sizeMax; size++) {
      if (size > 1) for (let index = 0; index < GRID; index++) product[index]! *= mixture[index]!;
      const us = Math.ceil(this.batchUs(size, this.meanOf(product)));
      execUs[size] = Math.max(execUs[size - 1]!, us);
    }
  }
}

/**
 * Where tables follow a distribution best: its bends, and points between in the bins of most probability times width, since
 * there the CDF of a maximum is no line. Modes that are narrow beside the distances between them keep their shapes.
 */
function tabulateAt(times: Distribution, grid: Float64Array): void {
  const { edges, probabilities } = times.coarsened(BENDS - 1);
  const areas = Array.from(probabilities, (probability, bin) => probability * (edges[bin + 1]! - edges[bin]!));
  const parts = areas.map(() => 1);
  // A part of a bin in n parts has 1/n of its probability and of its width.
  for (let count = areas.length; count < grid.length - 1; count++) {
    let widest = 0;
    for (let bin = 1; bin < areas.length; bin++)
      if (areas[bin]! / parts[bin]! ** 2 > areas[widest]! / parts[widest]! ** 2) widest = bin;
    parts[widest]!++;
  }
  let at = 0;
  for (let bin = 0; bin < areas.length; bin++)
    for (let part = 0; part < parts[bin]!; part++)
      grid[at++] = edges[bin]! + (part / parts[bin]!) * (edges[bin + 1]! - edges[bin]!);
  grid[at] = edges[areas.length]!;
}
