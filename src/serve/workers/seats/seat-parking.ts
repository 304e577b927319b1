/**
 * Which accelerators of one worker process are wanted. One that is not drains: it gets no new batches, ends those it
 * holds, and is parked. When all are parked the process stays loaded for a while, so that a load that comes back is
 * served at once, and then ends: what it holds (memory, a core's share) is what scaling down is for.
 *
 * active -> draining (batches end) -> parked -> active ...; draining -> active: it had not left yet.
 */
import { timeUs } from "../../../core/time.js";
import type { Alarm, Clock } from "../../../wire/clock/clock.js";

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
  private readonly clock: Clock;
  /** By slot: when a batch that was decided before can no longer come. */
  private readonly graces: readonly Alarm[];
  private readonly warmth: Alarm;

  /** @param active slots in [0, active) are wanted from the start. */
  constructor(seat: ParkedSeat, clock: Clock, slots: number, active: number, keepWarmMs: number) {
    this.seat = seat;
    this.clock = clock;
    this.keepWarmMs = keepWarmMs;
    this.states = Array.from({ length: slots }, (_, slot) => (slot < active ? "active" : "parked"));
    this.drainingSince = new Array<number>(slots).fill(0);
    this.graces = this.states.map((_, slot) => clock.alarm(() => this.landed(slot)));
    this.warmth = clock.alarm(() => this.seat.retire());
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
      // It had been said to be on its way back.
      this.seat.emitLeft(slot);
      return;
    }
    this.states[slot] = "draining";
    const now = this.clock.now();
    this.drainingSince[slot] = now;
    this.seat.emitDraining(slot);
    this.graces[slot]!.set(timeUs(now + DRAIN_GRACE_US));
  }

  /** A batch ended on the slot, or may have. */
  landed(slot: number): void {
    if (this.states[slot] !== "draining" || this.seat.batchesOn(slot) > 0) return;
    if (this.clock.now() < this.drainingSince[slot]! + DRAIN_GRACE_US) return;
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
    for (const grace of this.graces) grace.clear();
  }

  /** Once no slot is active or draining, the process has its time left. */
  parkIfUnused(): void {
    if (this.states.every((state) => state === "parked") && this.seat.isUp) this.stayWarm(true);
  }

  private stayWarm(isParked: boolean): void {
    if (isParked) this.warmth.set(timeUs(this.clock.now() + this.keepWarmMs * 1000));
    else this.warmth.clear();
  }
}
