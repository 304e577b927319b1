/**
 * In which order an actor consumed its messages: all that a run on threads has beyond its inputs.
 *
 * An actor is a function of its turns' times, of what each turn takes from each source, and of how far its readers were
 * when it looked; what it takes others made by the same rule. So the inputs from outside and this log give the whole run
 * again (replay.ts).
 */
import { invariant } from "../core/invariant.js";
import { FREE_PACE, type Pace } from "./channel.js";

export const ROW = 2;
/** A turn at a time. */
export const TURN = 0;
/** source and count are packed: count * SOURCES_MAX + source. */
export const TOOK = 1;
/** A version of a queue's offer, read from its mailbox within the TOOK before: version * KEYS_MAX + key. */
export const SAW = 2;
/** The offer of this key was posted and the rank had read the one before: it was told. */
export const TOLD = 3;
/** The ring to this thread had no room for news. */
export const FULL = 4;
export const SOURCES_MAX = 1024;
export const KEYS_MAX = 65_536;

/** Takes what another pace takes, and remembers. Reaching `rowsMax` ends the record, and says so. */
export class RecordingPace implements Pace {
  private rows = new Float64Array(1024);
  private length = 0;
  private isCut = false;
  private readonly limit: number;
  private readonly pace: Pace;

  constructor(rowsMax: number, pace: Pace = FREE_PACE) {
    invariant(rowsMax >= 1, `rowsMax of a turn log must be at least 1; was ${rowsMax}`);
    this.limit = rowsMax * ROW;
    this.pace = pace;
  }

  /** The record; null when it was cut. */
  get log(): Float64Array | null {
    return this.isCut ? null : this.rows.slice(0, this.length);
  }

  begin(now: number): void {
    this.row(TURN, now);
    this.pace.begin(now);
  }

  take(source: number, available: number): number {
    const count = this.pace.take(source, available);
    // Before the source's first message is handled: what is SAW belongs to it.
    if (count > 0) this.row(TOOK, count * SOURCES_MAX + source);
    return count;
  }

  saw(key: number, version: number): void {
    this.row(SAW, version * KEYS_MAX + key);
  }

  posted(key: number, isNew: boolean): boolean {
    if (isNew) this.row(TOLD, key);
    return isNew;
  }

  room(thread: number, hasRoom: boolean): boolean {
    if (!hasRoom) this.row(FULL, thread);
    return hasRoom;
  }

  private row(kind: number, value: number): void {
    if (this.length + ROW > this.limit) this.isCut = true;
    if (this.isCut) return;
    if (this.length === this.rows.length) {
      const grown = new Float64Array(this.rows.length * 2);
      grown.set(this.rows);
      this.rows = grown;
    }
    this.rows[this.length] = kind;
    this.rows[this.length + 1] = value;
    this.length += ROW;
  }
}

/** Takes what a log says. */
export class ReplayPace implements Pace {
  /** Source that records were last taken from. */
  source = 0;
  private readonly log: Float64Array;
  private at = 0;

  constructor(log: Float64Array) {
    this.log = log;
  }

  get isAtEnd(): boolean {
    return this.at >= this.log.length;
  }

  /** Time of the next turn. */
  get nextAt(): number {
    return this.isAtEnd ? Number.POSITIVE_INFINITY : this.log[this.at + 1]!;
  }

  /**
   * Can the next turn happen: has everything that it takes been written?
   * @param available records of a source. @param arePosted whether versions of offers have been written that were seen while so
   * many records were taken from a source; as in the log.
   */
  isReady(
    available: (source: number) => number,
    arePosted: (source: number, count: number, seen: readonly number[]) => boolean = () => true,
  ): boolean {
    if (this.isAtEnd) return false;
    for (let at = this.at + ROW; at < this.log.length && this.log[at] !== TURN; at += ROW) {
      if (this.log[at] !== TOOK) continue;
      const source = this.log[at + 1]! % SOURCES_MAX;
      const count = Math.floor(this.log[at + 1]! / SOURCES_MAX);
      const seen: number[] = [];
      for (let next = at + ROW; this.log[next] === SAW; next += ROW) seen.push(this.log[next + 1]!);
      if (available(source) < count || (seen.length > 0 && !arePosted(source, count, seen))) return false;
    }
    return true;
  }

  /** Version that was read of this queue's offer. */
  seenOf(key: number): number {
    const value = this.log[this.at + 1]!;
    invariant(
      this.log[this.at] === SAW && value % KEYS_MAX === key,
      `turn log: the mailbox of queue ${key} is read, as it was not in the recorded run`,
    );
    return Math.floor(value / KEYS_MAX);
  }

  begin(now: number): void {
    invariant(
      this.log[this.at] === TURN && this.log[this.at + 1] === now,
      `turn log: row ${this.at / ROW} is no turn at ${now}`,
    );
    this.at += ROW;
  }

  take(source: number, available: number): number {
    const value = this.log[this.at + 1];
    if (this.isAtEnd || this.log[this.at] !== TOOK || value! % SOURCES_MAX !== source) return 0;
    const count = Math.floor(value! / SOURCES_MAX);
    invariant(count <= available, `turn log: ${count} records of source ${source} were taken; ${available} are there`);
    this.at += ROW;
    this.source = source;
    return count;
  }

  saw(key: number, version: number): void {
    invariant(this.seenOf(key) === version, `turn log: another offer of queue ${key} was seen than version ${version}`);
    this.at += ROW;
  }

  posted(key: number): boolean {
    return this.passed(TOLD, key);
  }

  room(thread: number): boolean {
    return !this.passed(FULL, thread);
  }

  /** Steps over the next row if it is this one. */
  private passed(kind: number, value: number): boolean {
    if (this.isAtEnd || this.log[this.at] !== kind || this.log[this.at + 1] !== value) return false;
    this.at += ROW;
    return true;
  }
}
