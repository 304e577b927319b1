import type { DeadlineQueue } from "../../core/deadline-queue.js";
import type { Score } from "./score.js";

/**
 * The most urgent request of a line whose requests differ by their deadlines alone: one kind, one cost.
 *
 * Past the paper, which keeps a convex hull of all requests and moves each at every milestone (§4.4): with one score
 * function g(D - t) for all of a line, which rises or falls throughout a stage (see Score), the most urgent of those within a stage is
 * the first or the last of them, by a bisection over the deadlines. Nothing is kept up to date as time passes: no lines, no
 * milestones, no base time. Stages are looked at from the highest peak down, until none can hold a better one; in a full line
 * that is a few. A line much shorter than the list of stages is looked at whole. O(min(n, stages log n)), and allocates nothing.
 *
 * @param above only a request whose score is above this is of interest, >= 0.
 * @param from index of the first of interest: those before it are not viable.
 * @returns its index in the line; -1: there is none. Of equal scores, one of them, the same each time.
 */
export function bestInLine(pending: DeadlineQueue, score: Score, at: number, above = 0, from = 0): number {
  const { byPeak, edges } = score;
  let best = -1;
  let bestValue = above;
  if (2 * (pending.length - from) < edges.length) {
    for (let index = from; index < pending.length; index++) {
      const value = score.valueAt(pending.deadlineAt(index) - at);
      if (value <= bestValue) continue;
      best = index;
      bestValue = value;
    }
    return best;
  }
  for (let place = 0; place < byPeak.length; place++) {
    const stage = byPeak[place]!;
    if (score.peakOf(stage) <= bestValue) break;
    const index = score.isRising(stage)
      ? pending.firstNotBefore(at + edges[stage + 1]!) - 1
      : Math.max(from, pending.firstNotBefore(at + edges[stage]!));
    if (index < from || index >= pending.length) continue;
    // Perhaps of another stage, where this one is empty: a candidate like any other.
    const value = score.valueAt(pending.deadlineAt(index) - at);
    if (value <= bestValue) continue;
    best = index;
    bestValue = value;
  }
  return best;
}
