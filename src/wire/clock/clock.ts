/**
 * Time as the live server has it: a reading, alarms, and its turn after others. Passed in, so that everything between
 * the doors and the worker processes also runs in virtual time (test/support/virtual-clock.ts).
 */
import { NEVER, type TimeUs } from "../../core/time.js";
import { monotonicNow } from "./monotonic-clock.js";
import { PreciseTimer } from "./precise-timer.js";

/** One moment at a time. */
export interface Alarm {
  /** Replaces the moment; NEVER takes it back. It rings once, at or after it, never within this call. */
  set(at: TimeUs): void;
  clear(): void;
  /** The process may end while it is set. */
  unref(): this;
}

/** As Alarm, held by a thread of its own. */
export interface PreciseAlarm {
  set(at: TimeUs): void;
  close(): Promise<void>;
}

export interface Clock {
  now(): TimeUs;
  /** Milliseconds since the epoch: for people. */
  wallMs(): number;
  /** Rings up to a millisecond late, and as much later as this thread is busy. */
  alarm(ring: () => void): Alarm;
  /** Rings within 0.1 ms. */
  preciseAlarm(ring: () => void): PreciseAlarm;
  /** Calls it after what else this thread has to do now. */
  soon(call: () => void): void;
}

/** @returns takes it back. */
export function alarmIn(clock: Clock, us: number, ring: () => void): Alarm {
  const alarm = clock.alarm(ring);
  alarm.set((clock.now() + us) as TimeUs);
  return alarm;
}

/** The process may end meanwhile. */
export const pause = (clock: Clock, us: number): Promise<void> =>
  new Promise((resolve) => void alarmIn(clock, us, resolve).unref());

/** setTimeout's longest delay. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** A timer of Node has steps of 1 ms, and may fire early by our clock: that is read again. */
class NodeAlarm implements Alarm {
  private timer: NodeJS.Timeout | null = null;
  private at = NEVER;
  private isUnref = false;

  constructor(private readonly ring: () => void) {}

  set(at: TimeUs): void {
    this.clear();
    if (at === NEVER) return;
    this.at = at;
    const ms = Math.ceil((at - monotonicNow()) / 1000);
    this.timer = setTimeout(this.fire, Math.min(TIMER_MS_MAX, Math.max(0, ms)));
    if (this.isUnref) this.timer.unref();
  }

  clear(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  unref(): this {
    this.isUnref = true;
    this.timer?.unref();
    return this;
  }

  private readonly fire = (): void => {
    this.timer = null;
    if (monotonicNow() < this.at) this.set(this.at);
    else this.ring();
  };
}

export const systemClock: Clock = {
  now: monotonicNow,
  wallMs: () => Date.now(),
  alarm: (ring) => new NodeAlarm(ring),
  preciseAlarm: (ring) => new PreciseTimer(ring),
  soon: (call) => void setImmediate(call),
};
