/**
 * The best plan by trying every one that could be: (gammas + 1) to the power of the batches, less what is late and what could not
 * pass the best even with all gammas in time. For small queues, to compare with.
 */
import { type AllocationProblem, type Allocator, NOT_EXECUTED } from "./allocation.js";

const BATCHES_MAX = 10;

export class Exhaustive implements Allocator {
  private readonly plan = new Int32Array(BATCHES_MAX);
  /** What the batches from here on earn with all the time there is. */
  private readonly mostAhead = new Float64Array(BATCHES_MAX + 1);

  /** @throws RangeError above 10 batches. */
  allocate(problem: AllocationProblem, now: number, chosen: Int32Array): number {
    const { count, gammas, dueAt, timeUs, utility } = problem;
    if (count > BATCHES_MAX) throw new RangeError(`batches must be at most ${BATCHES_MAX}; were ${count}`);
    const { plan, mostAhead } = this;
    mostAhead[count] = 0;
    for (let batch = count - 1; batch >= 0; batch--)
      mostAhead[batch] = mostAhead[batch + 1]! + Math.max(0, ...utility.subarray(batch * gammas, (batch + 1) * gammas));
    let best = Number.NEGATIVE_INFINITY;
    const decide = (batch: number, clock: number, earned: number): void => {
      if (earned + mostAhead[batch]! <= best) return;
      if (batch === count) {
        best = earned;
        chosen.set(plan.subarray(0, count));
        return;
      }
      for (let gamma = gammas - 1; gamma >= 0; gamma--) {
        const endAt = clock + timeUs[batch * gammas + gamma]!;
        if (endAt > dueAt[batch]!) continue;
        plan[batch] = gamma;
        decide(batch + 1, endAt, earned + utility[batch * gammas + gamma]!);
      }
      plan[batch] = NOT_EXECUTED;
      decide(batch + 1, clock, earned);
    };
    decide(0, now, 0);
    return best;
  }
}
