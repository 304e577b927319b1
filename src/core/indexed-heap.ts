import { violated } from "./invariant.js";

/**
 * A min-heap of small integer ids with a priority each: set, change and remove by id in O(log n), top in O(1).
 *
 * Used for every ordered choice of the scheduler (timers, open offers, free accelerators). Equal priorities are
 * ordered by id, so a run is a function of its events. Nothing is allocated after construction except when
 * `capacity` grows.
 *
 * Four children per node and priorities in heap order: half the levels of a binary heap, and the children that are
 * compared lie side by side in memory.
 */
export class IndexedHeap {
  /** Ids and their priorities, in heap order. */
  private heap: Int32Array;
  private priority: Float64Array;
  /** Position of an id in the heap, -1 when absent. */
  private position: Int32Array;
  private count = 0;

  /** @param capacity ids are in [0, capacity). */
  constructor(capacity: number) {
    this.heap = new Int32Array(capacity);
    this.priority = new Float64Array(capacity);
    this.position = new Int32Array(capacity).fill(-1);
  }

  get size(): number {
    return this.count;
  }

  grow(capacity: number): void {
    if (capacity <= this.heap.length) return;
    const heap = new Int32Array(capacity);
    heap.set(this.heap);
    const position = new Int32Array(capacity).fill(-1);
    position.set(this.position);
    const priority = new Float64Array(capacity);
    priority.set(this.priority);
    this.heap = heap;
    this.position = position;
    this.priority = priority;
  }

  has(id: number): boolean {
    return this.position[id]! >= 0;
  }

  /** The id with the smallest (priority, id), or -1. */
  top(): number {
    return this.count === 0 ? -1 : this.heap[0]!;
  }

  /** The smallest priority, or Infinity. */
  topPriority(): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.priority[0]!;
  }

  /** Priority of an id that is present. */
  priorityOf(id: number): number {
    return this.priority[this.position[id]!]!;
  }

  /** Inserts the id or changes its priority. */
  set(id: number, priority: number): void {
    const at = this.position[id];
    if (at === undefined) violated(`heap id must be in [0, ${this.heap.length}); was ${id}`);
    if (at < 0) this.siftUp(id, priority, this.count++);
    else {
      const old = this.priority[at]!;
      if (priority < old) this.siftUp(id, priority, at);
      else if (priority > old) this.siftDown(id, priority, at);
    }
  }

  /** Removes the id; nothing happens when it is absent. */
  remove(id: number): void {
    const at = this.position[id];
    if (at === undefined || at < 0) return;
    this.position[id] = -1;
    const last = --this.count;
    if (at === last) return;
    const moved = this.heap[last]!;
    const priority = this.priority[last]!;
    if (at > 0 && this.isBefore(moved, priority, (at - 1) >> 2)) this.siftUp(moved, priority, at);
    else this.siftDown(moved, priority, at);
  }

  /** Removes and returns the top id, or -1. */
  pop(): number {
    const id = this.top();
    if (id >= 0) this.remove(id);
    return id;
  }

  /** Does (priority, id) come before what stands at a position? */
  private isBefore(id: number, priority: number, at: number): boolean {
    const other = this.priority[at]!;
    return priority < other || (priority === other && id < this.heap[at]!);
  }

  private siftUp(id: number, priority: number, from: number): void {
    const { heap, position, priority: priorities } = this;
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 2;
      if (!this.isBefore(id, priority, parentAt)) break;
      const parent = heap[parentAt]!;
      heap[at] = parent;
      priorities[at] = priorities[parentAt]!;
      position[parent] = at;
      at = parentAt;
    }
    heap[at] = id;
    priorities[at] = priority;
    position[id] = at;
  }

  private siftDown(id: number, priority: number, from: number): void {
    const { heap, position, priority: priorities, count } = this;
    let at = from;
    for (;;) {
      const firstAt = 4 * at + 1;
      if (firstAt >= count) break;
      const endAt = Math.min(firstAt + 4, count);
      let leastAt = firstAt;
      let least = priorities[firstAt]!;
      for (let childAt = firstAt + 1; childAt < endAt; childAt++) {
        const each = priorities[childAt]!;
        if (each < least || (each === least && heap[childAt]! < heap[leastAt]!)) {
          least = each;
          leastAt = childAt;
        }
      }
      const child = heap[leastAt]!;
      if (priority < least || (priority === least && id < child)) break;
      heap[at] = child;
      priorities[at] = least;
      position[child] = at;
      at = leastAt;
    }
    heap[at] = id;
    priorities[at] = priority;
    position[id] = at;
  }
}
