/**
 * Which accelerators of one worker process are wanted. One that is not drains: it gets no new batches, ends those it
 * holds, and is parked. When all are parked the process stays loaded for a while, so that a load that comes back is
 * served at once, and then ends: what it holds (memory, a core's share) is what scaling down is for.
 *
 * active -> draining (batches end) -> parked -> active ...; draining -> active: it had not left yet.
 */
import { monotonicNow } from "../../../wire/clock/monotonic-clock.js";

export interface ParkedSeat {
  /** Its process is up and has its models. */
  readonly isUp: boolean;
  batchesOn(slot: number): number;
  emitJoined(slot: number): void;
  emitDraining(slot: number): void;
  emitLeft(slot: number): void;
  /** Starts the process unless it is on its way. */
  wake(): void;
  /** Ends the process. */
  retire(): void;
}

type SlotState = "active" | "draining" | "parked";

/** A batch that was decided before the scheduler knew may still come: far longer than word of it takes. */
const DRAIN_GRACE_US = 100_000;

export class SeatParking {
  private readonly seat: ParkedSeat;
  private readonly keepWarmMs: number;
  private readonly states: SlotState[];
  private readonly drainingSince: number[];
  private readonly timers = new Set<NodeJS.Timeout>();
  private warmTimer: NodeJS.Timeout | null = null;

  /** @param active slots in [0, active) are wanted from the start. */
  constructor(seat: ParkedSeat, slots: number, active: number, keepWarmMs: number) {
    this.seat = seat;
    this.keepWarmMs = keepWarmMs;
    this.states = Array.from({ length: slots }, (_, slot) => (slot < active ? "active" : "parked"));
    this.drainingSince = new Array<number>(slots).fill(0);
  }

  isActive(slot: number): boolean {
    return this.states[slot] === "active";
  }

  get isWanted(): boolean {
    return this.states.includes("active");
  }

  unpark(slot: number): void {
    if (this.states[slot] === "active") return;
    this.states[slot] = "active";
    this.stayWarm(false);
    if (this.seat.isUp) this.seat.emitJoined(slot);
    else this.seat.wake();
  }

  park(slot: number): void {
    if (this.states[slot] !== "active") return;
    if (!this.seat.isUp) {
      this.states[slot] = "parked";
      return;
    }
    this.states[slot] = "draining";
    this.drainingSince[slot] = monotonicNow();
    this.seat.emitDraining(slot);
    this.after(DRAIN_GRACE_US / 1000 + 1, () => this.landed(slot));
  }

  /** A batch ended on the slot, or may have. */
  landed(slot: number): void {
    if (this.states[slot] !== "draining" || this.seat.batchesOn(slot) > 0) return;
    if (monotonicNow() < this.drainingSince[slot]! + DRAIN_GRACE_US) return;
    this.states[slot] = "parked";
    this.seat.emitLeft(slot);
    this.parkIfUnused();
  }

  /** The process is up. */
  up(): void {
    for (let slot = 0; slot < this.states.length; slot++) if (this.isActive(slot)) this.seat.emitJoined(slot);
    this.parkIfUnused();
  }

  /** The process ended; its batches are settled. */
  down(): void {
    this.stayWarm(false);
    for (let slot = 0; slot < this.states.length; slot++) {
      if (this.states[slot] === "parked") continue;
      this.seat.emitLeft(slot);
      if (this.states[slot] === "draining") this.states[slot] = "parked";
    }
  }

  stop(): void {
    this.stayWarm(false);
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }

  /** Once no slot is active or draining, the process has its time left. */
  parkIfUnused(): void {
    if (this.states.every((state) => state === "parked") && this.seat.isUp) this.stayWarm(true);
  }

  private stayWarm(isParked: boolean): void {
    if (this.warmTimer !== null) clearTimeout(this.warmTimer);
    this.warmTimer = isParked ? setTimeout(() => this.seat.retire(), this.keepWarmMs) : null;
  }

  private after(ms: number, then: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      then();
    }, ms);
    this.timers.add(timer);
  }
}
