import type { DeadlineQueue } from "../../core/deadline-queue.js";

/** What a projection goes by. Times in µs. */
export interface Outlook {
  /** planUs[b]: time from handing over a batch of b to its end; length sizeMax + 2. */
  readonly planUs: Float64Array;
  readonly sizeMax: number;
  readonly sloUs: number;
  /** Arrivals per µs. */
  readonly ratePerUs: number;
  /** Batch size that dropping heads protects. */
  readonly target: number;
  /** Batch size from which nothing is waited for. */
  readonly enough: number;
  /** How much before its window a batch may leave, as a part of its execution time. */
  readonly early: number;
}

/** Projected launches beyond one per accelerator. */
const LAUNCHES_MORE = 2;

/**
 * What a batch that leaves now will cost in requests given up soon after, if arrivals come in equal gaps.
 *
 * The window rule asks what the batch at hand can hold, not what becomes of those who stay: with much behind it and the
 * next accelerator far, a head kept now is paid for with several of them. The projection lets the batch leave and
 * follows the window rule, with the requests that are here, the accelerators as they come free, and the mean rate, for two
 * launches more than there are accelerators. O((n + 2) (n + log length)), and only asked when a batch cannot hold all.
 */
export class LookAhead {
  /** When each accelerator comes free, soonest first, while a projection runs. */
  private readonly freeAt: Float64Array;

  constructor(acceleratorsMax: number) {
    this.freeAt = new Float64Array(acceleratorsMax);
  }

  /**
   * @param others when each accelerator but the granted one comes free, soonest first; only `othersCount` count.
   * @param first heads given up now. @param size of the batch of those after them, which leaves at `at`.
   * @returns requests given up, `first` among them, as far as the projection goes.
   */
  lost(
    pending: DeadlineQueue,
    outlook: Outlook,
    others: Float64Array,
    othersCount: number,
    first: number,
    size: number,
    at: number,
  ): number {
    const { planUs, sizeMax, ratePerUs, target, enough } = outlook;
    const present = pending.length;
    const deadlineOf = (index: number): number =>
      index < present ? pending.deadlineAt(index) : at + outlook.sloUs + (index - present + 0.5) / ratePerUs;
    const arrivalOf = (index: number): number => (index < present ? at : at + (index - present + 0.5) / ratePerUs);
    const arrivedBy = (time: number): number => present + Math.floor((time - at) * ratePerUs + 0.5);
    const { freeAt } = this;
    freeAt.set(others.subarray(0, othersCount));
    freeAt[othersCount] = at + planUs[size]!;
    settle(freeAt, othersCount);
    let next = first + size;
    let lost = first;
    for (let launch = 0; launch < othersCount + 1 + LAUNCHES_MORE; launch++) {
      let startAt = Math.max(freeAt[0]!, arrivalOf(next));
      const end = Math.max(arrivedBy(startAt), next + 1);
      const dropTo = (sizeKept: number): void => {
        while (next < end && deadlineOf(next) < startAt + planUs[sizeKept]!) {
          next++;
          lost++;
        }
      };
      dropTo(1);
      if (next === end) continue;
      let taken = Math.min(end - next, sizeMax);
      if (deadlineOf(next) >= startAt + planUs[taken]!) {
        // All can go: it waits for more until its window opens.
        while (taken < Math.min(sizeMax, enough)) {
          const joinsAt = arrivalOf(next + taken);
          if (joinsAt > deadlineOf(next) - planUs[taken + 1]! - outlook.early * planUs[taken]!) break;
          startAt = Math.max(startAt, joinsAt);
          taken++;
        }
      } else {
        let low = next;
        let high = end;
        while (low < high) {
          const middle = (low + high) >> 1;
          if (deadlineOf(middle) < startAt + planUs[Math.min(end - middle, sizeMax)]!) low = middle + 1;
          else high = middle;
        }
        const kept = Math.max(1, Math.min(target, end - low));
        dropTo(kept);
        if (next === end) continue;
        taken = Math.min(kept, end - next);
        const most = Math.min(end - next, sizeMax);
        while (taken < most && startAt + planUs[taken + 1]! <= deadlineOf(next)) taken++;
      }
      next += taken;
      freeAt[0] = startAt + planUs[taken]!;
      rise(freeAt, othersCount);
    }
    return lost;
  }
}

/** Moves the last of [0, last] down to where it belongs; the others ascend. */
function settle(times: Float64Array, last: number): void {
  const time = times[last]!;
  let index = last;
  for (; index > 0 && times[index - 1]! > time; index--) times[index] = times[index - 1]!;
  times[index] = time;
}

/** Moves the first of [0, last] up to where it belongs; the others ascend. */
function rise(times: Float64Array, last: number): void {
  const time = times[0]!;
  let index = 0;
  for (; index < last && times[index + 1]! < time; index++) times[index] = times[index + 1]!;
  times[index] = time;
}
