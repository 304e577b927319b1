import type { LogGroup } from "../core/event-log.js";
import type { NetworkDelays, QueueSpec } from "../core/policy.js";
import type { RequestTraits } from "../core/tables/request-table.js";
import type { WindowRules } from "../policies/deferred/window-queue.js";
import type { Clock } from "../wire/clock/clock.js";

/** Where the scheduler runs. inline: between the callbacks of this thread. threads: on as many queue threads, and a rank beside them (src/threads). */
export type SchedulerDeployment = "inline" | { readonly threads: number };

/** A batch to run, as the scheduler decided. The record is reused: read it during the call. */
export interface DispatchRecord {
  group: number;
  batch: number;
  accelerator: number;
  queue: number;
  execAt: number;
  execUs: number;
  close: number;
  /** Moment of the decision. */
  at: number;
  /** When the batch could first have gone. */
  openedAt: number;
  /** How much work each member gets, or which model of a family runs; 0: there is one. */
  variant: number;
  readonly slots: number[];
}

export const blankDispatch = (): DispatchRecord => ({
  group: 0,
  batch: 0,
  accelerator: 0,
  queue: 0,
  execAt: 0,
  execUs: 0,
  close: 0,
  at: 0,
  openedAt: 0,
  variant: 0,
  slots: [],
});

export interface SchedulerEvents {
  dispatched(record: DispatchRecord): void;
  /** The request in this slot ended; the slot is free again. See CommandSink.end. */
  ended(slot: number, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void;
  /** Which quantile of what it was expected to take the time of a batch of this queue is, in [0, 1]; where distributions are known. */
  predicted(queue: number, quantile: number): void;
  /** The scheduler broke: nothing more will come. */
  broke(error: unknown): void;
  /** The scheduler goes on, but the owner should know. */
  warned(text: string): void;
}

export interface LiveSchedulerOptions {
  readonly groups: readonly LogGroup[];
  /** Most requests at once; slots are in [0, slots). */
  readonly slots: number;
  readonly clock: Clock;
  /** Null: nothing is recorded. Must be null on threads. */
  readonly eventLog: { readonly file: string; readonly bytesMax: number } | null;
}

export interface QueueRecord extends Pick<QueueSpec, "kinds" | "batchTime" | "elastic"> {
  readonly group: number;
  readonly queue: number;
  readonly sloUs: number;
  readonly lengthMax: number;
  readonly window: WindowRules;
  /** l(1), l(2), ... in µs. */
  readonly timesUs: ArrayLike<number>;
}

/** What the scheduler measures of itself. Lags: how late it came to what was due, µs. */
export interface SchedulerRow {
  readonly turns: number;
  readonly stalls: number;
  readonly lagSumUs: number;
  readonly lagMaxUs: number;
  readonly dueTurns: number;
  readonly liveRequests: number;
  readonly liveBatches: number;
}

/** Requests run again alone (core/shadow). */
export interface ShadowScheduler {
  /** Requests of queue `of` that are run again come to this one from now on. */
  addShadow(queue: number, of: number): void;
  /** See Scheduler.wantedAloneUs. */
  wantedAloneUs(queue: number, kind: number, observations: number): number;
}

/**
 * The main thread's end of the scheduler, wherever it runs. What is said in one tick travels together, shown in a
 * microtask: a failed batch and the accelerator that left with it are seen at once.
 *
 * Only arrivals and new queues can be refused; everything else waits when there is no room, bounded by what is in flight.
 */
export interface LiveScheduler {
  readonly measured: SchedulerRow;
  /** Null on queue threads: there nothing is run again. */
  readonly shadows: ShadowScheduler | null;
  /** Resolves when it takes what is said at once; before, it waits. */
  start(): Promise<void>;
  /** @returns false when the scheduler does not keep up: the request has not entered. */
  arrive(slot: number, queue: number, arrivalAt: number, deadline: number, traits?: RequestTraits): boolean;
  cancel(slot: number): void;
  finished(group: number, batch: number, startAt: number, endAt: number): void;
  /** @param hasBegun false: it never reached the accelerator; null: whatever was first in line there began. */
  failed(group: number, batch: number, cause: number, hasBegun: boolean | null): void;
  join(group: number, accelerator: number, scale: number): void;
  leave(group: number, accelerator: number): void;
  /** Plans of this queue allow for these delays from now on. */
  delays(queue: number, delays: NetworkDelays): void;
  /** @returns false when there are as many queues as there can be: it has not been added. */
  addQueue(record: QueueRecord): boolean;
  /** How often answers of its tasks are right from now on; told once in a while. On queue threads nothing is planned by it. */
  accuracies(queue: number, accuracy: readonly ArrayLike<number>[]): void;
  /** It is empty and no batch of it runs. */
  removeQueue(queue: number): void;
  /** All that waits in it fails. */
  failQueue(queue: number, cause: number): void;
  /** Held, the queue sends no batch and its requests wait; on queue threads nothing is held. */
  hold(queue: number, isHeld: boolean): void;
  /** Ends the scheduler after what was sent before; resolves when it has ended and its log is written. */
  stop(): Promise<void>;
}
