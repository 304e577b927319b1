/**
 * How much work does each waiting batch get (OTAS §III-D, Eq. 1)? Token deltas (gamma) for batches that run one after the other on
 * one accelerator, so that those that end in time earn the most; a batch may be left out.
 *
 * The batches are in deadline order, and run in it. For a set of batches and a gamma each nothing is lost by that: where a batch runs
 * directly before one with an earlier deadline, exchanging the two lets the earlier one end sooner and the later one end where the
 * earlier had ended, which was in time for a deadline before its own. Repeated, this sorts them (Jackson's rule).
 *
 * In time is `end <= dueAt`, as everywhere here. The paper has `<` (1a): on whole microseconds the same with dueAt one more.
 */

/** Rows may be longer than what is used, so that a caller keeps one problem for ever. */
export interface AllocationProblem {
  /** Batches; dueAt ascends. */
  readonly count: number;
  /** Token deltas to choose from, ascending: the first removes the most tokens. */
  readonly gammas: number;
  /** [count] moment, µs. */
  readonly dueAt: Float64Array;
  /** [count x gammas] accelerator time, µs, > 0. */
  readonly timeUs: Float64Array;
  /** [count x gammas] expected utility: sum over the requests of utility x accuracy of their task (§III-D, end). */
  readonly utility: Float64Array;
}

/** What is chosen for a batch that is not executed. */
export const NOT_EXECUTED = -1;

export interface Allocator {
  /**
   * @param now when the accelerator is free, µs.
   * @param chosen written: for each batch the index of its gamma, or NOT_EXECUTED.
   * @returns utility of the plan, whose batches all end in time.
   */
  allocate(problem: AllocationProblem, now: number, chosen: Int32Array): number;
}

/** @returns utility of what is chosen, where batches run one after the other in their order; NaN if one of them ends late. */
export function plannedUtility(problem: AllocationProblem, now: number, chosen: Int32Array): number {
  let clock = now;
  let utility = 0;
  for (let batch = 0; batch < problem.count; batch++) {
    const gamma = chosen[batch]!;
    if (gamma === NOT_EXECUTED) continue;
    clock += problem.timeUs[batch * problem.gammas + gamma]!;
    if (clock > problem.dueAt[batch]!) return Number.NaN;
    utility += problem.utility[batch * problem.gammas + gamma]!;
  }
  return utility;
}

/** @throws RangeError if the rows that an allocator keeps are too few: a caller's bug. */
export function requireRoom({ count, gammas }: AllocationProblem, batchesMax: number, gammasMax: number): void {
  if (count > batchesMax) throw new RangeError(`batches must be at most ${batchesMax}; were ${count}`);
  if (gammas > gammasMax) throw new RangeError(`gammas must be at most ${gammasMax}; were ${gammas}`);
}
