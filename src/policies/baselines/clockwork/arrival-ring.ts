import { violated } from "../../../core/invariant.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";

/** Waiting requests in order of arrival, by position; 0 is the oldest. */
export class ArrivalRing {
  private handles = new Int32Array(64);
  private head = 0;
  private count = 0;

  get length(): number {
    return this.count;
  }

  at(position: number): RequestHandle {
    return this.handles[(this.head + position) & (this.handles.length - 1)]!;
  }

  push(request: RequestHandle): void {
    if (this.count === this.handles.length) this.grow();
    this.handles[(this.head + this.count++) & (this.handles.length - 1)] = request;
  }

  /** Removes the `n` oldest. */
  removeFront(n: number): void {
    if (n > this.count) violated(`cannot remove ${n} of ${this.count}`);
    this.head = (this.head + n) & (this.handles.length - 1);
    this.count -= n;
  }

  /** O(length): only for what clients cancel. @returns -1 when it is not here. */
  indexOf(request: RequestHandle): number {
    for (let position = 0; position < this.count; position++) if (this.at(position) === request) return position;
    return -1;
  }

  removeAt(position: number): void {
    const { handles } = this;
    const mask = handles.length - 1;
    for (let at = position; at + 1 < this.count; at++)
      handles[(this.head + at) & mask] = handles[(this.head + at + 1) & mask]!;
    this.count--;
  }

  private grow(): void {
    const grown = new Int32Array(this.handles.length * 2);
    for (let position = 0; position < this.count; position++) grown[position] = this.at(position);
    this.handles = grown;
    this.head = 0;
  }
}
