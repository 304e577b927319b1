import { IndexedHeap } from "../../core/indexed-heap.js";

/** setTimeout's longest delay. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * One deadline per slot, one timer for all: at a deadline the client is answered, whatever the scheduler and the
 * accelerators are doing. A timer of Node has steps of 1 ms and never fires early by our clock: it is read again.
 */
export class DeadlineTimers {
  private readonly heap: IndexedHeap;
  private readonly now: () => number;
  private readonly onDeadline: (slot: number) => void;
  private timer: NodeJS.Timeout | null = null;
  private firesAt = Number.POSITIVE_INFINITY;

  /** @param slots slots are in [0, slots). @param onDeadline called once per slot set, at or after its deadline. */
  constructor(slots: number, now: () => number, onDeadline: (slot: number) => void) {
    this.heap = new IndexedHeap(slots);
    this.now = now;
    this.onDeadline = onDeadline;
  }

  get size(): number {
    return this.heap.size;
  }

  set(slot: number, deadline: number): void {
    this.heap.set(slot, deadline);
    if (deadline < this.firesAt) this.arm();
  }

  /** A timer that was set for it fires in vain, once. */
  clear(slot: number): void {
    this.heap.remove(slot);
  }

  stop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.firesAt = Number.POSITIVE_INFINITY;
  }

  private arm(): void {
    this.stop();
    if (this.heap.size === 0) return;
    this.firesAt = this.heap.topPriority();
    const delayMs = Math.ceil((this.firesAt - this.now()) / 1000);
    this.timer = setTimeout(this.fire, Math.min(TIMER_MS_MAX, Math.max(0, delayMs)));
  }

  private readonly fire = (): void => {
    this.timer = null;
    this.firesAt = Number.POSITIVE_INFINITY;
    const now = this.now();
    while (this.heap.topPriority() <= now) this.onDeadline(this.heap.pop());
    if (this.heap.topPriority() < this.firesAt) this.arm();
  };
}
