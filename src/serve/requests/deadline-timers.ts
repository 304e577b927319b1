import { IndexedHeap } from "../../core/indexed-heap.js";
import { timeUs } from "../../core/time.js";
import type { Alarm, Clock } from "../../wire/clock/clock.js";

/**
 * One deadline per slot, one alarm for all: at a deadline the client is answered, whatever the scheduler and the
 * accelerators are doing.
 */
export class DeadlineTimers {
  private readonly heap: IndexedHeap;
  private readonly clock: Clock;
  private readonly alarm: Alarm;
  private readonly onDeadline: (slot: number) => void;
  private ringsAt = Number.POSITIVE_INFINITY;

  /** @param slots slots are in [0, slots). @param onDeadline called once per slot set, at or after its deadline. */
  constructor(slots: number, clock: Clock, onDeadline: (slot: number) => void) {
    this.heap = new IndexedHeap(slots);
    this.clock = clock;
    this.alarm = clock.alarm(() => this.ring());
    this.onDeadline = onDeadline;
  }

  get size(): number {
    return this.heap.size;
  }

  set(slot: number, deadline: number): void {
    this.heap.set(slot, deadline);
    this.ringBy(deadline);
  }

  /** An alarm that was set for it rings in vain, once. */
  clear(slot: number): void {
    this.heap.remove(slot);
  }

  stop(): void {
    this.alarm.clear();
  }

  private ringBy(at: number): void {
    if (at >= this.ringsAt) return;
    this.ringsAt = at;
    this.alarm.set(timeUs(at));
  }

  private ring(): void {
    this.ringsAt = Number.POSITIVE_INFINITY;
    const now = this.clock.now();
    while (this.heap.topPriority() <= now) this.onDeadline(this.heap.pop());
    this.ringBy(this.heap.topPriority());
  }
}
