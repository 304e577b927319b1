import { type AcceleratorId, AcceleratorTable } from "./accelerator-table.js";
import { type BatchId, BatchTable } from "./batch-table.js";
import { invariant, violated } from "./invariant.js";
import { Learner } from "./learner.js";
import {
  DROP_CANCELLED,
  DROP_INFEASIBLE,
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
import {
  ANY_ACCELERATOR,
  type Arbiter,
  type CoreView,
  type NetworkDelays,
  OfferTable,
  type Policy,
  type Queue,
  type QueueKey,
  type QueueSpec,
} from "./policy.js";
import { ABANDONED, DISPATCHED, QUEUED, type RequestHandle, RequestTable } from "./request-table.js";

/** What the scheduler tells its driver to do. Called in the order of decisions; nothing is allocated. */
export interface CommandSink {
  /**
   * Run this batch. Read it from `scheduler.batches` (queue, size, execAt, execUs) and its members from
   * `firstMember` and `requests.next`.
   */
  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void;
  /**
   * A request ended: exactly once each. Read tag, arrivalAt, queue from `scheduler.requests` during the call.
   * @param reason drop reason, failure cause, or 0.
   * @param execStartAt start of its execution, -1 when it never executed.
   */
  end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void;
  /** A batch ended well: for measurements and metrics. Its members' `end` calls follow. */
  batchEnded(batch: BatchId, startAt: number, endAt: number): void;
  /** Stop the batch that runs there and forget it: its members wait again. What was sent behind it begins. */
  preempt(batch: BatchId, accelerator: AcceleratorId, at: number): void;
}

export interface SchedulerOptions {
  readonly network: NetworkDelays;
  /** Most accelerators that can ever be present at once; ids are in [0, acceleratorsMax). */
  readonly acceleratorsMax: number;
  /** Most live requests over all queues. */
  readonly requestsMax: number;
  /** How many failures of its batch a request survives when its deadline allows; at most 15. */
  readonly retriesMax: number;
  /** Correct profiles and accelerator scales from measured batches. Off where emulation is exact and runs must be comparable. */
  readonly learn: boolean;
}

/** RequestTable.retries: tries spent in the low bits, returns of batches that never began in the high ones. */
const TRIES_MASK = 15;
const RETURNS_MAX = 8;
/** Batches that an accelerator holds: one runs, one is committed behind it. */
const DEPTH = 2;

export const NO_DELAYS: NetworkDelays = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };

/**
 * The step machine: events in by method call, each with its time; commands out through the sink.
 *
 * It knows no clock, no I/O and no randomness, so the simulator and the server drive the same code, and a recorded
 * sequence of events gives the same commands again. Drivers deliver simultaneous events in the order: finished,
 * arrival, timer; then sequence. Time never runs backwards.
 */
export class Scheduler implements CoreView {
  readonly requests: RequestTable;
  readonly batches: BatchTable;
  readonly accelerators: AcceleratorTable;
  readonly offers = new OfferTable(16);
  network: NetworkDelays;
  private readonly queues: (Queue | undefined)[] = [];
  private readonly specs: (QueueSpec | undefined)[] = [];
  private readonly freeKeys: QueueKey[] = [];
  /** Batches in flight per queue: a key is given out again only when none of its former queue is left. */
  private batchesOf = new Int32Array(16);
  private readonly arbiter: Arbiter;
  private readonly policy: Policy;
  private readonly sink: CommandSink;
  private readonly options: SchedulerOptions;
  private readonly learner: Learner;
  private readonly depth: number;
  private now = 0;

  constructor(policy: Policy, sink: CommandSink, options: SchedulerOptions) {
    this.policy = policy;
    this.sink = sink;
    this.options = options;
    this.network = options.network;
    this.requests = new RequestTable(options.requestsMax);
    this.depth = policy.depth ?? DEPTH;
    invariant(this.depth >= DEPTH, `depth of policy ${policy.name} must be at least ${DEPTH}; was ${this.depth}`);
    this.batches = new BatchTable(options.acceleratorsMax * this.depth);
    this.accelerators = new AcceleratorTable(options.acceleratorsMax);
    this.learner = new Learner(this.accelerators, this.specs);
    this.arbiter = policy.createArbiter(this);
  }

  // Queues

  addQueue(spec: QueueSpec): QueueKey {
    const key = this.freeKeys.pop() ?? this.queues.length;
    if (key >= this.offers.size.length) {
      this.offers.grow(this.offers.size.length * 2);
      const grown = new Int32Array(this.offers.size.length);
      grown.set(this.batchesOf);
      this.batchesOf = grown;
    }
    this.specs[key] = spec;
    this.queues[key] = undefined;
    this.arbiter.queueAdded(key);
    this.queues[key] = this.policy.createQueue(key, spec, this);
    return key;
  }

  /** The queue must be empty: drain or cancel first. Its batches in flight end as usual; if one fails, its members do. */
  removeQueue(key: QueueKey): void {
    invariant(this.queue(key).length === 0, `queue ${key} must be empty to be removed; held ${this.queue(key).length}`);
    this.offers.size[key] = 0;
    this.offers.demand[key] = 0;
    this.offers.mayLeaveIdle[key] = 0;
    this.offers.pin[key] = ANY_ACCELERATOR;
    this.arbiter.queueRemoved(key);
    this.queues[key] = undefined;
    this.specs[key] = undefined;
    if (this.batchesOf[key] === 0) this.freeKeys.push(key);
  }

  queueLength(key: QueueKey): number {
    return this.queue(key).length;
  }

  // Events

  /**
   * A request arrived. It may end within the call (queue full, infeasible).
   * @param tag the driver's id. @param arrivalAt when it was received, <= at. @param deadline the client's.
   * @returns false when the table of live requests is full: the request has not entered, the driver answers "queue-full".
   */
  arrive(key: QueueKey, tag: number, arrivalAt: number, deadline: number, at: number): boolean {
    this.advance(at);
    const queue = this.queue(key);
    const handle = this.requests.add(key, tag, arrivalAt, deadline - this.network.responseUs);
    if (handle < 0) return false;
    if (queue.length >= this.specs[key]!.lengthMax) this.drop(handle, DROP_QUEUE_FULL, at);
    else queue.arrived(handle, at);
    return true;
  }

  /** The client went away. A request that already runs ends as cancelled now; its slot is freed with its batch. */
  cancel(handle: RequestHandle, at: number): void {
    this.advance(at);
    const { requests } = this;
    const state = requests.state[handle]!;
    if (state === QUEUED) {
      this.queue(requests.queue[handle]!).remove(handle, at);
      this.drop(handle, DROP_CANCELLED, at);
    } else if (state === DISPATCHED) {
      requests.state[handle] = ABANDONED;
      this.sink.end(handle, DROPPED, DROP_CANCELLED, -1, at);
    }
  }

  /** The batch ended well; it executed from startAt to endAt. */
  finished(batch: BatchId, startAt: number, endAt: number, at: number): void {
    this.advance(at);
    const { batches, requests } = this;
    const accelerator = batches.accelerator[batch]!;
    const key = batches.queue[batch]!;
    this.sink.batchEnded(batch, startAt, endAt);
    for (let handle = batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] !== ABANDONED) {
        this.sink.end(handle, endAt <= requests.deadline[handle]! ? FINISHED : LATE, 0, startAt, at);
      }
      requests.release(handle);
      handle = following;
    }
    const isReplanned =
      this.options.learn && this.learner.measured(accelerator, key, batches.executedSize[batch]!, endAt - startAt, at);
    this.freeAccelerator(batch, accelerator, endAt, at);
    if (isReplanned) this.planChanged(at);
  }

  /** Whether the batch is the one that runs, not the one behind it. */
  isFirst(batch: BatchId): boolean {
    return this.accelerators.running[this.batches.accelerator[batch]!] === batch;
  }

  /**
   * The batch did not end. Its members go back to their queue when they have a try and time left, else they fail.
   * A batch that killed its worker, or that the model refused, is retried member by member, so that a poisonous request fails alone.
   *
   * @param hasBegun false when the driver knows that it never reached the accelerator. By default: whatever was first in line began.
   */
  failed(batch: BatchId, cause: number, at: number, hasBegun: boolean = this.isFirst(batch)): void {
    this.advance(at);
    const { batches, requests } = this;
    const accelerator = batches.accelerator[batch]!;
    const key = batches.queue[batch]!;
    const started = hasBegun;
    const mayBeOneMember = cause === FAIL_MODEL_ERROR && batches.size[batch]! > 1;
    const alone = started && (cause === FAIL_WORKER_CRASHED || cause === FAIL_WORKER_HUNG || mayBeOneMember);
    const queue = this.queues[key];
    const soonestAt = at + this.aloneUs(key);
    for (let handle = batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] === ABANDONED) requests.release(handle);
      else if (
        queue !== undefined &&
        requests.deadline[handle]! >= soonestAt &&
        (started ? alone && this.spendTry(handle) : this.spendReturn(handle))
      ) {
        requests.state[handle] = QUEUED;
        requests.next[handle] = -1;
        queue.returned(handle, alone, at);
      } else {
        this.sink.end(handle, FAILED, cause, -1, at);
        requests.release(handle);
      }
      handle = following;
    }
    const isReplanned = this.accelerators.unmeasured(accelerator, at);
    this.freeAccelerator(batch, accelerator, at, at);
    if (isReplanned) this.planChanged(at);
  }

  /**
   * The accelerator refused a batch whose turn came after its `latestAt`. Its members end as dropped: they never executed.
   */
  rejected(batch: BatchId, at: number): void {
    this.advance(at);
    const { batches, requests } = this;
    const accelerator = batches.accelerator[batch]!;
    for (let handle = batches.first[batch]!; handle >= 0; ) {
      const following = requests.next[handle]!;
      if (requests.state[handle] === ABANDONED) requests.release(handle);
      else {
        requests.state[handle] = QUEUED;
        this.drop(handle, DROP_PREDICTED_LATE, at);
      }
      handle = following;
    }
    this.freeAccelerator(batch, accelerator, at, at);
  }

  private spendTry(handle: RequestHandle): boolean {
    const { retries } = this.requests;
    if ((retries[handle]! & TRIES_MASK) >= this.options.retriesMax) return false;
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

  join(accelerator: AcceleratorId, scale: number, at: number): void {
    this.advance(at);
    this.accelerators.join(accelerator, scale, at);
    this.arbiter.accelerated(accelerator, at);
    this.planChanged(at);
  }

  /** It gets no more work. What it holds finishes, or fails by its own event. */
  leave(accelerator: AcceleratorId, at: number): void {
    this.advance(at);
    this.accelerators.leave(accelerator);
    this.arbiter.withdrawn(accelerator, at);
    this.planChanged(at);
  }

  /** Nothing that could serve is left and nothing is coming: everything that waits in the queue fails now. */
  failQueued(key: QueueKey, handles: Iterable<RequestHandle>, at: number, cause: number = FAIL_NO_ACCELERATOR): void {
    this.advance(at);
    for (const handle of handles) {
      if (this.requests.state[handle] !== QUEUED || this.requests.queue[handle] !== key) continue;
      this.queue(key).remove(handle, at);
      this.sink.end(handle, FAILED, cause, -1, at);
      this.requests.release(handle);
    }
  }

  /** The delays that plans allow for are other ones now (measured by the driver). Deadlines of live requests stay as they were. */
  networkChanged(network: NetworkDelays, at: number): void {
    this.advance(at);
    this.network = network;
    this.planChanged(at);
  }

  /** Earliest time at which `wake` has something to do. */
  get nextWakeAt(): number {
    return this.arbiter.nextWakeAt;
  }

  /** Time passed. Call when `nextWakeAt` is reached; harmless at any other moment. */
  wake(at: number): void {
    this.advance(at);
    this.arbiter.wake(at);
  }

  // CoreView, for queues and arbiters

  offerChanged(key: QueueKey, at: number): void {
    this.arbiter.offerChanged(key, at);
  }

  drop(handle: RequestHandle, reason: number, at: number): void {
    // Out of time because nothing was there to run it: that is not the deadline's fault.
    if (this.accelerators.count === 0 && reason <= DROP_PREDICTED_LATE)
      this.sink.end(handle, FAILED, FAIL_NO_ACCELERATOR, -1, at);
    else {
      if (reason === DROP_INFEASIBLE && this.options.learn) this.learner.gaveUp(this.requests.queue[handle]!, at);
      this.sink.end(handle, DROPPED, reason, -1, at);
    }
    this.requests.release(handle);
  }

  grant(key: QueueKey, accelerator: AcceleratorId, at: number): BatchId {
    const batch = this.queues[key]!.take(accelerator, at);
    if (batch < 0) return -1;
    const { batches, accelerators } = this;
    batches.accelerator[batch] = accelerator;
    accelerators.freeAt[accelerator] = batches.finishAt[batch]!;
    if (accelerators.running[accelerator]! < 0) accelerators.running[accelerator] = batch;
    else if (accelerators.waiting[accelerator]! < 0) accelerators.waiting[accelerator] = batch;
    else this.commitBehind(batch, accelerator);
    this.batchesOf[key] = this.batchesOf[key]! + 1;
    this.sink.dispatch(batch, accelerator, at);
    if (accelerators.isOnTrial(accelerator) && accelerators.trialSent(accelerator)) this.planChanged(at);
    return batch;
  }

  expired(key: QueueKey, at: number): void {
    this.queues[key]!.refresh(at);
  }

  refreshDemand(key: QueueKey, at: number): void {
    this.queues[key]?.refreshDemand(at);
  }

  countAt(key: QueueKey, accelerator: AcceleratorId, at: number): number {
    const queue = this.queue(key);
    if (queue.countAt === undefined) violated(`queue ${key} does not count`);
    return queue.countAt(accelerator, at);
  }

  preempt(accelerator: AcceleratorId, at: number): void {
    const { accelerators, batches, requests } = this;
    const batch = accelerators.running[accelerator]!;
    if (batch < 0) violated(`accelerator ${accelerator} runs nothing that could be preempted`);
    const key = batches.queue[batch]!;
    const queue = this.queues[key];
    this.sink.preempt(batch, accelerator, at);
    for (let handle = batches.first[batch]!; handle >= 0; ) {
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
    this.freeAccelerator(batch, accelerator, at, at);
  }

  private queue(key: QueueKey): Queue {
    const queue = this.queues[key];
    if (queue === undefined) violated(`no queue ${key}`);
    return queue;
  }

  private advance(at: number): void {
    if (at < this.now) violated(`time must not run backwards: at ${this.now}, then ${at}`);
    this.now = at;
    if (at >= this.learner.lookAt) this.giveChances(at);
  }

  /** Least time from a decision to the end of a batch of one; Infinity when the queue is gone. */
  private aloneUs(key: QueueKey): number {
    const { network, accelerators } = this;
    const spec = this.specs[key];
    if (spec === undefined) return Number.POSITIVE_INFINITY;
    const execUs = Math.ceil(spec.latency.execUs[1]! * accelerators.fastestScale);
    return network.controlUs + network.dataUsPerRequest + execUs;
  }

  /** @param freedAt when the accelerator itself was free: word of it may have taken a while, and what waited there has begun. */
  private freeAccelerator(batch: BatchId, accelerator: AcceleratorId, freedAt: number, at: number): void {
    const { accelerators, batches } = this;
    batches.release(batch);
    const key = batches.queue[batch]!;
    this.batchesOf[key] = this.batchesOf[key]! - 1;
    if (this.batchesOf[key] === 0 && this.queues[key] === undefined) this.freeKeys.push(key);
    if (accelerators.running[accelerator] === batch) {
      const following = accelerators.waiting[accelerator]!;
      accelerators.running[accelerator] = following;
      accelerators.waiting[accelerator] = following >= 0 ? this.stepUp(following, accelerator) : -1;
      if (following >= 0) {
        const startAt = Math.max(freedAt, batches.execAt[following]!);
        batches.finishAt[following] = startAt + batches.execUs[following]!;
        this.planBehind(accelerator, batches.finishAt[following]!);
      } else accelerators.freeAt[accelerator] = at;
    } else {
      this.leaveLine(batch, accelerator);
      const running = accelerators.running[accelerator]!;
      this.planBehind(accelerator, running >= 0 ? Math.max(at, batches.finishAt[running]!) : at);
    }
    if (accelerators.present[accelerator] === 1) this.arbiter.accelerated(accelerator, at);
  }

  /** The accelerator holds two already: this batch goes last. */
  private commitBehind(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches } = this;
    if (accelerators.inFlight(accelerator) >= this.depth)
      violated(`accelerator ${accelerator} already holds ${this.depth} batches`);
    let last = accelerators.waiting[accelerator]!;
    while (batches.behind[last]! >= 0) last = batches.behind[last]!;
    batches.behind[last] = batch;
    accelerators.more[accelerator] = accelerators.more[accelerator]! + 1;
  }

  /** @returns the batch behind one that is about to run, now the first of those that wait; -1: none. */
  private stepUp(batch: BatchId, accelerator: AcceleratorId): BatchId {
    const { accelerators, batches } = this;
    const following = batches.behind[batch]!;
    if (following >= 0) accelerators.more[accelerator] = accelerators.more[accelerator]! - 1;
    batches.behind[batch] = -1;
    return following;
  }

  /** A batch that waits on an accelerator ended before its turn. */
  private leaveLine(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches } = this;
    let before = accelerators.waiting[accelerator]!;
    if (before === batch) {
      accelerators.waiting[accelerator] = this.stepUp(batch, accelerator);
      return;
    }
    while (before >= 0 && batches.behind[before] !== batch) before = batches.behind[before]!;
    if (before < 0) violated(`batch ${batch} does not wait on accelerator ${accelerator}`);
    batches.behind[before] = batches.behind[batch]!;
    accelerators.more[accelerator] = accelerators.more[accelerator]! - 1;
  }

  /** What waits on the accelerator follows from when its running batch ends. */
  private planBehind(accelerator: AcceleratorId, runsUntil: number): void {
    const { accelerators, batches } = this;
    let freeAt = runsUntil;
    for (let batch = accelerators.waiting[accelerator]!; batch >= 0; batch = batches.behind[batch]!) {
      freeAt = Math.max(freeAt, batches.execAt[batch]!) + batches.execUs[batch]!;
      batches.finishAt[batch] = freeAt;
    }
    accelerators.freeAt[accelerator] = freeAt;
  }

  private giveChances(at: number): void {
    const isReplanned = this.learner.giveChances(at, (id) => {
      if (this.accelerators.inFlight(id) === 0) this.arbiter.accelerated(id, at);
    });
    if (isReplanned) this.planChanged(at);
  }

  private planChanged(at: number): void {
    for (const queue of this.queues) queue?.planChanged(at);
  }
}
