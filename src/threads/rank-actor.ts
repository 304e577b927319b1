import { AcceleratorSide, DEPTH } from "../core/accelerator-side.js";
import { IndexedHeap } from "../core/indexed-heap.js";
import { invariant, violated } from "../core/invariant.js";
import type { Learning } from "../core/latency/learner.js";
import {
  type Arbiter,
  type ArbiterView,
  ASKED,
  type NetworkDelays,
  OfferTable,
  type QueueKey,
  type QueueSpec,
  type SeparablePolicy,
} from "../core/policy.js";
import type { RankShare } from "../core/shared-numbers.js";
import type { AcceleratorId, AcceleratorTable } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { OfferReader, Pace, RecordReader, RecordWriter } from "./channel.js";
import * as is from "./messages.js";
import { questionRoom, RankNews } from "./rank-news.js";
import { ArrivingTable, latencyOf } from "./table-records.js";

export interface RankActorOptions {
  readonly policy: SeparablePolicy;
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  /** Keys are in [0, queuesMax), over all threads. */
  readonly queuesMax: number;
  readonly learn: Learning;
  /**
   * Ask one question at a time, so that decisions fall in the order of one thread: run in lockstep, the commands are those
   * of a Scheduler. Off: while one queue answers, others are served.
   */
  readonly oneAtATime: boolean;
}

export interface RankActorChannels {
  readonly fromFront: RecordReader;
  /** One per queue thread that there can be. */
  readonly fromQueues: readonly RecordReader[];
  /** Each holds at least `questionRoom` records. */
  readonly toQueues: readonly RecordWriter[];
  readonly mailboxes: OfferReader;
}

const FROM_FRONT = 0;
/** Source number of a queue thread's ring. */
export const fromThread = (thread: number): number => thread + 1;
/** The queue thread of a source that is one's. */
export const threadOf = (source: number): number => source - 1;

/**
 * Symphony's RankThread (§4.2, Appendix D): when each accelerator is free, the newest offer of each queue, and the match.
 * It is the core's AcceleratorSide and the policy's arbiter with records for calls.
 *
 * It knows no request: per batch it takes a grant's answer and a word when it ended, per queue the newest offer, however
 * many there were. An offer made before a question was answered is stale and passed over: what answers the question
 * brings a newer one. It reads no clock and never waits for anyone: rings to queue threads hold whatever it can ask.
 */
export class RankActor implements ArbiterView {
  readonly accelerators: AcceleratorTable;
  readonly offers: OfferTable;
  /** When offers run out of which the arbiter's order does not tell, by key. */
  private readonly alarms: IndexedHeap;
  /** Grants made, for measurements. */
  grants = 0;
  /** The queue that was asked, and whether its ANSWER or its offer ends that; -1: none. Only one at a time. */
  private askedKey = -1;
  private askedKind = 0;
  private readonly side: AcceleratorSide;
  private readonly share: RankShare | null;
  private readonly news: RankNews;
  private readonly arbiter: Arbiter;
  private readonly options: RankActorOptions;
  private readonly channels: RankActorChannels;
  private readonly pace: Pace;
  private readonly specs: (QueueSpec | undefined)[] = [];
  /** By key: the thread that holds the queue, questions asked, newest version taken, whether demand was asked. */
  private readonly threadOf: Int32Array;
  private readonly asks: Float64Array;
  private readonly applied: Float64Array;
  private readonly demandAsked: Uint8Array;
  /** By accelerator: batches it was ever given. */
  private readonly given: Float64Array;
  /** By thread: the queue whose times are coming; null: none. */
  private readonly tables: ({ readonly key: number; readonly sloUs: number; readonly us: ArrivingTable } | null)[];
  private now = 0;
  private hasStopped = false;

  constructor(options: RankActorOptions, channels: RankActorChannels, pace: Pace) {
    const { policy, acceleratorsMax, queuesMax, learn } = options;
    this.options = options;
    this.channels = channels;
    this.pace = pace;
    this.side = new AcceleratorSide(this.specs, { acceleratorsMax, depth: policy.depth ?? DEPTH, learn });
    this.accelerators = this.side.accelerators;
    this.offers = new OfferTable(queuesMax);
    this.alarms = new IndexedHeap(queuesMax);
    this.arbiter = policy.createArbiter(this);
    if (this.arbiter.answered === undefined) violated(`arbiter of policy ${policy.name} takes no later answers`);
    this.threadOf = new Int32Array(queuesMax).fill(is.NOWHERE);
    this.asks = new Float64Array(queuesMax);
    this.applied = new Float64Array(queuesMax);
    this.demandAsked = new Uint8Array(queuesMax);
    this.given = new Float64Array(acceleratorsMax);
    this.share = policy.shareOfRank?.(this) ?? null;
    this.news = new RankNews(
      options,
      this.accelerators,
      this.specs,
      this.threadOf,
      channels.toQueues,
      pace,
      this.share,
    );
    this.tables = channels.fromQueues.map(() => null);
    for (const writer of channels.toQueues) {
      const room = questionRoom(queuesMax, acceleratorsMax);
      invariant(writer.free >= room, `a ring from the rank must hold ${room} records; held ${writer.free}`);
    }
  }

  get isStopped(): boolean {
    return this.hasStopped;
  }

  /** Whether records wait: a turn now would take some. */
  get hasWork(): boolean {
    const { fromFront, fromQueues } = this.channels;
    if (fromFront.available > 0) return true;
    for (const reader of fromQueues) if (reader.available > 0) return true;
    return false;
  }

  /** When a turn has something to do though nothing came; Infinity: never. */
  get dueAt(): number {
    const alarmAt = this.mustWait ? Number.POSITIVE_INFINITY : this.alarms.topPriority();
    return Math.min(this.arbiter.nextWakeAt, this.side.chanceAt, alarmAt);
  }

  /** Takes what came, does what is due. `shown` is told of each thread that has new records. */
  turn(clock: number, shown: (thread: number) => void): void {
    const { fromFront, fromQueues, toQueues } = this.channels;
    this.now = Math.max(this.now, clock);
    const { now } = this;
    this.pace.begin(now);
    const controls = this.pace.take(FROM_FRONT, fromFront.available);
    for (let index = 0; index < controls; index++) this.takeFromFront(fromFront.cells, fromFront.offsetAt(index));
    fromFront.release(controls);
    for (let thread = 0; thread < fromQueues.length; thread++) {
      const reader = fromQueues[thread]!;
      const count = this.pace.take(fromThread(thread), reader.available);
      for (let index = 0; index < count; index++) this.takeFromQueue(thread, reader.cells, reader.offsetAt(index));
      reader.release(count);
    }
    if (this.side.chanceAt <= now) this.giveChances();
    while (!this.mustWait && this.alarms.topPriority() <= now) this.ranOut(this.alarms.pop());
    if (this.arbiter.nextWakeAt <= now) this.arbiter.wake(now);
    this.news.tell();
    for (let thread = 0; thread < toQueues.length; thread++) if (toQueues[thread]!.show()) shown(thread);
  }

  // ArbiterView, for the arbiter

  get mustWait(): boolean {
    return this.askedKey >= 0;
  }

  grant(key: QueueKey, accelerator: AcceleratorId, at: number): BatchId {
    const { accelerators } = this;
    // The batch is the accelerator's when the answer says so; its number travels with the question.
    const batch = this.side.batches.add(key, -1, 1, 0, 0, 0);
    const { news, share } = this;
    // Nobody looks ahead on an accelerator that works.
    const isFree = accelerators.inFlight(accelerator) === 0 || accelerators.freeAt[accelerator]! <= at;
    const freeTimes =
      share !== null && isFree ? news.tellFreeTimes(share, this.threadOf[key]!, key, accelerator, at) : -1;
    const offset = this.ask(is.GRANT, key);
    const cells = this.cellsTo(key);
    cells[offset + 2] = accelerator;
    cells[offset + 3] = batch;
    cells[offset + 4] = accelerators.freeAt[accelerator]!;
    cells[offset + 5] = accelerators.scale[accelerator]!;
    cells[offset + 6] = accelerators.inFlight(accelerator);
    cells[offset + 7] = accelerators.isOnTrial(accelerator) ? 1 : 0;
    cells[offset + 8] = this.given[accelerator]!;
    share?.writeGrant(freeTimes, cells, offset + is.GRANT_SHARED);
    cells[offset + is.GRANT_LIMIT_US] = this.offers.limitUs[key]!;
    this.grants++;
    return ASKED;
  }

  expired(key: QueueKey, _at: number): void {
    this.ask(is.LOOK, key);
  }

  alarm(key: QueueKey, at: number): void {
    if (at === Number.POSITIVE_INFINITY) this.alarms.remove(key);
    else this.alarms.set(key, at);
  }

  private ranOut(key: QueueKey): void {
    const { oneAtATime } = this.options;
    if (this.threadOf[key] === is.NOWHERE || (this.offers.size[key] === 0 && !oneAtATime)) return;
    this.ask(is.LOOK, key);
    // Where others are served before the answer it must not be among those that may be granted.
    if (!oneAtATime) this.arbiter.offerChanged(key, this.now);
  }

  refreshDemand(key: QueueKey, _at: number): void {
    if (this.demandAsked[key] === 1 || this.threadOf[key] === is.NOWHERE) return;
    this.demandAsked[key] = 1;
    this.claim(is.DEMAND, key);
  }

  /** The offer is gone until the queue has answered; unless it has more than one full batch. */
  private ask(kind: number, key: QueueKey): number {
    const { offers } = this;
    this.asks[key] = this.asks[key]! + 1;
    if (kind === is.GRANT && offers.more[key]! > 0 && !this.options.oneAtATime)
      offers.more[key] = offers.more[key]! - 1;
    else offers.size[key] = 0;
    if (this.options.oneAtATime) {
      this.askedKey = key;
      this.askedKind = kind;
    }
    this.news.beforeQuestion(this.threadOf[key]!);
    return this.claim(kind, key);
  }

  /** @returns offset of a record about a queue, in the cells of the ring to its thread. */
  private claim(kind: number, key: QueueKey): number {
    const thread = this.threadOf[key]!;
    const writer = this.channels.toQueues[thread];
    const offset = writer?.claim() ?? -1;
    if (writer === undefined || offset < 0)
      violated(`queue ${key} on thread ${thread} was asked more than can be asked at once`);
    writer.cells[offset] = kind;
    writer.cells[offset + 1] = key;
    return offset;
  }

  private cellsTo(key: QueueKey): Float64Array {
    return this.channels.toQueues[this.threadOf[key]!]!.cells;
  }

  // From the front

  private takeFromFront(cells: Float64Array, from: number): void {
    const { now } = this;
    const a = cells[from + 1]!;
    switch (cells[from]) {
      case is.JOIN:
        this.accelerators.join(a, cells[from + 2]!, now);
        this.arbiter.available(a, now);
        this.news.fleetChanged();
        break;
      case is.LEAVE:
        this.accelerators.leave(a);
        this.arbiter.withdrawn(a, now);
        this.news.fleetChanged();
        break;
      case is.NETWORK:
        this.news.network = {
          controlUs: a,
          dataUsPerRequest: cells[from + 2]!,
          responseUs: cells[from + 3]!,
          decisionUs: cells[from + 4]!,
        };
        this.news.fleetChanged();
        break;
      case is.STOP:
        this.hasStopped = true;
        break;
      default:
        violated(`the rank takes no record of kind ${cells[from]} from the front`);
    }
  }

  // From queue threads

  private takeFromQueue(thread: number, cells: Float64Array, from: number): void {
    const a = cells[from + 1]!;
    switch (cells[from]) {
      case is.NOTICE: {
        const { mailboxes } = this.channels;
        const offset = mailboxes.read(a);
        this.pace.saw(a, mailboxes.cells[offset + is.OFFER_VERSION]!);
        this.offered(thread, mailboxes.cells, offset);
        break;
      }
      case is.OFFER:
        if (this.askedKey === a && this.askedKind === is.LOOK) this.askedKey = -1;
        this.offered(thread, cells, from);
        break;
      case is.ANSWER:
        this.askedKey = -1;
        this.answered(cells, from);
        break;
      case is.FREED:
        this.freed(a, cells[from + 2] === 1, cells[from + 3]!, cells[from + 4]!);
        break;
      case is.HELLO:
        this.news.threadStarted(thread);
        this.share?.threadStarted(thread);
        break;
      case is.QUEUE_ADDED:
        this.queueAdded(thread, a, cells[from + 2]!, cells[from + 3]!);
        break;
      case is.TABLE:
        this.takeTable(thread, cells, from);
        break;
      case is.QUEUE_REMOVED:
        this.queueRemoved(thread, a);
        break;
      case is.GAVE_UP:
        this.side.gaveUp(a, this.now);
        break;
      case is.DEMAND_IS:
        this.demandAsked[a] = 0;
        this.offers.demand[a] = cells[from + 2]!;
        break;
      case is.SAID:
        this.said(thread, a, cells, from);
        break;
      case is.SLACK:
        this.offers.slackUs[a] = cells[from + 2]!;
        break;
      case is.BYE:
        this.news.threadEnded(thread);
        break;
      default:
        violated(`the rank takes no record of kind ${cells[from]} from a queue thread`);
    }
  }

  /** Queues of the thread begin to share when the first says something: then it must hear of each accelerator. */
  private said(thread: number, key: QueueKey, cells: Float64Array, from: number): void {
    const share = this.share!;
    const wasAskedFor = share.isAskedFor;
    share.readSaid(thread, key, cells, from + 2);
    if (!wasAskedFor) this.news.fleetChanged();
  }

  private offered(thread: number, cells: Float64Array, from: number): void {
    const { offers, share } = this;
    const key = cells[from + is.OFFER_KEY]!;
    const version = cells[from + is.OFFER_VERSION]!;
    share?.gaveUp(thread, cells[from + is.OFFER_BAD]!);
    // Made before the last question was answered, or older than what the mailbox held.
    if (cells[from + is.OFFER_SEEN] !== this.asks[key] || version <= this.applied[key]!) return;
    this.applied[key] = version;
    offers.size[key] = cells[from + is.OFFER_SIZE]!;
    offers.opensAt[key] = cells[from + is.OFFER_OPENS_AT]!;
    offers.latestAt[key] = cells[from + is.OFFER_LATEST_AT]!;
    offers.leadUs[key] = cells[from + is.OFFER_LEAD_US]!;
    offers.rank[key] = cells[from + is.OFFER_RANK]!;
    offers.demand[key] = cells[from + is.OFFER_DEMAND]!;
    offers.mayLeaveIdle[key] = cells[from + is.OFFER_MAY_LEAVE_IDLE]!;
    offers.more[key] = cells[from + is.OFFER_MORE]!;
    offers.earlyExecUs[key] = cells[from + is.OFFER_EARLY_EXEC_US]!;
    offers.execUs[key] = cells[from + is.OFFER_EXEC_US]!;
    offers.aloneUs[key] = cells[from + is.OFFER_ALONE_US]!;
    this.arbiter.offerChanged(key, this.now);
  }

  private answered(cells: Float64Array, from: number): void {
    const { side, now } = this;
    const { batches } = side;
    const key = cells[from + 1]!;
    const accelerator = cells[from + 2]!;
    const batch = cells[from + 3]!;
    const isTaken = cells[from + 4] === 1;
    if (isTaken) {
      batches.executedSize[batch] = cells[from + 6]!;
      batches.execAt[batch] = cells[from + 7]!;
      batches.execUs[batch] = cells[from + 8]!;
      batches.finishAt[batch] = cells[from + 7]! + cells[from + 8]!;
      side.commit(batch, accelerator);
      this.share?.batchSent(key, cells[from + 8]!);
      this.given[accelerator] = this.given[accelerator]! + 1;
      if (side.sent(accelerator)) this.news.fleetChanged();
    } else batches.release(batch);
    this.arbiter.answered!(key, accelerator, isTaken, cells[from + 5] === 1, now);
  }

  private freed(batch: BatchId, isWell: boolean, startAt: number, toldEndAt: number): void {
    const { side, accelerators, now } = this;
    const accelerator = side.batches.accelerator[batch]!;
    const endAt = Math.min(toldEndAt, now);
    const isReplanned = isWell
      ? side.measured(batch, side.batches.queue[batch]!, toldEndAt - startAt, now)
      : accelerators.unmeasured(accelerator, now);
    side.free(batch, endAt, now);
    if (accelerators.present[accelerator] === 1) this.arbiter.available(accelerator, now);
    if (isReplanned) this.news.fleetChanged();
  }

  private queueAdded(thread: number, key: QueueKey, sloUs: number, sizeMax: number): void {
    invariant(this.threadOf[key] === is.NOWHERE, `queue ${key} must be removed before it is added again`);
    this.threadOf[key] = thread;
    this.asks[key] = 0;
    this.applied[key] = 0;
    this.demandAsked[key] = 0;
    this.news.queueAdded(key);
    this.offers.clear(key);
    this.channels.mailboxes.reset(key);
    this.arbiter.queueAdded(key);
    if (sizeMax > 0) this.tables[thread] = { key, sloUs, us: new ArrivingTable(sizeMax, is.OUT_WIDTH) };
  }

  private takeTable(thread: number, cells: Float64Array, from: number): void {
    const table = this.tables[thread];
    if (table === null || table === undefined) violated(`a table came from thread ${thread} for no queue`);
    if (!table.us.take(cells, from)) return;
    this.tables[thread] = null;
    this.specs[table.key] = { latency: latencyOf(table.us.numbers), sloUs: table.sloUs, lengthMax: 0 };
  }

  private queueRemoved(thread: number, key: QueueKey): void {
    invariant(this.threadOf[key] === thread, `queue ${key} is on thread ${this.threadOf[key]}, not on ${thread}`);
    this.offers.clear(key);
    this.share?.queueRemoved(thread, key);
    this.arbiter.queueRemoved(key);
    this.specs[key] = undefined;
    this.news.queueForgotten(thread, key);
  }

  private giveChances(): void {
    const { now } = this;
    const isReplanned = this.side.giveChances(
      now,
      (id) => {
        if (this.accelerators.inFlight(id) === 0) this.arbiter.available(id, now);
      },
      (key) => this.news.released(key),
    );
    if (isReplanned) this.news.fleetChanged();
  }
}
