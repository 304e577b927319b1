import type { QueueKey } from "../../core/policy.js";
import type { QueueShare } from "../../core/shared-numbers.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId, BatchTable } from "../../core/tables/batch-table.js";
import type { RequestHandle, RequestTable } from "../../core/tables/request-table.js";
import type { RecordWriter } from "../channel.js";
import * as is from "../messages.js";

export interface OutboxChannels {
  readonly toFront: RecordWriter;
  readonly toRank: RecordWriter;
  /** A ring is full: shows what is in it and returns when its reader has taken something. */
  waitForRoom(writer: RecordWriter): void;
}

/** Who has new records; bits. */
export const SHOWN_FRONT = 1;
export const SHOWN_RANK = 2;

/**
 * What a queue thread writes into its rings: to the front what becomes of requests and batches, to the rank what becomes
 * of queues and accelerators. Readers see it when it is shown.
 */
export class QueueOutbox {
  private readonly channels: OutboxChannels;
  private readonly requests: RequestTable;
  private readonly batches: BatchTable;
  /** The ENDS record that may still take tags; -1: none. */
  private endsAt = -1;

  constructor(channels: OutboxChannels, requests: RequestTable, batches: BatchTable) {
    this.channels = channels;
    this.requests = requests;
    this.batches = batches;
  }

  /** @returns who has new records: SHOWN_ bits. */
  show(): number {
    const { toFront, toRank } = this.channels;
    this.endsAt = -1;
    return (toFront.show() ? SHOWN_FRONT : 0) | (toRank.show() ? SHOWN_RANK : 0);
  }

  // To the front

  ended(tag: number, outcome: number, reason: number, execStartAt: number, at: number): void {
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

  droppedLate(tag: number, reason: number, at: number, lateByUs: number): void {
    const offset = this.toFront(is.DROPPED_LATE);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = reason;
    cells[offset + 2] = at;
    cells[offset + 3] = tag;
    cells[offset + 4] = lateByUs;
  }

  /** @param turn batches that the accelerator was ever given. @param openedAt when the batch could first have gone. */
  dispatched(batch: BatchId, turn: number, openedAt: number, at: number): void {
    const { batches, requests } = this;
    let offset = this.toFront(is.DISPATCH);
    let { cells } = this.channels.toFront;
    cells[offset + 1] = batch;
    cells[offset + 2] = batches.accelerator[batch]!;
    cells[offset + 3] = batches.queue[batch]!;
    cells[offset + 4] = batches.size[batch]!;
    cells[offset + 5] = batches.execAt[batch]!;
    cells[offset + 6] = batches.execUs[batch]!;
    cells[offset + 7] = batches.close[batch]!;
    cells[offset + 8] = at;
    cells[offset + 9] = turn;
    cells[offset + 10] = openedAt;
    cells[offset + 11] = batches.variant[batch]!;
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

  batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    const offset = this.toFront(is.BATCH_ENDED);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = batch;
    cells[offset + 2] = startAt;
    cells[offset + 3] = endAt;
  }

  handed(handle: RequestHandle, isAlone: boolean): void {
    const { requests } = this;
    const offset = this.toFront(is.HANDED);
    const { cells } = this.channels.toFront;
    cells[offset + 1] = requests.queue[handle]!;
    cells[offset + 2] = requests.tag[handle]!;
    cells[offset + 3] = requests.arrivalAt[handle]!;
    cells[offset + 4] = requests.latestEndAt[handle]!;
    cells[offset + 5] = requests.retries[handle]! + (isAlone ? is.ALONE : 0);
    cells[offset + 6] = requests.kind[handle]!;
    cells[offset + 7] = requests.weight[handle]!;
    cells[offset + 8] = requests.dueAt[handle]!;
    cells[offset + 9] = requests.part[handle]!;
    cells[offset + 10] = requests.headStartUs?.[handle] ?? 0;
  }

  closed(key: QueueKey): void {
    const offset = this.toFront(is.CLOSED);
    this.channels.toFront.cells[offset + 1] = key;
  }

  stopped(): void {
    this.toRank(is.BYE);
    this.toFront(is.STOPPED);
  }

  // To the rank

  hello(): void {
    this.toRank(is.HELLO);
  }

  /** @param us l(1), l(2), ... in µs; null: the rank does not learn. */
  queueAdded(key: QueueKey, sloUs: number, us: Float64Array | null): void {
    const offset = this.toRank(is.QUEUE_ADDED);
    const { cells } = this.channels.toRank;
    cells[offset + 1] = key;
    cells[offset + 2] = sloUs;
    cells[offset + 3] = us === null ? 0 : us.length;
    if (us === null) return;
    for (let at = 0; at < us.length; at += is.OUT_WIDTH - 1) {
      const row = this.toRank(is.TABLE);
      this.channels.toRank.cells.set(us.subarray(at, at + is.OUT_WIDTH - 1), row + 1);
    }
  }

  queueRemoved(key: QueueKey): void {
    this.aboutQueue(is.QUEUE_REMOVED, key);
  }

  /** Its mailbox holds an offer that was not there when the rank last looked. */
  notice(key: QueueKey): void {
    this.aboutQueue(is.NOTICE, key);
  }

  gaveUp(key: QueueKey): void {
    this.aboutQueue(is.GAVE_UP, key);
  }

  /** What queues say of themselves, and was not told. */
  said(share: QueueShare): void {
    for (let key = share.nextSaid(); key >= 0; key = share.nextSaid()) {
      const offset = this.aboutQueue(is.SAID, key);
      share.writeSaid(key, this.channels.toRank.cells, offset + 2);
    }
  }

  slackIs(key: QueueKey, slackUs: number): void {
    const offset = this.aboutQueue(is.SLACK, key);
    this.channels.toRank.cells[offset + 2] = slackUs;
  }

  demandIs(key: QueueKey, demand: number): void {
    const offset = this.aboutQueue(is.DEMAND_IS, key);
    this.channels.toRank.cells[offset + 2] = demand;
  }

  /** @returns offset of an OFFER record in the cells of the ring to the rank, to be written at once. */
  offer(): number {
    return this.toRank(is.OFFER);
  }

  /** @param rankBatch the rank's number of the batch that was asked for. @param batch what was taken; -1: nothing. */
  answer(key: QueueKey, id: AcceleratorId, rankBatch: number, batch: BatchId, isStillOffered: boolean): void {
    const { batches } = this;
    const offset = this.aboutQueue(is.ANSWER, key);
    const { cells } = this.channels.toRank;
    cells[offset + 2] = id;
    cells[offset + 3] = rankBatch;
    cells[offset + 4] = batch >= 0 ? 1 : 0;
    cells[offset + 5] = isStillOffered ? 1 : 0;
    if (batch < 0) return;
    cells[offset + 6] = batches.executedSize[batch]!;
    cells[offset + 7] = batches.execAt[batch]!;
    cells[offset + 8] = batches.execUs[batch]!;
  }

  freed(rankBatch: number, isWell: boolean, startAt: number, endAt: number): void {
    const offset = this.toRank(is.FREED);
    const { cells } = this.channels.toRank;
    cells[offset + 1] = rankBatch;
    cells[offset + 2] = isWell ? 1 : 0;
    cells[offset + 3] = startAt;
    cells[offset + 4] = endAt;
  }

  private aboutQueue(kind: number, key: QueueKey): number {
    const offset = this.toRank(kind);
    this.channels.toRank.cells[offset + 1] = key;
    return offset;
  }

  // Rings

  /** @returns offset of a fresh record, its kind written. */
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
