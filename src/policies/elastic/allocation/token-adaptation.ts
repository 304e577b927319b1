/**
 * Algorithm 2 of OTAS (lines 5 to 38): dynamic programming over batch and gamma, with one clock for each state.
 *
 * State (b, l): the first b batches are decided, batch b with l (0: not executed, otherwise the index into the gamma list, from 1).
 * It keeps the most utility (dp), the l of the batch before (S), when the accelerator is free (C) and whether anything led here (J).
 * Two ways into a state differ in both utility and clock; the one with more utility stays, whatever its clock. So this is a heuristic:
 * `exhaustive` and `frontier` know how much it loses.
 *
 * Where the listing is silent or wrong:
 * - dp of a state starts at minus infinity in place of 0 (line 5), except for b = 0. With 0 a batch that is left out after others that
 *   earn nothing keeps the S it was initialised with, 1, and backtracking then runs the batch before with the first gamma although
 *   it cannot be in time; and a batch that earns nothing would not move the clock. Otherwise the plans are the same.
 * - Equal utility: the first way found stays (lines 15, 26: `>`), and the first state (line 33), so that running for nothing is not chosen.
 * - In time is `<=` (line 23 has `<`), see `allocation`.
 * - Lines 2 to 4 (few batches, the first seconds) are the caller's: `rate-rule`.
 *
 * Time O(batches x gammas^2), no allocation in a call.
 */
import { type AllocationProblem, type Allocator, NOT_EXECUTED, requireRoom } from "./allocation.js";

export class TokenAdaptation implements Allocator {
  /** dp: utility. */
  private readonly earned: Float64Array;
  /** S: l of the batch before. */
  private readonly before: Int32Array;
  /** C: moment, µs. */
  private readonly clock: Float64Array;
  /** J: 1 where some way leads into the state. */
  private readonly reached: Uint8Array;

  constructor(
    private readonly batchesMax: number,
    private readonly gammasMax: number,
  ) {
    const states = (batchesMax + 1) * (gammasMax + 1);
    this.earned = new Float64Array(states);
    this.before = new Int32Array(states);
    this.clock = new Float64Array(states);
    this.reached = new Uint8Array(states);
  }

  allocate(problem: AllocationProblem, now: number, chosen: Int32Array): number {
    requireRoom(problem, this.batchesMax, this.gammasMax);
    const { count, gammas } = problem;
    const width = gammas + 1;
    this.earned.fill(0, 0, width);
    this.clock.fill(now, 0, width);
    this.reached.fill(1, 0, width);
    for (let batch = 0; batch < count; batch++) {
      this.leaveOut(batch, width);
      for (let gamma = 0; gamma < gammas; gamma++) this.execute(problem, batch, gamma, width);
    }
    return this.backtrack(count, width, chosen);
  }

  /** Lines 14 to 19: batch is not executed, l = 0. */
  private leaveOut(batch: number, width: number): void {
    const { earned, before, clock, reached } = this;
    const from = batch * width;
    let best = 0;
    for (let l = 1; l < width; l++) if (earned[from + l]! > earned[from + best]!) best = l;
    const state = from + width;
    earned[state] = earned[from + best]!;
    before[state] = best;
    clock[state] = clock[from + best]!;
    reached[state] = 1;
  }

  /** Lines 20 to 32: batch runs with gamma after every way to decide the batch before. */
  private execute(problem: AllocationProblem, batch: number, gamma: number, width: number): void {
    const { earned, before, clock, reached } = this;
    const dueAt = problem.dueAt[batch]!;
    const timeUs = problem.timeUs[batch * problem.gammas + gamma]!;
    const from = batch * width;
    let best = -1;
    for (let l = 0; l < width; l++) {
      if (reached[from + l] === 0 || clock[from + l]! + timeUs > dueAt) continue;
      if (best < 0 || earned[from + l]! > earned[from + best]!) best = l;
    }
    const state = from + width + gamma + 1;
    reached[state] = best < 0 ? 0 : 1;
    earned[state] =
      best < 0 ? Number.NEGATIVE_INFINITY : earned[from + best]! + problem.utility[batch * problem.gammas + gamma]!;
    before[state] = Math.max(0, best);
    clock[state] = best < 0 ? Number.POSITIVE_INFINITY : clock[from + best]! + timeUs;
  }

  /** Lines 33 to 37. */
  private backtrack(count: number, width: number, chosen: Int32Array): number {
    const { earned, before } = this;
    const last = count * width;
    let l = 0;
    for (let each = 1; each < width; each++) if (earned[last + each]! > earned[last + l]!) l = each;
    const utility = earned[last + l]!;
    for (let batch = count - 1; batch >= 0; batch--) {
      chosen[batch] = l === 0 ? NOT_EXECUTED : l - 1;
      l = before[(batch + 1) * width + l]!;
    }
    return utility;
  }
}
