import type { QueueView } from "../../../core/policy.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import type { TimeDemand } from "../allocation/time-demand.js";
import type { ElasticTimes } from "../elastic-times.js";
import { account, accountAnew, emptyBatch, type PoolBatch, type Start, type WaitingPool } from "./waiting-pool.js";

export interface WantedPoolOptions {
  /** Requests of a batch at most. */
  readonly sizeMax: number;
  /** Batches that are formed at most, those of the earliest deadlines. */
  readonly batchesMax: number;
  /** By way: requests of a batch at most, by memory. */
  readonly sizes: Int32Array;
  /** The price at which requests want what they want: at which they would buy this part of the time that they ask for at none. */
  readonly share: number;
}

/**
 * All waiting requests in one line, grouped afresh whenever an accelerator is free (past the paper).
 *
 * Algorithm 1 puts a request into a batch when it arrives, by utilities that differ by at most mu = 0.8, and what earns 0.01 takes the
 * gamma and the time of what earns 1. Here a request goes, in deadline order, to those that would want the same gamma at some price
 * of time. At price 0 all want the same, and batches are large; the higher the price the more those apart whose utilities are.
 */
export class WantedPool implements WaitingPool {
  readonly lines: readonly PoolBatch[];
  private readonly line: PoolBatch;
  /** Of the last grouping; behind them, those of earlier ones, to be used again. */
  private readonly batches: PoolBatch[] = [];
  private readonly groups: PoolBatch[] = [];
  /** Requests that a plan passed over. */
  private readonly skipped = new Set<RequestHandle>();
  /** By wanted way, the last for none: the batch that takes more of those; null: none. */
  private readonly open: (PoolBatch | null)[];
  /** By kind: what the last of it wanted. */
  private readonly wishes: { weight: number; price: number; way: number }[] = [];
  /** By way: time of one more request in a full batch, its share of all, µs. */
  private readonly costUs: Float64Array;
  /** By size: time of a batch by the way that takes least, µs; as of this version of the times. */
  private readonly leastUs: Float64Array;
  private version = -1;
  private readonly core: QueueView;
  private readonly times: ElasticTimes;
  private readonly demand: TimeDemand;
  private readonly options: WantedPoolOptions;

  /** @param demand told of who arrives. */
  constructor(core: QueueView, times: ElasticTimes, demand: TimeDemand, options: WantedPoolOptions) {
    this.core = core;
    this.times = times;
    this.demand = demand;
    this.options = options;
    this.line = emptyBatch(times.count);
    this.lines = [this.line];
    this.open = Array.from({ length: times.count + 1 }, () => null);
    this.costUs = new Float64Array(times.count);
    this.leastUs = new Float64Array(options.sizeMax + 1);
  }

  get length(): number {
    return this.line.members.length;
  }

  worthChanged(): void {
    accountAnew(this.line, this.core.requests, this.times);
  }

  add(request: RequestHandle): void {
    this.line.members.push(request, this.core.requests.dueAt[request]!);
    this.account(this.line, request, 1);
  }

  remove(request: RequestHandle): void {
    if (!this.line.members.remove(request, this.core.requests.dueAt[request]!)) return;
    this.account(this.line, request, -1);
    this.skipped.delete(request);
  }

  leaving(batch: PoolBatch, size: number): void {
    const { line, skipped } = this;
    for (let index = 0; index < size; index++) {
      const request = batch.members.handleAt(index);
      skipped.delete(request);
      this.account(line, request, -1);
      if (batch === line) continue;
      this.account(batch, request, -1);
      line.members.remove(request, batch.members.deadlineAt(index));
    }
  }

  endIfEmpty(): void {}

  passedOver({ members }: PoolBatch, isPassed: boolean): void {
    for (let index = 0; index < members.length; index++)
      if (isPassed) this.skipped.add(members.handleAt(index));
      else this.skipped.delete(members.handleAt(index));
  }

  wasPassedOver({ members }: PoolBatch): boolean {
    return this.skipped.has(members.handleAt(0));
  }

  giveAway(to: (request: RequestHandle) => void): void {
    const { members } = this.line;
    for (let index = 0; index < members.length; index++) to(members.handleAt(index));
    this.leaving(this.line, members.length);
    members.removeFront(members.length);
  }

  /** In deadline order every request joins those that want the same; who cannot be in time alone is in no group. */
  grouped(start: Start): readonly PoolBatch[] {
    const { open, groups, line, times, core } = this;
    const { kind, weight } = core.requests;
    this.readTimes();
    // Of the profile's time; a wish compares times with each other, so drift changes it as much as the price.
    const price = this.demand.priceOfShare(this.options.share) / times.drift;
    open.fill(null);
    groups.length = 0;
    const { members } = line;
    for (let index = 0; index < members.length; index++) {
      const request = members.handleAt(index);
      const dueAt = members.deadlineAt(index);
      const wanted = this.wantedWay(kind[request]!, weight[request]!, price);
      if (!this.takesOneMore(open[wanted]!, start)) open[wanted] = this.begin(dueAt, start);
      const batch = open[wanted]!;
      if (batch === null) continue;
      batch.members.push(request, dueAt);
      this.account(batch, request, 1);
    }
    return groups;
  }

  /** They may have been learnt anew. */
  private readTimes(): void {
    const { times, options, leastUs, costUs } = this;
    if (this.version === times.version) return;
    this.version = times.version;
    this.wishes.length = 0;
    const { sizeMax, sizes } = options;
    leastUs.fill(Number.POSITIVE_INFINITY);
    for (let way = 0; way < times.count; way++) {
      const most = Math.min(sizeMax, sizes[way]!);
      costUs[way] = most === 0 ? Number.POSITIVE_INFINITY : times.timeUs(way, most) / most;
      for (let size = 1; size <= most; size++) leastUs[size] = Math.min(leastUs[size]!, times.timeUs(way, size));
    }
  }

  /** The earliest decides how many can be in time. */
  private takesOneMore(batch: PoolBatch | null, start: Start): boolean {
    if (batch === null) return false;
    const size = batch.members.length + 1;
    return size <= this.options.sizeMax && this.endAt(size, start) <= batch.members.deadlineAt(0);
  }

  /** @returns null for who cannot be in time alone, and where there are enough batches. */
  private begin(dueAt: number, start: Start): PoolBatch | null {
    const { groups, batches, options } = this;
    if (groups.length === options.batchesMax || this.endAt(1, start) > dueAt) return null;
    const batch = batches[groups.length] ?? emptyBatch(this.times.count);
    batches[groups.length] = batch;
    batch.members.removeFront(batch.members.length);
    batch.earns.fill(0);
    batch.weight = 0;
    groups.push(batch);
    return batch;
  }

  private endAt(size: number, { startAt, dataUs, scale }: Start): number {
    return startAt + (size - 1) * dataUs + Math.ceil(this.leastUs[size]! * scale);
  }

  /** @returns the number of ways if it is not worth its time by any. */
  private wantedWay(kind: number, weight: number, price: number): number {
    const { times, costUs, wishes } = this;
    // Requests of a kind are mostly worth the same.
    const wish = wishes[kind];
    if (wish !== undefined && wish.weight === weight && wish.price === price) return wish.way;
    const accuracies = times.accuracies(kind);
    let wanted = times.count;
    let most = 0;
    for (let way = 0; way < times.count; way++) {
      const worth = weight * accuracies[way]! - price * costUs[way]!;
      if (!(worth > most)) continue;
      most = worth;
      wanted = way;
    }
    wishes[kind] = { weight, price, way: wanted };
    return wanted;
  }

  private account(batch: PoolBatch, request: RequestHandle, sign: number): void {
    account(batch, request, sign, this.core.requests, this.times);
  }
}
