import { NEVER, type TimeUs, timeUs } from "../../src/core/time.js";
import type { Alarm, Clock, PreciseAlarm } from "../../src/wire/clock/clock.js";

interface Entry {
  at: number;
  order: number;
  readonly call: () => void;
}

export interface VirtualTime {
  /** How late an alarm rings, µs; drawn for each. Default 0. */
  readonly lateUs?: () => number;
  readonly preciseLateUs?: () => number;
  /** What a callback takes, and what passes between two readings within one. Default 0. */
  readonly costUs?: () => number;
  readonly readingUs?: () => number;
}

/** Time that passes only when it is told to: alarms ring in the order of their moments, equal ones in that of their setting. */
export class VirtualClock implements Clock {
  private at = 1_000_000_000;
  private order = 0;
  /** The next one last. */
  private readonly entries: Entry[] = [];

  constructor(private readonly time: VirtualTime = {}) {}

  now(): TimeUs {
    this.at += this.time.readingUs?.() ?? 0;
    return timeUs(this.at);
  }

  wallMs(): number {
    return Math.floor(this.at / 1000);
  }

  alarm(ring: () => void): Alarm {
    return this.create(ring, this.time.lateUs);
  }

  preciseAlarm(ring: () => void): PreciseAlarm {
    const alarm = this.create(ring, this.time.preciseLateUs);
    return {
      set: (at) => alarm.set(at),
      close: async () => alarm.clear(),
    };
  }

  /** Calls and alarms that are set. */
  get pending(): number {
    return this.entries.length;
  }

  soon(call: () => void): void {
    this.add({ at: this.at, order: 0, call });
  }

  /** Calls it after so many µs, to the point. */
  in(us: number, call: () => void): void {
    this.add({ at: this.at + us, order: 0, call });
  }

  /** Time passes and nothing rings: the process stood still. */
  stall(us: number): void {
    this.at += us;
  }

  /** What is due within `us` rings, without letting promises settle between. */
  advance(us: number): void {
    const until = this.at + us;
    while (this.ringNext(until));
    this.at = Math.max(this.at, until);
  }

  /** The same, and all promises settle before the next alarm rings. @returns when nothing is set any more, or at `until`. */
  async run(until = Number.POSITIVE_INFINITY): Promise<void> {
    await settled();
    while (this.ringNext(until)) await settled();
    if (until < Number.POSITIVE_INFINITY) this.at = Math.max(this.at, until);
  }

  private ringNext(until: number): boolean {
    const next = this.entries.at(-1);
    if (next === undefined || next.at > until) return false;
    this.entries.pop();
    this.at = Math.max(this.at, next.at);
    next.call();
    this.at += this.time.costUs?.() ?? 0;
    return true;
  }

  private create(ring: () => void, lateUs: () => number = () => 0): Alarm {
    const entry: Entry = {
      at: NEVER,
      order: 0,
      call: ring,
    };
    const alarm: Alarm = {
      set: (at) => {
        this.remove(entry);
        if (at === NEVER) return;
        entry.at = Math.max(this.at, at + lateUs());
        this.add(entry);
      },
      clear: () => this.remove(entry),
      unref: () => alarm,
    };
    return alarm;
  }

  private add(entry: Entry): void {
    entry.order = this.order++;
    let index = this.entries.length;
    while (index > 0 && this.entries[index - 1]!.at <= entry.at) index--;
    this.entries.splice(index, 0, entry);
  }

  private remove(entry: Entry): void {
    const index = this.entries.lastIndexOf(entry);
    if (index >= 0) this.entries.splice(index, 1);
  }
}

/** Every promise that can settle now has. */
const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
