/**
 * Records between the actors of a threaded scheduler. The first cell is the kind; what follows is written at each kind.
 * Moments and lengths are µs; `tag` is the front's number of a request, `batch` the queue thread's of a batch (except
 * where it says the rank's), `key` is common to all.
 */
import { RING_WIDTH } from "../wire/ring.js";

/** Doubles per record from the front to a queue thread or the rank: arrivals are most of all records. */
export const IN_WIDTH = 6;
/** Doubles per record from a queue thread to the front. */
export const OUT_WIDTH = RING_WIDTH;
/** Doubles per record between queue threads and the rank, mailboxes included: two cache lines. */
export const RANK_WIDTH = 16;

// Front to queue thread.
/** key, tag, arrivalAt, deadline (the client's). */
export const ARRIVE = 1;
/**
 * kind, weight, dueAt, part, headStartUs of the ARRIVE or TRANSFER that follows, where they are not plain. dueAt: on the clock of that
 * record's deadline; part: over all threads.
 */
export const TRAITS = 16;
/** tag. */
export const CANCEL = 2;
/** batch, startAt, endAt. */
export const FINISHED_BATCH = 3;
/** batch, cause, 1 when it had begun. */
export const FAILED_BATCH = 4;
/** key, sloUs, lengthMax, sizeMax, count of rules; TABLE records with the rules, then l(1)..l(sizeMax) follow. */
export const ADD_QUEUE = 5;
/** Numbers of the record before, IN_WIDTH - 1 at a time; to the rank OUT_WIDTH - 1, as in records of before its rings were wider. */
export const TABLE = 6;
/** key: waiting requests are handed back, and the queue is gone when nothing of it is in flight. */
export const CLOSE_QUEUE = 7;
/** key, tag, arrivalAt, deadline (of execution), retries + ALONE when it must run alone: handed over by another thread. */
export const TRANSFER = 8;
/** key, cause: all that waits fails. */
export const FAIL_QUEUE = 9;
export const STOP = 10;
/** key, controlUs, dataUsPerRequest, responseUs, decisionUs: measured for this queue. */
export const QUEUE_DELAYS = 15;

// Front to rank.
/** accelerator, scale. */
export const JOIN = 11;
/** accelerator. */
export const LEAVE = 12;
/** controlUs, dataUsPerRequest, responseUs, decisionUs. */
export const NETWORK = 13;

// Queue thread to front.
/** batch, accelerator, key, size, execAt, execUs, close reason, at, turn on the accelerator, openedAt, variant; MEMBERS records follow. */
export const DISPATCH = 20;
/** Tags of the batch before, OUT_WIDTH - 1 at a time. */
export const MEMBERS = 21;
/** outcome, reason, execStartAt, at, count, then up to ENDS_MAX tags of requests that ended alike, none by an estimate. */
export const ENDS = 22;
/** reason, at, tag, lateByUs: it was dropped by an estimate. */
export const DROPPED_LATE = 27;
/** key, tag, arrivalAt, deadline (of execution), retries + ALONE when it must run alone, kind, weight, dueAt, part, headStartUs: the queue is closing. */
export const HANDED = 23;
/** key: closed, and may be given out again. */
export const CLOSED = 24;
/** batch, startAt, endAt: it ended well; ENDS of its members follow. */
export const BATCH_ENDED = 25;
export const STOPPED = 26;

// Queue thread to rank.
export const HELLO = 30;
/** key, sloUs, sizeMax when the rank learns, else 0; TABLE records follow. */
export const QUEUE_ADDED = 31;
/** key: nothing of it is in flight, and no offer of it will come. */
export const QUEUE_REMOVED = 32;
/** key: its mailbox holds an offer that was not there when the rank last looked. */
export const NOTICE = 33;
/** See the OFFER_ cells. In a mailbox, and in the ring before the answer to a question. */
export const OFFER = 34;
/** key, accelerator, rank's batch, 1 when taken, 1 when its offer stands nevertheless, executed size, execAt, execUs. */
export const ANSWER = 35;
/** rank's batch, 1 when it ended well, startAt, endAt (or when it failed). */
export const FREED = 36;
/** key: a request was given up as infeasible. */
export const GAVE_UP = 37;
/** key, demand. */
export const DEMAND_IS = 38;
export const BYE = 39;
/** key, then SAID_NUMBERS that it says of itself beyond its offers (core/shared-numbers): when they change. */
export const SAID = 40;
/** key, how long its requests may wait for an accelerator (OfferTable.slackUs): before the offer that it holds for. */
export const SLACK = 41;

// Rank to queue thread.
/**
 * key, accelerator, rank's batch, freeAt, scale, batches it holds, 1 when on trial, batches it was ever given: the turn of this one;
 * then GRANT_NUMBERS where something is shared, and the cell of GRANT_LIMIT_US.
 */
export const GRANT = 50;
/** key: its offer ran out of time. */
export const LOOK = 51;
/** key: how many accelerators does it need by now? */
export const DEMAND = 52;
/** accelerators present, fastest scale, controlUs, dataUsPerRequest, responseUs, decisionUs. */
export const FLEET = 53;
/** key, multiple of the profile that plans use from now on. */
export const LATENCY = 54;
/** key: the rank has forgotten it. */
export const REMOVED = 55;
/** OTHERS_NUMBERS: what the queues of all other threads say; before a question, when it changed. */
export const OTHERS = 56;
/** accelerator, scale (0: absent), and the next pair; -1 ends them. FLEET follows. Where something is shared. */
export const SCALES = 57;
/** When other accelerators come free, soonest first; -1 ends them. Before the GRANT whose queue must know. */
export const FREE_AT = 58;
/** key, factors by power of two of sizes (core/latency/size-factors) from the first on; -1 ends them. LATENCY follows. */
export const LATENCY_SIZES = 59;

/** Thread of a queue that none holds. */
export const NOWHERE = -1;

/** Added to the retries of a request that must run alone. */
export const ALONE = 256;

/** Tags in one ENDS record, and where they begin. */
export const ENDS_MAX = OUT_WIDTH - 6;

/** Cells of an OFFER. `version` counts the offers of a queue, `seen` the questions (GRANT, LOOK) that it had answered. */
export const OFFER_KEY = 1;
export const OFFER_VERSION = 2;
export const OFFER_SEEN = 3;
export const OFFER_SIZE = 4;
export const OFFER_OPENS_AT = 5;
export const OFFER_LATEST_AT = 6;
export const OFFER_LEAD_US = 7;
export const OFFER_RANK = 8;
export const OFFER_DEMAND = 9;
export const OFFER_MAY_LEAVE_IDLE = 10;
export const OFFER_MORE = 11;
export const OFFER_EARLY_EXEC_US = 12;
export const OFFER_EXEC_US = 13;
/** Requests that the thread has given up. */
export const OFFER_BAD = 14;
export const OFFER_ALONE_US = 15;

/** First of the GRANT_NUMBERS. */
export const GRANT_SHARED = 9;
/** How long the batch may run at most (OfferTable.limitUs). */
export const GRANT_LIMIT_US = 13;
