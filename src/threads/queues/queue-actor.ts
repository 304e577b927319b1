import { invariant, violated } from "../../core/invariant.js";
import { profileOf } from "../../core/latency/latency.js";
import { DROP_INFEASIBLE, DROP_QUEUE_FULL, DROPPED } from "../../core/outcome.js";
import { type NetworkDelays, OfferTable, type QueueKey, type QueueView } from "../../core/policy.js";
import { QueueSide } from "../../core/queue-side.js";
import type { QueueShare } from "../../core/shared-numbers.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import { type BatchId, BatchTable } from "../../core/tables/batch-table.js";
import { PLAIN, QUEUED, type RequestHandle, type RequestTable } from "../../core/tables/request-table.js";
import type { Pace, RecordReader } from "../channel.js";
import { GrantedAccelerators } from "../granted-accelerators.js";
import * as is from "../messages.js";
import { HeldQueues, type HeldQueuesOptions } from "./held-queues.js";
import { OfferPoster, type PosterChannels } from "./offer-poster.js";
import { type OutboxChannels, QueueOutbox } from "./queue-outbox.js";

export interface QueueActorOptions extends HeldQueuesOptions {
  /** What plans allow for until the rank says otherwise. */
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  /** Most live requests on this thread. */
  readonly requestsMax: number;
  /** Tags are in [0, tagsMax). */
  readonly tagsMax: number;
  readonly retriesMax: number;
  /** Queues say how long they may wait for an accelerator. false: a record of before they did is replayed. */
  readonly isolates?: boolean;
}

export interface QueueActorChannels extends OutboxChannels, PosterChannels {
  readonly fromFront: RecordReader;
  readonly fromRank: RecordReader;
}

/** Sources, by number, in the order in which a turn takes them: a batch is formed after the arrivals that came before. */
const FROM_FRONT = 0;
const FROM_RANK = 1;

/** Batches that an accelerator holds (core/accelerator-side). */
const DEPTH = 2;

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
  /** What batches took is learnt beside the rank, and told here as a multiple of the profile. */
  readonly learns = false;
  network: NetworkDelays;
  private readonly options: QueueActorOptions;
  private readonly channels: QueueActorChannels;
  private readonly pace: Pace;
  private readonly share: QueueShare | null;
  private readonly side: QueueSide;
  private readonly outbox: QueueOutbox;
  private readonly poster: OfferPoster;
  private readonly held: HeldQueues;
  /** By tag; -1: the request has ended, or is not here. */
  private readonly handleOf: Int32Array;
  /** The rank's number of a batch, by ours. */
  private readonly rankBatch: Int32Array;
  /** By key: the rank has been told that a request was given up since a batch of the queue last ended. */
  private readonly gaveUp: Uint8Array;
  /** Queues that requests joined in this turn and that have not looked at them yet, each once. */
  private readonly joinedKeys: Int32Array;
  private readonly isJoined: Uint8Array;
  private joinedCount = 0;
  /** Of the request whose record follows. */
  private traits = PLAIN;
  private part = 0;
  /** The part that was taken over last, by its number over all threads, and what it is called here. */
  private lastPart = 0;
  private lastPartHere = 0;
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
    this.share = options.policy.shareOfQueues?.(this) ?? null;
    this.side = new QueueSide([], this.batches, this.accelerators, this, options);
    this.requests = this.side.requests;
    this.outbox = new QueueOutbox(channels, this.requests, this.batches);
    this.poster = new OfferPoster(
      queuesMax,
      this.offers,
      channels,
      this.outbox,
      pace,
      this.share,
      options.isolates !== false,
    );
    const handOver = (handle: RequestHandle, isAlone: boolean): void => this.handOver(handle, isAlone);
    this.held = new HeldQueues(options, this.side, this, this.poster, this.outbox, handOver);
    this.handleOf = new Int32Array(options.tagsMax).fill(-1);
    this.rankBatch = new Int32Array(acceleratorsMax * DEPTH);
    this.gaveUp = new Uint8Array(queuesMax);
    this.joinedKeys = new Int32Array(queuesMax);
    this.isJoined = new Uint8Array(queuesMax);
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
    const { fromFront, fromRank } = this.channels;
    this.now = Math.max(this.now, clock);
    this.pace.begin(this.now);
    if (!this.isGreeted) {
      this.isGreeted = true;
      this.outbox.hello();
    }
    // Both before anything is handled: while a full ring is waited for, the rank may ask because of what this turn has shown so
    // far. Taken in the same turn, either's record would need the other's first.
    const arrivals = this.pace.take(FROM_FRONT, fromFront.available);
    const questions = this.pace.take(FROM_RANK, fromRank.available);
    for (let index = 0; index < arrivals; index++) this.takeFromFront(fromFront.cells, fromFront.offsetAt(index));
    fromFront.release(arrivals);
    this.refreshJoined();
    for (let index = 0; index < questions; index++) this.takeFromRank(fromRank.cells, fromRank.offsetAt(index));
    fromRank.release(questions);
    this.poster.post();
    return this.outbox.show();
  }

  // QueueView, for queues

  offerChanged(key: QueueKey): void {
    this.poster.changed(key, this.now);
  }

  delaysOf(key: QueueKey): NetworkDelays {
    return this.side.delaysOf(key);
  }

  drop(handle: RequestHandle, reason: number, at: number, wouldEndAt = 0): void {
    const key = this.requests.queue[handle]!;
    if (reason === DROP_INFEASIBLE && this.options.learn && this.accelerators.count > 0 && this.gaveUp[key] === 0) {
      this.gaveUp[key] = 1;
      this.outbox.gaveUp(key);
    }
    this.side.drop(handle, reason, at, wouldEndAt);
  }

  // EndSink, for the side

  end(handle: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void {
    const tag = this.requests.tag[handle]!;
    this.handleOf[tag] = -1;
    if (lateByUs === 0) this.outbox.ended(tag, outcome, reason, execStartAt, at);
    else this.outbox.droppedLate(tag, reason, at, lateByUs);
  }

  // From the front

  private takeFromFront(cells: Float64Array, from: number): void {
    const a = cells[from + 1]!;
    switch (cells[from]) {
      case is.ARRIVE:
        this.arrive(a, cells[from + 2]!, cells[from + 3]!, cells[from + 4]!);
        break;
      case is.TRAITS:
        this.traits = {
          kind: a,
          weight: cells[from + 2]!,
          dueBy: cells[from + 3]!,
          headStartUs: cells[from + 5]!,
        };
        this.part = cells[from + 4]!;
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
      case is.ADD_QUEUE:
        this.held.announce(cells, from);
        break;
      case is.TABLE:
        this.held.takeTable(cells, from);
        break;
      case is.QUEUE_DELAYS:
        this.delaysChanged(a, cells, from);
        break;
      case is.CLOSE_QUEUE:
        this.held.close(a, this.now);
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

  private delaysChanged(key: QueueKey, cells: Float64Array, from: number): void {
    const [controlUs, dataUsPerRequest, responseUs, decisionUs] = cells.subarray(from + 2, from + 6);
    this.side.setDelays(
      { controlUs: controlUs!, dataUsPerRequest: dataUsPerRequest!, responseUs: responseUs!, decisionUs: decisionUs! },
      key,
    );
    this.side.planChanged(this.now);
  }

  private stop(): void {
    invariant(this.held.isEmpty, "a queue thread must hold no queue when it stops");
    this.outbox.stopped();
    this.hasStopped = true;
  }

  // Requests

  /**
   * It joins its queue, which looks at all that came in this turn together: no offer is seen before the turn's last, and to
   * find a batch anew for every request was half of what a request cost.
   */
  private arrive(key: QueueKey, tag: number, arrivalAt: number, deadline: number): void {
    const { side, now, traits } = this;
    const heldAt = Math.min(arrivalAt, now);
    this.traits = PLAIN;
    let handle = side.join(key, tag, heldAt, deadline, now, traits);
    if (this.isJoined[key] === 0) {
      this.isJoined[key] = 1;
      this.joinedKeys[this.joinedCount++] = key;
    } else if (handle < 0) {
      // Whoever can no longer be in time makes room.
      side.queue(key).refresh(now);
      handle = side.join(key, tag, heldAt, deadline, now, traits);
    }
    if (handle < 0) this.outbox.ended(tag, DROPPED, DROP_QUEUE_FULL, -1, now);
    else this.handleOf[tag] = handle;
  }

  private refreshJoined(): void {
    const { side, now } = this;
    for (let index = 0; index < this.joinedCount; index++) {
      const key = this.joinedKeys[index]!;
      this.isJoined[key] = 0;
      side.queues[key]?.refresh(now);
    }
    this.joinedCount = 0;
  }

  private transfer(key: QueueKey, tag: number, arrivalAt: number, deadline: number, code: number): void {
    const { requests, now, traits, part } = this;
    this.traits = PLAIN;
    this.part = 0;
    const handle = requests.add(key, tag, arrivalAt, deadline);
    if (handle < 0) {
      this.outbox.ended(tag, DROPPED, DROP_QUEUE_FULL, -1, now);
      return;
    }
    if (traits !== PLAIN) requests.describe(handle, traits, Math.min(deadline, traits.dueBy));
    requests.retries[handle] = code % is.ALONE;
    if (part !== 0) requests.setPart(handle, this.partHere(part));
    this.handleOf[tag] = handle;
    if (this.side.queue(key).length >= this.side.specs[key]!.lengthMax) this.side.drop(handle, DROP_QUEUE_FULL, now);
    else this.side.queue(key).returned(handle, code >= is.ALONE, now);
  }

  /** Members of a part come one after another; elsewhere its number may be another part's. */
  private partHere(part: number): number {
    if (part !== this.lastPart) this.lastPartHere = this.side.newPart();
    this.lastPart = part;
    return this.lastPartHere;
  }

  private handOver(handle: RequestHandle, isAlone: boolean): void {
    const { requests } = this;
    this.outbox.handed(handle, isAlone);
    this.handleOf[requests.tag[handle]!] = -1;
    requests.release(handle);
  }

  /** Unknown tags have ended, or are on their way to another thread: the front knows. */
  private cancel(tag: number): void {
    const handle = this.handleOf[tag]!;
    if (handle >= 0) this.side.cancel(handle, this.now);
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
        this.poster.asked(a);
        this.side.queue(a).refresh(this.now);
        this.poster.answer(a);
        break;
      case is.DEMAND:
        this.side.queue(a).refreshDemand(this.now);
        this.outbox.demandIs(a, this.offers.demand[a]!);
        break;
      case is.FLEET:
        this.fleetChanged(cells, from);
        break;
      case is.LATENCY:
        // It was released, perhaps: what is refused from now on counts again.
        this.gaveUp[a] = 0;
        profileOf(this.side.specs[a])?.adopt(cells[from + 2]!);
        this.side.queues[a]?.planChanged(this.now);
        break;
      case is.LATENCY_SIZES:
        for (let cell = 2; cell < is.RANK_WIDTH && cells[from + cell]! >= 0; cell++)
          profileOf(this.side.specs[a])?.sizes.adopt(cell - 2, cells[from + cell]!);
        break;
      case is.OTHERS:
        this.share!.readOthers(cells, from + 1);
        break;
      case is.SCALES:
        for (let cell = 1; cell < is.RANK_WIDTH - 1 && cells[from + cell]! >= 0; cell += 2)
          this.accelerators.told(cells[from + cell]!, cells[from + cell + 1]!);
        break;
      case is.FREE_AT:
        for (let cell = 1; cell < is.RANK_WIDTH && cells[from + cell]! >= 0; cell++)
          this.share!.readFreeAt(cells[from + cell]!);
        break;
      case is.REMOVED:
        this.held.removed(a);
        break;
      default:
        violated(`a queue thread takes no record of kind ${cells[from]} from the rank`);
    }
  }

  private fleetChanged(cells: Float64Array, from: number): void {
    const { accelerators } = this;
    accelerators.count = cells[from + 1]!;
    accelerators.fastestScale = cells[from + 2]!;
    this.share?.fleetChanged();
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
      this.side.setDelays(this.network);
    }
    this.side.planChanged(this.now);
  }

  // Batches

  /** GRANTED_GPU: the members are chosen now, so that the last to arrive are among them. */
  private granted(cells: Float64Array, from: number): void {
    const { batches, now } = this;
    const key: QueueKey = cells[from + 1]!;
    const id: AcceleratorId = cells[from + 2]!;
    const rankBatch = cells[from + 3]!;
    this.accelerators.granted(id, cells, from);
    this.share?.readGrant(cells, from + is.GRANT_SHARED);
    this.offers.limitUs[key] = cells[from + is.GRANT_LIMIT_US]!;
    this.poster.asked(key);
    const batch = this.side.queue(key).take(id, now);
    const isStillOffered = this.poster.isOpen(key, now);
    this.poster.answer(key);
    this.outbox.answer(key, id, rankBatch, batch, isStillOffered);
    if (batch < 0) return;
    batches.accelerator[batch] = id;
    this.rankBatch[batch] = rankBatch;
    this.held.dispatched(key);
    this.outbox.dispatched(batch, cells[from + 8]!, this.poster.openedAt(key, now), now);
  }

  private finished(batch: BatchId, toldStartAt: number, toldEndAt: number): void {
    // Another thread's clock reading may be a microsecond ahead of ours.
    const endAt = Math.min(toldEndAt, this.now);
    const startAt = Math.min(toldStartAt, endAt);
    this.outbox.batchEnded(batch, startAt, endAt);
    this.side.finished(batch, startAt, endAt, this.now);
    this.freed(batch, true, startAt, endAt);
  }

  private failed(batch: BatchId, cause: number, hasBegun: boolean): void {
    this.side.failed(batch, cause, this.now, hasBegun);
    this.freed(batch, false, -1, this.now);
  }

  private freed(batch: BatchId, isWell: boolean, startAt: number, endAt: number): void {
    const key = this.batches.queue[batch]!;
    this.outbox.freed(this.rankBatch[batch]!, isWell, startAt, endAt);
    this.batches.release(batch);
    this.gaveUp[key] = 0;
    this.held.landed(key);
  }
}
