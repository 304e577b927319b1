import { invariant, violated } from "../core/invariant.js";
import { DROP_CANCELLED, DROPPED, FAIL_NO_ACCELERATOR, FAILED } from "../core/outcome.js";
import type { NetworkDelays } from "../core/policy.js";
import { PLAIN, type RequestTraits } from "../core/tables/request-table.js";
import { RingReader, RingWriter } from "../wire/ring.js";
import { Bell } from "./bell.js";
import type { ActorHost, ActorReport } from "./hosts.js";
import { frontBell, type SchedulerMemory } from "./memory.js";
import * as is from "./messages.js";
import { type Model, type ModelId, ModelQueues, type ThreadedModel } from "./model-queues.js";
import type { DispatchedBatch } from "./queues/dispatched-batch.js";
import { type HandedRequest, type PortRecord, type PortSink, QueuePort } from "./queues/queue-port.js";
import { RECORD_FORMAT, type RunOptions, type RunRecord, type ThreadRecord } from "./run-record.js";

/** What the scheduler tells its driver; called within `poll`. Batches are numbered over all threads. */
export interface ThreadedSink {
  /** Run this batch. Batches of one accelerator come in the order of their grants; it may have left meanwhile. */
  dispatch(batch: number, model: ModelId, dispatched: Readonly<DispatchedBatch>): void;
  /** A request ended: exactly once each. See CommandSink.end. */
  end(tag: number, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void;
  /** A batch ended well; its members' `end` calls follow. */
  batchEnded(batch: number, startAt: number, endAt: number): void;
}

/** Above every number of a part in one thread. */
const PARTS = 2 ** 31;

const UNKNOWN = 0;
const LIVE = 1;
const CANCEL_ASKED = 2;

/**
 * One scheduler on many threads: queue threads that hold the queues of models, a rank that matches their offers with
 * accelerators, and this front, through which a driver speaks to them (Symphony §4.2).
 *
 * The actors are the core's halves and the policy's own queues and arbiter; who runs them is the host's affair. A model
 * has a queue on every thread it is spread over, so a hot one may be split and any one may move: a queue that closes hands
 * its requests back, and they follow the model. Requests are numbered by tags that the driver gives and takes back at
 * their `end`.
 */
export class ThreadedScheduler implements PortSink {
  private readonly options: RunOptions;
  private readonly memory: SchedulerMemory;
  private readonly host: ActorHost;
  private readonly sink: ThreadedSink;
  private readonly ports: (QueuePort | undefined)[] = [];
  private readonly stopping = new Set<number>();
  private readonly controls: RingWriter;
  private readonly heldControls: number[][] = [];
  private readonly bell: Bell;
  private readonly queues: ModelQueues;
  private readonly tagState: Uint8Array;
  private readonly tagThread: Uint8Array;
  private readonly batchesMax: number;
  /** Batches dispatched to each accelerator; and whether a port holds one back whose turn it is not yet. */
  private readonly dispatched: Float64Array;
  private isHeldBack = false;
  private readonly isRecording: boolean;
  private readonly rankInputs: number[] = [];
  private readonly records: { port: PortRecord; report: Promise<ActorReport> }[][];
  private readonly rankReport: Promise<ActorReport>;
  private now = 0;

  constructor(options: RunOptions, memory: SchedulerMemory, host: ActorHost, sink: ThreadedSink, isRecording = false) {
    this.options = options;
    this.memory = memory;
    this.host = host;
    this.sink = sink;
    this.isRecording = isRecording;
    this.controls = new RingWriter(memory.controls);
    this.bell = new Bell(memory.bells, frontBell(options));
    this.queues = new ModelQueues(options.queuesMax, options.threadsMax);
    this.tagState = new Uint8Array(options.tagsMax);
    this.tagThread = new Uint8Array(options.tagsMax);
    this.batchesMax = options.acceleratorsMax * 2;
    this.dispatched = new Float64Array(options.acceleratorsMax);
    this.records = memory.threads.map(() => []);
    this.rankReport = host.startRank();
  }

  // Threads

  /** Whether one more queue thread may start: a number is free again when the thread that had it has ended. */
  get hasThreadRoom(): boolean {
    return this.ports.length < this.options.threadsMax || this.ports.includes(undefined);
  }

  /** @returns the number of a new queue thread. */
  startThread(): number {
    invariant(this.hasThreadRoom, `at most ${this.options.threadsMax} queue threads may run`);
    const free = this.ports.indexOf(undefined);
    const thread = free >= 0 ? free : this.ports.length;
    const { toFront, fromFront } = this.memory.threads[thread]!;
    const port: PortRecord | null = this.isRecording ? { inputs: [], commands: [] } : null;
    const writer = new RingWriter(fromFront);
    this.ports[thread] = new QueuePort(thread, writer, new RingReader(toFront), 65_536, this, port);
    const report = this.host.startThread(thread);
    this.records[thread]!.push({ port: port ?? { inputs: [], commands: [] }, report });
    return thread;
  }

  /** Threads that hold or may be given queues. */
  get threads(): readonly number[] {
    return [...this.ports.keys()].filter((thread) => this.ports[thread] !== undefined && !this.stopping.has(thread));
  }

  isRunning(thread: number): boolean {
    return this.ports[thread] !== undefined;
  }

  /** Queues on it that are not closed. */
  queuesOn(thread: number): number {
    return this.queues.countOn(thread);
  }

  /** Its models move to the threads that stay; it ends when the last of its batches has. */
  stopThread(thread: number): void {
    const rest = this.threads.filter((each) => each !== thread);
    invariant(this.threads.includes(thread), `no queue thread ${thread}`);
    invariant(rest.length > 0 || this.queuesOn(thread) === 0, "the last queue thread must hold no queue when it stops");
    for (const model of this.queues.modelsOn(thread)) {
      const others = this.threadsOf(model).filter((each) => each !== thread);
      this.spread(model, others.length > 0 ? others : [this.queues.leastBusy(rest)]);
    }
    this.stopping.add(thread);
    if (this.queuesOn(thread) === 0) this.ports[thread]!.send([is.STOP]);
  }

  // Models

  /** @param on threads that get a queue of it each; one named twice gets two. */
  addModel(spec: ThreadedModel, on: readonly number[]): ModelId {
    invariant(on.length > 0, "a model must be on at least one thread");
    const model = this.queues.addModel(spec);
    this.spread(model, on);
    return model;
  }

  /**
   * Moves it, or splits it, or both: afterwards it has one queue for each time that a thread is named. Requests that wait
   * follow. A queue gets one batch per question and answer, so what is asked for more often than that is split, be it on
   * one thread.
   */
  spread(model: ModelId, on: readonly number[]): void {
    invariant(on.length > 0, "a model must be on at least one thread");
    const { queues } = this;
    const { added, left } = queues.spread(model, on, (thread) => {
      invariant(this.ports[thread] !== undefined && !this.stopping.has(thread), `no queue thread ${thread}`);
    });
    for (const key of added) this.announceQueue(key, queues.model(model));
    for (const key of left) this.closeQueue(key);
  }

  /** Who waits fails of `cause`; batches under way end as usual. */
  removeModel(model: ModelId, cause: number = FAIL_NO_ACCELERATOR): void {
    for (const key of this.queues.removeModel(model, cause)) this.closeQueue(key);
  }

  /** All that waits of the model fails of `cause`; it goes on taking requests. */
  failWaiting(model: ModelId, cause: number): void {
    for (const key of this.queues.model(model).keys) this.send(key, [is.FAIL_QUEUE, key, cause]);
  }

  /** Whether one more queue may be opened: a key is free again when the queue that had it has closed. */
  get hasQueueRoom(): boolean {
    return this.queues.hasRoom;
  }

  threadsOf(model: ModelId): readonly number[] {
    return this.queues.threadsOf(model);
  }

  // Requests

  /**
   * @param tag in [0, tagsMax), not of a live request. @param deadline the client's. @param traits what else it says of itself.
   * @returns false when the thread does not keep up: the request has not entered.
   */
  arrive(model: ModelId, tag: number, arrivalAt: number, deadline: number, traits: RequestTraits = PLAIN): boolean {
    if (this.tagState[tag] !== UNKNOWN) violated(`tag ${tag} must be in [0, ${this.tagState.length}) and free`);
    const key = this.queues.nextOf(model);
    if (key < 0) violated(`no model ${model}`);
    const { thread } = this.queues.placeOf(key);
    if (!this.ports[thread]!.arrive(key, tag, arrivalAt, deadline, traits)) return false;
    this.tagState[tag] = LIVE;
    this.tagThread[tag] = thread;
    return true;
  }

  /** @returns false when the thread does not keep up: ask again. */
  cancel(tag: number): boolean {
    if (this.tagState[tag] === UNKNOWN) return true;
    if (!this.ports[this.tagThread[tag]!]!.cancel(tag)) return false;
    this.tagState[tag] = CANCEL_ASKED;
    return true;
  }

  finished(batch: number, startAt: number, endAt: number): void {
    this.portOf(batch).finished(batch % this.batchesMax, startAt, endAt);
  }

  /** @param hasBegun false when it never reached the accelerator. */
  failed(batch: number, cause: number, hasBegun: boolean): void {
    this.portOf(batch).send([is.FAILED_BATCH, batch % this.batchesMax, cause, hasBegun ? 1 : 0]);
  }

  // Accelerators

  join(accelerator: number, scale: number): void {
    this.control([is.JOIN, accelerator, scale]);
  }

  /** It gets no more work; a grant may be under way. What it holds finishes, or fails by its own event. */
  leave(accelerator: number): void {
    this.control([is.LEAVE, accelerator]);
  }

  networkChanged({ controlUs, dataUsPerRequest, responseUs, decisionUs = 0 }: NetworkDelays): void {
    this.control([is.NETWORK, controlUs, dataUsPerRequest, responseUs, decisionUs]);
  }

  /** Measured for the queues of one model. */
  delaysChanged(model: ModelId, delays: NetworkDelays): void {
    const it = this.queues.model(model);
    it.delays = delays;
    for (const key of it.keys) this.sendDelays(key, delays);
  }

  // Turns of the driver

  /**
   * Shows actors what was said since the last time. The rank first: an accelerator that left with its batches is not
   * granted to those who come back from them.
   */
  show(): void {
    while (this.heldControls.length > 0 && this.writeControl(this.heldControls[0]!)) this.heldControls.shift();
    if (this.controls.show()) this.host.wakeRank();
    for (let thread = 0; thread < this.ports.length; thread++)
      if (this.ports[thread]?.show() === true) this.host.wakeThread(thread);
  }

  /** Whether a ring had no room for all that was said: `show` must be called again. */
  get isHolding(): boolean {
    return this.heldControls.length > 0 || this.ports.some((port) => port?.isHolding === true);
  }

  /** Takes what actors said: calls the sink. */
  poll(now: number): void {
    this.now = Math.max(this.now, now);
    for (let isMore = true; isMore; ) {
      this.isHeldBack = false;
      let isTaken = false;
      for (let thread = 0; thread < this.ports.length; thread++)
        if (this.ports[thread]?.poll() === true) isTaken = true;
      // What a thread holds back waits for what another has shown before: it is there by now.
      isMore = this.isHeldBack && isTaken;
    }
  }

  /** The same of one thread; of all if it must wait for others. */
  pollThread(thread: number): void {
    this.isHeldBack = false;
    this.ports[thread]?.poll();
    if (this.isHeldBack) this.poll(this.now);
  }

  readonly hasWork = (): boolean => {
    for (const port of this.ports) if (port?.hasWork === true) return true;
    return false;
  };

  /** Sleeps until an actor says something or `timeoutMs` passed. */
  sleep(timeoutMs: number): void {
    this.bell.sleep(this.hasWork, timeoutMs);
  }

  /** Sleeps for this long: what is said meanwhile is taken together. */
  pause(ms: number): void {
    this.bell.pause(ms);
  }

  /** Ends the rank: queue threads must have ended. */
  stopRank(): void {
    invariant(
      this.ports.every((port) => port === undefined),
      "queue threads must end before the rank",
    );
    this.control([is.STOP]);
    this.show();
  }

  /** What the run consumed, and in which order, after everything has ended. Null when it was not recorded, or a log was cut. */
  async record(): Promise<RunRecord | null> {
    if (!this.isRecording) return null;
    const threads: ThreadRecord[][] = [];
    for (const runs of this.records) {
      const recorded: ThreadRecord[] = [];
      for (const { port, report } of runs) {
        const { log: turns } = await report;
        if (turns === null) return null;
        recorded.push({ ...port, turns });
      }
      threads.push(recorded);
    }
    const { log: turns } = await this.rankReport;
    return turns === null
      ? null
      : { format: RECORD_FORMAT, options: this.options, threads, rank: { inputs: this.rankInputs, turns } };
  }

  /** Resolves when every actor that was started has ended. */
  async ended(): Promise<{ readonly threads: readonly ActorReport[]; readonly rank: ActorReport }> {
    const threads = await Promise.all(this.records.flat().map(({ report }) => report));
    return { threads, rank: await this.rankReport };
  }

  // PortSink, for ports

  isTurn(accelerator: number, turn: number): boolean {
    if (this.dispatched[accelerator] === turn) return true;
    this.isHeldBack = true;
    return false;
  }

  dispatch(thread: number, batch: number, key: number, dispatched: Readonly<DispatchedBatch>): void {
    const { accelerator } = dispatched;
    this.dispatched[accelerator] = this.dispatched[accelerator]! + 1;
    this.sink.dispatch(thread * this.batchesMax + batch, this.queues.placeOf(key).model, dispatched);
  }

  end(
    _thread: number,
    tag: number,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
    lateByUs: number,
  ): void {
    this.tagState[tag] = UNKNOWN;
    this.sink.end(tag, outcome, reason, execStartAt, at, lateByUs);
  }

  batchEnded(thread: number, batch: number, startAt: number, endAt: number): void {
    this.sink.batchEnded(thread * this.batchesMax + batch, startAt, endAt);
  }

  handed(
    from: number,
    { key, tag, arrivalAt, deadline, code, kind, weight, dueAt, part, headStartUs }: HandedRequest,
  ): void {
    const { queues } = this;
    const { model } = queues.placeOf(key);
    const isCancelled = this.tagState[tag] === CANCEL_ASKED;
    const to = isCancelled ? -1 : queues.nextOf(model);
    if (to < 0) {
      this.tagState[tag] = UNKNOWN;
      if (isCancelled) this.sink.end(tag, DROPPED, DROP_CANCELLED, -1, this.now, 0);
      else this.sink.end(tag, FAILED, queues.model(model).cause, -1, this.now, 0);
      return;
    }
    const { thread } = queues.placeOf(to);
    this.tagThread[tag] = thread;
    if (kind !== PLAIN.kind || weight !== PLAIN.weight || dueAt !== deadline || part !== 0 || headStartUs > 0)
      this.ports[thread]!.send([is.TRAITS, kind, weight, dueAt, part === 0 ? 0 : from * PARTS + part, headStartUs]);
    this.ports[thread]!.send([is.TRANSFER, to, tag, arrivalAt, deadline, code]);
  }

  closed(thread: number, key: number): void {
    this.queues.closed(key);
    if (this.stopping.has(thread) && this.queuesOn(thread) === 0) this.ports[thread]!.send([is.STOP]);
  }

  stopped(thread: number): void {
    this.ports[thread] = undefined;
    this.stopping.delete(thread);
  }

  private announceQueue(key: number, { spec, delays }: Model): void {
    const { execUs, sloUs, lengthMax, rules = [] } = spec;
    this.send(key, [is.ADD_QUEUE, key, sloUs, lengthMax, execUs.length, rules.length]);
    const numbers = [...rules, ...execUs];
    for (let at = 0; at < numbers.length; at += is.IN_WIDTH - 1)
      this.send(key, [is.TABLE, ...numbers.slice(at, at + is.IN_WIDTH - 1)]);
    if (delays !== null) this.sendDelays(key, delays);
  }

  private sendDelays(key: number, { controlUs, dataUsPerRequest, responseUs, decisionUs = 0 }: NetworkDelays): void {
    this.send(key, [is.QUEUE_DELAYS, key, controlUs, dataUsPerRequest, responseUs, decisionUs]);
  }

  private closeQueue(key: number): void {
    this.send(key, [is.CLOSE_QUEUE, key]);
  }

  /** To the thread that holds the queue. */
  private send(key: number, record: number[]): void {
    this.ports[this.queues.placeOf(key).thread]!.send(record);
  }

  private portOf(batch: number): QueuePort {
    const thread = Math.floor(batch / this.batchesMax);
    const port = this.ports[thread];
    if (port === undefined) violated(`batch ${batch} is of thread ${thread}, which has ended`);
    return port;
  }

  private control(record: number[]): void {
    if (this.heldControls.length > 0 || !this.writeControl(record)) this.heldControls.push(record);
  }

  private writeControl(record: readonly number[]): boolean {
    const offset = this.controls.claim();
    if (offset < 0) return false;
    for (let cell = 0; cell < is.IN_WIDTH; cell++) {
      const value = record[cell] ?? 0;
      this.controls.cells[offset + cell] = value;
      if (this.isRecording) this.rankInputs.push(value);
    }
    return true;
  }
}
