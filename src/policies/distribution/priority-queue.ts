import { invariant, violated } from "../../core/invariant.js";

/** The base time moves when e^{b (t - base)} is beyond e to this. */
const EXPONENT_MAX = 32;
/** Larger steps of the base time than this are beyond numbers; no line that is still looked after lives through one. */
const REBASE_EXPONENT_MAX = 700;
/** An alpha that grew beyond this belongs to a line that nobody moved on at its milestone; e^32 times it is a number still. */
const ALPHA_MAX = 1e290;
/** More than the rounding errors of alpha s + beta, for two lines together, relative to the sum of their terms: 2.1 ulp. */
const ROUNDING = 8 * 2 ** -53;

/**
 * Requests by a score alpha e^{b (t - base)} + beta each: the largest at the present moment, as time advances (ORLOJ §4.4).
 *
 * In s = e^{b (t - base)} the scores are straight lines, and s only grows. The paper keeps their convex hull by Overmars and
 * van Leeuwen: O(log^2 n) an update, and any s may be asked for. Here s is asked for in ascending order, so a kinetic
 * tournament does (Basch, Guibas and Hershberger, "Data structures for mobile data", 1999): a binary tree over the
 * requests, whose nodes keep the winner of their half and the s until which nothing in it can change. The best is the root's
 * winner, O(1) while its s lasts; else the nodes whose s has passed are played again. A node of m lines has at most m winners as s
 * grows (their upper envelope), so what time brings costs O(log n) new winners a line, each found on a path of O(log n). Set and
 * remove play one path again, O(log n), plus what they thereby bring about: O(log^2 n) amortised (but for the inverse of Ackermann's function, as
 * lines come and go). The hull's nested trees are a quarter of ORLOJ's code; this is flat arrays, allocates nothing but
 * to grow, and has a constant of a few ns a level.
 *
 * Exact: at every moment the winner has the largest value of alpha * s + beta as floating point computes it. A winner is
 * trusted only until its lead could be less than rounding. Of equal lines the smaller handle wins.
 *
 * Handles are small integers. Time does not go back. Scores grow with s, so the base is moved before they overflow: alphas
 * are relative to `base` as it is after `advance`.
 */
export class PriorityQueue {
  /** The moment that alphas are relative to. Moves in `advance` and `best`. */
  base = 0;
  /** s = e^{b (now - base)}. */
  growth = 1;
  private now = Number.NEGATIVE_INFINITY;
  private readonly delayRate: number;
  private count = 0;
  /** By slot, [0, count). */
  private alphas: Float64Array;
  private betas: Float64Array;
  private handles: Int32Array;
  /** By handle; -1: not here. */
  private slots: Int32Array;
  /** By node: the root is 1, children are 2i and 2i + 1, leaves are the slots from `leaves` on. */
  private leaves: number;
  /** Slot that wins; -1: empty. */
  private winners: Int32Array;
  /** The s up to which the winner, and those below it, stay; leaves: Infinity. */
  private lasts: Float64Array;

  /** @param delayRate b, 1/µs, > 0. @param capacity requests that fit without growing. */
  constructor(delayRate: number, capacity = 64) {
    invariant(
      delayRate > 0 && delayRate < Number.POSITIVE_INFINITY,
      `delayRate must be > 0 and finite; was ${delayRate}`,
    );
    this.delayRate = delayRate;
    this.leaves = 2 ** Math.max(1, Math.ceil(Math.log2(capacity)));
    this.alphas = new Float64Array(this.leaves);
    this.betas = new Float64Array(this.leaves);
    this.handles = new Int32Array(this.leaves);
    this.slots = new Int32Array(this.leaves).fill(-1);
    this.winners = new Int32Array(2 * this.leaves).fill(-1);
    this.lasts = new Float64Array(2 * this.leaves).fill(Number.POSITIVE_INFINITY);
  }

  get size(): number {
    return this.count;
  }

  has(handle: number): boolean {
    return (this.slots[handle] ?? -1) >= 0;
  }

  /** @param at not before the last. May move `base`, O(n) then: once in 32 / b. */
  advance(at: number): void {
    if (!(at >= this.now)) violated(`time of a priority queue must be >= ${this.now}; was ${at}`);
    this.now = at;
    const exponent = this.delayRate * (at - this.base);
    if (this.count === 0) {
      this.base = at;
      this.growth = 1;
    } else if (exponent > EXPONENT_MAX) this.rebase(exponent);
    else this.growth = Math.max(this.growth, Math.exp(exponent));
  }

  /** Inserts a request or changes its line. @param alpha relative to `base`: advance first. @param beta both finite. */
  set(handle: number, alpha: number, beta: number): void {
    if (!(Math.abs(alpha) <= ALPHA_MAX && Math.abs(beta) <= ALPHA_MAX))
      violated(`alpha and beta of request ${handle} must be within ±${ALPHA_MAX}; were ${alpha}, ${beta}`);
    let slot = this.slots[handle] ?? -1;
    if (slot < 0) {
      if (!(Number.isInteger(handle) && handle >= 0)) violated(`handle must be a whole number >= 0; was ${handle}`);
      if (this.count === this.leaves) this.grow();
      if (handle >= this.slots.length) this.growHandles(handle);
      slot = this.count++;
      this.handles[slot] = handle;
      this.slots[handle] = slot;
      this.winners[this.leaves + slot] = slot;
    }
    this.alphas[slot] = alpha;
    this.betas[slot] = beta;
    this.replay(slot);
  }

  /** Nothing happens when it is not here. */
  remove(handle: number): void {
    const slot = this.slots[handle] ?? -1;
    if (slot < 0) return;
    const last = --this.count;
    this.slots[handle] = -1;
    this.winners[this.leaves + last] = -1;
    if (slot !== last) {
      const moved = this.handles[last]!;
      this.handles[slot] = moved;
      this.slots[moved] = slot;
      this.alphas[slot] = this.alphas[last]!;
      this.betas[slot] = this.betas[last]!;
      this.replay(slot);
    }
    this.replay(last);
  }

  /** The request with the largest score at this moment, or -1. @param at not before the last. */
  best(at: number): number {
    this.advance(at);
    if (this.count === 0) return -1;
    if (this.lasts[1]! <= this.growth) this.repair(1);
    return this.handles[this.winners[1]!]!;
  }

  /** Score of a request that is here, at the last moment given. */
  valueOf(handle: number): number {
    const slot = this.slots[handle]!;
    return this.alphas[slot]! * this.growth + this.betas[slot]!;
  }

  /** Plays all games again on the way from a slot to the root. */
  private replay(slot: number): void {
    for (let node = (this.leaves + slot) >> 1; node >= 1; node >>= 1) this.play(node);
  }

  /** Plays again what may be out of date below a node that may be. */
  private repair(node: number): void {
    const left = 2 * node;
    if (left < this.leaves) {
      if (this.lasts[left]! <= this.growth) this.repair(left);
      if (this.lasts[left + 1]! <= this.growth) this.repair(left + 1);
    }
    this.play(node);
  }

  private play(node: number): void {
    const { winners, lasts, alphas, betas, handles, growth } = this;
    const left = winners[2 * node]!;
    const right = winners[2 * node + 1]!;
    let last = Math.min(lasts[2 * node]!, lasts[2 * node + 1]!);
    let winner = left < 0 ? right : left;
    if (left >= 0 && right >= 0) {
      const leftValue = alphas[left]! * growth + betas[left]!;
      const rightValue = alphas[right]! * growth + betas[right]!;
      const isLeft = leftValue > rightValue || (leftValue === rightValue && handles[left]! < handles[right]!);
      winner = isLeft ? left : right;
      last = Math.min(last, this.leadsUntil(winner, isLeft ? right : left));
    }
    winners[node] = winner;
    lasts[node] = last;
  }

  /** The s below which the winner is sure to have no smaller value than the loser; at or below the present one: not sure now. */
  private leadsUntil(winner: number, loser: number): number {
    const alpha = this.alphas[winner]!;
    const beta = this.betas[winner]!;
    const otherAlpha = this.alphas[loser]!;
    const otherBeta = this.betas[loser]!;
    // Sums and products round monotonically: who has no smaller terms has no smaller value, exactly and for ever.
    if (alpha >= otherAlpha && beta >= otherBeta) return Number.POSITIVE_INFINITY;
    const lead = beta - otherBeta - ROUNDING * (Math.abs(beta) + Math.abs(otherBeta));
    const catchesUp = otherAlpha - alpha + ROUNDING * (Math.abs(alpha) + Math.abs(otherAlpha));
    if (catchesUp > 0) return lead / catchesUp;
    return lead > catchesUp * this.growth ? Number.POSITIVE_INFINITY : 0;
  }

  private rebase(exponent: number): void {
    const factor = Math.exp(Math.min(exponent, REBASE_EXPONENT_MAX));
    for (let slot = 0; slot < this.count; slot++)
      this.alphas[slot] = Math.min(Math.max(this.alphas[slot]! * factor, -ALPHA_MAX), ALPHA_MAX);
    this.base = this.now;
    this.growth = 1;
    this.playAll();
  }

  private playAll(): void {
    for (let node = this.leaves - 1; node >= 1; node--) this.play(node);
  }

  private grow(): void {
    const leaves = 2 * this.leaves;
    const longer = <T extends Float64Array | Int32Array>(from: T, to: T): T => {
      to.set(from);
      return to;
    };
    this.alphas = longer(this.alphas, new Float64Array(leaves));
    this.betas = longer(this.betas, new Float64Array(leaves));
    this.handles = longer(this.handles, new Int32Array(leaves));
    this.leaves = leaves;
    this.winners = new Int32Array(2 * leaves).fill(-1);
    this.lasts = new Float64Array(2 * leaves).fill(Number.POSITIVE_INFINITY);
    for (let slot = 0; slot < this.count; slot++) this.winners[leaves + slot] = slot;
    this.playAll();
  }

  private growHandles(handle: number): void {
    const slots = new Int32Array(Math.max(2 * this.slots.length, handle + 1)).fill(-1);
    slots.set(this.slots);
    this.slots = slots;
  }
}
