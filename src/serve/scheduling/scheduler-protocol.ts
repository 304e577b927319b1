/**
 * Records between the main thread and the scheduler's thread: doubles in two rings (wire/ring.ts), [0] is the kind.
 *
 * A `slot` is the index of a request in the main thread's table and lives until its END. A `queue` is the main
 * thread's number of a queue. Accelerators are numbered within their group. Moments are of the host's monotonic clock.
 */
import type { LogGroup } from "../../core/event-log.js";
import type { RingMemory } from "../../wire/ring.js";

/** To the scheduler. */
/** slot, queue, arrivalAt, deadline */
export const ARRIVE = 1;
/** slot */
export const CANCEL = 2;
/** group, batch, startAt, endAt */
export const BATCH_FINISHED = 3;
/** group, batch, cause, hasBegun: 1 or 0; -1: if it was first in line */
export const BATCH_FAILED = 4;
/** group, accelerator, scale */
export const JOIN = 5;
/** group, accelerator */
export const LEAVE = 6;
/** group, queue, sloUs, lengthMax, sizeMax. NUMBERS records with the window options and the latency table follow. */
export const ADD_QUEUE = 7;
/** As many numbers as fit. */
export const NUMBERS = 8;
/** queue: it is empty and no batch of it runs. */
export const REMOVE_QUEUE = 9;
/** queue, cause: all that waits in it fails. */
export const FAIL_QUEUE = 10;
export const STOP = 11;
/** queue, controlUs, dataUsPerRequest, responseUs: what its plans allow for from now on. */
export const DELAYS = 12;
/** queue, 1: it is held, 0: it is let go. */
export const HOLD = 13;

/** From the scheduler. */
/** group, batch, accelerator, queue, size, execAt, execUs, closeReason, at, windowOpenedAt. SLOTS records follow. */
export const DISPATCH = 1;
/** As many slots as fit. */
export const SLOTS = 2;
/** slot, outcome, reason, execStartAt, at */
export const END = 3;
/** The thread has written its log and ends. */
export const STOPPED = 4;

/** Columns of the block of measurements that the thread writes and anyone reads. */
export const STAT_TURNS = 0;
/** Times that the thread came to due work more than STALL_US late. */
export const STAT_STALLS = 1;
/** Sum and largest of how late due work was looked at, µs. */
export const STAT_LAG_SUM_US = 2;
export const STAT_LAG_MAX_US = 3;
/** Wake-ups that had something due. */
export const STAT_DUE_TURNS = 4;
export const STAT_ARRIVALS = 5;
export const STAT_BATCHES = 6;
/** Requests live in the scheduler, and batches on accelerators. */
export const STAT_LIVE_REQUESTS = 7;
export const STAT_LIVE_BATCHES = 8;
export const STAT_EVENTS_LOGGED = 9;
export const STATS_LENGTH = 16;

export const STALL_US = 50_000;

export interface SchedulerSetup {
  readonly groups: readonly LogGroup[];
  /** Slots of the main thread's table. */
  readonly slots: number;
  readonly toScheduler: RingMemory;
  readonly fromScheduler: RingMemory;
  readonly stats: SharedArrayBuffer;
  /** File of the event log and its largest size; null: none. */
  readonly eventLog: { readonly file: string; readonly bytesMax: number } | null;
}
