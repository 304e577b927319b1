/**
 * The best plan by trying every one: (gammas + 1) to the power of the batches, less what is late. For small queues, to compare with:
 * 8 batches of 9 gammas are up to 1e8 plans, some seconds where deadlines are loose.
 */
import { type AllocationProblem, type Allocator, NOT_EXECUTED } from "./allocation.js";

const BATCHES_MAX = 10;

export class Exhaustive implements Allocator {
  private readonly plan = new Int32Array(BATCHES_MAX);

  /** @throws RangeError above 10 batches. */
  allocate(problem: AllocationProblem, now: number, chosen: Int32Array): number {
    const { count, gammas, dueAt, timeUs, utility } = problem;
    if (count > BATCHES_MAX) throw new RangeError(`batches must be at most ${BATCHES_MAX}; were ${count}`);
    const { plan } = this;
    let best = Number.NEGATIVE_INFINITY;
    const decide = (batch: number, clock: number, earned: number): void => {
      if (batch === count) {
        if (earned <= best) return;
        best = earned;
        chosen.set(plan.subarray(0, count));
        return;
      }
      plan[batch] = NOT_EXECUTED;
      decide(batch + 1, clock, earned);
      for (let gamma = 0; gamma < gammas; gamma++) {
        const endAt = clock + timeUs[batch * gammas + gamma]!;
        if (endAt > dueAt[batch]!) continue;
        plan[batch] = gamma;
        decide(batch + 1, endAt, earned + utility[batch * gammas + gamma]!);
      }
    };
    decide(0, now, 0);
    return best;
  }
}
