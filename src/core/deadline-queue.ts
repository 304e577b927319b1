import { violated } from "./invariant.js";
import type { RequestHandle } from "./tables/request-table.js";

/**
 * Waiting requests of one queue, earliest deadline first, in a ring of two columns.
 *
 * With one SLO per model requests arrive in deadline order and a push is O(1); an earlier deadline moves back past
 * the later ones, O(distance). Equal deadlines keep their order of arrival. Index 0 is the earliest.
 */
export class DeadlineQueue {
  private handles: Int32Array;
  private deadlines: Float64Array;
  private mask: number;
  private head = 0;
  private count = 0;

  constructor(initial = 64) {
    const capacity = 2 ** Math.ceil(Math.log2(initial));
    this.handles = new Int32Array(capacity);
    this.deadlines = new Float64Array(capacity);
    this.mask = capacity - 1;
  }

  get length(): number {
    return this.count;
  }

  deadlineAt(index: number): number {
    return this.deadlines[(this.head + index) & this.mask]!;
  }

  handleAt(index: number): RequestHandle {
    return this.handles[(this.head + index) & this.mask]!;
  }

  push(handle: RequestHandle, deadline: number): void {
    if (this.count > this.mask) this.grow();
    const { handles, deadlines, mask, head } = this;
    let at = this.count++;
    while (at > 0) {
      const previous = (head + at - 1) & mask;
      if (deadlines[previous]! <= deadline) break;
      const here = (head + at) & mask;
      deadlines[here] = deadlines[previous]!;
      handles[here] = handles[previous]!;
      at--;
    }
    const slot = (head + at) & mask;
    handles[slot] = handle;
    deadlines[slot] = deadline;
  }

  /** Removes the `n` earliest. */
  removeFront(n: number): void {
    if (n > this.count) violated(`cannot remove ${n} of ${this.count}`);
    this.head = (this.head + n) & this.mask;
    this.count -= n;
  }

  /** @returns false when it is not here. O(log n + equal deadlines + distance to the nearer end). */
  remove(handle: RequestHandle, deadline: number): boolean {
    let index = this.firstNotBefore(deadline);
    while (index < this.count && this.handleAt(index) !== handle) {
      if (this.deadlineAt(index) > deadline) return false;
      index++;
    }
    if (index >= this.count) return false;
    const { handles, deadlines, mask, head } = this;
    if (index < this.count >> 1) {
      for (let at = index; at > 0; at--) {
        const here = (head + at) & mask;
        const previous = (head + at - 1) & mask;
        handles[here] = handles[previous]!;
        deadlines[here] = deadlines[previous]!;
      }
      this.removeFront(1);
      return true;
    }
    for (let at = index; at + 1 < this.count; at++) {
      const here = (head + at) & mask;
      const following = (head + at + 1) & mask;
      handles[here] = handles[following]!;
      deadlines[here] = deadlines[following]!;
    }
    this.count--;
    return true;
  }

  /** First index whose deadline is >= `deadline`; `length` when there is none. */
  firstNotBefore(deadline: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.deadlineAt(middle) < deadline) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private grow(): void {
    const capacity = (this.mask + 1) * 2;
    const handles = new Int32Array(capacity);
    const deadlines = new Float64Array(capacity);
    for (let index = 0; index < this.count; index++) {
      handles[index] = this.handleAt(index);
      deadlines[index] = this.deadlineAt(index);
    }
    this.handles = handles;
    this.deadlines = deadlines;
    this.mask = capacity - 1;
    this.head = 0;
  }
}
