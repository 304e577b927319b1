/**
 * An accelerator that computes nothing and takes as long as its profile says. Its timeline is exact whatever the
 * timers of the host do: a batch that waited begins when the one before it was due to end, not when we noticed.
 */

import { after, type DurationUs, durationUs, later, NEVER, type TimeUs } from "../../core/time.js";
import { ServingError } from "../../wire/serving-error.js";

export interface EmulatedBatch {
  readonly batch: number;
  readonly arrivedAt: TimeUs;
  readonly earliestStartAt: TimeUs;
  /** As profiled; the accelerator's own slowness is added here. */
  readonly execUs: DurationUs;
}

export interface EmulatedRun<T extends EmulatedBatch> {
  readonly work: T;
  readonly startedAt: TimeUs;
  readonly finishedAt: TimeUs;
}

/** One batch runs, one waits; the server promises no more. */
const WAITING_MAX = 1;

export class EmulatedAccelerator<T extends EmulatedBatch> {
  private running: EmulatedRun<T> | null = null;
  private readonly waiting: T[] = [];
  private freeAt = 0 as TimeUs;
  private factor = 1;
  private hanging = false;

  constructor(private readonly scale: number) {}

  get idle(): boolean {
    return this.running === null && this.waiting.length === 0;
  }

  /** When the running batch is due; NEVER while nothing runs or the device hangs. */
  get dueAt(): TimeUs {
    return this.running?.finishedAt ?? NEVER;
  }

  /** @throws ServingError resource-exhausted when it holds its two batches already: the server counts wrong. */
  accept(work: T): void {
    if (this.running !== null && this.waiting.length >= WAITING_MAX)
      throw new ServingError("resource-exhausted", "an accelerator holds one batch that runs and one that waits");
    this.waiting.push(work);
    if (this.running === null) this.begin();
  }

  /** The run that is over by `now`, if any; the next begins at the moment this one was due. */
  complete(now: TimeUs): EmulatedRun<T> | null {
    const run = this.running;
    if (run === null || run.finishedAt > now) return null;
    this.freeAt = run.finishedAt;
    this.running = null;
    this.begin();
    return run;
  }

  /** Removes a batch whose execution has not begun by `now`. */
  cancel(batch: number, now: TimeUs): T | null {
    const at = this.waiting.findIndex((work) => work.batch === batch);
    if (at >= 0) return this.waiting.splice(at, 1)[0]!;
    const run = this.running;
    if (run === null || run.work.batch !== batch || run.startedAt <= now) return null;
    this.running = null;
    this.begin();
    return run.work;
  }

  /** Everything in progress and to come is that much later, once. */
  stall(us: DurationUs, now: TimeUs): void {
    this.freeAt = after(later(this.freeAt, now), us);
    if (this.running !== null) this.running = { ...this.running, finishedAt: after(this.running.finishedAt, us) };
  }

  slow(factor: number): void {
    this.factor = factor;
  }

  /** The execution that runs, or else the next, never ends. */
  hang(): void {
    this.hanging = true;
    if (this.running !== null) this.running = { ...this.running, finishedAt: NEVER };
  }

  private begin(): void {
    const work = this.waiting.shift();
    if (work === undefined) return;
    const startedAt = later(later(work.arrivedAt, work.earliestStartAt), this.freeAt);
    const execUs = durationUs(Math.ceil(work.execUs * this.scale * this.factor));
    this.running = { work, startedAt, finishedAt: this.hanging ? NEVER : after(startedAt, execUs) };
  }
}
