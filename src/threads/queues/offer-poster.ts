import { OfferWindows } from "../../core/offer-windows.js";
import type { OfferTable, QueueKey } from "../../core/policy.js";
import type { QueueShare } from "../../core/shared-numbers.js";
import type { OfferWriter, Pace, RecordWriter } from "../channel.js";
import * as is from "../messages.js";
import type { QueueOutbox } from "./queue-outbox.js";

/** Whether a queue's offer changed in this turn; and then, whether the rank has been told already. */
const CLEAN = 0;
const DIRTY = 1;
const POSTED = 2;

export interface PosterChannels {
  readonly mailboxes: OfferWriter;
  /** The ring that `outbox` writes. */
  readonly toRank: RecordWriter;
}

/**
 * How the rank hears of the offers of a queue thread: after every turn the newest offer of each queue that changed lies
 * in its mailbox; what answers a question of the rank goes in the ring, in order with the answer.
 *
 * Each offer says which version it is and how many questions its queue had been asked before, so that the rank knows a
 * stale one. What a queue says beyond its offers (`share`) comes before the offer that it was said with.
 */
export class OfferPoster {
  private readonly offers: OfferTable;
  private readonly channels: PosterChannels;
  private readonly outbox: QueueOutbox;
  private readonly pace: Pace;
  private readonly share: QueueShare | null;
  private readonly windows = new OfferWindows();
  /** By key: offers made, questions asked. */
  private readonly versions: Float64Array;
  private readonly seen: Float64Array;
  /** By key: slack that the rank was told; null: it is told none, as it was not when records had no such thing. */
  private readonly toldSlackUs: Float64Array | null;
  /** Queues whose offer changed in this turn, each once. */
  private readonly dirty: Int32Array;
  private dirtyCount = 0;
  private readonly isDirty: Uint8Array;

  constructor(
    queuesMax: number,
    offers: OfferTable,
    channels: PosterChannels,
    outbox: QueueOutbox,
    pace: Pace,
    share: QueueShare | null,
    isolates: boolean,
  ) {
    this.toldSlackUs = isolates ? new Float64Array(queuesMax) : null;
    this.share = share;
    this.offers = offers;
    this.channels = channels;
    this.outbox = outbox;
    this.pace = pace;
    this.versions = new Float64Array(queuesMax);
    this.seen = new Float64Array(queuesMax);
    this.dirty = new Int32Array(queuesMax);
    this.isDirty = new Uint8Array(queuesMax);
  }

  /** The queue is a new one. */
  reset(key: QueueKey): void {
    this.offers.clear(key);
    this.windows.reset(key);
    this.versions[key] = 0;
    this.seen[key] = 0;
    this.toldSlackUs?.fill(Number.POSITIVE_INFINITY, key, key + 1);
    this.channels.mailboxes.reset(key);
  }

  changed(key: QueueKey, now: number): void {
    if (this.isDirty[key] === CLEAN) this.dirty[this.dirtyCount++] = key;
    this.isDirty[key] = DIRTY;
    const { offers } = this;
    const isNone = offers.size[key] === 0;
    this.windows.changed(key, isNone ? Number.POSITIVE_INFINITY : offers.opensAt[key]! - offers.leadUs[key]!, now);
  }

  /** It offers nothing from now on. */
  withdraw(key: QueueKey, now: number): void {
    this.offers.clear(key);
    this.changed(key, now);
  }

  /** When the batch that is dispatched now could first have gone. */
  openedAt(key: QueueKey, now: number): number {
    return this.windows.openedAt(key, now);
  }

  /** Does its offer stand, so that it may be granted another accelerator at once? */
  isOpen(key: QueueKey, now: number): boolean {
    const { offers, share } = this;
    if (offers.size[key] === 0 || offers.mayLeaveIdle[key] === 1) return offers.size[key]! > 0;
    const earlyUs = share === null || offers.earlyExecUs[key] === 0 ? 0 : share.earlyUs;
    return offers.opensAt[key]! - offers.leadUs[key]! - earlyUs <= now;
  }

  /** The rank asked the queue: every offer from now on was made knowing it. */
  asked(key: QueueKey): void {
    this.seen[key] = this.seen[key]! + 1;
  }

  /** Into the ring, before what is written there next. */
  answer(key: QueueKey): void {
    this.tellSaid();
    this.tellSlack(key);
    const offset = this.outbox.offer();
    this.write(this.channels.toRank.cells, offset, key);
  }

  /** The rank will not hear of the queue again: what it has not been told must come before. */
  settle(key: QueueKey): void {
    if (this.isDirty[key] === DIRTY) this.answer(key);
    else this.tellSaid();
  }

  /** The turn ends: the offers that changed go into their mailboxes. */
  post(): void {
    this.tellSaid();
    for (let index = 0; index < this.dirtyCount; index++) {
      const key = this.dirty[index]!;
      if (this.isDirty[key] === DIRTY) this.postOne(key);
      this.isDirty[key] = CLEAN;
    }
    this.dirtyCount = 0;
  }

  private tellSaid(): void {
    if (this.share !== null) this.outbox.said(this.share);
  }

  private tellSlack(key: QueueKey): void {
    const { toldSlackUs: told } = this;
    const slackUs = this.offers.slackUs[key]!;
    if (told === null || told[key] === slackUs) return;
    told[key] = slackUs;
    this.outbox.slackIs(key, slackUs);
  }

  private postOne(key: QueueKey): void {
    const { mailboxes } = this.channels;
    this.tellSlack(key);
    const offset = mailboxes.blank(key);
    this.write(mailboxes.cells, offset, key);
    if (this.pace.posted(key, mailboxes.post(key))) this.outbox.notice(key);
  }

  private write(cells: Float64Array, offset: number, key: QueueKey): void {
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
    cells[offset + is.OFFER_EARLY_EXEC_US] = offers.earlyExecUs[key]!;
    cells[offset + is.OFFER_EXEC_US] = offers.execUs[key]!;
    cells[offset + is.OFFER_BAD] = this.share === null ? 0 : this.share.bad;
    cells[offset + is.OFFER_ALONE_US] = offers.aloneUs[key]!;
  }
}
