import { AcceleratorSide, DEPTH } from "./accelerator-side.js";
import { IndexedHeap } from "./indexed-heap.js";
import { violated } from "./invariant.js";
import type { GivenBatch, LatencyModel } from "./latency/latency.js";
import type { Learning } from "./latency/learner.js";
import { DROP_INFEASIBLE, FAIL_NO_ACCELERATOR } from "./outcome.js";
import {
  type Arbiter,
  type CoreView,
  type NetworkDelays,
  OfferTable,
  type Policy,
  type QueueKey,
  type QueueSpec,
} from "./policy.js";
import { QueueSide } from "./queue-side.js";
import { aloneUs, ShadowRuns } from "./shadow/shadow-runs.js";
import type { AcceleratorId, AcceleratorTable } from "./tables/accelerator-table.js";
import type { BatchId, BatchTable } from "./tables/batch-table.js";
import type { RequestHandle, RequestTable, RequestTraits } from "./tables/request-table.js";

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
   * @param lateByUs by how much it would have ended after `latestEndAt` at the earliest, by the estimate that it was dropped by
   *   (negative: only what its queue must reach was out of reach); 0: none decided.
   */
  end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void;
  /** A batch ended well: for measurements and metrics (`quantileOf`). Its members' `end` calls follow. */
  batchEnded(batch: BatchId, startAt: number, endAt: number): void;
  /** Stop the batch that runs there and forget it: its members wait again. What was sent behind it begins. */
  preempt(batch: BatchId, accelerator: AcceleratorId, at: number): void;
  /** Nothing is to be done: see CoreView.joinedBatch. */
  joinedBatch?(request: RequestHandle, at: number): void;
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
  readonly learn: Learning;
}

/** Turns of queues that ask to look again at one moment, far above what any can need: ends the process rather than hang it. */
const TURNS_MAX = 100_000;

export const NO_DELAYS: NetworkDelays = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };

/**
 * The step machine: events in by method call, each with its time; commands out through the sink.
 *
 * It knows no clock, no I/O and no randomness, so the simulator and the server drive the same code, and a recorded
 * sequence of events gives the same commands again. Drivers deliver simultaneous events in the order: finished,
 * arrival, timer; then sequence. Time never runs backwards.
 *
 * It is two halves in one thread: QueueSide knows requests, AcceleratorSide knows accelerators, and what passes between
 * them (offers, grants, batches that ended) is a call here. On many threads it is a record (src/threads).
 */
export class Scheduler implements CoreView {
  readonly requests: RequestTable;
  readonly batches: BatchTable;
  readonly accelerators: AcceleratorTable;
  readonly offers = new OfferTable(16);
  /** Queues answer at once. */
  readonly mustWait = false;
  network: NetworkDelays;
  private readonly queueSide: QueueSide;
  private readonly acceleratorSide: AcceleratorSide;
  /** When queues asked to look again, by key. */
  private readonly alarms = new IndexedHeap(16);
  private readonly freeKeys: QueueKey[] = [];
  /** 1: the queue offers nothing; see hold. */
  private held = new Uint8Array(16);
  /** Batches in flight per queue: a key is given out again only when none of its former queue is left. */
  private batchesOf = new Int32Array(16);
  private readonly arbiter: Arbiter;
  private readonly policy: Policy;
  private readonly sink: CommandSink;
  readonly learns: boolean;
  /** Null: there was none yet. */
  private shadows: ShadowRuns | null = null;
  /** Reused: read during a call. */
  private readonly given: { -readonly [Field in keyof GivenBatch]: GivenBatch[Field] };
  private now = 0;

  constructor(policy: Policy, sink: CommandSink, options: SchedulerOptions) {
    this.policy = policy;
    this.sink = sink;
    this.network = options.network;
    const specs: (QueueSpec | undefined)[] = [];
    this.acceleratorSide = new AcceleratorSide(specs, {
      acceleratorsMax: options.acceleratorsMax,
      depth: policy.depth ?? DEPTH,
      learn: options.learn,
    });
    this.batches = this.acceleratorSide.batches;
    this.accelerators = this.acceleratorSide.accelerators;
    this.queueSide = new QueueSide(specs, this.batches, this.accelerators, sink, options);
    this.requests = this.queueSide.requests;
    this.learns = options.learn !== false;
    this.given = { batch: -1, batches: this.batches, requests: this.requests };
    this.arbiter = policy.createArbiter(this);
  }

  // Queues

  addQueue(spec: QueueSpec): QueueKey {
    const { queues, specs } = this.queueSide;
    const key = this.freeKeys.pop() ?? queues.length;
    if (key >= this.offers.size.length) {
      this.offers.grow(this.offers.size.length * 2);
      const grown = new Int32Array(this.offers.size.length);
      grown.set(this.batchesOf);
      this.batchesOf = grown;
      const held = new Uint8Array(this.offers.size.length);
      held.set(this.held);
      this.held = held;
      this.alarms.grow(this.offers.size.length);
    }
    if (spec.shadowOf !== undefined) return this.addShadow(key, spec);
    this.shadows?.forget(key);
    const latency = this.policy.createLatency?.(spec);
    const own = latency === undefined ? spec : { ...spec, latency };
    specs[key] = own;
    queues[key] = undefined;
    this.arbiter.queueAdded(key);
    queues[key] = this.policy.createQueue(key, own, this);
    return key;
  }

  private addShadow(key: QueueKey, spec: QueueSpec): QueueKey {
    const { queues, specs } = this.queueSide;
    this.shadows ??= new ShadowRuns(this, specs, (of) => this.kindTimesOf(of)!);
    specs[key] = spec;
    queues[key] = this.shadows.add(key, spec);
    return key;
  }

  /** A queue for requests of that one that are run again alone. */
  addShadowOf(original: QueueKey): QueueKey {
    this.queueSide.queue(original);
    return this.addQueue({ ...this.queueSide.specs[original]!, shadowOf: original });
  }

  /** Its requests are run to learn from, and nothing of them counts: how they end, what they take, that they arrived. */
  isShadow(key: QueueKey): boolean {
    return this.shadows?.has(key) === true;
  }

  /**
   * What a request of this kind takes alone at most, µs on scale 1, where the queue's model wants to know it better.
   * @param observations of late that are enough. @returns 0: it learns nothing from that, or knows enough.
   */
  wantedAloneUs(key: QueueKey, kind: number, observations: number): number {
    const latency = this.kindTimesOf(key);
    const seen = latency?.aloneSeen?.(kind, this.now);
    return seen === undefined || seen >= observations ? 0 : aloneUs(latency!, kind);
  }

  /** Its kinds may come to be told apart, though none is yet. */
  mayLearnKinds(key: QueueKey): boolean {
    return this.queueSide.queues[key]?.kindTimes !== undefined;
  }

  /** The queue must be empty: drain or cancel first. Its batches in flight end as usual; if one fails, its members do. */
  removeQueue(key: QueueKey): void {
    this.queueSide.removeQueue(key);
    this.held[key] = 0;
    this.offers.clear(key);
    this.alarms.remove(key);
    if (!this.isShadow(key)) this.arbiter.queueRemoved(key);
    if (this.batchesOf[key] === 0) this.freeKeys.push(key);
  }

  queueLength(key: QueueKey): number {
    return this.queueSide.queue(key).length;
  }

  // Events

  /**
   * A request arrived. It may end within the call (queue full, infeasible).
   * @param tag the driver's id. @param arrivalAt when it was received, <= at. @param deadline the client's.
   * @param traits what else it says of itself; read during the call.
   * @returns false when the table of live requests is full: the request has not entered, the driver answers "queue-full".
   */
  arrive(key: QueueKey, tag: number, arrivalAt: number, deadline: number, at: number, traits?: RequestTraits): boolean {
    this.advance(at);
    const isIn = this.queueSide.arrive(key, tag, arrivalAt, deadline, at, traits);
    if (this.isShadow(key)) this.shadows!.look();
    return isIn;
  }

  /** The client went away. A request that already runs ends as cancelled now; its slot is freed with its batch. */
  cancel(handle: RequestHandle, at: number): void {
    this.advance(at);
    this.queueSide.cancel(handle, at);
  }

  /** The batch ended well; it executed from startAt to endAt. */
  finished(batch: BatchId, startAt: number, endAt: number, at: number): void {
    this.advance(at);
    this.sink.batchEnded(batch, startAt, endAt);
    this.queueSide.queues[this.batches.queue[batch]!]?.batchEnded?.(batch, startAt, endAt);
    const isRelearnt = this.tellLatency(batch, endAt - startAt);
    if (this.shadows !== null) this.noteSlack(batch, endAt);
    this.queueSide.finished(batch, startAt, endAt, at);
    const key = this.batches.queue[batch]!;
    const isByKind = this.queueSide.queues[key]?.isByKind === true;
    const isReplanned = this.acceleratorSide.measured(batch, key, endAt - startAt, at, isByKind) || isRelearnt;
    this.free(batch, endAt, at);
    if (isReplanned) this.queueSide.planChanged(at);
  }

  /**
   * Which quantile of what it was expected to take the batch's time is, in [0, 1], by its members; NaN: its queue knows no
   * distributions. During `batchEnded` nothing has been learnt from it yet.
   */
  quantileOf(batch: BatchId, us: number): number {
    const { accelerators, batches, given } = this;
    const latency = this.kindTimesOf(batches.queue[batch]!);
    if (latency?.quantileOfGiven === undefined) return Number.NaN;
    given.batch = batch;
    return latency.quantileOfGiven(given, us / accelerators.scale[batches.accelerator[batch]!]!);
  }

  /** Whether the batch is the one that runs, not the one behind it. */
  isFirst(batch: BatchId): boolean {
    return this.acceleratorSide.isFirst(batch);
  }

  /**
   * The batch did not end. Its members go back to their queue when they have a try and time left, else they fail.
   * A batch that killed its worker, or that the model refused, is retried member by member, so that a poisonous request fails alone.
   *
   * @param hasBegun false when the driver knows that it never reached the accelerator. By default: whatever was first in line began.
   */
  failed(batch: BatchId, cause: number, at: number, hasBegun: boolean = this.isFirst(batch)): void {
    this.advance(at);
    if (this.shadows !== null) this.noteSlack(batch, Number.POSITIVE_INFINITY);
    this.queueSide.failed(batch, cause, at, hasBegun);
    const isReplanned = this.accelerators.unmeasured(this.batches.accelerator[batch]!, at);
    this.free(batch, at, at);
    if (isReplanned) this.queueSide.planChanged(at);
  }

  /**
   * The accelerator refused a batch whose turn came after its `latestAt`. Its members end as dropped: they never executed.
   */
  rejected(batch: BatchId, at: number): void {
    this.advance(at);
    this.queueSide.rejected(batch, at);
    this.free(batch, at, at);
  }

  join(accelerator: AcceleratorId, scale: number, at: number): void {
    this.advance(at);
    this.accelerators.join(accelerator, scale, at);
    this.shadows?.used(accelerator);
    this.arbiter.available(accelerator, at);
    this.queueSide.planChanged(at);
  }

  /** It gets no more work. What it holds finishes, or fails by its own event. */
  leave(accelerator: AcceleratorId, at: number): void {
    this.advance(at);
    this.accelerators.leave(accelerator);
    this.arbiter.withdrawn(accelerator, at);
    this.queueSide.planChanged(at);
  }

  /** Nothing that could serve is left and nothing is coming: everything that waits in the queue fails now. */
  failQueued(key: QueueKey, handles: Iterable<RequestHandle>, at: number, cause: number = FAIL_NO_ACCELERATOR): void {
    this.advance(at);
    this.queueSide.failQueued(key, handles, at, cause);
  }

  /**
   * Held, a queue offers nothing to the arbiter and its requests wait; whoever is out of time meanwhile is given up when
   * it looks again, or by its driver.
   */
  hold(key: QueueKey, isHeld: boolean, at: number): void {
    this.advance(at);
    this.held[key] = isHeld ? 1 : 0;
    this.queueSide.queue(key).refresh(at);
  }

  /**
   * The delays that plans allow for are other ones now (measured by the driver). Deadlines of live requests stay as they were.
   * @param key of the queue that they were measured for; undefined: all that have none of their own.
   */
  networkChanged(network: NetworkDelays, at: number, key?: QueueKey): void {
    this.advance(at);
    if (key === undefined) this.network = network;
    this.queueSide.setDelays(network, key);
    this.queueSide.planChanged(at);
  }

  /** The queue wants to be told when accuracies change. */
  takesAccuracy(key: QueueKey): boolean {
    return this.queueSide.queues[key]?.accuracyChanged !== undefined;
  }

  /** How often answers of the queue's tasks are right from now on. */
  accuracyChanged(key: QueueKey, accuracy: readonly ArrayLike<number>[], at: number): void {
    this.advance(at);
    this.queueSide.queue(key).accuracyChanged?.(accuracy, at);
  }

  /** Earliest time at which `wake` has something to do. */
  get nextWakeAt(): number {
    const { nextWakeAt } = this.arbiter;
    const wakeAt = this.alarms.size === 0 ? nextWakeAt : Math.min(nextWakeAt, this.alarms.topPriority());
    return this.shadows === null ? wakeAt : Math.min(wakeAt, this.shadows.lookAt);
  }

  /** Time passed. Call when `nextWakeAt` is reached; harmless at any other moment. */
  wake(at: number): void {
    this.advance(at);
    for (let turn = 0; ; turn++) {
      if (turn > TURNS_MAX) violated(`alarms of ${turn} turns at ${at} did not come to rest`);
      while (this.alarms.topPriority() <= at) this.queueSide.queues[this.alarms.pop()]!.refresh(at);
      this.arbiter.wake(at);
      if (this.alarms.topPriority() > at) break;
    }
    if (this.shadows !== null) this.runShadows(at);
  }

  /** The arbiter has come to rest: what is idle now nobody wants. */
  private runShadows(at: number): void {
    const shadows = this.shadows!;
    for (let key = shadows.next(at); key >= 0; key = shadows.next(at)) {
      this.grant(key, shadows.accelerator, at);
      this.arbiter.available(shadows.accelerator, at);
    }
  }

  // CoreView, for queues and arbiters

  offerChanged(key: QueueKey, at: number): void {
    if (this.held[key] === 1) this.offers.size[key] = 0;
    this.arbiter.offerChanged(key, at);
  }

  delaysOf(key: QueueKey): NetworkDelays {
    return this.queueSide.delaysOf(key);
  }

  joinedBatch(handle: RequestHandle, at: number): void {
    this.sink.joinedBatch?.(handle, at);
  }

  drop(handle: RequestHandle, reason: number, at: number, wouldEndAt = 0): void {
    if (reason === DROP_INFEASIBLE && this.accelerators.count > 0)
      this.acceleratorSide.gaveUp(this.requests.queue[handle]!, at);
    if (this.shadows !== null && !this.shadows.has(this.requests.queue[handle]!)) this.shadows.requestEnded(0);
    this.queueSide.drop(handle, reason, at, wouldEndAt);
  }

  grant(key: QueueKey, accelerator: AcceleratorId, at: number): BatchId {
    const batch = this.queueSide.queues[key]!.take(accelerator, at);
    if (batch < 0) return -1;
    this.planGiven(batch, accelerator);
    this.acceleratorSide.commit(batch, accelerator);
    this.batchesOf[key] = this.batchesOf[key]! + 1;
    this.sink.dispatch(batch, accelerator, at);
    if (this.acceleratorSide.sent(accelerator)) this.queueSide.planChanged(at);
    return batch;
  }

  expired(key: QueueKey, at: number): void {
    this.queueSide.queues[key]!.refresh(at);
  }

  alarm(key: QueueKey, at: number): void {
    if (at === Number.POSITIVE_INFINITY) this.alarms.remove(key);
    else this.alarms.set(key, at);
  }

  refreshDemand(key: QueueKey, at: number): void {
    this.queueSide.queues[key]?.refreshDemand(at);
  }

  countAt(key: QueueKey, accelerator: AcceleratorId, at: number): number {
    const queue = this.queueSide.queue(key);
    if (queue.countAt === undefined) violated(`queue ${key} does not count`);
    return queue.countAt(accelerator, at);
  }

  preempt(accelerator: AcceleratorId, at: number): void {
    const batch = this.accelerators.running[accelerator]!;
    if (batch < 0) violated(`accelerator ${accelerator} runs nothing that could be preempted`);
    this.sink.preempt(batch, accelerator, at);
    this.queueSide.preempted(batch, at);
    this.free(batch, at, at);
  }

  private advance(at: number): void {
    if (at < this.now) violated(`time must not run backwards: at ${this.now}, then ${at}`);
    this.now = at;
    if (at >= this.acceleratorSide.chanceAt) this.giveChances(at);
  }

  /** The batch ends when its members, and not only its size, say. */
  private planGiven(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches, given } = this;
    const latency = this.queueSide.specs[batches.queue[batch]!]!.latency;
    if (latency.givenUs === undefined) return;
    given.batch = batch;
    batches.plan(batch, Math.ceil(latency.givenUs(given) * accelerators.scale[accelerator]!));
  }

  /** What is known by kind: the queue's own, or its model. Of a shadow queue: those of the one that it shadows. */
  private kindTimesOf(key: QueueKey): LatencyModel | undefined {
    const { queues, specs } = this.queueSide;
    const spec = specs[key];
    return queues[spec?.shadowOf ?? key]?.kindTimes ?? spec?.latency;
  }

  /** @returns true when plans must be made anew. */
  private tellLatency(batch: BatchId, us: number): boolean {
    const { accelerators, batches, given } = this;
    const latency = this.learns ? this.kindTimesOf(batches.queue[batch]!) : undefined;
    if (latency?.measured === undefined) return false;
    given.batch = batch;
    return latency.measured(given, us / accelerators.scale[batches.accelerator[batch]!]!);
  }

  private free(batch: BatchId, freedAt: number, at: number): void {
    const { accelerators, batches } = this;
    const accelerator = batches.accelerator[batch]!;
    const key = batches.queue[batch]!;
    this.acceleratorSide.free(batch, freedAt, at);
    this.batchesOf[key] = this.batchesOf[key]! - 1;
    if (this.batchesOf[key] === 0 && this.queueSide.queues[key] === undefined) this.freeKeys.push(key);
    if (accelerators.present[accelerator] === 1) this.arbiter.available(accelerator, at);
    if (this.shadows === null) return;
    if (!this.shadows.has(key)) this.shadows.used(accelerator);
    this.shadows.look();
  }

  /** How long before their deadlines the members of a batch end. */
  private noteSlack(batch: BatchId, endAt: number): void {
    const { batches, requests } = this;
    if (this.isShadow(batches.queue[batch]!)) return;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      this.shadows!.requestEnded(requests.latestEndAt[member]! - endAt);
  }

  private giveChances(at: number): void {
    const isReplanned = this.acceleratorSide.giveChances(at, (id) => {
      if (this.accelerators.inFlight(id) === 0) this.arbiter.available(id, at);
    });
    if (isReplanned) this.queueSide.planChanged(at);
  }
}
