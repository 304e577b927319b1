/**
 * What a policy supplies: queues (who goes together, who is dropped, how much work) and an arbiter (when, and on which
 * accelerator). They never call each other; the scheduler carries their messages: in one thread by a call, between
 * threads by records (src/threads), where the policy is separable.
 */

import type { ElasticProfile } from "./latency/elastic.js";
import type { LatencyModel } from "./latency/latency.js";
import type { QueueShare, RankShare } from "./shared-numbers.js";
import type { AcceleratorId, AcceleratorTable } from "./tables/accelerator-table.js";
import type { BatchId, BatchTable } from "./tables/batch-table.js";
import type { RequestHandle, RequestTable } from "./tables/request-table.js";

/** Index of a queue in its scheduler: a model, or a share group of a model, or (module, worker). */
export type QueueKey = number;

/** What is known of the requests of one kind before any was served. */
export interface KindTimes {
  readonly name: string;
  /** Part of the queue's requests that are of it; all kinds of a queue have 1 together. */
  readonly share: number;
  /** What a sample of them took, each run alone (a batch of one), µs, ascending; empty: none is known. */
  readonly aloneUs: Float64Array;
}

export interface QueueSpec {
  /** Time of a batch on an accelerator of scale 1: the profile, or what the policy makes of it. */
  readonly latency: LatencyModel;
  /** The promise, a length in µs; it sets the target batch size. Deadlines travel with requests. */
  readonly sloUs: number;
  /** Most waiting requests; one more is dropped as "queue-full". */
  readonly lengthMax: number;
  /** Rules of this queue as numbers that its policy reads: they fit a record to another thread. Absent: none. */
  readonly rules?: Float64Array;
  /** By kind (RequestTable.kind). Absent: all requests are of one kind, of which the profile is known. */
  readonly kinds?: readonly KindTimes[];
  /** Ways of running the queue's batches, and how often answers are right by each. Absent: there is one. */
  readonly elastic?: ElasticProfile;
  /** As profiled: a batch of k whose longest member has l takes c0Us + c1 * k * l, one of one too (ORLOJ Eq. 3). Absent: not known apart from the profile. */
  readonly batchTime?: { readonly c0Us: number; readonly c1: number };
  /** Its requests are those of that queue once more, each alone, to learn what it takes; see ShadowQueue. The policy does not see it, and `latency` is that queue's. */
  readonly shadowOf?: QueueKey;
}

/** Values of OfferTable.pin that name no accelerator. */
export const ANY_ACCELERATOR = -1;
export const NO_ACCELERATOR = -2;

/** Delays the plan must allow for, in µs: Symphony's d_ctrl + b * d_data before execution (Appendix D), and after it. */
export interface NetworkDelays {
  readonly controlUs: number;
  readonly dataUsPerRequest: number;
  readonly responseUs: number;
  /**
   * Most that a grant takes from the arbiter to its queue, where they are in different threads: it is asked for that much
   * earlier. Default 0: a call.
   */
  readonly decisionUs?: number;
}

/**
 * The batches that queues would like to run, one per queue, as columns: flat, so that it fits a mailbox between threads.
 * size 0 = no offer.
 */
export class OfferTable {
  size: Int32Array;
  /** The schedulable window, as moments of execution start. */
  opensAt: Float64Array;
  latestAt: Float64Array;
  /** How long before execution the accelerator must be asked for: d_ctrl + size * d_data. */
  leadUs: Float64Array;
  /** Smallest first among open offers: the queue's own order, of which nothing else is asked. */
  rank: Float64Array;
  /** Accelerators that the present rate needs at the target batch size: r * l(b) / b. */
  demand: Float64Array;
  /** Full batches beyond the offered one: as many more accelerators may be granted before the queue offers anew. Read where queues answer late. */
  more: Int32Array;
  /** 1: may leave before its window opens while nothing presses (set by the queue). */
  mayLeaveIdle: Uint8Array;
  /** Execution time of an offer that may leave before its window, as far as the arbiter allows at that moment; 0: may not. */
  earlyExecUs: Float64Array;
  /** Execution time of the offer, and of one request of the queue alone, on the fastest accelerator. Kept with `slackUs`. */
  execUs: Float64Array;
  aloneUs: Float64Array;
  /** How long a request of the queue may wait for an accelerator and be in time still, by its SLO or, where its head is a part of a pipeline, its budget; Infinity: nothing is kept free for it. */
  slackUs: Float64Array;
  /** The batch that is being granted may run this long at most; set by the arbiter, Infinity: as long as it likes. */
  limitUs: Float64Array;
  /** The one accelerator for which the offer is new, or ANY_ACCELERATOR, or NO_ACCELERATOR. Read by arbiters whose queues send requests to accelerators. */
  pin: Int32Array;

  constructor(capacity: number) {
    this.size = new Int32Array(capacity);
    this.opensAt = new Float64Array(capacity);
    this.latestAt = new Float64Array(capacity);
    this.leadUs = new Float64Array(capacity);
    this.rank = new Float64Array(capacity);
    this.demand = new Float64Array(capacity);
    this.more = new Int32Array(capacity);
    this.mayLeaveIdle = new Uint8Array(capacity);
    this.earlyExecUs = new Float64Array(capacity);
    this.execUs = new Float64Array(capacity);
    this.aloneUs = new Float64Array(capacity);
    this.slackUs = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
    this.limitUs = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
    this.pin = new Int32Array(capacity).fill(ANY_ACCELERATOR);
  }

  /** No offer, as if the queue had never been. */
  clear(key: QueueKey): void {
    this.size[key] = 0;
    this.demand[key] = 0;
    this.more[key] = 0;
    this.mayLeaveIdle[key] = 0;
    this.earlyExecUs[key] = 0;
    this.slackUs[key] = Number.POSITIVE_INFINITY;
    this.limitUs[key] = Number.POSITIVE_INFINITY;
    this.pin[key] = ANY_ACCELERATOR;
  }

  grow(capacity: number): void {
    const size = new Int32Array(capacity);
    size.set(this.size);
    this.size = size;
    for (const column of [
      "opensAt",
      "latestAt",
      "leadUs",
      "rank",
      "demand",
      "earlyExecUs",
      "execUs",
      "aloneUs",
    ] as const) {
      const grown = new Float64Array(capacity);
      grown.set(this[column]);
      this[column] = grown;
    }
    for (const column of ["slackUs", "limitUs"] as const) {
      const grown = new Float64Array(capacity).fill(Number.POSITIVE_INFINITY);
      grown.set(this[column]);
      this[column] = grown;
    }
    const mayLeaveIdle = new Uint8Array(capacity);
    mayLeaveIdle.set(this.mayLeaveIdle);
    this.mayLeaveIdle = mayLeaveIdle;
    const more = new Int32Array(capacity);
    more.set(this.more);
    this.more = more;
    const pin = new Int32Array(capacity).fill(ANY_ACCELERATOR);
    pin.set(this.pin);
    this.pin = pin;
  }
}

/** What a queue that plans for itself may know of accelerators: in a thread of its own, what it was last told. */
export interface AcceleratorView {
  /** Accelerators present. */
  readonly count: number;
  /** Scale of the fastest present; 1 when none is. */
  readonly fastestScale: number;
  /** Ids are in [0, capacity). */
  readonly capacity: number;
  /** In a thread of its own: told only where queues share something (SharedNumbers). */
  readonly present: Uint8Array;
  /** Of the accelerator it was granted; of the others as `present`. */
  readonly scale: Float64Array;
  readonly freeAt: Float64Array;
  inFlight(id: AcceleratorId): number;
  isOnTrial(id: AcceleratorId): boolean;
}

/** What a queue sees that can live in a thread of its own (Symphony's ModelThread). */
export interface QueueView {
  readonly requests: RequestTable;
  readonly batches: BatchTable;
  readonly accelerators: AcceleratorView;
  readonly offers: OfferTable;
  /** Queues may learn from what they are told of their batches: off where emulation is exact and runs must be comparable. */
  readonly learns: boolean;
  /** What delays plans must allow for, where queues have none of their own. */
  readonly network: NetworkDelays;
  /** Those of this queue. When they change, `planChanged` is called. */
  delaysOf(key: QueueKey): NetworkDelays;
  /** Its offer changed. */
  offerChanged(key: QueueKey, at: number): void;
  /**
   * Gives up a request that waits in it (and is already out of its lists).
   * @param wouldEndAt when it would have ended executing at the earliest, by the estimate that decided; 0: none did (a limit,
   *   a wait that is over).
   */
  drop(request: RequestHandle, reason: number, at: number, wouldEndAt?: number): void;
}

/** Answer of `grant`: the queue lives elsewhere and has been asked; it answers through `Arbiter.answered`. */
export const ASKED = -2;

/** What an arbiter sees that can live in a thread of its own (Symphony's RankThread). */
export interface ArbiterView {
  readonly accelerators: AcceleratorTable;
  readonly offers: OfferTable;
  /** A queue has been asked, and here nothing is decided before its answer: `wake` comes again. False in one thread. */
  readonly mustWait: boolean;
  /**
   * This accelerator is the queue's. The queue takes its members when it hears of it (late binding).
   * @returns the batch, already committed (accelerators.freeAt is its planned end), or -1: the accelerator stays as it
   *   was; or ASKED: until the answer the queue has no offer and the accelerator is nobody's.
   */
  grant(key: QueueKey, accelerator: AcceleratorId, at: number): BatchId;
  /** The queue's offer ran out of time unserved; it must look again. */
  expired(key: QueueKey, at: number): void;
  /**
   * The queue is to look again (`Queue.refresh`) at this moment, though nothing happens; Infinity: not any more. One alarm
   * a queue, the last that was set. For queues, and for arbiters whose order tells nothing of when an offer runs out.
   */
  alarm(key: QueueKey, at: number): void;
  /** Demand of a queue may be stale; refresh offers.demand. */
  refreshDemand(key: QueueKey, at: number): void;
}

/** What queues and arbiters see of the scheduler. */
export interface CoreView extends QueueView, ArbiterView {
  readonly accelerators: AcceleratorTable;
  /** From a queue: the request is in the batch that it gathers, which may still change; for drivers that look on. */
  joinedBatch(request: RequestHandle, at: number): void;
  /** From an arbiter: how many requests would the queue run on this accelerator, were it granted now? See Queue.countAt. */
  countAt(key: QueueKey, accelerator: AcceleratorId, at: number): number;
  /**
   * From an arbiter: the batch that runs there is given up and its work lost. Its members go back to their queue with no
   * try spent; what is committed behind it begins.
   */
  preempt(accelerator: AcceleratorId, at: number): void;
}

export interface Queue {
  readonly length: number;
  /**
   * What it learns of its requests' kinds, beside the model in its spec: told what its batches took, asked what to expect of
   * one and which kinds to run again alone. Null: nothing yet.
   */
  readonly kindTimes?: LatencyModel | null;
  /** Its batches are planned by that: what they take tells nothing of the profile, nor of the accelerator. */
  readonly isByKind?: boolean;
  arrived(request: RequestHandle, at: number): void;
  /**
   * It waits here from now on, and `refresh` follows: one for all that came together. Separable policies have it; `arrived` is
   * both.
   */
  joined?(request: RequestHandle, at: number): void;
  /** Cancelled by the client: forget it. The scheduler has ended it. */
  remove(request: RequestHandle, at: number): void;
  /**
   * Its batch ended well, executed from startAt to endAt: for queues that learn from what they sent. Members, variant and
   * accelerator can be read during the call, which changes nothing: what follows from it is seen at the next event.
   */
  batchEnded?(batch: BatchId, startAt: number, endAt: number): void;
  /**
   * How often answers of its tasks are right from now on, as ElasticProfile.accuracy has it. Only where the queue wants to be told; see
   * RecentAccuracy.
   */
  accuracyChanged?(accuracy: readonly ArrayLike<number>[], at: number): void;
  /** Handed back after a failure; `alone`: run it in a batch of its own. */
  returned(request: RequestHandle, alone: boolean, at: number): void;
  /** Time passed: drop who cannot finish, offer anew. */
  refresh(at: number): void;
  /** The profile or the accelerators changed: plan with the new times, then refresh. */
  planChanged(at: number): void;
  /** Granted: choose the members now. @returns the batch, or -1. */
  take(accelerator: AcceleratorId, at: number): BatchId;
  refreshDemand(at: number): void;
  /**
   * Size of the batch that `take` would form on this accelerator now, the members of the queue's own batch that runs
   * there counted as if they waited; 0: none. Changes nothing. Only for arbiters that weigh queues by it.
   */
  countAt?(accelerator: AcceleratorId, at: number): number;
  /** Separable policies have it: gives every waiting request away and is empty (it moves to another thread). */
  giveAway?(to: (request: RequestHandle, alone: boolean) => void): void;
}

export interface Arbiter {
  queueAdded(key: QueueKey): void;
  queueRemoved(key: QueueKey): void;
  offerChanged(key: QueueKey, at: number): void;
  /** It can take a batch: it joined, or all or all but one of its batches ended. */
  available(id: AcceleratorId, at: number): void;
  /** It takes no more batches. */
  withdrawn(id: AcceleratorId, at: number): void;
  /** Earliest moment at which `wake` has something to do; Infinity when nothing waits on time. */
  readonly nextWakeAt: number;
  wake(at: number): void;
  /** Separable policies have it: what came of a grant that was ASKED. The batch, when taken, is committed. */
  answered?(key: QueueKey, accelerator: AcceleratorId, isTaken: boolean, isStillOffered: boolean, at: number): void;
}

/** A row of the table of systems. */
export interface Policy {
  readonly name: string;
  /** Batches that an accelerator may hold, the running one counted. Default 2. */
  readonly depth?: number;
  /** What says how long the queue's batches take, in place of the profile in `spec`. */
  createLatency?(spec: QueueSpec): LatencyModel;
  /** That model tells ways of running the model apart, and not kinds of requests. Default false. */
  readonly isByVariant?: boolean;
  createQueue(key: QueueKey, spec: QueueSpec, core: CoreView): Queue;
  createArbiter(core: CoreView): Arbiter;
}

/**
 * A policy whose queues and arbiter know no more of each other than offers, grants and numbers that records carry: it can run
 * on many threads.
 */
export interface SeparablePolicy extends Policy {
  /** Queues on threads have profiles. */
  createLatency?: never;
  /** What queues and arbiter know beyond offers and grants, at either end; absent: nothing. */
  shareOfQueues?(core: QueueView): QueueShare;
  shareOfRank?(core: ArbiterView): RankShare;
  createQueue(key: QueueKey, spec: QueueSpec, core: QueueView): Queue;
  createArbiter(core: ArbiterView): Arbiter;
}
