/**
 * The newest offer of each queue, in shared memory: written at the pace of arrivals, read at the pace of decisions.
 *
 * Three slots per queue: the writer has one, the reader has one, the third changes hands by one atomic exchange. Neither
 * waits for the other, nothing is torn, and what was not read in time is overwritten (Symphony §4.2: the RankThread only
 * needs the latest candidate).
 */
import { invariant, violated } from "../core/invariant.js";
import type { OfferReader, OfferWriter } from "./channel.js";
import { RANK_WIDTH } from "./messages.js";

/** The middle slot holds an offer that was not read yet. */
const FRESH = 4;
const SLOT_MASK = 3;
const SLOTS = 3;
/** Words per queue: a cache line each. */
const STRIDE = 16;

export interface MailboxMemory {
  readonly words: SharedArrayBuffer;
  readonly cells: SharedArrayBuffer;
}

export function createMailboxes(queuesMax: number): MailboxMemory {
  invariant(queuesMax >= 1 && queuesMax <= 65_536, `queuesMax must be in [1, 65536]; was ${queuesMax}`);
  return {
    words: new SharedArrayBuffer(queuesMax * STRIDE * Int32Array.BYTES_PER_ELEMENT),
    cells: new SharedArrayBuffer(queuesMax * SLOTS * RANK_WIDTH * Float64Array.BYTES_PER_ELEMENT),
  };
}

const offsetOf = (key: number, slot: number): number => (key * SLOTS + slot) * RANK_WIDTH;

/** One per thread; a queue's mailbox is written by the thread that holds the queue. */
export class MailboxWriter implements OfferWriter {
  readonly cells: Float64Array;
  private readonly words: Int32Array;
  private readonly mine: Uint8Array;

  constructor(memory: MailboxMemory) {
    this.words = new Int32Array(memory.words);
    this.cells = new Float64Array(memory.cells);
    this.mine = new Uint8Array(this.words.length / STRIDE);
  }

  /** Takes the mailbox over; the reader must have been told, and reset its side, before it reads. */
  reset(key: number): void {
    this.mine[key] = 0;
    Atomics.store(this.words, key * STRIDE, 1);
  }

  blank(key: number): number {
    return offsetOf(key, this.mine[key]!);
  }

  post(key: number): boolean {
    const before = Atomics.exchange(this.words, key * STRIDE, this.mine[key]! | FRESH);
    this.mine[key] = before & SLOT_MASK;
    return (before & FRESH) === 0;
  }
}

export class MailboxReader implements OfferReader {
  readonly cells: Float64Array;
  private readonly words: Int32Array;
  private readonly mine: Uint8Array;

  constructor(memory: MailboxMemory) {
    this.words = new Int32Array(memory.words);
    this.cells = new Float64Array(memory.cells);
    this.mine = new Uint8Array(this.words.length / STRIDE);
  }

  reset(key: number): void {
    this.mine[key] = 2;
  }

  read(key: number): number {
    const before = Atomics.exchange(this.words, key * STRIDE, this.mine[key]!);
    if ((before & FRESH) === 0) violated(`mailbox ${key} was announced and holds nothing new`);
    this.mine[key] = before & SLOT_MASK;
    return offsetOf(key, this.mine[key]!);
  }
}
