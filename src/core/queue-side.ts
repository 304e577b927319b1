import { invariant, violated } from "./invariant.js";
import { BadShares, partSize } from "./latency/suspects.js";
import {
  DROP_CANCELLED,
  DROP_PREDICTED_LATE,
  DROP_QUEUE_FULL,
  DROPPED,
  FAIL_MODEL_ERROR,
  FAIL_NO_ACCELERATOR,
  FAIL_WORKER_CRASHED,
  FAIL_WORKER_HUNG,
  FAILED,
  FINISHED,
  LATE,
} from "./outcome.js";
import type { AcceleratorView, NetworkDelays, Queue, QueueKey, QueueSpec } from "./policy.js";
import type { BatchId, BatchTable } from "./tables/batch-table.js";
import {
  ABANDONED,
  DISPATCHED,
  PLAIN,
  QUEUED,
  type RequestHandle,
  RequestTable,
  type RequestTraits,
} from "./tables/request-table.js";

/** Told of every request's end, exactly once each. See CommandSink.end. */
export interface EndSink {
  end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void;
}

export interface QueueSideOptions {
  readonly network: NetworkDelays;
  /** Most live requests over all queues of this side. */
  readonly requestsMax: number;
  /** How many failures of its batch a request survives when its deadline allows; at most 15. */
  readonly retriesMax: number;
}

/** RequestTable.retries: tries spent in the low bits, returns of batches that never began in the high ones. */
const TRIES_MASK = 15;
const RETURNS_MAX = 8;
/** Numbers of parts begin anew after so many. */
const PART_MAX = 2 ** 30;

/**
 * The half of a scheduler that knows requests: their queues, how they become members of batches, how they end.
 *
 * Of accelerators it knows what an AcceleratorView says. One scheduler has one of these in one thread, or one per thread
 * (Symphony's ModelThreads); the other half is AcceleratorSide. It only moves requests: batches are released by its owner.
 */
export class QueueSide {
  readonly requests: RequestTable;
  /** By key; undefined = removed. */
  readonly specs: (QueueSpec | undefined)[];
  readonly queues: (Queue | undefined)[] = [];
  /** Delays of queues that have none of their own. */
  private network: NetworkDelays;
  /** By key: measured for this queue; undefined: none were. */
  private readonly ownDelays: (NetworkDelays | undefined)[] = [];
  private hasOwnDelays = false;
  private readonly batches: BatchTable;
  private readonly accelerators: AcceleratorView;
  private readonly sink: EndSink;
  private readonly retriesMax: number;
  private readonly badShares = new BadShares();
  private lastPart = 0;

  constructor(
    specs: (QueueSpec | undefined)[],
    batches: BatchTable,
    accelerators: AcceleratorView,
    sink: EndSink,
    options: QueueSideOptions,
  ) {
    this.specs = specs;
    this.batches = batches;
    this.accelerators = accelerators;
    this.sink = sink;
    this.network = options.network;
    this.retriesMax = options.retriesMax;
    this.requests = new RequestTable(options.requestsMax);
  }

  queue(key: QueueKey): Queue {
    const queue = this.queues[key];
    if (queue === undefined) violated(`no queue ${key}`);
    return queue;
  }

  /** The queue must be empty: drain or cancel first. */
  removeQueue(key: QueueKey): void {
    invariant(this.queue(key).length === 0, `queue ${key} must be empty to be removed; held ${this.queue(key).length}`);
    this.forget(key);
  }

  /** Nothing of the queue is left: its key may be given out again. */
  forget(key: QueueKey): void {
    this.queues[key] = undefined;
    this.badShares.forget(key);
    this.specs[key] = undefined;
    this.ownDelays[key] = undefined;
  }

  /** Delays that plans of this queue allow for. What they are is the queue's: megabytes take longer on their way than a frame of sound. */
  delaysOf(key: QueueKey): NetworkDelays {
    return this.hasOwnDelays ? (this.ownDelays[key] ?? this.network) : this.network;
  }

  /** @param key of the queue that they were measured for; undefined: all that have none of their own. */
  setDelays(delays: NetworkDelays, key?: QueueKey): void {
    if (key === undefined) this.network = delays;
    else {
      this.hasOwnDelays = true;
      this.ownDelays[key] = delays;
    }
  }

  /** @returns false when the table of live requests is full: the request has not entered. */
  arrive(
    key: QueueKey,
    tag: number,
    arrivalAt: number,
    deadline: number,
    at: number,
    traits: RequestTraits = PLAIN,
  ): boolean {
    const queue = this.queue(key);
    const handle = this.enter(key, tag, arrivalAt, deadline, traits);
    if (handle < 0) return false;
    if (queue.length >= this.specs[key]!.lengthMax) this.drop(handle, DROP_QUEUE_FULL, at);
    else queue.arrived(handle, at);
    return true;
  }

  /** One of several that come together: the caller refreshes the queue afterwards. @returns its handle; -1: there is no room. */
  join(
    key: QueueKey,
    tag: number,
    arrivalAt: number,
    deadline: number,
    at: number,
    traits: RequestTraits = PLAIN,
  ): RequestHandle {
    const queue = this.queue(key);
    if (queue.joined === undefined) violated(`queue ${key} takes no requests together`);
    if (queue.length >= this.specs[key]!.lengthMax) return -1;
    const handle = this.enter(key, tag, arrivalAt, deadline, traits);
    if (handle >= 0) queue.joined(handle, at);
    return handle;
  }

  private enter(key: QueueKey, tag: number, arrivalAt: number, deadline: number, traits: RequestTraits): RequestHandle {
    const { responseUs } = this.delaysOf(key);
    const handle = this.requests.add(key, tag, arrivalAt, deadline - responseUs);
    if (handle >= 0 && traits !== PLAIN)
      this.requests.describe(handle, traits, Math.min(traits.dueBy, deadline) - responseUs);
    return handle;
  }

  cancel(handle: RequestHandle, at: number): void {
    const { requests } = this;
    const state = requests.state[handle]!;
    if (state === QUEUED) {
      this.queue(requests.queue[handle]!).remove(handle, at);
      this.drop(handle, DROP_CANCELLED, at);
    } else if (state === DISPATCHED) {
      requests.state[handle] = ABANDONED;
      this.sink.end(handle, DROPPED, DROP_CANCELLED, -1, at, 0);
    }
  }

  /** The members of a batch that ended well end. */
  finished(batch: BatchId, startAt: number, endAt: number, at: number): void {
    const { requests } = this;
    this.badShares.ended(this.batches.queue[batch]!, this.batches.size[batch]!);
    for (let handle = this.batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] !== ABANDONED)
        this.sink.end(handle, endAt <= requests.latestEndAt[handle]! ? FINISHED : LATE, 0, startAt, at, 0);
      requests.release(handle);
      handle = following;
    }
  }

  /** The members of a batch that did not end go back to their queue when they have a try and time left, else they fail. */
  failed(batch: BatchId, cause: number, at: number, hasBegun: boolean): void {
    const { batches, requests } = this;
    const key = batches.queue[batch]!;
    const size = batches.size[batch]!;
    // Which of them the model refuses is found in parts: a try for all of it, since each part is smaller than the last.
    const inParts = cause === FAIL_MODEL_ERROR && size > 1;
    const alone = hasBegun && (cause === FAIL_WORKER_CRASHED || cause === FAIL_WORKER_HUNG || inParts);
    const queue = this.queues[key];
    const soonestAt = at + this.aloneUs(key);
    if (cause === FAIL_MODEL_ERROR && size === 1) this.badShares.refused(key);
    const part = inParts ? this.partSize(key, size) : 1;
    let returned = 0;
    for (let handle = batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] === ABANDONED) requests.release(handle);
      else if (
        queue !== undefined &&
        requests.latestEndAt[handle]! >= soonestAt &&
        (hasBegun ? alone && (requests.part[handle] !== 0 || this.spendTry(handle)) : this.spendReturn(handle))
      ) {
        requests.setPart(handle, part === 1 ? 0 : this.partOf(returned++, part));
        requests.state[handle] = QUEUED;
        requests.next[handle] = -1;
        queue.returned(handle, alone, at);
      } else {
        this.sink.end(handle, FAILED, cause, -1, at, 0);
        requests.release(handle);
      }
      handle = following;
    }
  }

  /** The members of a batch that was refused as too late end as dropped: they never executed. */
  rejected(batch: BatchId, at: number): void {
    const { requests } = this;
    for (let handle = this.batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] === ABANDONED) requests.release(handle);
      else {
        requests.state[handle] = QUEUED;
        this.drop(handle, DROP_PREDICTED_LATE, at);
      }
      handle = following;
    }
  }

  /** The members of a batch whose work is lost wait again, with no try spent. */
  preempted(batch: BatchId, at: number): void {
    const { requests } = this;
    const queue = this.queues[this.batches.queue[batch]!];
    for (let handle = this.batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] === ABANDONED) requests.release(handle);
      else {
        requests.state[handle] = QUEUED;
        requests.next[handle] = -1;
        if (queue === undefined) this.drop(handle, DROP_PREDICTED_LATE, at);
        else queue.returned(handle, false, at);
      }
      handle = following;
    }
  }

  /** Everything of `handles` that waits in the queue fails now. */
  failQueued(key: QueueKey, handles: Iterable<RequestHandle>, at: number, cause: number): void {
    const { requests } = this;
    for (const handle of handles) {
      if (requests.state[handle] !== QUEUED || requests.queue[handle] !== key) continue;
      this.queue(key).remove(handle, at);
      this.sink.end(handle, FAILED, cause, -1, at, 0);
      requests.release(handle);
    }
  }

  /** Gives up a request that waits in no queue any more. @param wouldEndAt see QueueView.drop. */
  drop(handle: RequestHandle, reason: number, at: number, wouldEndAt = 0): void {
    // Out of time because nothing was there to run it: that is not the deadline's fault.
    if (this.accelerators.count === 0 && reason <= DROP_PREDICTED_LATE)
      this.sink.end(handle, FAILED, FAIL_NO_ACCELERATOR, -1, at, 0);
    else {
      const lateByUs = wouldEndAt === 0 ? 0 : wouldEndAt - this.requests.latestEndAt[handle]!;
      this.sink.end(handle, DROPPED, reason, -1, at, lateByUs);
    }
    this.requests.release(handle);
  }

  planChanged(at: number): void {
    for (const queue of this.queues) queue?.planChanged(at);
  }

  private spendTry(handle: RequestHandle): boolean {
    const { retries } = this.requests;
    if ((retries[handle]! & TRIES_MASK) >= this.retriesMax) return false;
    retries[handle] = retries[handle]! + 1;
    return true;
  }

  /** A batch that never began did nothing wrong: its members spend no try, but are not returned for ever either. */
  private spendReturn(handle: RequestHandle): boolean {
    const { retries } = this.requests;
    if (retries[handle]! >= RETURNS_MAX * (TRIES_MASK + 1)) return false;
    retries[handle] = retries[handle]! + TRIES_MASK + 1;
    return true;
  }

  private partSize(key: QueueKey, size: number): number {
    const spec = this.specs[key];
    if (spec === undefined) return 1;
    const { controlUs, responseUs } = this.delaysOf(key);
    return partSize(spec.latency.execUs, controlUs + responseUs, size, this.badShares.of(key));
  }

  /** Number of the part that the member of this index belongs to. */
  private partOf(index: number, size: number): number {
    return index % size === 0 ? this.newPart() : this.lastPart;
  }

  /** A number that no part has. */
  newPart(): number {
    this.lastPart = this.lastPart === PART_MAX ? 1 : this.lastPart + 1;
    return this.lastPart;
  }

  /** Least time from a decision to the end of a batch of one; Infinity when the queue is gone. */
  private aloneUs(key: QueueKey): number {
    const spec = this.specs[key];
    if (spec === undefined) return Number.POSITIVE_INFINITY;
    const { controlUs, dataUsPerRequest } = this.delaysOf(key);
    return controlUs + dataUsPerRequest + Math.ceil(spec.latency.execUs[1]! * this.accelerators.fastestScale);
  }
}
