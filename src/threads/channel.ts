/**
 * What an actor sees of the rings that join it to others. Real rings in shared memory have this shape (src/wire/ring), and
 * so have the ones that a replay feeds.
 */
export interface RecordWriter {
  /** Read it after `claim`: it may have been replaced. */
  readonly cells: Float64Array;
  /** Records that can be claimed now. */
  readonly free: number;
  /** @returns offset of a fresh record in `cells`, or -1 when the ring is full. */
  claim(): number;
  /** Shows the reader what was claimed. @returns false: there was nothing new. */
  show(): boolean;
}

export interface RecordReader {
  readonly cells: Float64Array;
  readonly available: number;
  offsetAt(index: number): number;
  release(count: number): void;
}

/** Where the newest offer of a queue is found by the rank. */
export interface OfferReader {
  readonly cells: Float64Array;
  /** The mailbox of a queue is its new owner's: what lies in it is gone. */
  reset(key: number): void;
  /** Takes the newest offer of the queue. @returns its offset in `cells`, laid out as an OFFER record. */
  read(key: number): number;
}

export interface OfferWriter {
  /** Read it after `blank`: it may have been replaced. */
  readonly cells: Float64Array;
  reset(key: number): void;
  /** @returns where to write the next offer of the queue; it is seen after `post`. */
  blank(key: number): number;
  /** @returns true when the reader has taken what was there before, so that it must be told. */
  post(key: number): boolean;
}

/** How much an actor takes in a turn, and who remembers it. */
export interface Pace {
  /** A turn begins; every `take` until the next one belongs to it. */
  begin(now: number): void;
  /** @returns how many of the `available` records of a source are taken now. Asked once per source and turn, in order. */
  take(source: number, available: number): number;
  /** The rank read this version of a queue's offer. */
  saw(key: number, version: number): void;
  /** A queue's offer was posted. @param isNew the rank must be told. @returns the same, or what a record says. */
  posted(key: number, isNew: boolean): boolean;
  /** Is there room for news to a thread? @returns the same, or what a record says. */
  room(thread: number, hasRoom: boolean): boolean;
}

/** Most records taken from one source in one turn: grants and timers wait no longer than these take. */
export const LOT_MAX = 4096;

/** Takes what is there and remembers nothing. */
export const FREE_PACE: Pace = {
  begin: () => {},
  take: (_source, available) => Math.min(available, LOT_MAX),
  saw: () => {},
  posted: (_key, isNew) => isNew,
  room: (_thread, hasRoom) => hasRoom,
};
