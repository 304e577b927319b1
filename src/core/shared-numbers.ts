/**
 * What queues and arbiter of a policy know of each other beyond offers and grants, where they are in different threads: each
 * end has a copy, and records carry what the others say. In one thread they share an object, and nothing is carried.
 *
 * A method that writes or reads numbers is given the cells of a record and the offset of the first.
 */
import type { QueueKey } from "./policy.js";
import type { AcceleratorId } from "./tables/accelerator-table.js";

/** Most numbers that a queue says, that all other queues say together, that a grant brings. */
export const SAID_NUMBERS = 6;
export const OTHERS_NUMBERS = 5;
export const GRANT_NUMBERS = 4;

/** The copy of a queue thread. */
export interface QueueShare {
  /** How much before its window the offer that is being granted may leave, µs. */
  readonly earlyUs: number;
  /** Requests given up here since the start. */
  readonly bad: number;
  /** @returns a queue that said something since it was last asked for, once; -1: none did. */
  nextSaid(): QueueKey;
  writeSaid(key: QueueKey, cells: Float64Array, from: number): void;
  /** What the arbiter says of a grant; the last number is that of the free times told before it, -1: none were. */
  readGrant(cells: Float64Array, from: number): void;
  /** What the queues of all other threads say together. */
  readOthers(cells: Float64Array, from: number): void;
  /** When an accelerator other than the one that is about to be granted comes free: told in order, soonest first. */
  readFreeAt(freeAt: number): void;
  /** It was told which accelerators there are, or how fast. */
  fleetChanged(): void;
}

/** The copy of the rank. */
export interface RankShare {
  /** A queue takes part: threads must hear of each accelerator. */
  readonly isAskedFor: boolean;
  /** A new thread has this number: it has given nothing up yet. */
  threadStarted(thread: number): void;
  readSaid(thread: number, key: QueueKey, cells: Float64Array, from: number): void;
  /** @param bad requests that the thread has given up by now, at least: an older number may come later. */
  gaveUp(thread: number, bad: number): void;
  queueRemoved(thread: number, key: QueueKey): void;
  batchSent(key: QueueKey, execUs: number): void;
  /** @param freeTimes that were told before it; -1: none. */
  writeGrant(freeTimes: number, cells: Float64Array, from: number): void;
  /** Whether the others say something that the thread was not told. If so `writeOthers` follows at once. */
  isNews(thread: number): boolean;
  writeOthers(thread: number, cells: Float64Array, from: number): void;
  /** When each accelerator but this one comes free, soonest first, if the queue must know when it gets it; null: it need not. */
  othersFreeAt(key: QueueKey, granted: AcceleratorId, at: number): Float64Array | null;
}
