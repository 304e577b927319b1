/**
 * A double-ended priority queue (PARD §4.3): put, least, most and removal of anyone in O(log n), as a min-max heap (Atkinson et
 * al. 1986): levels alternate, each entry of an even one is the least of what is below it, of an odd one the most.
 *
 * Who has the same priority is in order of coming, so a run is a function of its events. Heaps that never hold the same id may share
 * one table of places.
 */
import { violated } from "../../core/invariant.js";

const INITIAL = 64;

/** Where each id is in the heap that holds it; -1: in none. */
export class DepqPlaces {
  at = new Int32Array(INITIAL).fill(-1);

  reach(id: number): void {
    if (id < this.at.length) return;
    const grown = new Int32Array(Math.max(id + 1, this.at.length * 2)).fill(-1);
    grown.set(this.at);
    this.at = grown;
  }
}

/** Whether the level of a heap's index is one of the least. */
const isMinLevel = (index: number): boolean => ((31 - Math.clz32(index + 1)) & 1) === 0;

export class Depq {
  private ids = new Int32Array(INITIAL);
  private priorities = new Float64Array(INITIAL);
  private comings = new Float64Array(INITIAL);
  private count = 0;
  private came = 0;
  private readonly places: DepqPlaces;

  constructor(places = new DepqPlaces()) {
    this.places = places;
  }

  get size(): number {
    return this.count;
  }
  /** Whoever has the least priority, of those the first that came; -1: nobody is here. */
  get least(): number {
    return this.count === 0 ? -1 : this.ids[0]!;
  }
  get leastPriority(): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.priorities[0]!;
  }
  /** Whoever has the most, of those the last that came; -1: nobody is here. */
  get most(): number {
    return this.count === 0 ? -1 : this.ids[this.mostIndex()]!;
  }

  /** @param id in none of the heaps that share its places. */
  put(id: number, priority: number): void {
    this.places.reach(id);
    if (this.places.at[id]! >= 0) violated(`request ${id} is queued already`);
    if (this.count === this.ids.length) this.grow();
    const index = this.count++;
    this.set(index, id, priority, this.came++);
    this.rise(index);
  }

  /** @param id that is here. */
  remove(id: number): void {
    const index = this.places.at[id] ?? -1;
    if (index < 0 || index >= this.count || this.ids[index] !== id) violated(`request ${id} is not queued here`);
    this.places.at[id] = -1;
    const last = --this.count;
    if (index === last) return;
    const moved = this.ids[last]!;
    this.move(last, index);
    // It comes from another branch: it may belong below and then, on the other kind of level, above what stood over the gap.
    this.sink(index);
    this.rise(this.places.at[moved]!);
  }

  /** Those who are here, in no order. */
  forEach(visit: (id: number) => void): void {
    for (let index = 0; index < this.count; index++) visit(this.ids[index]!);
  }

  private mostIndex(): number {
    if (this.count <= 2) return this.count - 1;
    return this.isBefore(1, 2) ? 2 : 1;
  }

  private isBefore(a: number, b: number): boolean {
    const { priorities, comings } = this;
    const first = priorities[a]!;
    const second = priorities[b]!;
    return first < second || (first === second && comings[a]! < comings[b]!);
  }

  /** Whether a is nearer to the end that `isMin` names. */
  private isOuter(a: number, b: number, isMin: boolean): boolean {
    return isMin ? this.isBefore(a, b) : this.isBefore(b, a);
  }

  private rise(from: number): void {
    if (from === 0) return;
    const parent = (from - 1) >> 1;
    let isMin = isMinLevel(from);
    let index = from;
    if (this.isOuter(parent, from, isMin)) {
      this.swap(parent, from);
      index = parent;
      isMin = !isMin;
    }
    while (index > 2) {
      const grandparent = (((index - 1) >> 1) - 1) >> 1;
      if (!this.isOuter(index, grandparent, isMin)) return;
      this.swap(index, grandparent);
      index = grandparent;
    }
  }

  private sink(from: number): void {
    const isMin = isMinLevel(from);
    for (let index = from; ; ) {
      const outer = this.outermostBelow(index, isMin);
      if (outer < 0 || !this.isOuter(outer, index, isMin)) return;
      this.swap(outer, index);
      if (outer <= 2 * index + 2) return;
      const parent = (outer - 1) >> 1;
      if (this.isOuter(parent, outer, isMin)) this.swap(parent, outer);
      index = outer;
    }
  }

  /** Of its children and grandchildren; -1: it has none. */
  private outermostBelow(index: number, isMin: boolean): number {
    const child = 2 * index + 1;
    if (child >= this.count) return -1;
    let outer = child;
    if (child + 1 < this.count && this.isOuter(child + 1, outer, isMin)) outer = child + 1;
    const lastGrandchild = Math.min(this.count - 1, 2 * child + 4);
    for (let each = 2 * child + 1; each <= lastGrandchild; each++) if (this.isOuter(each, outer, isMin)) outer = each;
    return outer;
  }

  private swap(a: number, b: number): void {
    const { ids, priorities, comings } = this;
    const id = ids[a]!;
    const priority = priorities[a]!;
    const coming = comings[a]!;
    this.move(b, a);
    this.set(b, id, priority, coming);
  }

  private move(from: number, to: number): void {
    this.set(to, this.ids[from]!, this.priorities[from]!, this.comings[from]!);
  }

  private set(index: number, id: number, priority: number, coming: number): void {
    this.ids[index] = id;
    this.priorities[index] = priority;
    this.comings[index] = coming;
    this.places.at[id] = index;
  }

  private grow(): void {
    const capacity = this.ids.length * 2;
    const ids = new Int32Array(capacity);
    ids.set(this.ids);
    this.ids = ids;
    for (const column of ["priorities", "comings"] as const) {
      const grown = new Float64Array(capacity);
      grown.set(this[column]);
      this[column] = grown;
    }
  }
}
