/**
 * What is accelerator time worth, going by those who came of late?
 *
 * To spend time on a request earns less and less per µs, along the concave hull of its gammas: (time, utility x accuracy). If all time that they ask for
 * fits, time is worth nothing; otherwise the fluid optimum spends it where it earns most, and the price of time is what the
 * last of it earns. A plan that ends a µs later takes it from those who come next, so its batches are worth their utility less price x time
 * (`priced`). Algorithms 2 and 3 of OTAS do not know it: a plan that executes all that waits looks free.
 *
 * Demand by log2 of what it earns per µs, in buckets of an eighth of an octave, forgotten with a time constant. Where accelerators are
 * several the demand is shared.
 */
import type { AllocationProblem } from "./allocation.js";
import { BatchOptions } from "./batch-options.js";
import { hullCorners, hullSlope, hullTimeUs } from "./concave-hull.js";

const BUCKETS = 1024;
const PER_OCTAVE = 8;
/** Bucket 0 is 2^-64 per µs. */
const OCTAVES_BELOW = 64;

export class TimeDemand {
  /** By bucket: µs asked for, of late. */
  private readonly demandUs = new Float64Array(BUCKETS);
  /** By kind and corner of its hull for a request of utility 1: log2 of utility per µs, and µs. */
  private readonly slopeLog: Float64Array;
  private readonly lengthUs: Float64Array;
  private readonly corners: Int32Array;
  /** Requests, of late. */
  private arrivals = 0;
  private forgottenAt = 0;
  /** Time of one more request by the gamma that takes least, µs. */
  readonly leastUs: number;
  private readonly gammas: number;
  private readonly costUs: Float64Array;
  private readonly forgetUs: number;

  /**
   * @param accuracy [kinds x gammas]; of a kind beyond them the last one's. @param costUs by gamma: time of one more request in a full batch, its share of all.
   * @param forgetUs time constant, µs: demand of so long ago counts 1/e.
   */
  constructor(accuracy: Float64Array, costUs: Float64Array, forgetUs: number) {
    const gammas = costUs.length;
    const kinds = accuracy.length / gammas;
    this.gammas = gammas;
    this.costUs = costUs;
    this.leastUs = Math.min(...costUs);
    this.forgetUs = forgetUs;
    this.slopeLog = new Float64Array(kinds * gammas);
    this.lengthUs = new Float64Array(kinds * gammas);
    this.corners = new Int32Array(kinds);
    this.learn(accuracy);
  }

  /** What those who come from now on ask for. @param accuracy as long as the one before. */
  learn(accuracy: Float64Array): void {
    const { gammas, costUs } = this;
    const count = this.corners.length;
    const timeUs = Float64Array.from(accuracy, (_, cell) => costUs[cell % gammas]!);
    const dueAt = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
    this.readHulls({ count, gammas, dueAt, timeUs, utility: accuracy });
  }

  /** @param at moment, µs; never before an earlier one. */
  arrived(kind: number, utility: number, at: number): void {
    this.forget(at);
    this.arrivals++;
    if (!(utility > 0)) return;
    const utilityLog = Math.log2(utility) + OCTAVES_BELOW;
    const known = Math.min(kind, this.corners.length - 1);
    const row = known * this.gammas;
    for (let corner = row; corner < row + this.corners[known]!; corner++) {
      const bucket = Math.floor((this.slopeLog[corner]! + utilityLog) * PER_OCTAVE);
      this.demandUs[Math.min(BUCKETS - 1, Math.max(0, bucket))]! += this.lengthUs[corner]!;
    }
  }

  /**
   * @param load times as many requests as of late; over the number of accelerators, where there are several.
   * @returns utility per µs; 0 where all the time that they ask for fits. Too low in the first `forgetUs`.
   */
  price(load: number, at: number): number {
    this.forget(at);
    return this.priceAfter(this.forgetUs / load);
  }

  /** Requests per µs. */
  perUs(at: number): number {
    this.forget(at);
    return this.arrivals / this.forgetUs;
  }

  /** @returns the price at which they would ask for this share of the time that they ask for at none; for 1, 0. */
  priceOfShare(share: number): number {
    let sumUs = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) sumUs += this.demandUs[bucket]!;
    return share >= 1 ? 0 : this.priceAfter(share * sumUs);
  }

  private priceAfter(timeUs: number): number {
    let left = timeUs;
    for (let bucket = BUCKETS - 1; bucket >= 0; bucket--) {
      left -= this.demandUs[bucket]!;
      if (left < 0) return 2 ** (bucket / PER_OCTAVE - OCTAVES_BELOW);
    }
    return 0;
  }

  private forget(at: number): void {
    const sinceUs = at - this.forgottenAt;
    // Exact to a hundredth; every arrival of a busy second does not pay for all buckets.
    if (sinceUs < this.forgetUs / 64) return;
    const kept = Math.exp(-sinceUs / this.forgetUs);
    for (let bucket = 0; bucket < BUCKETS; bucket++) this.demandUs[bucket]! *= kept;
    this.arrivals *= kept;
    this.forgottenAt = at;
  }

  private readHulls(problem: AllocationProblem): void {
    const { count, gammas } = problem;
    const options = new BatchOptions(count, gammas);
    options.read(problem, 0);
    const { start, timeUs, utility } = options;
    const corners = new Int32Array(gammas);
    for (let kind = 0; kind < count; kind++) {
      this.corners[kind] = hullCorners(timeUs, utility, start[kind]!, start[kind + 1]!, corners);
      for (let corner = 0; corner < this.corners[kind]!; corner++) {
        this.slopeLog[kind * gammas + corner] = Math.log2(hullSlope(timeUs, utility, corners, corner));
        this.lengthUs[kind * gammas + corner] = hullTimeUs(timeUs, corners, corner);
      }
    }
  }
}
