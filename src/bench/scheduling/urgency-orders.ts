import { DeadlineQueue } from "../../core/deadline-queue.js";
import { IndexedHeap } from "../../core/indexed-heap.js";
import { bestInLine } from "../../policies/distribution/best-in-line.js";
import { PriorityQueue } from "../../policies/distribution/priority-queue.js";
import type { Score } from "../../policies/distribution/score.js";

/** Requests by handle: of which kind each is and when it is due; scores by kind. */
export interface ScoredRequests {
  readonly scores: readonly Score[];
  readonly kinds: Uint8Array;
  readonly deadlines: Float64Array;
}

/** A way to know the most urgent of the requests that wait. */
export interface UrgencyOrder {
  insert(handle: number, at: number): void;
  remove(handle: number): void;
  /** @returns how much was brought up to date because time passed. */
  moveOn(at: number): number;
  /** @returns a handle; -1: all scores are 0. */
  best(at: number): number;
}

/** The paper's: each request a line in a priority queue, moved on at its milestones. */
export class LineOrder implements UrgencyOrder {
  private readonly requests: ScoredRequests;
  private readonly queue: PriorityQueue;
  private readonly milestones: IndexedHeap;

  constructor(requests: ScoredRequests) {
    this.requests = requests;
    this.queue = new PriorityQueue(requests.scores[0]!.delayRate);
    this.milestones = new IndexedHeap(requests.deadlines.length);
  }

  insert(handle: number, at: number): void {
    this.queue.advance(at);
    this.set(handle, at);
  }

  remove(handle: number): void {
    this.queue.remove(handle);
    this.milestones.remove(handle);
  }

  moveOn(at: number): number {
    this.queue.advance(at);
    let moved = 0;
    for (; this.milestones.topPriority() <= at; moved++) this.set(this.milestones.top(), at);
    return moved;
  }

  best(at: number): number {
    const best = this.queue.best(at);
    return best >= 0 && this.queue.valueOf(best) > 0 ? best : -1;
  }

  private set(handle: number, at: number): void {
    const { scores, kinds, deadlines } = this.requests;
    const score = scores[kinds[handle]!]!;
    const deadline = deadlines[handle]!;
    const stage = score.stageOf(deadline - at);
    this.queue.set(handle, score.alphaOf(stage, deadline - this.queue.base), score.betaOf(stage));
    this.milestones.set(handle, score.milestoneOf(stage, deadline));
  }
}

/** A line by deadline for each kind. */
export class DeadlineOrder implements UrgencyOrder {
  private readonly requests: ScoredRequests;
  private readonly lines: readonly DeadlineQueue[];

  constructor(requests: ScoredRequests) {
    this.requests = requests;
    this.lines = requests.scores.map(() => new DeadlineQueue());
  }

  insert(handle: number): void {
    const { kinds, deadlines } = this.requests;
    this.lines[kinds[handle]!]!.push(handle, deadlines[handle]!);
  }

  remove(handle: number): void {
    const { kinds, deadlines } = this.requests;
    this.lines[kinds[handle]!]!.remove(handle, deadlines[handle]!);
  }

  moveOn(): number {
    return 0;
  }

  best(at: number): number {
    let best = -1;
    let highest = 0;
    for (let kind = 0; kind < this.lines.length; kind++) {
      const line = this.lines[kind]!;
      const score = this.requests.scores[kind]!;
      const index = bestInLine(line, score, at, highest);
      if (index < 0) continue;
      best = line.handleAt(index);
      highest = score.valueAt(line.deadlineAt(index) - at);
    }
    return best;
  }
}

/** None: all are looked at. */
export class ScanOrder implements UrgencyOrder {
  private readonly requests: ScoredRequests;
  private readonly present: Int32Array;
  private readonly places: Int32Array;
  private count = 0;

  constructor(requests: ScoredRequests) {
    this.requests = requests;
    this.present = new Int32Array(requests.deadlines.length);
    this.places = new Int32Array(requests.deadlines.length);
  }

  insert(handle: number): void {
    this.places[handle] = this.count;
    this.present[this.count++] = handle;
  }

  remove(handle: number): void {
    const last = this.present[--this.count]!;
    this.present[this.places[handle]!] = last;
    this.places[last] = this.places[handle]!;
  }

  moveOn(): number {
    return 0;
  }

  best(at: number): number {
    const { scores, kinds, deadlines } = this.requests;
    let best = -1;
    let highest = 0;
    for (let place = 0; place < this.count; place++) {
      const handle = this.present[place]!;
      const value = scores[kinds[handle]!]!.valueAt(deadlines[handle]! - at);
      if (value <= highest) continue;
      best = handle;
      highest = value;
    }
    return best;
  }
}
