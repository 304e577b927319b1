/**
 * A ring of fixed-width records between two threads: one writes, one reads, nobody locks and nothing is allocated.
 *
 * Cells are doubles in a SharedArrayBuffer: whole microseconds and ids are exact. Records become visible together, at
 * `show`; waking a reader that sleeps is the affair of bells (src/threads/bell). A full ring is the writer's named outcome:
 * `claim` says -1 and writes nothing.
 */
import { invariant } from "../core/invariant.js";

/** Doubles per record unless a ring is made with another width. */
export const RING_WIDTH = 12;
/** Records shown so far, modulo 2^32. */
const TAIL = 0;
/** Records released so far, modulo 2^32. Kept a cache line away from TAIL. */
const HEAD = 16;
const CONTROL_LENGTH = 32;

export interface RingMemory {
  readonly control: SharedArrayBuffer;
  readonly cells: SharedArrayBuffer;
  /** Doubles per record. */
  readonly width: number;
}

/** @param records capacity; a power of two in [2, 2^24]. @param width doubles per record. */
export function createRing(records: number, width = RING_WIDTH): RingMemory {
  const isPower = Number.isInteger(records) && records >= 2 && records <= 2 ** 24 && (records & (records - 1)) === 0;
  invariant(isPower, `ring capacity must be a power of two in [2, 2^24]; was ${records}`);
  return {
    control: new SharedArrayBuffer(CONTROL_LENGTH * Int32Array.BYTES_PER_ELEMENT),
    cells: new SharedArrayBuffer(records * width * Float64Array.BYTES_PER_ELEMENT),
    width,
  };
}

export class RingWriter {
  /** Record data; write it at the offsets that `claim` returns. */
  readonly cells: Float64Array;
  readonly capacity: number;
  private readonly control: Int32Array;
  private readonly width: number;
  private readonly mask: number;
  private tail: number;
  private shown: number;
  /** Records released when the writer last looked: it looks again when the ring seems full. */
  private headSeen: number;

  constructor(memory: RingMemory) {
    this.control = new Int32Array(memory.control);
    this.cells = new Float64Array(memory.cells);
    this.width = memory.width;
    this.capacity = this.cells.length / memory.width;
    this.mask = this.capacity - 1;
    this.tail = Atomics.load(this.control, TAIL);
    this.shown = this.tail;
    this.headSeen = Atomics.load(this.control, HEAD);
  }

  /** Records that can be claimed now. */
  get free(): number {
    this.headSeen = Atomics.load(this.control, HEAD);
    return this.capacity - ((this.tail - this.headSeen) | 0);
  }

  /** @returns offset of a fresh record in `cells`, or -1 when the ring is full. The reader sees it after `show`. */
  claim(): number {
    if (((this.tail - this.headSeen) | 0) >= this.capacity && this.free <= 0) return -1;
    const offset = (this.tail & this.mask) * this.width;
    this.tail = (this.tail + 1) | 0;
    return offset;
  }

  /** Shows the reader everything claimed so far. @returns false: there was nothing new. */
  show(): boolean {
    if (this.tail === this.shown) return false;
    this.shown = this.tail;
    Atomics.store(this.control, TAIL, this.tail);
    return true;
  }
}

export class RingReader {
  readonly cells: Float64Array;
  private readonly control: Int32Array;
  private readonly width: number;
  private readonly mask: number;
  private head: number;

  constructor(memory: RingMemory) {
    this.control = new Int32Array(memory.control);
    this.cells = new Float64Array(memory.cells);
    this.width = memory.width;
    this.mask = this.cells.length / memory.width - 1;
    this.head = Atomics.load(this.control, HEAD);
  }

  /** Records shown and not yet released. */
  get available(): number {
    return (Atomics.load(this.control, TAIL) - this.head) | 0;
  }

  /** Offset in `cells` of the index-th unreleased record, index in [0, available). Valid until released. */
  offsetAt(index: number): number {
    return ((this.head + index) & this.mask) * this.width;
  }

  /** Gives the first `count` records back to the writer. */
  release(count: number): void {
    if (count === 0) return;
    this.head = (this.head + count) | 0;
    Atomics.store(this.control, HEAD, this.head);
  }
}
