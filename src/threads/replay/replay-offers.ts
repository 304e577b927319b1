import { invariant } from "../../core/invariant.js";
import type { QueueKey } from "../../core/policy.js";
import type { OfferReader, OfferWriter, RecordReader } from "../channel.js";
import * as is from "../messages.js";
import { threadOf } from "../rank-actor.js";
import { KEYS_MAX, type ReplayPace } from "../turn-log.js";
import { ReplayRing } from "./replay-ring.js";

/** Offers of one queue for as long as a thread holds it: where each version that was posted lies, and the newest. */
interface Owner {
  readonly offsets: Map<number, number>;
  newest: number;
}

/**
 * Mailboxes that keep every version that was posted: the record says which one was read.
 *
 * A key is given out again when its queue has gone, and versions begin anew. Threads whose clocks were read early may be
 * replayed before the rank has read the last of the owner before; so each thread has mailboxes of its own here, and those
 * of each time that it held the queue are kept apart.
 */
export class ReplayOffers {
  readonly reader: OfferReader;
  private readonly room = new ReplayRing(is.RANK_WIDTH);
  private readonly queuesMax: number;
  /** By thread and key: each time that the thread held the queue. */
  private readonly owners: Owner[][] = [];
  /** By thread and key: how many of these the rank has heard of. */
  private readonly heardOf: number[] = [];

  /** @param pace of the rank. */
  constructor(queuesMax: number, pace: ReplayPace) {
    this.queuesMax = queuesMax;
    const offers = this;
    this.reader = {
      get cells() {
        return offers.room.cells;
      },
      reset: (key) => {
        const at = offers.indexOf(threadOf(pace.source), key);
        offers.heardOf[at] = offers.heardOfAt(at) + 1;
      },
      read: (key) => {
        const version = pace.seenOf(key);
        const at = offers.indexOf(threadOf(pace.source), key);
        const offset = offers.ownerAt(at, offers.heardOfAt(at))?.offsets.get(version);
        invariant(offset !== undefined, `turn log: version ${version} of queue ${key} was never posted`);
        return offset;
      },
    };
  }

  writer(thread: number): OfferWriter {
    const offers = this;
    let blankAt = 0;
    return {
      get cells() {
        return offers.room.cells;
      },
      reset: (key) => {
        const at = offers.indexOf(thread, key);
        offers.owners[at] ??= [];
        offers.owners[at].push({ offsets: new Map(), newest: 0 });
      },
      blank: () => {
        blankAt = offers.room.claim();
        return blankAt;
      },
      post: (key) => {
        const owner = offers.owners[offers.indexOf(thread, key)]!.at(-1)!;
        owner.newest = offers.room.cells[blankAt + is.OFFER_VERSION]!;
        owner.offsets.set(owner.newest, blankAt);
        return true;
      },
    };
  }

  /**
   * Whether what the rank saw of offers is there, as it takes the next records of a thread.
   * @param count how many of `records` it takes. @param seen the versions, one for each NOTICE among them, as in the log.
   */
  arePosted(thread: number, records: RecordReader, count: number, seen: readonly number[]): boolean {
    const heardOf = new Map<QueueKey, number>();
    let next = 0;
    for (let index = 0; index < count && next < seen.length; index++) {
      const offset = records.offsetAt(index);
      const key = records.cells[offset + 1]!;
      const at = this.indexOf(thread, key);
      const heardOfIt = (): number => heardOf.get(key) ?? this.heardOfAt(at);
      if (records.cells[offset] === is.QUEUE_ADDED) heardOf.set(key, heardOfIt() + 1);
      if (records.cells[offset] !== is.NOTICE) continue;
      const version = Math.floor(seen[next++]! / KEYS_MAX);
      if ((this.ownerAt(at, heardOfIt())?.newest ?? 0) < version) return false;
    }
    return true;
  }

  private ownerAt(at: number, heardOf: number): Owner | undefined {
    return this.owners[at]?.[heardOf - 1];
  }

  private heardOfAt(at: number): number {
    return this.heardOf[at] ?? 0;
  }

  private indexOf(thread: number, key: QueueKey): number {
    return thread * this.queuesMax + key;
  }
}
