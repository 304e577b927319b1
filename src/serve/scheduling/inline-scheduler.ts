import type { TimeUs } from "../../core/time.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { PreciseTimer } from "../../wire/clock/precise-timer.js";
import { recorderOf } from "./event-recorder.js";
import { SchedulerLoop } from "./scheduler-loop.js";
import type { SchedulerSetup } from "./scheduler-protocol.js";

export interface InlineOwner {
  /** Takes every record that the scheduler has published. */
  drain(): void;
  warned(text: string): void;
  broke(error: unknown): void;
}

/** Turns in one callback of this thread; what is left over comes after other callbacks. */
const TURNS_MAX = 4;
/** With nothing due for so long, the event log is written. */
const QUIET_US = 20_000;

/**
 * The scheduler between the callbacks of its owner's thread: takes a turn when records were published and when something
 * is due by time.
 *
 * A request that finds an accelerator free is dispatched in the same tick: no thread is woken for it, which costs more
 * than all that the scheduler does (60 to 100 µs against 1). What waits is timed by a thread that only sleeps. A
 * scheduler on a thread of its own keeps its hours when this one is busy, but its batches leave through this one all the
 * same.
 */
export class InlineScheduler {
  /** Resolves when the scheduler has ended and its log is written. */
  readonly ended: Promise<void>;
  private readonly loop: SchedulerLoop;
  private readonly recorder: ReturnType<typeof recorderOf>;
  private readonly timer: PreciseTimer;
  private readonly owner: InlineOwner;
  /** The timer is set no later than what is due; a batch put off lets it fire for nothing once. */
  private alarmAt = Number.POSITIVE_INFINITY;
  private isTurning = false;
  private isGoingOn = false;
  private hasEnded = false;
  private end: () => void = () => {};

  /** @throws the file system's error of the event log. */
  constructor(setup: SchedulerSetup, owner: InlineOwner) {
    this.owner = owner;
    this.recorder = recorderOf(setup, (why) => owner.warned(why));
    this.loop = new SchedulerLoop(setup, () => owner.drain(), this.recorder);
    this.timer = new PreciseTimer(() => {
      this.alarmAt = Number.POSITIVE_INFINITY;
      this.turn();
    });
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  turn(): void {
    if (this.isTurning || this.hasEnded) return;
    this.isTurning = true;
    try {
      this.work();
    } catch (error) {
      this.finish();
      this.owner.broke(error);
    } finally {
      this.isTurning = false;
    }
  }

  private work(): void {
    const { loop } = this;
    let dueAt = Number.NEGATIVE_INFINITY;
    let now = monotonicNow();
    for (let turns = 0; dueAt <= now && turns < TURNS_MAX && !loop.isStopped; turns++) {
      dueAt = loop.turn(now);
      this.owner.drain();
      now = monotonicNow();
    }
    if (loop.isStopped) this.finish();
    else if (dueAt <= now) this.goOn();
    else {
      if (dueAt < this.alarmAt) {
        this.alarmAt = dueAt;
        this.timer.set(dueAt as TimeUs);
      }
      if (dueAt - now > QUIET_US) this.recorder?.flush();
    }
  }

  private goOn(): void {
    if (this.isGoingOn) return;
    this.isGoingOn = true;
    setImmediate(() => {
      this.isGoingOn = false;
      this.turn();
    });
  }

  private finish(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.recorder?.close();
    this.timer.close().then(this.end, this.end);
  }
}
