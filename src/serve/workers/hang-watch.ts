/**
 * Tells a batch that hangs from one that is slow, on the accelerators of one process.
 *
 * in time -> overdue (twice its prediction and a little: others are not made to wait behind it) -> hung (its process is
 * ended). How long a run takes may depend on a value that its prediction does not know. So the multiple of the prediction
 * ends only a process that does nothing; one that computes has until the latest of that multiple, the deadline of its
 * requests and the model's own `run_max_ms`.
 */
import { type DurationUs, durationUs, earlier, later, NEVER, type TimeUs } from "../../core/time.js";
import type { Alarm, Clock } from "../../wire/clock/clock.js";
import type { Flight, FlightBook, HangRule } from "./flight-book.js";

export interface HangOwner {
  /** CPU time that the process has used; null: that says nothing of whether it is alive. */
  cpuUs(): DurationUs | null;
  /** Other work keeps the process from its batches: nobody is to blame. */
  readonly isExcused: boolean;
  /** The batch in front on the slot runs longer than planned. */
  overdue(slot: number, front: Flight): void;
  /** The overdue batch on the slot has ended. */
  recovered(slot: number, front: Flight): void;
  hung(slot: number, reason: string): void;
}

/** An alarm that rings later than this was kept from it: the server itself stood still, and nobody is to blame. */
const TIMER_LATE_US = 250_000;
/** Signs of life are looked for over at least this long... */
const LOOK_US = durationUs(500_000);
/** ...and are this much CPU time: more than an idle process uses, less than one of 20 that share a core gets. */
const LIFE_US = 20_000;

/** An overdue batch, and the CPU time of its process when that was last looked at. */
interface Overdue {
  readonly front: Flight;
  cpuUs: DurationUs | null;
  at: TimeUs;
}

export class HangWatch {
  private readonly alarm: Alarm;
  private ringsAt: TimeUs = NEVER;
  private readonly overdue: (Overdue | null)[];

  constructor(
    private readonly slots: number,
    private readonly flights: FlightBook,
    private readonly rule: HangRule,
    private readonly owner: HangOwner,
    private readonly clock: Clock,
  ) {
    this.alarm = clock.alarm(() => this.rung());
    this.overdue = new Array<Overdue | null>(slots).fill(null);
  }

  /** A batch came or went: one alarm is kept at the first moment that matters. One that rings in vain looks again. */
  look(): void {
    for (let slot = 0; slot < this.slots; slot++) this.noteRecovered(slot);
    let at: TimeUs = NEVER;
    for (let slot = 0; slot < this.slots; slot++) at = earlier(at, this.dueAt(slot));
    if (this.ringsAt <= at) return;
    this.ringsAt = at;
    this.alarm.set(at);
  }

  private noteRecovered(slot: number): void {
    const overdue = this.overdue[slot]!;
    if (overdue === null || this.flights.flights(slot)[0] === overdue.front) return;
    this.overdue[slot] = null;
    this.owner.recovered(slot, overdue.front);
  }

  private dueAt(slot: number): TimeUs {
    const overdue = this.overdue[slot]!;
    if (overdue === null) return this.flights.overdueAt(slot);
    const lookAt = (overdue.at + LOOK_US) as TimeUs;
    return earlier(later(lookAt, this.flights.hungAt(slot)), this.flights.boundAt(slot));
  }

  private rung(): void {
    const now = this.clock.now();
    const lateUs = now - this.ringsAt;
    this.ringsAt = NEVER;
    if (this.owner.isExcused) return;
    if (lateUs > TIMER_LATE_US) this.flights.restart(now);
    for (let slot = 0; slot < this.slots; slot++) if (this.dueAt(slot) <= now && this.judge(slot, now)) return;
    this.look();
  }

  /** @returns true when the process is ended. */
  private judge(slot: number, now: TimeUs): boolean {
    const front = this.flights.flights(slot)[0]!;
    const cpuUs = this.owner.cpuUs();
    const before = this.overdue[slot]!;
    this.overdue[slot] = { front, cpuUs, at: now };
    if (before === null) {
      this.owner.overdue(slot, front);
      return false;
    }
    const isAlive = cpuUs === null || before.cpuUs === null || cpuUs - before.cpuUs >= LIFE_US;
    if (isAlive && this.flights.boundAt(slot) > now) return false;
    const { factor, floorUs } = this.rule;
    const limit = `${factor} x its predicted ${front.predictedUs} µs + ${floorUs} µs`;
    const why = isAlive ? "past its deadline and run_max_ms" : "and its worker did nothing";
    this.owner.hung(slot, `batch ${front.batch} of model '${front.model}' ran longer than ${limit}, ${why}`);
    return true;
  }
}
