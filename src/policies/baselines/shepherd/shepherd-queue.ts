import { DeadlineQueue } from "../../../core/deadline-queue.js";
import {
  CLOSE_EAGER,
  CLOSE_FULL,
  CLOSE_RETRY,
  DROP_EXPIRED,
  DROP_INFEASIBLE,
  DROP_PREDICTED_LATE,
} from "../../../core/outcome.js";
import type { CoreView, Queue, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import { ABANDONED, type RequestHandle } from "../../../core/tables/request-table.js";
import { linkFront } from "../../link-members.js";
import { Retries } from "../../retries.js";

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
  private readonly pending = new DeadlineQueue();
  /** Handed back to run alone, first in first out. */
  private readonly solo: Retries;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: CoreView;
  private readonly options: ShepherdQueueOptions;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: ShepherdQueueOptions) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.solo = new Retries(core);
    this.options = options;
  }

  get length(): number {
    return this.pending.length + this.solo.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.pending.push(request, this.core.requests.dueAt[request]!);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.solo.push(request);
    else this.pending.push(request, this.core.requests.dueAt[request]!);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.solo.remove(request)) this.pending.remove(request, this.core.requests.dueAt[request]!);
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
    if (solo.length > 0) return this.endOf(1, at, scale) <= solo.dueAt ? 1 : 0;
    const sizeMax = this.sizeMaxOn(accelerator);
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
    const { accelerators, batches } = this.core;
    this.dropHeads(at);
    const scale = accelerators.scale[accelerator]!;
    const isRetry = this.solo.length > 0;
    const sizeMax = this.sizeMaxOn(accelerator);
    const size = isRetry ? this.countAt(accelerator, at) : this.candidate(at, scale, sizeMax);
    if (size === 0) {
      this.refresh(at);
      return -1;
    }
    const first = isRetry ? this.solo.take() : this.takeFor(size, at, scale);
    const startAt = at + this.leadUs(size);
    const execUs = Math.ceil(this.spec.latency.execUs[size]! * scale);
    const close = isRetry ? CLOSE_RETRY : size === this.spec.latency.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
    const batch = batches.add(this.key, first, size, startAt, execUs, close);
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
      if (this.endOf(middle, at, scale) <= deadline) low = middle;
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
      if (deadline < this.endOf(size + 1, at, scale)) break;
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

  /** The earliest `size` that hold a batch of that size, out of the queue; whoever stands before them is dropped. */
  private takeFor(size: number, at: number, scale: number): RequestHandle {
    this.dropBefore(this.endOf(size, at, scale), at);
    return linkFront(this.pending, size, this.core.requests);
  }

  /** Largest batch on this accelerator: one that is on trial gets a single request. */
  private sizeMaxOn(accelerator: AcceleratorId): number {
    return this.core.accelerators.isOnTrial(accelerator) ? 1 : this.spec.latency.sizeMax;
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

  private leadUs(size: number): number {
    const { network } = this.core;
    return network.controlUs + size * network.dataUsPerRequest;
  }

  /** End of a batch that is decided at `at` for an accelerator that is, or is made, free. */
  private endOf(size: number, at: number, scale: number): number {
    return at + this.leadUs(size) + Math.ceil(this.spec.latency.execUs[size]! * scale);
  }

  private publish(at: number): void {
    const { offers, accelerators } = this.core;
    const { key, solo } = this;
    offers.size[key] = this.length === 0 ? 0 : 1;
    if (this.length === 0) {
      this.core.alarm(key, Number.POSITIVE_INFINITY);
      return;
    }
    const lead = this.leadUs(1);
    offers.opensAt[key] = at + lead;
    offers.leadUs[key] = lead;
    offers.latestAt[key] =
      Math.min(this.testedDeadline, solo.dueAt) - Math.ceil(this.spec.latency.execUs[1]! * accelerators.fastestScale);
    offers.rank[key] = offers.latestAt[key]!;
    this.core.alarm(key, offers.latestAt[key]! - lead + 1);
  }

  private dropHeads(at: number): void {
    const endAt = this.endOf(1, at, this.core.accelerators.fastestScale);
    this.solo.dropLate(endAt, at);
    if (this.testedDeadline < endAt) this.dropBefore(endAt, at);
  }

  /** Drops those at the front whose deadline is before `endAt`: when they would end. */
  private dropBefore(endAt: number, at: number): void {
    const { pending, core } = this;
    const count = pending.firstNotBefore(endAt);
    const aloneEndAt = this.endOf(1, at, core.accelerators.fastestScale);
    for (let index = 0; index < count; index++) {
      const deadline = pending.deadlineAt(index);
      const reason = deadline < at ? DROP_EXPIRED : deadline < aloneEndAt ? DROP_INFEASIBLE : DROP_PREDICTED_LATE;
      core.drop(pending.handleAt(index), reason, at, endAt);
    }
    pending.removeFront(count);
  }
}
