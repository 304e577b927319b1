/**
 * Which batches each accelerator of one process holds, in order, and since when the first of each runs: what hang
 * detection and the settling of accounts after a crash need. Pure; time is passed in.
 */
import { invariant } from "../../core/invariant.js";
import { type DurationUs, later, NEVER, type TimeUs } from "../../core/time.js";

/** One batch runs and one waits. */
export const BATCHES_PER_ACCELERATOR_MAX = 2;

export interface Flight {
  readonly batch: number;
  readonly model: string;
  readonly earliestStartAt: TimeUs;
  readonly predictedUs: DurationUs;
  /** The latest of its members' deadlines, and how long its model says that a run may take. */
  readonly deadlineAt: TimeUs;
  readonly runMaxUs: DurationUs;
}

/** A batch that takes longer than twice its prediction and this is overdue: above what a busy machine adds. */
const OVERDUE_FACTOR = 2;
const OVERDUE_FLOOR_US = 50_000;

export interface HangRule {
  /** A batch may take this many times its prediction... */
  readonly factor: number;
  /** ...and this much more, before its process is killed. */
  readonly floorUs: DurationUs;
}

interface Lane {
  readonly flights: Flight[];
  /** When the first flight came to the front. */
  frontAt: TimeUs;
}

export class FlightBook {
  private readonly lanes: Lane[];

  constructor(
    slots: number,
    private readonly rule: HangRule,
  ) {
    this.lanes = Array.from({ length: slots }, () => ({ flights: [], frontAt: 0 as TimeUs }));
  }

  /** @throws InvariantViolation when the accelerator already holds its two batches. */
  depart(slot: number, flight: Flight, now: TimeUs): void {
    const lane = this.lanes[slot]!;
    invariant(
      lane.flights.length < BATCHES_PER_ACCELERATOR_MAX,
      `an accelerator holds at most ${BATCHES_PER_ACCELERATOR_MAX} batches; slot ${slot} holds ${lane.flights.length}`,
    );
    if (lane.flights.length === 0) lane.frontAt = now;
    lane.flights.push(flight);
  }

  /** Takes a batch out; null when it is not (or no longer) here. */
  land(slot: number, batch: number, now: TimeUs): Flight | null {
    const lane = this.lanes[slot];
    const at = lane === undefined ? -1 : lane.flights.findIndex((flight) => flight.batch === batch);
    if (lane === undefined || at < 0) return null;
    const [flight] = lane.flights.splice(at, 1);
    if (at === 0) lane.frontAt = now;
    return flight!;
  }

  get count(): number {
    return this.lanes.reduce((sum, lane) => sum + lane.flights.length, 0);
  }

  flights(slot: number): readonly Flight[] {
    return this.lanes[slot]!.flights;
  }

  /** When the batch at the front of a slot has taken longer than planned; NEVER when it holds none. */
  overdueAt(slot: number): TimeUs {
    const front = this.lanes[slot]!.flights[0];
    return front === undefined ? NEVER : this.after(slot, front.predictedUs * OVERDUE_FACTOR + OVERDUE_FLOOR_US);
  }

  /** When the batch at the front of a slot counts as hung if nothing shows that it runs; NEVER when it holds none. */
  hungAt(slot: number): TimeUs {
    const front = this.lanes[slot]!.flights[0];
    const { factor, floorUs } = this.rule;
    return front === undefined ? NEVER : this.after(slot, front.predictedUs * factor + floorUs);
  }

  /** When it counts as hung whatever it shows. */
  boundAt(slot: number): TimeUs {
    const front = this.lanes[slot]!.flights[0];
    if (front === undefined) return NEVER;
    return later(later(this.hungAt(slot), front.deadlineAt), this.after(slot, front.runMaxUs));
  }

  /** @param us of execution of the batch at the front. */
  private after(slot: number, us: number): TimeUs {
    const lane = this.lanes[slot]!;
    return (later(lane.frontAt, lane.flights[0]!.earliestStartAt) + us) as TimeUs;
  }

  /** Starts the clocks of all fronts anew: time in which the accelerator was kept from its batch does not count. */
  restart(now: TimeUs): void {
    for (const lane of this.lanes) lane.frontAt = now;
  }

  /** Takes everything out, for the settling of accounts after the process ended. */
  clear(slot: number): Flight[] {
    return this.lanes[slot]!.flights.splice(0);
  }
}
