import { DeadlineQueue } from "../../core/deadline-queue.js";
import type { QueueView } from "../../core/policy.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import type { ElasticTimes } from "./elastic-times.js";

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

/** A batch that waits. */
export interface PoolBatch {
  /** Its members, earliest deadline first: the batch's deadline is that of the first (§III-C). */
  readonly members: DeadlineQueue;
  /** s_b: arrival of its first request. */
  firstAt: number;
  /** u_b: utility of its first request. */
  utility: number;
  /** Utility of all members. */
  weight: number;
  /** By way: what its members are expected to earn. */
  readonly earns: Float64Array;
  /** A plan has passed it over: whoever of it is given up was skipped. */
  isSkipped: boolean;
}

/**
 * The waiting requests in batches of like arrival, deadline and utility (OTAS §III-C, Algorithm 1): a request joins the oldest batch that
 * it fits, or begins one. A batch that is not full may still be joined until it leaves.
 */
export class BatchPool {
  /** In the order in which they began. */
  readonly batches: PoolBatch[] = [];
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

  add(request: RequestHandle, at: number): void {
    const { requests } = this.core;
    const dueAt = requests.dueAt[request]!;
    const weight = requests.weight[request]!;
    const { batches } = this;
    const fits =
      batches.length < OPEN_MAX
        ? batches.find((each) => this.takes(each, dueAt, weight, at))
        : batches.findLast(({ members }) => members.length < this.options.sizeMax);
    const batch = fits ?? this.begin(request);
    batch.members.push(request, dueAt);
    this.account(batch, request, 1);
  }

  remove(request: RequestHandle): void {
    const dueAt = this.core.requests.dueAt[request]!;
    const batch = this.batches.find(({ members }) => members.remove(request, dueAt));
    if (batch === undefined) return;
    this.account(batch, request, -1);
    this.endIfEmpty(batch);
  }

  /** The `size` earliest of a batch leave it: to be told before they are out of `members`. */
  leaving(batch: PoolBatch, size: number): void {
    for (let index = 0; index < size; index++) this.account(batch, batch.members.handleAt(index), -1);
  }

  /** It has none left: it is no more. */
  endIfEmpty(batch: PoolBatch): void {
    if (batch.members.length === 0) this.batches.splice(this.batches.indexOf(batch), 1);
  }

  /** Gives all away, and is empty; see Queue.giveAway. */
  giveAway(to: (request: RequestHandle) => void): void {
    for (const { members } of this.batches)
      for (let index = 0; index < members.length; index++) to(members.handleAt(index));
    this.batches.length = 0;
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
    const batch = {
      members: new DeadlineQueue(),
      firstAt: arrivalAt[request]!,
      utility: weight[request]!,
      weight: 0,
      earns: new Float64Array(this.times.count),
      isSkipped: false,
    };
    this.batches.push(batch);
    return batch;
  }

  /** @param sign 1: it joined; -1: it leaves. */
  private account(batch: PoolBatch, request: RequestHandle, sign: number): void {
    const { kind, weight } = this.core.requests;
    const worth = sign * weight[request]!;
    this.count += sign;
    batch.weight += worth;
    for (let way = 0; way < batch.earns.length; way++)
      batch.earns[way]! += worth * this.times.accuracy(way, kind[request]!);
  }
}
