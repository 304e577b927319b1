/**
 * What is measured of the modules of one pipeline, published once an interval: a row each of a board. Parts that were called
 * off count neither as ended nor as run.
 */
import { DROPPED, FINISHED } from "../core/outcome.js";
import { Board } from "./board.js";

export const MODULE_COLUMNS = [
  "parts_per_s", // that ended
  "finished_per_s",
  "drop_rate", // dropped of those that ended
  "queue_us", // mean time from coming to its queue until its batch began to execute, of those that finished
  "run_us", // mean time from then on, of those that finished
  "batch_size", // mean size of the batch that a part ran in
] as const;
type ModuleColumn = (typeof MODULE_COLUMNS)[number];
export const columnOf = (column: ModuleColumn): number => MODULE_COLUMNS.indexOf(column);

/** As often as PARD's controllers synchronise. */
export const STATE_INTERVAL_US = 1_000_000;
/** Rows are believed for so many intervals. */
const STALE_AFTER = 3;

const ENDED = 0;
const DONE = 1;
const GIVEN_UP = 2;
const QUEUE_US = 3;
const RUN_US = 4;
const RAN = 5;
const SIZES = 6;
const SUMS = 7;

export class ModuleStates {
  readonly board: Board;
  private readonly sums: Float64Array;
  private readonly values = new Float64Array(MODULE_COLUMNS.length);
  /** End of the interval that is counted; NaN: nothing has come. */
  private endsAt = Number.NaN;
  private intervals = 0;

  constructor(modules: number) {
    this.board = new Board(modules, MODULE_COLUMNS, STALE_AFTER * STATE_INTERVAL_US);
    this.sums = new Float64Array(modules * SUMS);
  }

  /** A part ran in a batch of this size. */
  ran(module: number, size: number, at: number): void {
    this.look(at);
    this.sums[module * SUMS + RAN]!++;
    this.sums[module * SUMS + SIZES]! += size;
  }

  /** A part ended in its module. @param cameAt when it came to its queue. @param execStartAt of its batch; only read where it finished. */
  ended(module: number, outcome: number, cameAt: number, execStartAt: number, at: number): void {
    this.look(at);
    const { sums } = this;
    const first = module * SUMS;
    sums[first + ENDED]!++;
    if (outcome === DROPPED) sums[first + GIVEN_UP]!++;
    if (outcome !== FINISHED) return;
    sums[first + DONE]!++;
    sums[first + QUEUE_US]! += execStartAt - cameAt;
    sums[first + RUN_US]! += at - execStartAt;
  }

  /**
   * Publishes intervals that are over, whatever came when they were asked for: what is counted in one lies before its end. A
   * module in which nothing finished keeps its row.
   * @returns how many intervals are over.
   */
  look(at: number): number {
    if (at < this.endsAt) return this.intervals;
    if (Number.isNaN(this.endsAt)) {
      this.endsAt = at + STATE_INTERVAL_US;
      return 0;
    }
    const { board, sums, values } = this;
    for (let module = 0; module < board.rows; module++) {
      const first = module * SUMS;
      const ended = sums[first + ENDED]!;
      const done = sums[first + DONE]!;
      if (done === 0) continue;
      values[0] = (1e6 * ended) / STATE_INTERVAL_US;
      values[1] = (1e6 * done) / STATE_INTERVAL_US;
      values[2] = sums[first + GIVEN_UP]! / ended;
      values[3] = sums[first + QUEUE_US]! / done;
      values[4] = sums[first + RUN_US]! / done;
      values[5] = sums[first + SIZES]! / sums[first + RAN]!;
      board.publish(module, values, this.endsAt);
    }
    sums.fill(0);
    const over = 1 + Math.floor((at - this.endsAt) / STATE_INTERVAL_US);
    this.endsAt += over * STATE_INTERVAL_US;
    this.intervals += over;
    return this.intervals;
  }
}
