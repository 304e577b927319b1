import type { DeadlineQueue } from "../../../core/deadline-queue.js";
import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../../core/outcome.js";
import type { CoreView, Queue, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import { ABANDONED, type RequestHandle } from "../../../core/tables/request-table.js";
import { BatchTimes } from "../../batch-times.js";
import type { Retries } from "../../retries.js";
import { WaitingRequests } from "../../waiting-requests.js";

export interface ShepherdQueueOptions {
  /**
   * From where the size of a candidate is found. earliest: as many as the earliest deadline allows. latest: as many as
   * the latest deadlines allow, filled from the earliest that hold with that size; whoever is passed over is dropped.
   */
  readonly sizeFrom: "earliest" | "latest";
  /**
   * Who is asked whether it can still finish alone. head: the earliest, who is dropped when it cannot. newest: the latest, as
   * published: while it can, nobody is dropped, and a head that cannot lets no candidate form.
   */
  readonly drop: "head" | "newest";
}

/**
 * One model's requests under Shepherd Flex: earliest deadline first; its candidate for an accelerator is the largest
 * batch that would hold the deadlines from now, the members of its own batch that runs there counted as if they waited.
 *
 * Who cannot finish even alone on the fastest accelerator is dropped. The re-implementation that Symphony compares with asks
 * the newest request instead of the head, and jams when a head expires: `drop` has both.
 */
export class ShepherdQueue implements Queue {
  private readonly waiting: WaitingRequests;
  /** Of `waiting`: who waits in line, and who came back to run alone. */
  private readonly pending: DeadlineQueue;
  private readonly solo: Retries;
  private readonly times: BatchTimes;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: CoreView;
  private readonly options: ShepherdQueueOptions;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: ShepherdQueueOptions) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.waiting = new WaitingRequests(core);
    this.pending = this.waiting.pending;
    this.solo = this.waiting.retries;
    this.times = new BatchTimes(key, spec, core);
    this.options = options;
  }

  get length(): number {
    return this.waiting.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.waiting.push(request);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.waiting.takeBack(request, alone);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    this.waiting.remove(request);
    // Nobody arrived: the arbiter need not look, unless nothing is left to look at.
    this.publish(at);
    if (this.length === 0) this.core.offerChanged(this.key, at);
  }

  refresh(at: number): void {
    this.dropHeads(at);
    this.publish(at);
    this.core.offerChanged(this.key, at);
  }

  planChanged(at: number): void {
    if (this.length > 0) this.refresh(at);
  }

  /** Demand is read by idle dispatch alone, which Shepherd does not have. */
  refreshDemand(_at: number): void {}

  countAt(accelerator: AcceleratorId, at: number): number {
    const { accelerators, batches, requests } = this.core;
    const { solo } = this;
    const scale = accelerators.scale[accelerator]!;
    if (solo.length > 0) return this.times.endOf(1, at, scale) <= solo.dueAt ? 1 : 0;
    const sizeMax = this.times.sizeMaxOn(accelerator);
    const running = accelerators.running[accelerator]!;
    if (running < 0 || batches.queue[running] !== this.key) return this.candidate(at, scale, sizeMax);
    if (this.options.sizeFrom === "latest") return this.largestWith(this.deadlinesOf(running), at, scale, sizeMax);
    let earliest = this.headDeadline;
    let count = this.pending.length;
    for (let member = batches.first[running]!; member >= 0; member = requests.next[member]!) {
      if (requests.state[member] === ABANDONED) continue;
      if (requests.dueAt[member]! < earliest) earliest = requests.dueAt[member]!;
      count++;
    }
    return this.largest(earliest, at, scale, Math.min(sizeMax, count));
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { times } = this;
    this.dropHeads(at);
    const scale = this.core.accelerators.scale[accelerator]!;
    const isRetry = this.solo.length > 0;
    const size = isRetry ? this.countAt(accelerator, at) : this.candidate(at, scale, times.sizeMaxOn(accelerator));
    if (size === 0) {
      this.refresh(at);
      return -1;
    }
    // Whoever stands before those that hold a batch of this size.
    if (!isRetry) this.dropBefore(times.endOf(size, at, scale), at);
    const close = isRetry ? CLOSE_RETRY : size === this.spec.latency.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
    const batch = times.add(this.waiting.take(size), size, accelerator, times.startOf(size, at), close);
    this.refresh(at);
    return batch;
  }

  /** Size of the batch that those who wait would form, without anyone who runs. */
  private candidate(at: number, scale: number, sizeMax: number): number {
    const { pending } = this;
    const most = Math.min(sizeMax, pending.length);
    if (this.options.sizeFrom === "earliest") return this.largest(this.headDeadline, at, scale, most);
    return this.largestWith([], at, scale, sizeMax);
  }

  /** Largest size in [0, most] that ends by `deadline`. */
  private largest(deadline: number, at: number, scale: number, most: number): number {
    let low = 0;
    let high = most;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times.endOf(middle, at, scale) <= deadline) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Largest k of which the k latest deadlines, over those who wait and `others` (ascending), hold a batch of k. */
  private largestWith(others: readonly number[], at: number, scale: number, sizeMax: number): number {
    const { pending } = this;
    let size = 0;
    let waiting = pending.length;
    let other = others.length;
    while (size < sizeMax && waiting + other > 0) {
      const isOther = other > 0 && (waiting === 0 || others[other - 1]! > pending.deadlineAt(waiting - 1));
      const deadline = isOther ? others[other - 1]! : pending.deadlineAt(waiting - 1);
      if (deadline < this.times.endOf(size + 1, at, scale)) break;
      if (isOther) other--;
      else waiting--;
      size++;
    }
    return size;
  }

  /** Deadlines of a batch's members, those that clients cancelled left out, ascending. */
  private deadlinesOf(batch: BatchId): number[] {
    const { batches, requests } = this.core;
    const deadlines: number[] = [];
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      if (requests.state[member] !== ABANDONED) deadlines.push(requests.dueAt[member]!);
    return deadlines.sort((a, b) => a - b);
  }

  /** Earliest deadline of those who wait in line; Infinity when none does. */
  private get headDeadline(): number {
    return this.pending.length === 0 ? Number.POSITIVE_INFINITY : this.pending.deadlineAt(0);
  }

  /** Deadline of who is asked whether it can still finish; Infinity when nobody waits in line. */
  private get testedDeadline(): number {
    if (this.options.drop === "head" || this.pending.length === 0) return this.headDeadline;
    return this.pending.deadlineAt(this.pending.length - 1);
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key, solo, times } = this;
    offers.size[key] = this.length === 0 ? 0 : 1;
    if (this.length === 0) {
      this.core.alarm(key, Number.POSITIVE_INFINITY);
      return;
    }
    const lead = times.leadUs(1);
    offers.opensAt[key] = at + lead;
    offers.leadUs[key] = lead;
    offers.latestAt[key] = Math.min(this.testedDeadline, solo.dueAt) - times.execUs(1);
    offers.rank[key] = offers.latestAt[key]!;
    this.core.alarm(key, offers.latestAt[key]! - lead + 1);
  }

  private dropHeads(at: number): void {
    const endAt = this.times.endOf(1, at);
    this.solo.dropLate(endAt, at);
    if (this.testedDeadline < endAt) this.dropBefore(endAt, at);
  }

  /** Drops those at the front whose deadline is before `endAt`: when they would end. */
  private dropBefore(endAt: number, at: number): void {
    this.waiting.dropFront(this.pending.firstNotBefore(endAt), at, this.times.endOf(1, at), endAt);
  }
}
