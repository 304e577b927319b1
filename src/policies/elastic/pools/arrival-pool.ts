import type { QueueView } from "../../../core/policy.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import type { ElasticTimes } from "../elastic-times.js";
import { account, accountAnew, emptyBatch, type PoolBatch, type WaitingPool } from "./waiting-pool.js";

/** Batches beyond which what may share one is not asked any more: requests join the youngest that is not full. Utilities are a client's. */
const OPEN_MAX = 1024;

/** What may share a batch (OTAS Algorithm 1). */
export interface PoolOptions {
  /** delta: a batch is joined only while its first request has waited less, µs. */
  readonly waitUs: number;
  /** epsilon: requests of a batch at most. */
  readonly sizeMax: number;
  /** eta: the deadlines of batch and request differ by so much at most, µs. */
  readonly deadlineUs: number;
  /** mu: the utilities of its first request and of the one that joins differ by so much at most. */
  readonly utility: number;
}

/**
 * The waiting requests in batches of like arrival, deadline and utility (OTAS §III-C, Algorithm 1): a request joins the oldest batch that
 * it fits, or begins one. A batch that is not full may still be joined until it leaves.
 */
export class ArrivalPool implements WaitingPool {
  /** In the order in which they began. */
  readonly lines: PoolBatch[] = [];
  private readonly skipped = new Set<PoolBatch>();
  private count = 0;
  private readonly core: QueueView;
  private readonly times: ElasticTimes;
  private readonly options: PoolOptions;

  constructor(core: QueueView, times: ElasticTimes, options: PoolOptions) {
    this.core = core;
    this.times = times;
    this.options = options;
  }

  /** Requests. */
  get length(): number {
    return this.count;
  }

  grouped(): readonly PoolBatch[] {
    return this.lines;
  }

  passedOver(batch: PoolBatch, isPassed: boolean): void {
    if (isPassed) this.skipped.add(batch);
    else this.skipped.delete(batch);
  }

  wasPassedOver(batch: PoolBatch): boolean {
    return this.skipped.has(batch);
  }

  worthChanged(): void {
    for (const line of this.lines) accountAnew(line, this.core.requests, this.times);
  }

  add(request: RequestHandle, at: number): void {
    const { requests } = this.core;
    const dueAt = requests.dueAt[request]!;
    const weight = requests.weight[request]!;
    const { lines } = this;
    const fits =
      lines.length < OPEN_MAX
        ? lines.find((each) => this.takes(each, dueAt, weight, at))
        : lines.findLast(({ members }) => members.length < this.options.sizeMax);
    const batch = fits ?? this.begin(request);
    batch.members.push(request, dueAt);
    this.account(batch, request, 1);
  }

  remove(request: RequestHandle): void {
    const dueAt = this.core.requests.dueAt[request]!;
    const batch = this.lines.find(({ members }) => members.remove(request, dueAt));
    if (batch === undefined) return;
    this.account(batch, request, -1);
    this.endIfEmpty(batch);
  }

  leaving(batch: PoolBatch, size: number): void {
    for (let index = 0; index < size; index++) this.account(batch, batch.members.handleAt(index), -1);
  }

  endIfEmpty(batch: PoolBatch): void {
    if (batch.members.length > 0) return;
    this.lines.splice(this.lines.indexOf(batch), 1);
    this.skipped.delete(batch);
  }

  giveAway(to: (request: RequestHandle) => void): void {
    for (const { members } of this.lines)
      for (let index = 0; index < members.length; index++) to(members.handleAt(index));
    this.lines.length = 0;
    this.skipped.clear();
    this.count = 0;
  }

  private takes({ members, firstAt, utility }: PoolBatch, dueAt: number, weight: number, at: number): boolean {
    const { waitUs, sizeMax, deadlineUs, utility: utilityMax } = this.options;
    return (
      at - firstAt < waitUs &&
      members.length < sizeMax &&
      Math.abs(dueAt - members.deadlineAt(0)) <= deadlineUs &&
      Math.abs(weight - utility) <= utilityMax
    );
  }

  private begin(request: RequestHandle): PoolBatch {
    const { arrivalAt, weight } = this.core.requests;
    const batch = emptyBatch(this.times.count);
    batch.firstAt = arrivalAt[request]!;
    batch.utility = weight[request]!;
    this.lines.push(batch);
    return batch;
  }

  private account(batch: PoolBatch, request: RequestHandle, sign: number): void {
    this.count += sign;
    account(batch, request, sign, this.core.requests, this.times);
  }
}
