import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../../core/outcome.js";
import type { CoreView, Queue, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import { DISPATCHED, type RequestHandle } from "../../../core/tables/request-table.js";
import { BatchTimes } from "../../batch-times.js";
import { dropReason } from "../../drop-reason.js";
import { Retries } from "../../retries.js";
import { ArrivalRing } from "./arrival-ring.js";

export interface ClockworkQueueOptions {
  /** Batches may have these sizes, ascending, from 1 on; null: any. */
  readonly batchSizes: readonly number[] | null;
  /** Larger ones than 1 that the profile has above this are left out, µs. */
  readonly execMaxUs: number;
  /** How far ahead of an accelerator's plan it is given work, µs. */
  readonly scheduleAheadUs: number;
  /** Taken off every deadline, µs; no deadline falls below scheduleAheadUs and this together. */
  readonly marginUs: number;
  /** A batch whose turn comes this much after its planned start, µs, is refused by the accelerator. */
  readonly actionWindowUs: number;
  /** Plans start no sooner than this after the decision, µs. */
  readonly controlDelayUs: number;
}

/**
 * One model's requests under Clockwork's simpler scheduler (INFER5), in order of arrival.
 *
 * There is one queue per batch size and every request is in all of them; here they are one ring with one position per
 * size, before which everybody was found unable to finish in a batch of that size. The model stands in line with the
 * smallest latest start over its sizes: deadline of the first of a size's queue less its time. A size whose queue holds
 * too few is tried and fails; then only smaller ones are. So the largest full size wins, unless another model is more urgent.
 */
export class ClockworkQueue implements Queue {
  private readonly ring = new ArrivalRing();
  /** Handed back to run alone, first in first out. */
  private readonly solo: Retries;
  private readonly times: BatchTimes;
  private readonly sizes: Int32Array;
  /** Per size, how many of the ring its queue is past. */
  private readonly passed: Int32Array;
  /** Sizes from this index on failed in the round of (accelerator, moment). */
  private sizesLeft: number;
  private roundAccelerator = -1;
  private roundAt = -1;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: CoreView;
  private readonly options: ClockworkQueueOptions;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: ClockworkQueueOptions) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.options = options;
    this.solo = new Retries(core, (request) => this.deadlineOf(request));
    this.times = new BatchTimes(key, spec, core);
    const { sizeMax, execUs } = spec.latency;
    const sizes = options.batchSizes ?? Array.from({ length: sizeMax }, (_, index) => index + 1);
    this.sizes = Int32Array.from(
      sizes.filter((size) => size === 1 || (size <= sizeMax && execUs[size]! <= options.execMaxUs)),
    );
    this.passed = new Int32Array(this.sizes.length);
    this.sizesLeft = this.sizes.length;
  }

  get length(): number {
    return this.ring.length + this.solo.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.ring.push(request);
    this.refresh(at);
  }

  /** In order of arrival no longer: those that come back go last, as Clockwork has no such path. */
  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.solo.push(request);
    else this.ring.push(request);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    const index = this.ring.indexOf(request);
    if (index >= 0) {
      this.ring.removeAt(index);
      for (let size = 0; size < this.passed.length; size++)
        if (this.passed[size]! > index) this.passed[size] = this.passed[size]! - 1;
    } else this.solo.remove(request);
    this.refresh(at);
  }

  refresh(at: number): void {
    this.sizesLeft = this.sizes.length;
    this.dropExpired(at);
    this.publish(at);
  }

  planChanged(at: number): void {
    if (this.length > 0) this.refresh(at);
  }

  /** Demand is read by idle dispatch alone, which Clockwork does not have. */
  refreshDemand(_at: number): void {}

  /** Tries the size that stands in line; nothing is taken where its queue holds too few, and smaller sizes stand in line. */
  take(accelerator: AcceleratorId, at: number): BatchId {
    const { accelerators, batches } = this.core;
    const { times } = this;
    if (accelerator !== this.roundAccelerator || at !== this.roundAt) this.sizesLeft = this.sizes.length;
    this.roundAccelerator = accelerator;
    this.roundAt = at;
    this.dropExpired(at);
    const scale = accelerators.scale[accelerator]!;
    const freeAt = times.freeAt(accelerator, at);
    const isRetry = this.solo.length > 0;
    let size = isRetry ? 1 : 0;
    let first = -1;
    if (isRetry) first = this.solo.take();
    else {
      const wanted = this.mostUrgent();
      const full = this.largestFull(accelerator, at, freeAt, scale);
      if (full < wanted || full < 0) this.sizesLeft = full + 1;
      else {
        size = this.sizes[full]!;
        first = this.dequeue(full, at, this.endOf(size, at, freeAt, scale));
      }
    }
    if (size === 0) {
      this.publish(at);
      return -1;
    }
    const close = isRetry ? CLOSE_RETRY : size === this.sizes.at(-1) ? CLOSE_FULL : CLOSE_EAGER;
    // It begins as soon as its inputs are there, where the accelerator is free before its plan.
    const batch = times.add(first, size, accelerator, times.startOf(size, at), close);
    batches.finishAt[batch] = times.endOf(size, at, scale, freeAt);
    batches.latestAt[batch] = this.plannedStart(size, at, freeAt) + this.options.actionWindowUs;
    this.refresh(at);
    return batch;
  }

  /** Deadline that plans keep: the client's less the margin, but never so short that nothing planned ahead could hold it. */
  private deadlineOf(request: RequestHandle): number {
    const { requests } = this.core;
    const { scheduleAheadUs, marginUs } = this.options;
    return Math.max(requests.dueAt[request]! - marginUs, requests.arrivalAt[request]! + scheduleAheadUs + marginUs);
  }

  /** Start of execution that plans assume. */
  private plannedStart(size: number, at: number, freeAt: number): number {
    return Math.max(this.times.startOf(size, at, freeAt), at + this.options.controlDelayUs);
  }

  /** Planned end of a batch. */
  private endOf(size: number, at: number, freeAt: number, scale: number): number {
    return this.plannedStart(size, at, freeAt) + this.times.execUs(size, scale);
  }

  /** The size whose queue is most urgent among those left in this round; its queue is not empty. -1: none. */
  private mostUrgent(): number {
    const { ring, passed, sizes } = this;
    const { execUs } = this.spec.latency;
    let best = -1;
    let least = Number.POSITIVE_INFINITY;
    for (let index = 0; index < this.sizesLeft; index++) {
      if (passed[index]! >= ring.length) continue;
      const priority = this.deadlineOf(ring.at(passed[index]!)) - execUs[sizes[index]!]!;
      if (priority < least) {
        least = priority;
        best = index;
      }
    }
    return best;
  }

  /**
   * Every size's queue moves past those who cannot finish in it on this accelerator: for good, whatever other
   * accelerators could do. @returns the largest size up to which all queues hold enough, -1: none.
   */
  private largestFull(accelerator: AcceleratorId, at: number, freeAt: number, scale: number): number {
    const { ring, passed, sizes } = this;
    for (let index = 0; index < sizes.length; index++) {
      const endAt = this.endOf(sizes[index]!, at, freeAt, scale);
      let position = passed[index]!;
      while (position < ring.length && this.deadlineOf(ring.at(position)) < endAt) position++;
      passed[index] = position;
    }
    // The smallest size passes fewest, unless a larger one is thought faster.
    let least = 0;
    for (let index = 1; index < sizes.length; index++) if (passed[index]! < passed[least]!) least = index;
    this.dropFirst(passed[least]!, at, this.endOf(sizes[least]!, at, freeAt, scale));
    const sizeMax = this.times.sizeMaxOn(accelerator);
    let full = -1;
    for (let index = 0; index < sizes.length; index++) {
      if (sizes[index]! > Math.min(sizeMax, ring.length - passed[index]!)) break;
      full = index;
    }
    return full;
  }

  /** Takes the first of a size's queue. Those before them are past in every queue now, and lost. */
  private dequeue(index: number, at: number, endAt: number): RequestHandle {
    const { ring, sizes } = this;
    const { requests } = this.core;
    this.dropFirst(this.passed[index]!, at, endAt);
    const size = sizes[index]!;
    let following = -1;
    for (let position = size - 1; position >= 0; position--) {
      const handle = ring.at(position);
      requests.state[handle] = DISPATCHED;
      requests.next[handle] = following;
      following = handle;
    }
    this.forgetFirst(size);
    return following;
  }

  /** A request that has not begun by its deadline is answered by a timer. */
  private dropExpired(at: number): void {
    const { ring } = this;
    let expired = 0;
    while (expired < ring.length && this.deadlineOf(ring.at(expired)) < at) expired++;
    const endAt = this.endOf(1, at, at, this.core.accelerators.fastestScale);
    this.dropFirst(expired, at, endAt);
    this.solo.dropLate(endAt, at, at);
  }

  /** @param endAt when they would end now. Whoever was passed on an accelerator that was busier may be in time by it: no estimate decides then. */
  private dropFirst(count: number, at: number, endAt: number): void {
    for (let position = 0; position < count; position++) {
      const request = this.ring.at(position);
      const deadline = this.deadlineOf(request);
      this.core.drop(request, dropReason(deadline, at, at), at, deadline < endAt ? endAt : 0);
    }
    this.forgetFirst(count);
  }

  private forgetFirst(count: number): void {
    if (count === 0) return;
    this.ring.removeFront(count);
    for (let index = 0; index < this.passed.length; index++)
      this.passed[index] = Math.max(0, this.passed[index]! - count);
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key, ring, solo } = this;
    const urgent = solo.length > 0 ? 0 : this.mostUrgent();
    const headDeadline = ring.length > 0 ? this.deadlineOf(ring.at(0)) : Number.POSITIVE_INFINITY;
    const expiresAt = Math.min(solo.dueAt, headDeadline);
    // Who is past in all sizes that there are enough for waits for more, until then.
    this.core.alarm(key, expiresAt + 1);
    offers.size[key] = urgent < 0 ? 0 : this.sizes[urgent]!;
    if (urgent >= 0) {
      const lead = this.times.leadUs(1);
      offers.opensAt[key] = at + lead;
      offers.leadUs[key] = lead;
      offers.latestAt[key] = expiresAt + lead;
      offers.rank[key] =
        solo.length > 0
          ? solo.dueAt - this.spec.latency.execUs[1]!
          : this.deadlineOf(ring.at(this.passed[urgent]!)) - this.spec.latency.execUs[this.sizes[urgent]!]!;
    }
    this.core.offerChanged(key, at);
  }
}
