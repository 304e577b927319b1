import type { ElasticProfile, Variant } from "../../core/latency/elastic.js";
import { type GivenBatch, type LatencyModel, normalQuantile } from "../../core/latency/latency.js";
import type { QueueSpec } from "../../core/policy.js";
import type { BatchId } from "../../core/tables/batch-table.js";

/** Weight of a measurement in the mean and the variance. */
const EWMA_WEIGHT = 0.1;
/** What one measurement may say at most, times as long as profiled or as short: a stall is not the model's. */
const RATIO_MAX = 4;
/** Plans are made anew when what they are made with has moved by this part. */
const MOVED = 0.01;

/** Which ways of running an elastic model a policy chooses from. */
export interface WaysOptions {
  /** Which variants of the profile; those of the model itself where absent. */
  readonly among?: (variant: Variant) => boolean;
  /** Tokens added or removed that are chosen from; undefined: all. */
  readonly gammas?: readonly number[] | undefined;
  /** Only the one whose gamma is nearest to this; of two as near the one that removes more. */
  readonly nearest?: number;
}

/**
 * How long a batch takes by the work that each member gets: the profile of each gamma, l(b), whatever tasks are in it.
 *
 * The ways to choose from ascend by gamma: the first removes most tokens. `BatchTable.variant` is the way's index in the profile plus 1, or
 * 0 where the queue is not elastic: then there is one way, its profile.
 *
 * What batches took corrects all ways by one factor, mean and deviation as in ProfiledLatency: drift (a warm cache, a noisy
 * neighbour) moves all of them, and a way that is chosen rarely would never learn of it.
 */
export class ElasticTimes implements LatencyModel {
  readonly sizeMax: number;
  /** Of the fastest way at each size. */
  readonly execUs: Float64Array;
  version = 0;
  readonly profile: ElasticProfile;
  /** By way: index in the profile. */
  readonly ways: readonly number[];
  readonly count: number;
  /** The way that needs least time for one request. */
  readonly fastest: number;
  /** Value of BatchTable.variant by way. */
  private readonly numbers: readonly number[];
  /** By kind and index in the profile: its own, until told otherwise. */
  private known: readonly ArrayLike<number>[];
  /** By kind and way, where it was asked for. */
  private readonly rows: Float64Array[] = [];
  private readonly allRight: Float64Array;
  private factor = 1;
  private variance = 0;
  /** What plans are made with, times the profile. */
  private planned = 1;
  /** What the batch that is about to go loads first, µs; of batches on their way, where that is not 0. */
  private loadUs = 0;
  private readonly loads = new Map<BatchId, number>();

  constructor({ elastic, latency }: Pick<QueueSpec, "elastic" | "latency">, options: WaysOptions = {}) {
    this.profile = elastic ?? notElastic(latency.execUs);
    const { variants, plain, accuracy } = this.profile;
    this.known = accuracy;
    const { among = ({ family }) => family === 0, gammas } = options;
    const chosen = variants
      .map((_, index) => index)
      .filter((index) => among(variants[index]!) && (gammas?.includes(variants[index]!.gamma) ?? true))
      .sort((a, b) => variants[a]!.gamma - variants[b]!.gamma || variants[a]!.execUs[1]! - variants[b]!.execUs[1]!);
    const { nearest } = options;
    const ways = chosen.length === 0 ? [plain] : chosen;
    this.ways = nearest === undefined ? ways : [nearestTo(nearest, ways, variants)];
    this.count = this.ways.length;
    this.allRight = new Float64Array(this.count).fill(1);
    this.numbers = this.ways.map((index) => (elastic === undefined ? 0 : index + 1));
    this.sizeMax = latency.sizeMax;
    const aloneUs = this.ways.map((index) => variants[index]!.execUs[1]!);
    this.fastest = aloneUs.indexOf(Math.min(...aloneUs));
    this.execUs = new Float64Array(this.sizeMax + 2);
    this.execUs[this.sizeMax + 1] = Number.POSITIVE_INFINITY;
    this.compile();
  }

  /** Planned time of a batch, on an accelerator of scale 1. */
  timeUs(way: number, size: number): number {
    return this.profiledUs(this.ways[way]!, size) * this.planned;
  }

  /** By way: expected right answers of a request of this task. Of a task that nobody knows all are. */
  accuracies(kind: number): Float64Array {
    const known = this.rows[kind];
    if (known !== undefined) return known;
    const row = this.known[kind];
    if (row === undefined || row.length === 0) return this.allRight;
    const byWay = Float64Array.from(this.ways, (index) => row[index] ?? 1);
    this.rows[kind] = byWay;
    return byWay;
  }

  accuracy(way: number, kind: number): number {
    return this.accuracies(kind)[way]!;
  }

  /** Accuracies are other ones from now on. @param accuracy as in the profile. */
  learnAccuracy(accuracy: readonly ArrayLike<number>[]): void {
    this.known = accuracy;
    this.rows.length = 0;
    this.version++;
  }

  /** [kinds x ways], and a row for kinds that nobody knows. */
  accuracyTable(): Float64Array {
    const { count } = this;
    return Float64Array.from({ length: (this.known.length + 1) * count }, (_, cell) =>
      this.accuracy(cell % count, Math.floor(cell / count)),
    );
  }

  variant(way: number): Variant {
    return this.profile.variants[this.ways[way]!]!;
  }

  /** Tokens added or removed, by way. */
  get gammas(): readonly number[] {
    return this.ways.map((_, way) => this.variant(way).gamma);
  }

  /** What plans are made with, times the profile. */
  get drift(): number {
    return this.planned;
  }

  /**
   * By way: requests of a batch at most by memory. 0: it needs more than there is for one; a way that needs least is allowed one in
   * any case.
   */
  sizesWithin(memoryMb: number): Int32Array {
    return Int32Array.from({ length: this.count }, (_, way) => {
      const { runMb } = this.variant(way);
      const size = runMb === 0 ? this.sizeMax : Math.min(this.sizeMax, Math.floor(memoryMb / runMb));
      return way === this.fastest ? Math.max(1, size) : size;
    });
  }

  /** Of BatchTable.variant. */
  numberOf(way: number): number {
    return this.numbers[way]!;
  }

  /** Requests/s of a way at its best size up to `sizeMax`, on an accelerator of scale 1. */
  throughput(way: number, sizeMax: number): number {
    let most = 0;
    for (let size = 1; size <= Math.min(sizeMax, this.sizeMax); size++)
      most = Math.max(most, (size * 1e6) / this.timeUs(way, size));
    return most;
  }

  /** Before a batch goes: its accelerator holds another model of the family and loads this one first. */
  sends(loadUs: number): void {
    this.loadUs = loadUs;
  }

  givenUs({ batch, batches }: GivenBatch): number {
    if (this.loadUs > 0) this.loads.set(batch, this.loadUs);
    else this.loads.delete(batch);
    const us = this.profiledUs(this.indexOf(batches.variant[batch]!), batches.executedSize[batch]!) * this.planned;
    return us + this.loadUs;
  }

  quantileUs(size: number, q: number): number {
    return this.profiledUs(this.profile.plain, size) * (this.factor + normalQuantile(q) * Math.sqrt(this.variance));
  }

  measured({ batch, batches }: GivenBatch, us: number): boolean {
    const profiledUs = this.profiledUs(this.indexOf(batches.variant[batch]!), batches.executedSize[batch]!);
    const ratio = Math.max(0, us - (this.loads.get(batch) ?? 0)) / profiledUs;
    const difference = Math.min(RATIO_MAX, Math.max(1 / RATIO_MAX, ratio)) - this.factor;
    this.factor += EWMA_WEIGHT * difference;
    this.variance = (1 - EWMA_WEIGHT) * (this.variance + EWMA_WEIGHT * difference * difference);
    const planned = this.factor + Math.sqrt(this.variance);
    if (Math.abs(planned - this.planned) < MOVED * this.planned) return false;
    this.planned = planned;
    this.compile();
    return true;
  }

  /** Forgets what was learnt, so that what it refuses is measured again; see Release. @returns false: nothing changed. */
  reset(): boolean {
    this.factor = 1;
    this.variance = 0;
    if (this.planned === 1) return false;
    this.planned = 1;
    this.compile();
    return true;
  }

  private indexOf(number: number): number {
    return number === 0 ? this.profile.plain : number - 1;
  }

  private profiledUs(index: number, size: number): number {
    return this.profile.variants[index]!.execUs[size]!;
  }

  private compile(): void {
    this.version++;
    for (let size = 1; size <= this.sizeMax; size++) {
      let least = Number.POSITIVE_INFINITY;
      for (let way = 0; way < this.count; way++) least = Math.min(least, this.timeUs(way, size));
      this.execUs[size] = Math.ceil(least - 1e-6);
    }
  }
}

const nearestTo = (gamma: number, ways: readonly number[], variants: readonly Variant[]): number => {
  const offBy = (way: number): number => Math.abs(variants[way]!.gamma - gamma);
  return ways.reduce((nearest, way) => (offBy(way) < offBy(nearest) ? way : nearest));
};

const notElastic = (execUs: Float64Array): ElasticProfile => ({
  variants: [{ name: "0", gamma: 0, family: 0, execUs, loadUs: 0, runMb: 0 }],
  plain: 0,
  accuracy: [],
});
