import { NEVER, type TimeUs } from "../../core/time.js";
import type { Clock, PreciseAlarm } from "../../wire/clock/clock.js";
import type { LiveScheduler, LiveSchedulerOptions, SchedulerEvents } from "../live-scheduler.js";
import { recorderOf } from "./event-recorder.js";
import { SchedulerLoop } from "./scheduler-loop.js";

/** Turns in one callback of this thread; what is left over comes after other callbacks. */
const TURNS_MAX = 4;
/** With nothing due for so long, the event log is written. */
const QUIET_US = 20_000;

/**
 * The scheduler between the callbacks of the main thread: takes a turn at the end of a tick in which something was said
 * (all of it together: a failed batch and the accelerator that left with it are seen at once), and when something is due.
 *
 * A request that finds an accelerator free is dispatched in the same tick: no thread is woken for it, which costs more
 * than all that the scheduler does (60 to 100 µs against 1). What waits is timed by a thread that only sleeps.
 */
export class InlineScheduler extends SchedulerLoop implements LiveScheduler {
  private readonly clock: Clock;
  private readonly owner: Pick<SchedulerEvents, "broke">;
  private readonly log: ReturnType<typeof recorderOf>;
  private alarm: PreciseAlarm | null = null;
  /** The alarm is set no later than what is due; a batch put off lets it ring for nothing once. */
  private alarmAt = NEVER;
  /** A turn of its own will come: at the end of the tick, or after other callbacks. */
  private isTurnComing = false;
  private isStopping = false;
  private hasEnded = false;
  private readonly whenEnded: Promise<void>;
  private tellEnded: () => void = () => {};

  /** @throws the file system's error of the event log. */
  constructor({ groups, slots, clock, eventLog }: LiveSchedulerOptions, events: SchedulerEvents) {
    const recorder = recorderOf(eventLog, groups, (why) => events.warned(why));
    super(groups, slots, events, recorder);
    this.clock = clock;
    this.owner = events;
    this.log = recorder;
    this.whenEnded = new Promise((resolve) => {
      this.tellEnded = resolve;
    });
  }

  start(): Promise<void> {
    this.alarm = this.clock.preciseAlarm(() => {
      this.alarmAt = NEVER;
      this.take();
    });
    if (this.hasWork) this.said();
    return Promise.resolve();
  }

  /** Ends the scheduler after what was said before; resolves when it has ended and its log is written. */
  async stop(): Promise<void> {
    this.isStopping = true;
    this.said();
    await this.whenEnded;
  }

  protected override said(): void {
    if (this.isTurnComing || this.alarm === null) return;
    this.isTurnComing = true;
    queueMicrotask(this.comeToTurn);
  }

  private readonly comeToTurn = (): void => {
    this.isTurnComing = false;
    this.take();
  };

  private take(): void {
    if (this.hasEnded) return;
    try {
      this.work();
    } catch (error) {
      this.finish();
      this.owner.broke(error);
    }
  }

  private work(): void {
    let dueAt = Number.NEGATIVE_INFINITY;
    let now = this.clock.now();
    for (let turns = 0; dueAt <= now && turns < TURNS_MAX; turns++) {
      dueAt = this.turn(now);
      now = this.clock.now();
    }
    if (this.isStopping && !this.hasWork) this.finish();
    else if (dueAt <= now) this.goOn();
    else {
      if (dueAt < this.alarmAt) {
        this.alarmAt = dueAt as TimeUs;
        this.alarm!.set(this.alarmAt);
      }
      if (dueAt - now > QUIET_US) this.log?.flush();
    }
  }

  private goOn(): void {
    if (this.isTurnComing) return;
    this.isTurnComing = true;
    this.clock.soon(this.comeToTurn);
  }

  private finish(): void {
    this.hasEnded = true;
    this.log?.close();
    this.alarm!.close().then(this.tellEnded, this.tellEnded);
  }
}
