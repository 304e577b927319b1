/** A SharedLoad at either end of the records between queue threads and the rank; see core/shared-numbers. */
import type { QueueKey } from "../../core/policy.js";
import type { QueueShare, RankShare } from "../../core/shared-numbers.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import { LOOKED_AT } from "./queue-plus.js";
import { COLUMNS, type SharedLoad } from "./shared-load.js";

/** Behind the columns of what a queue says. */
const SLOWEST = COLUMNS;
const ASKS = COLUMNS + 1;
/** Values of ASKS. */
const LOOKS_AHEAD = 1;
/** Behind the sums of what others say. */
const BAD = COLUMNS;
const OTHERS = COLUMNS + 1;

/** Of the queues of one thread: what they say themselves is there at once, the rest as last told. */
export class QueueLoadShare implements QueueShare {
  private readonly load: SharedLoad;
  private readonly said = new Set<QueueKey>();
  private badOfOthers = 0;
  private readonly freeAt = { times: new Float64Array(LOOKED_AT), count: -1 };
  /** Times read of the grant that comes next. */
  private coming = 0;

  constructor(load: SharedLoad) {
    this.load = load;
    load.toldFreeAt = this.freeAt;
    load.onSay = (key) => this.said.add(key);
  }

  get earlyUs(): number {
    return this.load.earlyUs;
  }

  get bad(): number {
    return this.load.bad - this.badOfOthers;
  }

  nextSaid(): QueueKey {
    for (const key of this.said) {
      this.said.delete(key);
      return key;
    }
    return -1;
  }

  writeSaid(key: QueueKey, cells: Float64Array, from: number): void {
    const { load } = this;
    for (let column = 0; column < COLUMNS; column++) cells[from + column] = load.saidOf(key, column);
    cells[from + SLOWEST] = load.slowestUsed;
    cells[from + ASKS] = load.looksAhead ? LOOKS_AHEAD : 0;
  }

  readGrant(cells: Float64Array, from: number): void {
    const { load } = this;
    load.early = cells[from]!;
    load.earlyUs = cells[from + 1]!;
    load.batchUs = cells[from + 2]!;
    this.freeAt.count = cells[from + 3]!;
    this.coming = 0;
  }

  readOthers(cells: Float64Array, from: number): void {
    const { load } = this;
    load.othersSay(cells, from);
    load.bad += cells[from + BAD]! - this.badOfOthers;
    this.badOfOthers = cells[from + BAD]!;
  }

  readFreeAt(freeAt: number): void {
    this.freeAt.times[this.coming++] = freeAt;
  }

  fleetChanged(): void {
    this.load.recount();
  }
}

/** Of the arbiter: what all queues said, and by thread, so that each is told of the others'. */
export class RankLoadShare implements RankShare {
  private readonly load: SharedLoad;
  /** By thread: sums of what its queues say, and what they gave up; as it was told of the others. */
  private readonly sums: Float64Array[] = [];
  private readonly told: Float64Array[] = [];
  /** Counts changes of sums; by thread: those that `news` was looked for after. */
  private changes = 0;
  private readonly seen: number[] = [];
  private readonly news = new Float64Array(OTHERS);
  private readonly takesPart = new Set<QueueKey>();
  private readonly freeAt = new Float64Array(LOOKED_AT);

  constructor(load: SharedLoad) {
    this.load = load;
  }

  get isAskedFor(): boolean {
    return this.load.isAskedFor;
  }

  threadStarted(thread: number): void {
    this.load.bad -= this.sumsOf(thread)[BAD]!;
    this.sumsOf(thread).fill(0);
    this.changes++;
    this.told[thread] = new Float64Array(OTHERS);
  }

  readSaid(thread: number, key: QueueKey, cells: Float64Array, from: number): void {
    const { load } = this;
    this.takesPart.add(key);
    this.hear(thread, key, cells, from);
    load.mayTake(1, cells[from + SLOWEST]!);
    load.isAskedFor = true;
    if (cells[from + ASKS] === LOOKS_AHEAD) load.looksAhead = true;
  }

  gaveUp(thread: number, bad: number): void {
    const sums = this.sumsOf(thread);
    const more = bad - sums[BAD]!;
    if (more <= 0) return;
    sums[BAD] = bad;
    this.changes++;
    this.load.bad += more;
  }

  queueRemoved(thread: number, key: QueueKey): void {
    if (this.takesPart.delete(key)) this.hear(thread, key, new Float64Array(COLUMNS), 0);
  }

  batchSent(key: QueueKey, execUs: number): void {
    if (this.takesPart.has(key)) this.load.batchSent(execUs);
  }

  writeGrant(freeTimes: number, cells: Float64Array, from: number): void {
    const { load } = this;
    cells[from] = load.early;
    cells[from + 1] = load.earlyUs;
    cells[from + 2] = load.batchUs;
    cells[from + 3] = freeTimes;
  }

  isNews(thread: number): boolean {
    const { news, sums } = this;
    if (this.seen[thread] === this.changes) return false;
    this.seen[thread] = this.changes;
    const told = this.told[thread]!;
    news.fill(0);
    // Not all less its own: nothing must be left over where there are no others.
    for (let other = 0; other < sums.length; other++)
      if (other !== thread) for (let sum = 0; sum < OTHERS; sum++) news[sum] = news[sum]! + this.sumsOf(other)[sum]!;
    return news.some((sum, at) => sum !== told[at]);
  }

  writeOthers(thread: number, cells: Float64Array, from: number): void {
    cells.set(this.news, from);
    this.told[thread]!.set(this.news);
  }

  othersFreeAt(key: QueueKey, granted: AcceleratorId, at: number): Float64Array | null {
    const { load, freeAt } = this;
    if (!load.looksAhead || load.accelerators.count > LOOKED_AT || !load.isAlone(key)) return null;
    return freeAt.subarray(0, load.othersFreeAt(granted, at, freeAt));
  }

  private hear(thread: number, key: QueueKey, cells: Float64Array, from: number): void {
    const sums = this.sumsOf(thread);
    this.changes++;
    for (let column = 0; column < COLUMNS; column++)
      sums[column] = sums[column]! + cells[from + column]! - this.load.saidOf(key, column);
    this.load.hear(key, cells, from);
  }

  private sumsOf(thread: number): Float64Array {
    while (this.sums.length <= thread) this.sums.push(new Float64Array(OTHERS));
    return this.sums[thread]!;
  }
}
