import { DeadlineQueue } from "../../../core/deadline-queue.js";
import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../../core/outcome.js";
import {
  ANY_ACCELERATOR,
  type CoreView,
  NO_ACCELERATOR,
  type Queue,
  type QueueKey,
  type QueueSpec,
} from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { BatchTimes } from "../../batch-times.js";
import { dropReason } from "../../drop-reason.js";
import { linkFront } from "../../link-members.js";
import { Retries } from "../../retries.js";
import { HELD, NexusFrontends } from "./nexus-frontends.js";
import type { NexusPlanner } from "./nexus-planner.js";

export interface NexusQueueOptions {
  /** Frontends that spread the requests, each without knowing of the others. */
  readonly frontends: number;
  /** window: heads that cannot finish in a batch of the planned size are dropped; earliest: heads that cannot finish alone. */
  readonly drop: "window" | "earliest";
  /** Batches are taken to last this many times as long as the profile has it, as in plans. */
  readonly profileMultiplier: number;
}

/** Requests of a model that were sent to one accelerator. */
interface Backlog {
  readonly pending: DeadlineQueue;
  /** When the input of the request sent last is there. */
  dataAt: number;
}

/**
 * One model's requests under Nexus: a frontend sends each to an accelerator when it arrives, by the shares of the plan,
 * and there it waits, earliest deadline first. The accelerator takes up to the planned batch when the model's turn comes.
 *
 * Inputs travel when the request arrives, so control and data delay a request once and not each batch.
 */
export class NexusQueue implements Queue {
  private readonly backlogs: (Backlog | undefined)[] = [];
  /** Accelerator of each request, by handle; HELD: none is there to send it to. */
  private home = new Int32Array(64);
  /** Requests for which there is no accelerator. */
  private readonly held = new DeadlineQueue();
  /** Handed back to run alone, wherever there is room first. */
  private readonly solo: Retries;
  private readonly times: BatchTimes;
  private readonly frontends: NexusFrontends;
  private count = 0;
  private planVersion = -1;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: CoreView;
  private readonly planner: NexusPlanner;
  private readonly drops: NexusQueueOptions["drop"];
  private readonly multiplier: number;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, planner: NexusPlanner, options: NexusQueueOptions) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.solo = new Retries(core);
    this.times = new BatchTimes(key, spec, core);
    this.planner = planner;
    this.drops = options.drop;
    this.multiplier = options.profileMultiplier;
    this.frontends = new NexusFrontends(options.frontends);
    planner.add(key, spec);
  }

  get length(): number {
    return this.count + this.solo.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.planner.arriving(this.key, at);
    this.followPlan(at);
    const id = this.send(request, at);
    this.publish(at, id);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.solo.push(request);
    else this.send(request, at);
    this.lookAfresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.solo.remove(request)) {
      const id = this.home[request]!;
      const pending = id === HELD ? this.held : this.backlogs[id]!.pending;
      if (pending.remove(request, this.core.requests.dueAt[request]!)) this.count--;
    }
    this.publish(at, NO_ACCELERATOR);
  }

  /** Time has passed: only a new plan gives idle accelerators something to look at. */
  refresh(at: number): void {
    const isMoved = this.followPlan(at);
    this.dropHeads(at);
    this.publish(at, isMoved ? ANY_ACCELERATOR : NO_ACCELERATOR);
  }

  planChanged(at: number): void {
    this.planner.acceleratorsChanged(at);
    if (this.length > 0) this.lookAfresh(at);
  }

  private lookAfresh(at: number): void {
    this.followPlan(at);
    this.dropHeads(at);
    this.publish(at, ANY_ACCELERATOR);
  }

  /** Demand is read by idle dispatch alone, which Nexus does not have. */
  refreshDemand(_at: number): void {}

  countAt(accelerator: AcceleratorId, at: number): number {
    if (this.canRetry(accelerator, at)) return 1;
    const backlog = this.backlogs[accelerator];
    if (backlog === undefined) return 0;
    const { pending } = backlog;
    return this.sizeAfter(this.cut(backlog, accelerator, at), pending, accelerator, at);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { times } = this;
    this.dropHeads(at);
    const isRetry = this.canRetry(accelerator, at);
    const backlog = this.backlogs[accelerator];
    let size = isRetry ? 1 : 0;
    let first = -1;
    let startAt = times.startOf(1, at);
    if (isRetry) first = this.solo.take();
    else if (backlog !== undefined) {
      const cut = this.cut(backlog, accelerator, at);
      this.dropFront(backlog.pending, cut, at, accelerator, this.cutSize(accelerator), backlog.dataAt);
      size = this.sizeAfter(0, backlog.pending, accelerator, at);
      startAt = Math.max(at, backlog.dataAt);
      if (size > 0) {
        first = linkFront(backlog.pending, size, this.core.requests);
        this.count -= size;
      }
    }
    if (size === 0) {
      this.publish(at, NO_ACCELERATOR);
      return -1;
    }
    const close = isRetry ? CLOSE_RETRY : size === this.spec.latency.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
    const batch = times.add(first, size, accelerator, startAt, close);
    this.publish(at, NO_ACCELERATOR);
    return batch;
  }

  /** Whether the first of those to run alone would end in time; its input travels again. */
  private canRetry(id: AcceleratorId, at: number): boolean {
    return this.solo.length > 0 && this.times.startOf(1, at) + this.execUs(1, this.scaleOf(id)) <= this.solo.dueAt;
  }

  /** @returns the accelerator that the request was sent to, ANY_ACCELERATOR when there is none. */
  private send(request: RequestHandle, at: number): AcceleratorId {
    const id = this.frontends.next();
    this.reach(request);
    this.home[request] = id;
    this.count++;
    const deadline = this.core.requests.dueAt[request]!;
    if (id === HELD) {
      this.held.push(request, deadline);
      return ANY_ACCELERATOR;
    }
    let backlog = this.backlogs[id];
    if (backlog === undefined) {
      backlog = { pending: new DeadlineQueue(), dataAt: 0 };
      this.backlogs[id] = backlog;
    }
    backlog.pending.push(request, deadline);
    backlog.dataAt = this.times.startOf(1, at, backlog.dataAt);
    return id;
  }

  /** A new plan: who waits where the model is served no longer is sent again. @returns whether there was one. */
  private followPlan(at: number): boolean {
    const { planner, key } = this;
    if (this.planVersion === planner.version) return false;
    this.planVersion = planner.version;
    const ids: AcceleratorId[] = [];
    const weights: number[] = [];
    for (let id = 0; id < this.core.accelerators.capacity; id++) {
      if (planner.batchOn(key, id) === 0) continue;
      ids.push(id);
      weights.push(planner.weightOn(key, id));
    }
    this.frontends.follow(ids, weights);
    const moved: RequestHandle[] = [];
    this.backlogs.forEach((backlog, id) => {
      if (backlog !== undefined && planner.batchOn(key, id) === 0) this.empty(backlog.pending, moved);
    });
    this.empty(this.held, moved);
    for (const request of moved) this.send(request, at);
    return true;
  }

  private empty(pending: DeadlineQueue, into: RequestHandle[]): void {
    for (let index = 0; index < pending.length; index++) into.push(pending.handleAt(index));
    this.count -= pending.length;
    pending.removeFront(pending.length);
  }

  /**
   * How many heads the rule gives up. window: with b = the planned batch or whatever is left, whoever could not finish
   * in a batch of b; the fewer are left the easier it gets. earliest: whoever could not finish alone.
   */
  private cut(backlog: Backlog, id: AcceleratorId, at: number): number {
    const { pending } = backlog;
    const planned = this.cutSize(id);
    let cut = 0;
    while (
      cut < pending.length &&
      pending.deadlineAt(cut) < this.endOf(Math.min(planned, pending.length - cut), at, backlog.dataAt, id)
    )
      cut++;
    return cut;
  }

  /** Size of the batch in which a head must be able to finish, where so many are left. */
  private cutSize(id: AcceleratorId): number {
    return this.drops === "window" ? this.plannedOn(id) : 1;
  }

  /** Batch that follows when `cut` heads are gone. */
  private sizeAfter(cut: number, pending: DeadlineQueue, id: AcceleratorId, at: number): number {
    const most = Math.min(this.plannedOn(id), pending.length - cut);
    if (this.drops === "window" || most === 0) return most;
    const deadline = pending.deadlineAt(cut);
    const { dataAt } = this.backlogs[id]!;
    let size = most;
    while (size > 0 && this.endOf(size, at, dataAt, id) > deadline) size--;
    return size;
  }

  private plannedOn(id: AcceleratorId): number {
    // An accelerator that the plan has left finishes nothing more of this model; it holds none of its requests either.
    return Math.min(this.times.sizeMaxOn(id), Math.max(1, this.planner.batchOn(this.key, id)));
  }

  /** End of a batch that this accelerator takes at `at`, its inputs there at `dataAt`. */
  private endOf(size: number, at: number, dataAt: number, id: AcceleratorId): number {
    return Math.max(at, dataAt) + this.execUs(size, this.scaleOf(id));
  }

  private execUs(size: number, scale?: number): number {
    return Math.ceil(this.times.execUs(size, scale) * this.multiplier);
  }

  private dropHeads(at: number): void {
    this.solo.dropLate(this.times.startOf(1, at) + this.execUs(1), at);
    this.dropFront(this.held, this.held.firstNotBefore(at + this.execUs(1)), at, HELD);
    for (let id = 0; id < this.backlogs.length; id++) {
      const backlog = this.backlogs[id];
      if (backlog === undefined || backlog.pending.length === 0) continue;
      this.dropFront(backlog.pending, backlog.pending.firstNotBefore(this.endOf(1, at, at, id)), at, id);
    }
  }

  private scaleOf(id: AcceleratorId): number {
    const { fastestScale, scale } = this.core.accelerators;
    return id === HELD ? fastestScale : scale[id]!;
  }

  /** @param size most of the batch in which they would not be in time: it holds no more than are left. */
  private dropFront(pending: DeadlineQueue, count: number, at: number, id: AcceleratorId, size = 1, dataAt = at): void {
    const aloneEndAt = this.endOf(1, at, at, id);
    for (let index = 0; index < count; index++) {
      const reason = dropReason(pending.deadlineAt(index), at, aloneEndAt);
      const wouldEndAt = this.endOf(Math.min(size, pending.length - index), at, dataAt, id);
      this.core.drop(pending.handleAt(index), reason, at, wouldEndAt);
    }
    pending.removeFront(count);
    this.count -= count;
  }

  /** @param pin the one accelerator that has something new to look at, ANY_ACCELERATOR or NO_ACCELERATOR. */
  private publish(at: number, pin: AcceleratorId): void {
    const { offers } = this.core;
    const { key } = this;
    offers.size[key] = this.length === 0 ? 0 : 1;
    offers.pin[key] = pin;
    if (this.length > 0) {
      offers.opensAt[key] = at;
      offers.leadUs[key] = 0;
      offers.latestAt[key] = this.latestStart();
      offers.rank[key] = offers.latestAt[key]!;
    }
    this.core.alarm(key, this.length === 0 ? Number.POSITIVE_INFINITY : offers.latestAt[key]! + 1);
    this.core.offerChanged(key, at);
  }

  /** Until when everybody who waits can still finish alone. */
  private latestStart(): number {
    let latest = this.solo.dueAt - this.execUs(1) - this.times.leadUs(1);
    if (this.held.length > 0) latest = Math.min(latest, this.held.deadlineAt(0) - this.execUs(1));
    for (let id = 0; id < this.backlogs.length; id++) {
      const backlog = this.backlogs[id];
      if (backlog === undefined || backlog.pending.length === 0) continue;
      latest = Math.min(latest, backlog.pending.deadlineAt(0) - this.execUs(1, this.scaleOf(id)));
    }
    return latest;
  }

  private reach(request: RequestHandle): void {
    if (request < this.home.length) return;
    const grown = new Int32Array(Math.max(request + 1, this.home.length * 2));
    grown.set(this.home);
    this.home = grown;
  }
}
