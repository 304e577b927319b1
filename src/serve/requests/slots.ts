/**
 * Numbered places of a fixed count: taking and giving back in O(1), and what is in each. Place numbers travel to the
 * scheduler's thread instead of objects.
 */
import { invariant } from "../../core/invariant.js";

export class Slots<T> {
  readonly capacity: number;
  private readonly items: (T | undefined)[];
  private readonly free: Int32Array;
  private freeCount: number;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.items = new Array<T | undefined>(capacity).fill(undefined);
    this.free = new Int32Array(capacity);
    // Low numbers first, so that a lightly loaded server touches little memory.
    for (let slot = 0; slot < capacity; slot++) this.free[slot] = capacity - 1 - slot;
    this.freeCount = capacity;
  }

  get used(): number {
    return this.capacity - this.freeCount;
  }

  /** @returns a slot, or -1 when all are taken. */
  take(item: T): number {
    if (this.freeCount === 0) return -1;
    const slot = this.free[--this.freeCount]!;
    this.items[slot] = item;
    return slot;
  }

  get(slot: number): T | undefined {
    return this.items[slot];
  }

  release(slot: number): void {
    invariant(this.items[slot] !== undefined, `slot ${slot} is released twice`);
    this.items[slot] = undefined;
    this.free[this.freeCount++] = slot;
  }

  *[Symbol.iterator](): Generator<T> {
    for (const item of this.items) if (item !== undefined) yield item;
  }
}
