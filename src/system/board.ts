/**
 * Where queues say how they are, for those elsewhere who decide by it (PARD §4.2): a small row of numbers for each, written
 * as a whole now and then. Of fixed size; nothing is allocated after it is made.
 *
 * A row is [epoch, moment of writing, columns]. Epochs count up from 1. A reader gets a copy of a whole row or nothing, and
 * is told when it is older than what may be believed. The copy is also what goes to other places: in one message.
 */
import { invariant } from "../core/invariant.js";

/** A reader's copy must fit a message of less than 500 bytes. */
export const ROW_NUMBERS_MAX = 62;

const EPOCH = 0;
const WRITTEN_AT = 1;
const HEAD = 2;

export const BOARD_READINGS = ["absent", "stale", "fresh"] as const;
/** absent: nothing was written, nothing is copied. stale: older than `staleUs`. */
export type BoardReading = (typeof BOARD_READINGS)[number];

export class Board {
  readonly rows: number;
  /** Names of the numbers, by whoever publishes. */
  readonly columns: readonly string[];
  private readonly staleUs: number;
  private readonly width: number;
  private readonly cells: Float64Array;

  /** @param staleUs age up to which a row is fresh. */
  constructor(rows: number, columns: readonly string[], staleUs: number) {
    this.rows = rows;
    this.columns = columns;
    this.staleUs = staleUs;
    this.width = HEAD + columns.length;
    invariant(
      this.width <= ROW_NUMBERS_MAX,
      `a board must have at most ${ROW_NUMBERS_MAX - HEAD} columns; has ${columns.length}`,
    );
    this.cells = new Float64Array(rows * this.width);
  }

  /** Replaces the row: its next epoch. @param values by column. */
  publish(row: number, values: ArrayLike<number>, at: number): void {
    const { cells, columns, width } = this;
    invariant(row >= 0 && row < this.rows, `row must be in [0, ${this.rows}); was ${row}`);
    invariant(values.length === columns.length, `row must have ${columns.length} numbers; has ${values.length}`);
    const first = row * width;
    cells[first + EPOCH]!++;
    cells[first + WRITTEN_AT] = at;
    for (let column = 0; column < columns.length; column++) cells[first + HEAD + column] = values[column]!;
  }

  /** Copies the row as it is. @param into holds all of it; see `blank`. */
  read(row: number, at: number, into: BoardRow): BoardReading {
    const { cells, width, staleUs } = this;
    invariant(row >= 0 && row < this.rows, `row must be in [0, ${this.rows}); was ${row}`);
    const first = row * width;
    if (cells[first + EPOCH] === 0) return "absent";
    for (let number = 0; number < width; number++) into.numbers[number] = cells[first + number]!;
    return at - into.writtenAt > staleUs ? "stale" : "fresh";
  }

  blank(): BoardRow {
    return new BoardRow(this.width);
  }
}

/** A reader's copy of a row. */
export class BoardRow {
  readonly numbers: Float64Array;

  constructor(width: number) {
    this.numbers = new Float64Array(width);
  }

  get epoch(): number {
    return this.numbers[EPOCH]!;
  }
  get writtenAt(): number {
    return this.numbers[WRITTEN_AT]!;
  }
  value(column: number): number {
    return this.numbers[HEAD + column]!;
  }
}
