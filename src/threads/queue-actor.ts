import type { AcceleratorId } from "../core/accelerator-table.js";
import { type BatchId, BatchTable } from "../core/batch-table.js";
import { invariant, violated } from "../core/invariant.js";
import { ProfiledLatency } from "../core/latency.js";
import { OfferWindows } from "../core/offer-windows.js";
import { DROP_INFEASIBLE, DROP_QUEUE_FULL, DROPPED } from "../core/outcome.js";
import {
  type AcceleratorView,
  type NetworkDelays,
  OfferTable,
  type Queue,
  type QueueKey,
  type QueueSpec,
  type QueueView,
  type SeparablePolicy,
} from "../core/policy.js";
import { QueueSide } from "../core/queue-side.js";
import { QUEUED, type RequestHandle, type RequestTable } from "../core/request-table.js";
import type { OfferWriter, Pace, RecordReader, RecordWriter } from "./channel.js";
import * as is from "./messages.js";

export interface QueueActorOptions {
  readonly policy: SeparablePolicy;
  /** What plans allow for until the rank says otherwise. */
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  /** Keys are in [0, queuesMax), over all threads. */
  readonly queuesMax: number;
  /** Most live requests on this thread. */
  readonly requestsMax: number;
  /** Tags are in [0, tagsMax). */
  readonly tagsMax: number;
  readonly retriesMax: number;
  /** The rank learns from measured batches: it is told the profiles. */
  readonly learn: boolean;
}

/** A queue whose numbers are still coming: its rules, then its profile. */
interface PendingQueue {
  readonly key: QueueKey;
  readonly sloUs: number;
  readonly lengthMax: number;
  readonly rules: number;
  readonly numbers: Float64Array;
  filled: number;
}

export interface QueueActorChannels {
  readonly fromFront: RecordReader;
  readonly fromRank: RecordReader;
  readonly toFront: RecordWriter;
  readonly toRank: RecordWriter;
  readonly mailboxes: OfferWriter;
  /** A ring is full: shows what is in it and returns when its reader has taken something. */
  waitForRoom(writer: RecordWriter): void;
}

/** Sources, by number, in the order in which a turn takes them: a batch is formed after the arrivals that came before. */
export const FROM_FRONT = 0;
export const FROM_RANK = 1;

export const SHOWN_FRONT = 1;
export const SHOWN_RANK = 2;

/** Batches that an accelerator holds (core/accelerator-side). */
const DEPTH = 2;
const ALONE = 256;

/** States of a queue that is closing. */
const OPEN = 0;
/** Handed its requests over; batches are in flight. */
const CLOSING = 1;
/** The rank has been told to forget it. */
const REMOVING = 2;

/** Whether a queue's offer changed in this turn; and then, whether the rank has been told already. */
const CLEAN = 0;
const DIRTY = 1;
const POSTED = 2;

/** What the rank said of accelerators: how many there are with every change, of each when it is granted. */
class GrantedAccelerators implements AcceleratorView {
  count = 0;
  fastestScale = 1;
  readonly scale: Float64Array;
  readonly freeAt: Float64Array;
  readonly held: Uint8Array;
  readonly trial: Uint8Array;

  constructor(capacity: number) {
    this.scale = new Float64Array(capacity).fill(1);
    this.freeAt = new Float64Array(capacity);
    this.held = new Uint8Array(capacity);
    this.trial = new Uint8Array(capacity);
  }

  inFlight(id: AcceleratorId): number {
    return this.held[id]!;
  }

  isOnTrial(id: AcceleratorId): boolean {
    return this.trial[id] === 1;
  }
}

/**
 * Symphony's ModelThread (§4.2, Appendix D): the queues of some models, their requests, the batches formed when an
 * accelerator is granted. It is the core's QueueSide with records for calls; it reads no clock and never blocks but on a
 * full ring.
 *
 * After every turn the newest offer of each queue that changed lies in its mailbox; between turns an older one is
 * overwritten unseen. What the rank asks (GRANT, LOOK) is answered in the ring, behind the offer of after it.
 */
export class QueueActor implements QueueView {
  readonly requests: RequestTable;
  readonly batches: BatchTable;
  readonly accelerators: GrantedAccelerators;
  readonly offers: OfferTable;
  network: NetworkDelays;
  private readonly windows = new OfferWindows();
  private readonly side: QueueSide;
  private readonly options: QueueActorOptions;
  private readonly channels: QueueActorChannels;
  private readonly pace: Pace;
  private readonly handleOf: Int32Array;
  private readonly rankBatch: Int32Array;
  private readonly state: Uint8Array;
  /** Batches in flight, offers made, questions answered; by key. */
  private readonly inFlight: Int32Array;
  private readonly versions: Float64Array;
  private readonly seen: Float64Array;
  /** Queues whose offer changed in this turn, each once. */
  private readonly dirty: Int32Array;
  private dirtyCount = 0;
  private readonly isDirty: Uint8Array;
  /** The ENDS record that may still take tags; -1: none. */
  private endsAt = -1;
  private readonly gaveUp: Uint8Array;
  /** Tag whose arrival is being handled; -1 when it has ended meanwhile, or none is. */
  private arriving = -1;
  /** An ADD_QUEUE record whose TABLE is not complete yet. */
  private table: PendingQueue | null = null;
  private now = 0;
  private hasStopped = false;
  private isGreeted = false;

  constructor(options: QueueActorOptions, channels: QueueActorChannels, pace: Pace) {
    const { acceleratorsMax, queuesMax } = options;
    this.options = options;
    this.channels = channels;
    this.pace = pace;
    this.network = options.network;
    this.batches = new BatchTable(acceleratorsMax * DEPTH);
    this.accelerators = new GrantedAccelerators(acceleratorsMax);
    this.offers = new OfferTable(queuesMax);
    this.side = new QueueSide([], this.batches, this.accelerators, this, options);
    this.requests = this.side.requests;
    this.handleOf = new Int32Array(options.tagsMax).fill(-1);
    this.rankBatch = new Int32Array(acceleratorsMax * DEPTH);
    this.state = new Uint8Array(queuesMax);
    this.inFlight = new Int32Array(queuesMax);
    this.versions = new Float64Array(queuesMax);
    this.seen = new Float64Array(queuesMax);
    this.dirty = new Int32Array(queuesMax);
    this.isDirty = new Uint8Array(queuesMax);
    this.gaveUp = new Uint8Array(queuesMax);
  }

  get isStopped(): boolean {
    return this.hasStopped;
  }

  /** Whether it has had its first turn, in which it tells the rank that it is here. */
  get hasGreeted(): boolean {
    return this.isGreeted;
  }

  /** Whether records wait: a turn now would take some. */
  get hasWork(): boolean {
    return this.channels.fromFront.available > 0 || this.channels.fromRank.available > 0;
  }

  /** Takes what came. Nothing here waits on time: the rank's timers ask. @returns who has new records: SHOWN_ bits. */
  turn(clock: number): number {
    const { fromFront, fromRank, toFront, toRank } = this.channels;
    this.now = Math.max(this.now, clock);
    this.pace.begin(this.now);
    if (!this.isGreeted) {
      this.isGreeted = true;
      this.toRank(is.HELLO);
    }
    const arrivals = this.pace.take(FROM_FRONT, fromFront.available);
    for (let index = 0; index < arrivals; index++) this.takeFromFront(fromFront.cells, fromFront.offsetAt(index));
    fromFront.release(arrivals);
    const questions = this.pace.take(FROM_RANK, fromRank.available);
    for (let index = 0; index < questions; index++) this.takeFromRank(fromRank.cells, fromRank.offsetAt(index));
    fromRank.release(questions);
    for (let index = 0; index < this.dirtyCount; index++) {
      const key = this.dirty[index]!;
      if (this.isDirty[key] === DIRTY) this.post(key);
      this.isDirty[key] = CLEAN;
    }
    this.dirtyCount = 0;
    this.endsAt = -1;
    return (toFront.show() ? SHOWN_FRONT : 0) | (toRank.show() ? SHOWN_RANK : 0);
  }

  // QueueView, for queues

  offerChanged(key: QueueKey): void {
    if (this.isDirty[key] === CLEAN) this.dirty[this.dirtyCount++] = key;
    this.isDirty[key] = DIRTY;
    const { offers } = this;
    const isNone = offers.size[key] === 0;
    this.windows.changed(key, isNone ? Number.POSITIVE_INFINITY : offers.opensAt[key]! - offers.leadUs[key]!, this.now);
  }

  drop(handle: RequestHandle, reason: number, at: number): void {
    const key = this.requests.queue[handle]!;
    if (reason === DROP_INFEASIBLE && this.options.learn && this.accelerators.count > 0 && this.gaveUp[key] === 0) {
      this.gaveUp[key] = 1;
      const offset = this.toRank(is.GAVE_UP);
      this.channels.toRank.cells[offset + 1] = key;
    }
    this.side.drop(handle, reason, at);
  }

  // EndSink, for the side

  end(handle: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const tag = this.requests.tag[handle]!;
    this.handleOf[tag] = -1;
    if (this.arriving === tag) this.arriving = -1;
    this.sendEnd(tag, outcome, reason, execStartAt, at);
  }

  private sendEnd(tag: number, outcome: number, reason: number, execStartAt: number, at: number): void {
    if (this.endsAt >= 0) {
      const { cells } = this.channels.toFront;
      const offset = this.endsAt;
      const count = cells[offset + 5]!;
      if (
        count < is.ENDS_MAX &&
        cells[offset + 1] === outcome &&
        cells[offset + 2] === reason &&
        cells[offset + 3] === execStartAt &&
        cells[offset + 4] === at
      ) {
        cells[offset + 6 + count] = tag;
        cells[offset + 5] = count + 1;
        return;
      }
    }
    const offset = this.toFront(is.ENDS);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = outcome;
    cells[offset + 2] = reason;
    cells[offset + 3] = execStartAt;
    cells[offset + 4] = at;
    cells[offset + 5] = 1;
    cells[offset + 6] = tag;
    this.endsAt = offset;
  }

  // From the front

  private takeFromFront(cells: Float64Array, from: number): void {
    const a = cells[from + 1]!;
    switch (cells[from]) {
      case is.ARRIVE:
        this.arrive(a, cells[from + 2]!, cells[from + 3]!, cells[from + 4]!);
        break;
      case is.CANCEL:
        this.cancel(a);
        break;
      case is.FINISHED_BATCH:
        this.finished(a, cells[from + 2]!, cells[from + 3]!);
        break;
      case is.FAILED_BATCH:
        this.failed(a, cells[from + 2]!, cells[from + 3] === 1);
        break;
      case is.ADD_QUEUE: {
        const rules = cells[from + 5]!;
        const numbers = new Float64Array(rules + cells[from + 4]!);
        this.table = { key: a, sloUs: cells[from + 2]!, lengthMax: cells[from + 3]!, rules, numbers, filled: 0 };
        break;
      }
      case is.TABLE:
        this.takeTable(cells, from);
        break;
      case is.CLOSE_QUEUE:
        this.close(a);
        break;
      case is.TRANSFER:
        this.transfer(a, cells[from + 2]!, cells[from + 3]!, cells[from + 4]!, cells[from + 5]!);
        break;
      case is.FAIL_QUEUE:
        this.side.failQueued(a, this.waitingIn(a), this.now, cells[from + 2]!);
        break;
      case is.STOP:
        this.stop();
        break;
      default:
        violated(`a queue thread takes no record of kind ${cells[from]} from the front`);
    }
  }

  private arrive(key: QueueKey, tag: number, arrivalAt: number, deadline: number): void {
    this.arriving = tag;
    if (!this.side.arrive(key, tag, Math.min(arrivalAt, this.now), deadline, this.now))
      this.sendEnd(tag, DROPPED, DROP_QUEUE_FULL, -1, this.now);
    else if (this.arriving === tag) this.handleOf[tag] = this.requests.lastAdded;
    this.arriving = -1;
  }

  private transfer(key: QueueKey, tag: number, arrivalAt: number, deadline: number, code: number): void {
    const { requests, now } = this;
    const handle = requests.add(key, tag, arrivalAt, deadline);
    if (handle < 0) {
      this.sendEnd(tag, DROPPED, DROP_QUEUE_FULL, -1, now);
      return;
    }
    requests.retries[handle] = code & 255;
    this.handleOf[tag] = handle;
    if (this.side.queue(key).length >= this.side.specs[key]!.lengthMax) this.side.drop(handle, DROP_QUEUE_FULL, now);
    else this.side.queue(key).returned(handle, code >= ALONE, now);
  }

  /** Unknown tags have ended, or are on their way to another thread: the front knows. */
  private cancel(tag: number): void {
    const handle = this.handleOf[tag]!;
    if (handle >= 0) this.side.cancel(handle, this.now);
  }

  private finished(batch: BatchId, toldStartAt: number, toldEndAt: number): void {
    // Another thread's clock reading may be a microsecond ahead of ours.
    const endAt = Math.min(toldEndAt, this.now);
    const startAt = Math.min(toldStartAt, endAt);
    this.batchEnded(batch, startAt, endAt);
    this.side.finished(batch, startAt, endAt, this.now);
    this.freed(batch, 1, startAt, endAt);
  }

  private failed(batch: BatchId, cause: number, hasBegun: boolean): void {
    this.side.failed(batch, cause, this.now, hasBegun);
    this.freed(batch, 0, -1, this.now);
  }

  private batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    const offset = this.toFront(is.BATCH_ENDED);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = batch;
    cells[offset + 2] = startAt;
    cells[offset + 3] = endAt;
  }

  private freed(batch: BatchId, isWell: number, startAt: number, endAt: number): void {
    const key = this.batches.queue[batch]!;
    const offset = this.toRank(is.FREED);
    const { cells } = this.channels.toRank;
    cells[offset + 1] = this.rankBatch[batch]!;
    cells[offset + 2] = isWell;
    cells[offset + 3] = startAt;
    cells[offset + 4] = endAt;
    this.batches.release(batch);
    this.gaveUp[key] = 0;
    this.inFlight[key] = this.inFlight[key]! - 1;
    this.removeWhenIdle(key);
  }

  private takeTable(cells: Float64Array, from: number): void {
    const { table } = this;
    if (table === null) violated("a table came for no queue");
    const { key, sloUs, lengthMax, numbers } = table;
    for (let cell = 1; cell < is.IN_WIDTH && table.filled < numbers.length; cell++)
      numbers[table.filled++] = cells[from + cell]!;
    if (table.filled < numbers.length) return;
    this.table = null;
    const rules = numbers.subarray(0, table.rules);
    const us = numbers.subarray(table.rules);
    const execUs = new Float64Array(us.length + 2);
    execUs.set(us, 1);
    execUs[us.length + 1] = Number.POSITIVE_INFINITY;
    this.addQueue(key, { latency: new ProfiledLatency(execUs), sloUs, lengthMax, rules }, us);
  }

  private addQueue(key: QueueKey, spec: QueueSpec, us: Float64Array): void {
    const { side, options } = this;
    invariant(side.queues[key] === undefined, `queue ${key} must be closed before it is added again`);
    side.specs[key] = spec;
    this.offers.clear(key);
    this.windows.reset(key);
    this.state[key] = OPEN;
    this.inFlight[key] = 0;
    this.versions[key] = 0;
    this.seen[key] = 0;
    this.channels.mailboxes.reset(key);
    const offset = this.toRank(is.QUEUE_ADDED);
    const { cells } = this.channels.toRank;
    cells[offset + 1] = key;
    cells[offset + 2] = spec.sloUs;
    cells[offset + 3] = options.learn ? us.length : 0;
    if (options.learn)
      for (let at = 0; at < us.length; at += is.OUT_WIDTH - 1) {
        const row = this.toRank(is.TABLE);
        this.channels.toRank.cells.set(us.subarray(at, at + is.OUT_WIDTH - 1), row + 1);
      }
    side.queues[key] = options.policy.createQueue(key, spec, this);
  }

  // Closing

  /** The queue moves or goes: who waits is handed back to the front, and so is whoever comes back from a batch. */
  private close(key: QueueKey): void {
    const { side } = this;
    const queue = side.queue(key);
    invariant(this.state[key] === OPEN, `queue ${key} is closing already`);
    if (queue.giveAway === undefined) violated(`queue ${key} cannot give its requests away`);
    const handOver = (handle: RequestHandle, isAlone: boolean): void => this.handOver(handle, isAlone);
    queue.giveAway(handOver);
    side.queues[key] = new ClosingQueue(handOver);
    this.state[key] = CLOSING;
    this.offers.clear(key);
    this.offerChanged(key);
    this.removeWhenIdle(key);
  }

  private handOver(handle: RequestHandle, isAlone: boolean): void {
    const { requests } = this;
    const tag = requests.tag[handle]!;
    const offset = this.toFront(is.HANDED);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = requests.queue[handle]!;
    cells[offset + 2] = tag;
    cells[offset + 3] = requests.arrivalAt[handle]!;
    cells[offset + 4] = requests.deadline[handle]!;
    cells[offset + 5] = requests.retries[handle]! + (isAlone ? ALONE : 0);
    this.handleOf[tag] = -1;
    requests.release(handle);
  }

  private removeWhenIdle(key: QueueKey): void {
    if (this.state[key] !== CLOSING || this.inFlight[key]! > 0) return;
    this.state[key] = REMOVING;
    if (this.isDirty[key] === DIRTY) this.postInline(key);
    const offset = this.toRank(is.QUEUE_REMOVED);
    this.channels.toRank.cells[offset + 1] = key;
  }

  /** The rank has forgotten the queue: no question about it can come any more. */
  private removed(key: QueueKey): void {
    invariant(this.state[key] === REMOVING && this.inFlight[key] === 0, `queue ${key} is not being removed`);
    this.state[key] = OPEN;
    this.side.queues[key] = undefined;
    this.side.specs[key] = undefined;
    const offset = this.toFront(is.CLOSED);
    this.channels.toFront.cells[offset + 1] = key;
  }

  private stop(): void {
    invariant(
      this.side.queues.every((queue) => queue === undefined),
      "a queue thread must hold no queue when it stops",
    );
    this.toRank(is.BYE);
    this.toFront(is.STOPPED);
    this.hasStopped = true;
  }

  private *waitingIn(key: QueueKey): Generator<RequestHandle> {
    const { requests } = this;
    for (let handle = 0; handle < requests.state.length; handle++)
      if (requests.state[handle] === QUEUED && requests.queue[handle] === key) yield handle;
  }

  // From the rank

  private takeFromRank(cells: Float64Array, from: number): void {
    const a = cells[from + 1]!;
    switch (cells[from]) {
      case is.GRANT:
        this.granted(cells, from);
        break;
      case is.LOOK:
        this.seen[a] = this.seen[a]! + 1;
        this.side.queue(a).refresh(this.now);
        this.postInline(a);
        break;
      case is.DEMAND: {
        this.side.queue(a).refreshDemand(this.now);
        const offset = this.toRank(is.DEMAND_IS);
        this.channels.toRank.cells[offset + 1] = a;
        this.channels.toRank.cells[offset + 2] = this.offers.demand[a]!;
        break;
      }
      case is.FLEET:
        this.fleetChanged(cells, from);
        break;
      case is.LATENCY:
        this.side.specs[a]?.latency.adopt(cells[from + 2]!);
        this.side.queues[a]?.planChanged(this.now);
        break;
      case is.REMOVED:
        this.removed(a);
        break;
      default:
        violated(`a queue thread takes no record of kind ${cells[from]} from the rank`);
    }
  }

  /** GRANTED_GPU: the members are chosen now, so that the last to arrive are among them. */
  private granted(question: Float64Array, from: number): void {
    const { accelerators, offers, now, batches } = this;
    const key = question[from + 1]!;
    const id = question[from + 2]!;
    const rankBatch = question[from + 3]!;
    accelerators.freeAt[id] = question[from + 4]!;
    accelerators.scale[id] = question[from + 5]!;
    accelerators.held[id] = question[from + 6]!;
    accelerators.trial[id] = question[from + 7]!;
    this.seen[key] = this.seen[key]! + 1;
    const batch = this.side.queue(key).take(id, now);
    const isStillOffered =
      offers.size[key]! > 0 && (offers.mayLeaveIdle[key] === 1 || offers.opensAt[key]! - offers.leadUs[key]! <= now);
    this.postInline(key);
    const offset = this.toRank(is.ANSWER);
    const { cells } = this.channels.toRank;
    cells[offset + 1] = key;
    cells[offset + 2] = id;
    cells[offset + 3] = rankBatch;
    cells[offset + 4] = batch >= 0 ? 1 : 0;
    cells[offset + 5] = isStillOffered ? 1 : 0;
    if (batch < 0) return;
    cells[offset + 6] = batches.executedSize[batch]!;
    cells[offset + 7] = batches.execAt[batch]!;
    cells[offset + 8] = batches.execUs[batch]!;
    batches.accelerator[batch] = id;
    this.rankBatch[batch] = rankBatch;
    this.inFlight[key] = this.inFlight[key]! + 1;
    this.dispatch(batch, id, key, question[from + 8]!);
  }

  private dispatch(batch: BatchId, id: AcceleratorId, key: QueueKey, turn: number): void {
    const { batches, requests } = this;
    let offset = this.toFront(is.DISPATCH);
    let { cells } = this.channels.toFront;
    cells[offset + 1] = batch;
    cells[offset + 2] = id;
    cells[offset + 3] = key;
    cells[offset + 4] = batches.size[batch]!;
    cells[offset + 5] = batches.execAt[batch]!;
    cells[offset + 6] = batches.execUs[batch]!;
    cells[offset + 7] = batches.close[batch]!;
    cells[offset + 8] = this.now;
    cells[offset + 9] = turn;
    cells[offset + 10] = this.windows.openedAt(key, this.now);
    let cell = is.OUT_WIDTH;
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!) {
      if (cell === is.OUT_WIDTH) {
        offset = this.toFront(is.MEMBERS);
        cells = this.channels.toFront.cells;
        cell = 1;
      }
      cells[offset + cell++] = requests.tag[handle]!;
    }
  }

  private fleetChanged(cells: Float64Array, from: number): void {
    const { accelerators } = this;
    accelerators.count = cells[from + 1]!;
    accelerators.fastestScale = cells[from + 2]!;
    const controlUs = cells[from + 3]!;
    const dataUsPerRequest = cells[from + 4]!;
    const responseUs = cells[from + 5]!;
    const decisionUs = cells[from + 6]!;
    const { network } = this;
    const isOther =
      network.controlUs !== controlUs ||
      network.dataUsPerRequest !== dataUsPerRequest ||
      network.responseUs !== responseUs ||
      (network.decisionUs ?? 0) !== decisionUs;
    if (isOther) {
      this.network = { controlUs, dataUsPerRequest, responseUs, decisionUs };
      this.side.network = this.network;
    }
    this.side.planChanged(this.now);
  }

  // Offers

  private post(key: QueueKey): void {
    const { mailboxes } = this.channels;
    this.writeOffer(mailboxes.cells, mailboxes.blank(key), key);
    if (!this.pace.posted(key, mailboxes.post(key))) return;
    const offset = this.toRank(is.NOTICE);
    this.channels.toRank.cells[offset + 1] = key;
  }

  private postInline(key: QueueKey): void {
    const offset = this.toRank(is.OFFER);
    this.writeOffer(this.channels.toRank.cells, offset, key);
  }

  private writeOffer(cells: Float64Array, offset: number, key: QueueKey): void {
    const { offers } = this;
    if (this.isDirty[key] === DIRTY) this.isDirty[key] = POSTED;
    const version = this.versions[key]! + 1;
    this.versions[key] = version;
    cells[offset + is.OFFER_KEY] = key;
    cells[offset + is.OFFER_VERSION] = version;
    cells[offset + is.OFFER_SEEN] = this.seen[key]!;
    cells[offset + is.OFFER_SIZE] = offers.size[key]!;
    cells[offset + is.OFFER_OPENS_AT] = offers.opensAt[key]!;
    cells[offset + is.OFFER_LATEST_AT] = offers.latestAt[key]!;
    cells[offset + is.OFFER_LEAD_US] = offers.leadUs[key]!;
    cells[offset + is.OFFER_RANK] = offers.rank[key]!;
    cells[offset + is.OFFER_DEMAND] = offers.demand[key]!;
    cells[offset + is.OFFER_MAY_LEAVE_IDLE] = offers.mayLeaveIdle[key]!;
    cells[offset + is.OFFER_MORE] = offers.more[key]!;
  }

  // Rings

  private toRank(kind: number): number {
    return this.claim(this.channels.toRank, kind);
  }

  private toFront(kind: number): number {
    this.endsAt = -1;
    return this.claim(this.channels.toFront, kind);
  }

  private claim(writer: RecordWriter, kind: number): number {
    let offset = writer.claim();
    while (offset < 0) {
      // The rank must not act on an answer whose batch the front cannot see: batches reach it in the order of grants.
      this.channels.toFront.show();
      this.endsAt = -1;
      writer.show();
      this.channels.waitForRoom(writer);
      offset = writer.claim();
    }
    writer.cells[offset] = kind;
    return offset;
  }
}

/** Stands for a queue that has gone elsewhere while its last batches are out: whoever comes back follows it. */
class ClosingQueue implements Queue {
  readonly length = 0;
  private readonly handOver: (handle: RequestHandle, isAlone: boolean) => void;

  constructor(handOver: (handle: RequestHandle, isAlone: boolean) => void) {
    this.handOver = handOver;
  }

  arrived(request: RequestHandle): void {
    this.handOver(request, false);
  }
  returned(request: RequestHandle, alone: boolean): void {
    this.handOver(request, alone);
  }
  remove(): void {}
  refresh(): void {}
  planChanged(): void {}
  refreshDemand(): void {}
  take(): BatchId {
    return -1;
  }
}
