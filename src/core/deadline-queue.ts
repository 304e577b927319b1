import { violated } from "./invariant.js";
import type { RequestHandle } from "./tables/request-table.js";

/**
 * Waiting requests of one queue, earliest deadline first, in a ring of pairs: a deadline and its request lie in one line of
 * memory, and fetching lines is what an arrival costs where queues are many.
 *
 * With one SLO per model requests arrive in deadline order and a push is O(1); an earlier deadline moves back past
 * the later ones, O(distance). Equal deadlines keep their order of arrival. Index 0 is the earliest.
 */
export class DeadlineQueue {
  /** A deadline and a handle for each place. */
  private cells: Float64Array;
  private mask: number;
  private head = 0;
  private count = 0;

  constructor(initial = 64) {
    const capacity = 2 ** Math.ceil(Math.log2(initial));
    this.cells = new Float64Array(2 * capacity);
    this.mask = capacity - 1;
  }

  get length(): number {
    return this.count;
  }

  deadlineAt(index: number): number {
    return this.cells[2 * ((this.head + index) & this.mask)]!;
  }

  handleAt(index: number): RequestHandle {
    return this.cells[2 * ((this.head + index) & this.mask) + 1]!;
  }

  push(handle: RequestHandle, deadline: number): void {
    if (this.count > this.mask) this.grow();
    const { cells, mask, head } = this;
    let at = this.count++;
    while (at > 0 && cells[2 * ((head + at - 1) & mask)]! > deadline) {
      this.move(at - 1, at);
      at--;
    }
    const cell = 2 * ((head + at) & mask);
    cells[cell] = deadline;
    cells[cell + 1] = handle;
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
    if (index < this.count >> 1) {
      for (let at = index; at > 0; at--) this.move(at - 1, at);
      this.removeFront(1);
      return true;
    }
    for (let at = index; at + 1 < this.count; at++) this.move(at + 1, at);
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

  private move(from: number, to: number): void {
    const { cells, mask, head } = this;
    const source = 2 * ((head + from) & mask);
    const target = 2 * ((head + to) & mask);
    cells[target] = cells[source]!;
    cells[target + 1] = cells[source + 1]!;
  }

  private grow(): void {
    const capacity = (this.mask + 1) * 2;
    const cells = new Float64Array(2 * capacity);
    for (let index = 0; index < this.count; index++) {
      cells[2 * index] = this.deadlineAt(index);
      cells[2 * index + 1] = this.handleAt(index);
    }
    this.cells = cells;
    this.mask = capacity - 1;
    this.head = 0;
  }
}
