/**
 * What is measured of the modules of one pipeline, published once an interval: a row each of a board. Parts that were called
 * off count neither as ended nor as run.
 *
 * Some columns are of the last interval, some of a sliding window of several, whose newest interval weighs most and whose oldest
 * least, linearly (PARD §4.2). How long a part waited is divided in two: the wait in a batch behind the one that runs, which is as
 * long as that at most, and the queueing before it (PARD Eq. 2). Drivers do not know when a part joined its batch; what is taken
 * for it is that a batch is gathered while the one before runs, and that this takes as long as its own.
 */
import { DROPPED, FINISHED } from "../core/outcome.js";
import { BinCounts } from "./ahead/bin-counts.js";
import { PARTS, TIMES_US, WAITS } from "./ahead/scales.js";
import { WAY_NUMBERS, WayCounts } from "./ahead/way-counts.js";
import { Board } from "./board.js";

/** Quantiles of a wait in a batch, relative to its time, that a row holds: of 0 to 1 in equal steps. */
export const WAIT_QUANTILES = 17;
/** The same of how long batches run. */
export const RUN_QUANTILES = 13;
/** Quantiles of how many parts a request makes in a module that fans out: of the middles of as many equal parts of all requests. */
export const PART_QUANTILES = 7;

export const MODULE_COLUMNS = [
  // Of the last interval:
  "parts_per_s", // that ended
  "finished_per_s",
  "drop_rate", // dropped of those that ended
  "queue_us", // mean time from coming to its queue until its batch began to execute, of those that finished
  "run_us", // mean time from then on, of those that finished
  "batch_size", // mean size of the batch that a part ran in
  "input_per_s", // that came
  // Of the window, of those that finished:
  "delay_us", // mean time before the wait in a batch (PARD's q)
  "exec_us", // mean time of execution (PARD's d, at the batch sizes in use)
  "worst_us", // longest from coming to end
  ...Array.from({ length: WAIT_QUANTILES }, (_, index) => `wait_${index}` as const), // over exec_us
  "lengths_us", // mean time alone by their lengths (exec_us is theirs), 0 where they have none
  ...Array.from({ length: RUN_QUANTILES }, (_, index) => `run_${index}` as const), // over exec_us
  // Of the window, of requests that went on from here, or came here: -1 where nothing is known
  ...Array.from({ length: WAY_NUMBERS }, (_, index) => `way_${index}` as const), // by class (WayCounts)
  ...Array.from({ length: PART_QUANTILES }, (_, index) => `parts_${index}` as const),
] as const;
type ModuleColumn = (typeof MODULE_COLUMNS)[number];
export const columnOf = (column: ModuleColumn): number => MODULE_COLUMNS.indexOf(column);

/** As often as PARD's controllers synchronise. */
export const STATE_INTERVAL_US = 1_000_000;
/** Rows are believed for so many intervals. */
const STALE_AFTER = 3;
/** PARD §4.2. */
export const WINDOW_INTERVALS = 5;

const CAME = 0;
const ENDED = 1;
const DONE = 2;
const GIVEN_UP = 3;
const QUEUE_US = 4;
const RUN_US = 5;
const RAN = 6;
const SIZES = 7;
const DELAY_US = 8;
const WORST_US = 9;
const LENGTHS_US = 10;
const SUMS = 11;
const WAIT = columnOf("wait_0");
const LENGTHS = columnOf("lengths_us");
const RUN = columnOf("run_0");
const WAY = columnOf("way_0");
const PART = columnOf("parts_0");

export class ModuleStates {
  readonly board: Board;
  private readonly window: number;
  /** By interval of the window, then module. */
  private readonly sums: Float64Array;
  private readonly waits: BinCounts;
  private readonly runs: BinCounts;
  private readonly parts: BinCounts;
  private readonly ways: WayCounts;
  /** The interval of the window that is counted. */
  private slot = 0;
  private readonly values = new Float64Array(MODULE_COLUMNS.length);
  /** End of the interval that is counted, the first from when a part came; NaN: none has. */
  private endsAt = Number.NaN;
  private intervals = 0;

  private readonly hasBatches: (module: number) => boolean;

  /**
   * @param window intervals that what slides is of. @param ways of each module that branches, by module; 0: it does not.
   * @param hasBatches whether parts wait in the module for a batch.
   */
  constructor(
    modules: number,
    {
      window = WINDOW_INTERVALS,
      ways = [],
      hasBatches = () => true,
    }: { window?: number; ways?: readonly number[]; hasBatches?: (module: number) => boolean } = {},
  ) {
    this.hasBatches = hasBatches;
    this.board = new Board(modules, MODULE_COLUMNS, STALE_AFTER * STATE_INTERVAL_US);
    this.window = window;
    this.sums = new Float64Array(window * modules * SUMS);
    this.waits = new BinCounts(window * modules, WAITS);
    this.runs = new BinCounts(window * modules, TIMES_US);
    this.parts = new BinCounts(window * modules, PARTS);
    this.ways = new WayCounts(ways, window);
  }

  /** A part came to its module. */
  came(module: number, at: number): void {
    if (Number.isNaN(this.endsAt)) this.endsAt = at + STATE_INTERVAL_US;
    this.look(at);
    this.sums[this.placeOf(this.slot, module) * SUMS + CAME]!++;
  }

  /** A request of the class went on by this way. */
  took(module: number, kind: number, way: number): void {
    this.ways.took(this.slot, module, kind, way);
  }

  /** A request made so many parts in a module that fans out. */
  made(module: number, parts: number): void {
    this.parts.add(this.placeOf(this.slot, module), parts);
  }

  /** A part ran in a batch of this size. */
  ran(module: number, size: number, at: number): void {
    this.look(at);
    const first = this.placeOf(this.slot, module) * SUMS;
    this.sums[first + RAN]!++;
    this.sums[first + SIZES]! += size;
  }

  /**
   * A part ended in its module. @param cameAt when it came to its queue. @param execStartAt of its batch; only read where it finished.
   * @param lengthsUs its time alone, by its lengths; 0: it has none.
   */
  ended(module: number, outcome: number, cameAt: number, execStartAt: number, at: number, lengthsUs = 0): void {
    this.look(at);
    const { sums } = this;
    const place = this.placeOf(this.slot, module);
    const first = place * SUMS;
    sums[first + ENDED]!++;
    if (outcome === DROPPED) {
      sums[first + GIVEN_UP]!++;
      sums[first + DELAY_US]! += at - cameAt;
    }
    if (outcome !== FINISHED) return;
    const queueUs = execStartAt - cameAt;
    const runUs = at - execStartAt;
    const waitUs = this.hasBatches(module) ? Math.min(queueUs, runUs) : 0;
    sums[first + DONE]!++;
    sums[first + QUEUE_US]! += queueUs;
    sums[first + RUN_US]! += runUs;
    sums[first + DELAY_US]! += queueUs - waitUs;
    sums[first + LENGTHS_US]! += lengthsUs;
    sums[first + WORST_US] = Math.max(sums[first + WORST_US]!, at - cameAt);
    this.waits.add(place, runUs > 0 ? waitUs / runUs : 0);
    this.runs.add(place, runUs);
  }

  /**
   * Publishes intervals that are over, whatever came when they were asked for: what is counted in one lies before its end. A
   * module in which nothing finished keeps its row.
   * @returns how many intervals are over.
   */
  look(at: number): number {
    // Also while nothing has come.
    if (!(at >= this.endsAt)) return this.intervals;
    for (let module = 0; module < this.board.rows; module++) this.publish(module);
    const over = 1 + Math.floor((at - this.endsAt) / STATE_INTERVAL_US);
    for (let step = 0; step < Math.min(over, this.window); step++) this.advance();
    this.endsAt += over * STATE_INTERVAL_US;
    this.intervals += over;
    return this.intervals;
  }

  private publish(module: number): void {
    const { board, sums, values } = this;
    const first = this.placeOf(this.slot, module) * SUMS;
    const ended = sums[first + ENDED]!;
    const done = sums[first + DONE]!;
    if (done === 0) return;
    values[0] = (1e6 * ended) / STATE_INTERVAL_US;
    values[1] = (1e6 * done) / STATE_INTERVAL_US;
    values[2] = sums[first + GIVEN_UP]! / ended;
    values[3] = sums[first + QUEUE_US]! / done;
    values[4] = sums[first + RUN_US]! / done;
    values[5] = sums[first + SIZES]! / sums[first + RAN]!;
    values[6] = (1e6 * sums[first + CAME]!) / STATE_INTERVAL_US;
    this.slide(module);
    this.ways.tell(module, this.slot, values, WAY);
    board.publish(module, values, this.endsAt);
  }

  /** What is of the whole window. */
  private slide(module: number): void {
    const { sums, values, waits, runs, parts, window } = this;
    let all = 0;
    let givenUp = 0;
    let delayUs = 0;
    let runUs = 0;
    let worstUs = 0;
    let lengthsUs = 0;
    for (const counts of [waits, runs, parts]) counts.begin();
    for (let age = 0; age < window; age++) {
      const place = this.placeOf((this.slot - age + window) % window, module);
      const first = place * SUMS;
      const weight = window - age;
      all += weight * sums[first + DONE]!;
      givenUp += weight * sums[first + GIVEN_UP]!;
      delayUs += weight * sums[first + DELAY_US]!;
      runUs += weight * sums[first + RUN_US]!;
      worstUs = Math.max(worstUs, sums[first + WORST_US]!);
      lengthsUs += weight * sums[first + LENGTHS_US]!;
      for (const counts of [waits, runs, parts]) counts.include(place, weight);
    }
    values[7] = delayUs / (all + givenUp);
    values[8] = runUs / all;
    values[9] = worstUs;
    for (let index = 0; index < WAIT_QUANTILES; index++)
      values[WAIT + index] = waits.quantile(index / (WAIT_QUANTILES - 1));
    values[LENGTHS] = lengthsUs / all;
    for (let index = 0; index < RUN_QUANTILES; index++)
      values[RUN + index] = runs.quantile(index / (RUN_QUANTILES - 1)) / values[8];
    for (let index = 0; index < PART_QUANTILES; index++)
      values[PART + index] = parts.all === 0 ? -1 : parts.quantile((index + 0.5) / PART_QUANTILES);
  }

  /** The next interval is counted in place of the oldest. */
  private advance(): void {
    this.slot = this.slot + 1 === this.window ? 0 : this.slot + 1;
    const { rows } = this.board;
    const first = this.placeOf(this.slot, 0);
    this.sums.fill(0, first * SUMS, (first + rows) * SUMS);
    for (const counts of [this.waits, this.runs, this.parts]) counts.clear(first, first + rows);
    this.ways.clear(this.slot);
  }

  private placeOf(slot: number, module: number): number {
    return slot * this.board.rows + module;
  }
}
