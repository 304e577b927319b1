import { violated } from "./invariant.js";

/**
 * A binary min-heap of small integer ids with a priority each: set, change and remove by id in O(log n), top in O(1).
 *
 * Used for every ordered choice of the scheduler (timers, open offers, free accelerators). Equal priorities are
 * ordered by id, so a run is a function of its events. Nothing is allocated after construction except when
 * `capacity` grows.
 */
export class IndexedHeap {
  private heap: Int32Array;
  /** Position of an id in the heap, -1 when absent. */
  private position: Int32Array;
  private priority: Float64Array;
  private count = 0;

  /** @param capacity ids are in [0, capacity). */
  constructor(capacity: number) {
    this.heap = new Int32Array(capacity);
    this.position = new Int32Array(capacity).fill(-1);
    this.priority = new Float64Array(capacity);
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
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.priority[this.heap[0]!]!;
  }

  /** Priority of an id that is present. */
  priorityOf(id: number): number {
    return this.priority[id]!;
  }

  /** Inserts the id or changes its priority. */
  set(id: number, priority: number): void {
    const at = this.position[id];
    if (at === undefined) violated(`heap id must be in [0, ${this.heap.length}); was ${id}`);
    if (at < 0) {
      this.priority[id] = priority;
      this.siftUp(id, this.count++);
      return;
    }
    const old = this.priority[id]!;
    if (priority === old) return;
    this.priority[id] = priority;
    if (priority < old) this.siftUp(id, at);
    else this.siftDown(id, at);
  }

  /** Removes the id; nothing happens when it is absent. */
  remove(id: number): void {
    const at = this.position[id];
    if (at === undefined || at < 0) return;
    this.position[id] = -1;
    const last = this.heap[--this.count]!;
    if (last === id) return;
    if (at > 0 && this.isBefore(last, this.heap[(at - 1) >> 1]!)) this.siftUp(last, at);
    else this.siftDown(last, at);
  }

  /** Removes and returns the top id, or -1. */
  pop(): number {
    const id = this.top();
    if (id >= 0) this.remove(id);
    return id;
  }

  private isBefore(a: number, b: number): boolean {
    const pa = this.priority[a]!;
    const pb = this.priority[b]!;
    return pa < pb || (pa === pb && a < b);
  }

  private siftUp(id: number, from: number): void {
    const { heap, position } = this;
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = heap[parentAt]!;
      if (!this.isBefore(id, parent)) break;
      heap[at] = parent;
      position[parent] = at;
      at = parentAt;
    }
    heap[at] = id;
    position[id] = at;
  }

  private siftDown(id: number, from: number): void {
    const { heap, position, count } = this;
    let at = from;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= count) break;
      let child = heap[childAt]!;
      if (childAt + 1 < count && this.isBefore(heap[childAt + 1]!, child)) child = heap[++childAt]!;
      if (!this.isBefore(child, id)) break;
      heap[at] = child;
      position[child] = at;
      at = childAt;
    }
    heap[at] = id;
    position[id] = at;
  }
}
