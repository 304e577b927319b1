import { plannedBatch } from "../../core/latency/planned-batch.js";
import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../core/outcome.js";
import {
  ANY_ACCELERATOR,
  type CoreView,
  NO_ACCELERATOR,
  type Queue,
  type QueueKey,
  type QueueSpec,
} from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { BatchTimes } from "../batch-times.js";
import { dropReason } from "../drop-reason.js";
import { linkAll } from "../link-members.js";
import { Retries } from "../retries.js";
import { DepqPlaces } from "./depq.js";
import { type Dispatch, Dispatcher } from "./dispatcher.js";
import { Priority, type PriorityRule } from "./priority.js";
import { WorkerBacklog } from "./worker-backlog.js";

export interface PardOptions {
  readonly priority: PriorityRule;
  readonly dispatch: Dispatch;
  /** Target size of batches; null: planned from the profile and the SLO. */
  readonly batchSize: number | null;
  /** In which the input is counted for `priority`. */
  readonly intervalUs: number;
}

/** Where a request is for which there is no worker. */
const NOWHERE = -1;

/**
 * One module's requests under PARD: each is sent to a worker when it comes and waits there in a double-ended priority queue. The
 * batch behind the one that runs grows at once, up to the target size; the broker takes requests into it by the present priority,
 * and gives up who would not be done in it by what it must reach (PARD §4.2, Request Broker). What follows in later modules is in
 * that already: `dueAt` is the deadline less their estimate (budget: forecast).
 *
 * Ours: a member is never made late by who joins after it (the batch is closed instead); who can no longer be done alone is given up at once and not when its turn comes; what the start of the batch was
 * expected to be is looked at again when it is there.
 */
export class PardQueue implements Queue {
  /** By accelerator; undefined: nothing was ever sent there. */
  private readonly backlogs: (WorkerBacklog | undefined)[] = [];
  /** By handle. */
  private home = new Int32Array(64);
  private readonly places = new DepqPlaces();
  /** Requests for which there is no worker. */
  private readonly held: WorkerBacklog;
  /** Handed back to run alone, wherever there is room first. */
  private readonly solo: Retries;
  private readonly times: BatchTimes;
  private readonly dispatcher: Dispatcher;
  private readonly priority: Priority;
  private target: number;
  private count = 0;
  private alarmAt = Number.POSITIVE_INFINITY;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: CoreView;
  private readonly options: PardOptions;

  constructor(key: QueueKey, spec: QueueSpec, core: CoreView, options: PardOptions) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.options = options;
    this.held = new WorkerBacklog(core.requests, this.places);
    this.solo = new Retries(core);
    this.times = new BatchTimes(key, spec, core);
    this.target = this.targetSize();
    this.dispatcher = new Dispatcher(options.dispatch, core.accelerators, (id) => this.backlogs[id]?.waiting ?? 0);
    this.dispatcher.follow();
    this.priority = new Priority(options.priority, options.intervalUs, () => this.throughputRps());
  }

  get length(): number {
    return this.count + this.solo.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.priority.arrived(at);
    const worker = this.send(request, at);
    this.warn(this.core.requests.dueAt[request]!);
    if (worker !== NOWHERE) this.fill(worker, at);
    this.publish(at, worker === NOWHERE ? NO_ACCELERATOR : worker);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.solo.push(request);
    else {
      const worker = this.send(request, at);
      if (worker !== NOWHERE) this.fill(worker, at);
    }
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.solo.remove(request)) {
      this.count--;
      const worker = this.home[request]!;
      const backlog = worker === NOWHERE ? this.held : this.backlogs[worker]!;
      if (!backlog.unjoin(request)) backlog.queue.remove(request);
      if (worker !== NOWHERE) this.fill(worker, at);
    }
    this.publish(at, NO_ACCELERATOR);
  }

  /** Time has passed, or the queue was held: who cannot be done any more goes. */
  refresh(at: number): void {
    this.dropHopeless(at);
    this.setAlarm();
    this.publish(at, ANY_ACCELERATOR);
  }

  /** Times are other ones, or workers came or went: what waited for those is sent anew. */
  planChanged(at: number): void {
    this.target = this.targetSize();
    if (this.dispatcher.follow()) this.sendAnew(at);
    if (this.length > 0) this.refresh(at);
  }

  /** Demand is read by idle dispatch alone, which PARD does not have. */
  refreshDemand(_at: number): void {}

  countAt(worker: AcceleratorId, at: number): number {
    if (this.canRetry(worker, at)) return 1;
    return this.backlogs[worker]?.members.length ?? 0;
  }

  take(worker: AcceleratorId, at: number): BatchId {
    this.dropHopeless(at);
    const batch = this.canRetry(worker, at) ? this.takeSolo(worker, at) : this.takeMembers(worker, at);
    this.setAlarm();
    this.publish(at, NO_ACCELERATOR);
    return batch;
  }

  private takeSolo(worker: AcceleratorId, at: number): BatchId {
    const { times } = this;
    return times.add(this.solo.take(), 1, worker, times.startOf(1, at, times.freeAt(worker, at)), CLOSE_RETRY);
  }

  private takeMembers(worker: AcceleratorId, at: number): BatchId {
    const backlog = this.backlogs[worker];
    if (backlog === undefined) return -1;
    const { times } = this;
    const most = this.mostOn(worker);
    const { members } = backlog;
    while (members.length > most) this.enqueue(backlog.unjoinLast(), backlog);
    // It starts now, whenever it was expected to: what does not end in time makes room.
    for (;;) {
      const endAt = this.endOf(members.length, worker, at, times.freeAt(worker, at));
      if (members.length === 0 || backlog.tightestDueAt >= endAt) break;
      this.giveUp(backlog.unjoinTightest(), worker, at, endAt);
    }
    this.fill(worker, at);
    const size = members.length;
    if (size === 0) return -1;
    const startAt = times.startOf(size, at, times.freeAt(worker, at));
    const first = linkAll(backlog.close(), this.core.requests);
    this.count -= size;
    const batch = times.add(first, size, worker, startAt, size === this.target ? CLOSE_FULL : CLOSE_EAGER);
    this.fill(worker, at, startAt + times.execUs(size, this.core.accelerators.scale[worker]!));
    return batch;
  }

  /** Whether the first of those to run alone would end in time. */
  private canRetry(worker: AcceleratorId, at: number): boolean {
    return this.solo.length > 0 && this.endOf(1, worker, at, at) <= this.solo.dueAt;
  }

  /**
   * The Request Broker: who is in the batch that goes next on this worker, as far as there is room.
   * @param startAt when the worker is free for it (t_e).
   */
  private fill(worker: AcceleratorId, at: number, startAt = this.times.freeAt(worker, at)): void {
    const backlog = this.backlogs[worker]!;
    const { members, queue } = backlog;
    const { dueAt } = this.core.requests;
    const most = this.mostOn(worker);
    // Behind one that runs it will be as large as is planned; an idle worker goes with what is there.
    const planned = startAt > at ? most : 1;
    while (members.length < most && queue.size > 0) {
      const request = this.priority.isHighFirst ? queue.most : queue.least;
      const endAt = this.endOf(Math.max(planned, members.length + 1), worker, at, startAt);
      if (dueAt[request]! < endAt) {
        queue.remove(request);
        this.giveUp(request, worker, at, endAt);
      } else if (backlog.tightestDueAt < endAt) return;
      else {
        queue.remove(request);
        backlog.join(request);
        this.core.joinedBatch(request, at);
      }
    }
  }

  /** @returns the worker, or NOWHERE. */
  private send(request: RequestHandle, at: number): AcceleratorId {
    this.reach(request);
    const worker = this.dispatcher.choose(at, this.target);
    this.home[request] = worker;
    this.count++;
    if (worker === NOWHERE) this.enqueue(request, this.held);
    else {
      this.backlogs[worker] ??= new WorkerBacklog(this.core.requests, this.places);
      this.enqueue(request, this.backlogs[worker]!);
    }
    return worker;
  }

  private enqueue(request: RequestHandle, { queue }: WorkerBacklog): void {
    const { arrivalAt, dueAt } = this.core.requests;
    queue.put(request, this.priority.isInOrder ? arrivalAt[request]! : dueAt[request]!);
  }

  private sendAnew(at: number): void {
    const moved: RequestHandle[] = this.emptied(this.held);
    for (const [worker, backlog] of this.backlogs.entries())
      if (backlog !== undefined && this.core.accelerators.present[worker] === 0) moved.push(...this.emptied(backlog));
    this.count -= moved.length;
    for (const request of moved) this.send(request, at);
    for (const worker of this.dispatcher.workers) if (this.backlogs[worker] !== undefined) this.fill(worker, at);
  }

  private emptied(backlog: WorkerBacklog): RequestHandle[] {
    const requests = backlog.close();
    const { queue } = backlog;
    while (queue.size > 0) {
      const request = queue.least;
      queue.remove(request);
      requests.push(request);
    }
    return requests;
  }

  /** Gives up all who would not be done in time even alone and now. */
  private dropHopeless(at: number): void {
    this.solo.dropLate(this.times.endOf(1, at), at);
    this.dropHopelessOf(this.held, NOWHERE, at);
    for (const worker of this.dispatcher.workers) {
      const backlog = this.backlogs[worker];
      if (backlog !== undefined && backlog.waiting > 0) this.dropHopelessOf(backlog, worker, at);
    }
  }

  private dropHopelessOf(backlog: WorkerBacklog, worker: AcceleratorId, at: number): void {
    const { queue } = backlog;
    const { dueAt } = this.core.requests;
    const endAt = this.endOf(1, worker, at, at);
    while (backlog.tightestDueAt < endAt) this.giveUp(backlog.unjoinTightest(), worker, at, endAt);
    while (queue.size > 0 && dueAt[queue.least]! < endAt) {
      const request = queue.least;
      queue.remove(request);
      this.giveUp(request, worker, at, endAt);
    }
  }

  /** It is out of the lists. */
  private giveUp(request: RequestHandle, worker: AcceleratorId, at: number, endAt: number): void {
    this.count--;
    const reason = dropReason(this.core.requests.dueAt[request]!, at, this.endOf(1, worker, at, at));
    this.core.drop(request, reason, at, endAt);
  }

  private endOf(size: number, worker: AcceleratorId, at: number, freeAt: number): number {
    const { fastestScale, scale } = this.core.accelerators;
    return this.times.endOf(size, at, worker === NOWHERE ? fastestScale : scale[worker]!, freeAt);
  }

  private mostOn(worker: AcceleratorId): number {
    return Math.min(this.target, this.times.sizeMaxOn(worker));
  }

  private targetSize(): number {
    const { latency, sloUs } = this.spec;
    const { batchSize } = this.options;
    if (batchSize !== null) return Math.min(batchSize, latency.sizeMax);
    return plannedBatch(latency.execUs, latency.sizeMax, sloUs, this.core.accelerators.fastestScale);
  }

  /** T_m: of all workers, in batches of the target size. */
  private throughputRps(): number {
    let perUs = 0;
    for (const worker of this.dispatcher.workers)
      perUs += this.target / this.times.execUs(this.target, this.core.accelerators.scale[worker]!);
    return perUs * 1e6;
  }

  /** Somebody waits who must be done by then. */
  private warn(dueAt: number): void {
    const hopelessAt = dueAt - this.times.leadUs(1) - this.times.execUs(1) + 1;
    if (hopelessAt >= this.alarmAt) return;
    this.alarmAt = hopelessAt;
    this.core.alarm(this.key, hopelessAt);
  }

  private setAlarm(): void {
    this.alarmAt = Number.POSITIVE_INFINITY;
    this.core.alarm(this.key, Number.POSITIVE_INFINITY);
    const { dueAt } = this.core.requests;
    let first = this.solo.dueAt;
    const look = ({ queue, tightestDueAt }: WorkerBacklog): void => {
      first = Math.min(first, tightestDueAt, queue.size > 0 ? dueAt[queue.least]! : first);
    };
    look(this.held);
    for (const worker of this.dispatcher.workers) if (this.backlogs[worker] !== undefined) look(this.backlogs[worker]!);
    if (first < Number.POSITIVE_INFINITY) this.warn(first);
  }

  /** @param pin the one worker that has something new to look at, ANY_ACCELERATOR or NO_ACCELERATOR. */
  private publish(at: number, pin: AcceleratorId): void {
    const { offers } = this.core;
    const { key } = this;
    const isEmpty = this.length === 0;
    offers.size[key] = isEmpty ? 0 : 1;
    offers.pin[key] = pin;
    if (!isEmpty) {
      offers.opensAt[key] = at;
      offers.leadUs[key] = 0;
      offers.latestAt[key] = this.alarmAt;
      offers.rank[key] = this.alarmAt;
    } else if (this.alarmAt < Number.POSITIVE_INFINITY) this.setAlarm();
    this.core.offerChanged(key, at);
  }

  private reach(request: RequestHandle): void {
    if (request < this.home.length) return;
    const grown = new Int32Array(Math.max(request + 1, this.home.length * 2));
    grown.set(this.home);
    this.home = grown;
  }
}
