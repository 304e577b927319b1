import { DeadlineQueue } from "../../../core/deadline-queue.js";
import type { RequestHandle, RequestTable } from "../../../core/tables/request-table.js";
import type { ElasticTimes } from "../elastic-times.js";

/** Requests that would run together. */
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
}

/** For which accelerator, and when, requests are put together. */
export interface Start {
  /** When a batch of one could start, µs. */
  readonly startAt: number;
  /** That each further member adds before the start, µs. */
  readonly dataUs: number;
  /** Of the accelerator. */
  readonly scale: number;
}

/** The waiting requests of an elastic queue, and who of them goes together. */
export interface WaitingPool {
  /** Requests. */
  readonly length: number;
  /** As they wait: all of them, each once, in batches that may be larger than what can run. */
  readonly lines: readonly PoolBatch[];
  /** Who would run together from now on. Until the next call that changes who waits. */
  grouped(start: Start): readonly PoolBatch[];
  /** What answers are worth has changed: all that wait are reckoned anew. */
  worthChanged(): void;
  add(request: RequestHandle, at: number): void;
  remove(request: RequestHandle): void;
  /** The `size` earliest of a batch leave it: to be told before they are out of `members`. */
  leaving(batch: PoolBatch, size: number): void;
  /** It may have none left. */
  endIfEmpty(batch: PoolBatch): void;
  /** A plan has passed it over, or means to run it after all. */
  passedOver(batch: PoolBatch, isPassed: boolean): void;
  /** The first of a batch was passed over by the last plan that knew of it: whoever is given up then was skipped. */
  wasPassedOver(batch: PoolBatch): boolean;
  /** Gives all away, and is empty; see Queue.giveAway. */
  giveAway(to: (request: RequestHandle) => void): void;
}

export const emptyBatch = (ways: number): PoolBatch => ({
  members: new DeadlineQueue(),
  firstAt: 0,
  utility: 0,
  weight: 0,
  earns: new Float64Array(ways),
});

/** What a batch is worth changes. @param sign 1: the request joined it; -1: it leaves. */
export function account(
  batch: PoolBatch,
  request: RequestHandle,
  sign: number,
  { kind, weight }: RequestTable,
  times: ElasticTimes,
): void {
  const { earns } = batch;
  const worth = sign * weight[request]!;
  batch.weight += worth;
  const accuracies = times.accuracies(kind[request]!);
  for (let way = 0; way < earns.length; way++) earns[way]! += worth * accuracies[way]!;
}

/** The same for all its members. */
export function accountAnew(batch: PoolBatch, requests: RequestTable, times: ElasticTimes): void {
  const { members, earns } = batch;
  earns.fill(0);
  batch.weight = 0;
  for (let index = 0; index < members.length; index++) account(batch, members.handleAt(index), 1, requests, times);
}
