/**
 * Requests in, batches out: joins the scheduler with the pool of workers and answers the clients.
 *
 * The scheduler decides and sees numbers only; this class holds what the numbers stand for. Invariants, checked: a
 * client hears once; a request is counted once, when the scheduler says that it ended; after all have ended nothing
 * is held.
 */
import type { AcceleratorGroupSpec } from "../config/model.js";
import type { LogGroup } from "../core/event-log.js";
import { assertNever, invariant } from "../core/invariant.js";
import { measuredTable } from "../core/latency.js";
import {
  DROP_BYTES_FULL,
  DROP_CANCELLED,
  DROP_EXPIRED,
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_INTERNAL,
  FAIL_MODEL_ERROR,
  FAIL_NO_ACCELERATOR,
  FAIL_WORKER_CRASHED,
  FAILED,
} from "../core/outcome.js";
import type { NetworkDelays } from "../core/policy.js";
import { durationUs, timeUs } from "../core/time.js";
import { LIVE_DEFAULTS, type LiveDefaults, liveWindow } from "../policies/live.js";
import { monotonicNow } from "../wire/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import type { Tensor } from "../wire/tensor.js";
import type { GroupScaling } from "./autoscaler.js";
import { createLiveScheduler } from "./create-scheduler.js";
import { DeadlineTimers } from "./deadline-timers.js";
import { DelayMeter } from "./delay-meter.js";
import { dropEnding, type Ending, failEnding, LATE_ENDING, modelErrorCode, REFUSALS, type Refusal } from "./endings.js";
import type { InferCall, InferHandler } from "./gateway.js";
import { GroupLoad } from "./group-load.js";
import { InFlight } from "./in-flight.js";
import type { DispatchRecord, LiveScheduler, SchedulerDeployment } from "./live-scheduler.js";
import type { Log } from "./log.js";
import { Metrics } from "./metrics.js";
import { ServedModel, type ServedQueue } from "./served-model.js";
import { Slots } from "./slots.js";
import type { Tracer } from "./tracing.js";
import type { PoolEvent, WorkerPool } from "./worker-pool.js";

export interface LiveDriverOptions {
  readonly pool: WorkerPool;
  readonly log: Log;
  readonly tracer: Tracer | null;
  /** Most requests at once. */
  readonly slots: number;
  /** Delays that plans allow for, µs; default: 300 before execution, 200 after. */
  readonly network?: NetworkDelays;
  /** Failures of its batch that a request survives. */
  readonly retriesMax: number;
  readonly policyDefaults?: LiveDefaults;
  /** Queues per model; default 256. Then the one unused for longest gives way, if any is unused. */
  readonly shareGroupsMax?: number;
  readonly eventLog: { readonly file: string; readonly bytesMax: number } | null;
  /** Default inline. */
  readonly schedulerMode?: SchedulerDeployment;
  /** A bug: the server cannot go on. */
  readonly onBroken: (error: unknown) => void;
}

interface Group {
  readonly spec: AcceleratorGroupSpec;
  readonly index: number;
  /** Index over the server of its first accelerator. */
  readonly first: number;
  readonly present: boolean[];
  readonly isRestarting: boolean[];
  /** Gets no more batches; those decided before it was known still run. */
  readonly isDraining: boolean[];
  readonly load: GroupLoad;
  presentCount: number;
  restartingCount: number;
  readonly busyUs: Float64Array;
  /** Batches on each accelerator, by our count; the scheduler's and the worker's must agree with it. */
  readonly holds: Uint8Array;
  readonly delays: ReturnType<Metrics["delaysOf"]>;
  readonly meter: DelayMeter;
  metersAt: number;
}

interface Running {
  readonly group: Group;
  readonly accelerator: number;
  /** The scheduler's number of it. */
  readonly batch: number;
  readonly queue: ServedQueue;
  readonly members: readonly InFlight[];
  readonly dispatchedAt: number;
  readonly predictedUs: number;
  /** Dispatched to an accelerator that held nothing. */
  readonly wasIdle: boolean;
  readonly execAt: number;
}

/** Until delays are measured. */
const NETWORK: NetworkDelays = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };
/** How often plans may take measured delays over. */
const METER_US = 250_000;
const SHARE_GROUPS_MAX = 256;
/** Batches may have at most this many members. */
const BATCH_MAX = 1024;

export class LiveDriver {
  readonly metrics: Metrics;
  readonly groups: readonly Group[];
  readonly scheduler: LiveScheduler;
  /** What the autoscaler advises, for metrics. */
  scaling: () => readonly GroupScaling[] = () => [];
  private readonly options: LiveDriverOptions;
  private readonly slots: Slots<InFlight>;
  private readonly timers: DeadlineTimers;
  private readonly queues: (ServedQueue | undefined)[] = [];
  private readonly freeQueues: number[] = [];
  private readonly running = new Map<number, Running>();
  private readonly models = new Set<ServedModel>();
  private nextBatch = 1;
  private isRefusing = false;
  private onIdle: (() => void)[] = [];

  constructor(options: LiveDriverOptions) {
    this.options = options;
    this.slots = new Slots(options.slots);
    this.timers = new DeadlineTimers(options.slots, monotonicNow, (slot) => this.deadline(slot));
    this.metrics = new Metrics({
      models: () => this.modelRows(),
      accelerators: () => this.acceleratorRows(),
      scheduler: () => this.scheduler.measured,
      scaling: () => this.scaling(),
    });
    let first = 0;
    this.groups = options.pool.groups.map((spec, index) => {
      const group: Group = {
        spec,
        index,
        first,
        present: new Array<boolean>(spec.count).fill(false),
        isRestarting: new Array<boolean>(spec.count).fill(false),
        isDraining: new Array<boolean>(spec.count).fill(false),
        load: new GroupLoad(),
        presentCount: 0,
        restartingCount: 0,
        busyUs: new Float64Array(spec.count),
        holds: new Uint8Array(spec.count),
        delays: this.metrics.delaysOf(spec.name),
        meter: new DelayMeter(options.network ?? NETWORK),
        metersAt: 0,
      };
      first += spec.count;
      return group;
    });
    const logGroups = this.groups.map(
      ({ spec }): LogGroup => ({
        name: spec.name,
        network: options.network ?? NETWORK,
        acceleratorsMax: spec.count,
        // A cancelled request that runs leaves its slot before its batch ends.
        requestsMax: options.slots + spec.count * 2 * BATCH_MAX,
        retriesMax: options.retriesMax,
        learn: spec.kind !== "emulated",
      }),
    );
    this.scheduler = createLiveScheduler(
      options.schedulerMode ?? "inline",
      { groups: logGroups, slots: options.slots, eventLog: options.eventLog },
      {
        dispatched: (record) => this.dispatched(record),
        ended: (slot, outcome, reason, _execStartAt, at) => this.ended(slot, outcome, reason, at),
        broke: (error) => options.onBroken(error),
        warned: (text) => options.log.warn(text),
      },
    );
  }

  /** Starts the scheduler and every worker. */
  async start(): Promise<void> {
    await Promise.all([this.scheduler.start(), this.options.pool.start((event) => this.poolEvent(event))]);
  }

  get inFlight(): number {
    return this.slots.used;
  }

  get batchesRunning(): number {
    return this.running.size;
  }

  /** Resolves when nothing is in flight; at once when nothing is. */
  idle(): Promise<void> {
    if (this.slots.used === 0 && this.running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.onIdle.push(resolve));
  }

  /** From now on every call is refused as draining. */
  refuseAll(): void {
    this.isRefusing = true;
  }

  /** What still waits fails as draining; what runs is waited for by `idle`. */
  failWaiting(): void {
    for (const queue of this.queues)
      if (queue !== undefined) this.scheduler.failQueue(queue.id, FAIL_CAUSES.indexOf("draining"));
  }

  /** Ends the scheduler. */
  async stop(): Promise<void> {
    this.timers.stop();
    await this.scheduler.stop();
  }

  // Models

  /** @throws ServingError invalid-argument: the scheduler cannot serve such a model where it runs. */
  checkModel(spec: ServedModel["spec"]): void {
    const problem = this.scheduler.problemOf(spec.policy);
    if (problem !== null) throw new ServingError("invalid-argument", `model '${spec.name}': ${problem}`);
  }

  /** @param before the same model on another group, which is about to leave. */
  addModel(spec: ServedModel["spec"], times: ServedModel["times"], before: ServedModel | null = null): ServedModel {
    const group = this.groups.find((candidate) => candidate.spec.name === spec.group);
    if (group === undefined)
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}': group must be one of ${this.groups.map(({ spec: { name } }) => name).join(", ")}; was ${spec.group}`,
      );
    const model = new ServedModel(spec, times, group.index, this.metrics.ofModel(spec.name), before);
    this.models.add(model);
    return model;
  }

  /** The model takes nothing new; resolves when what it had has ended. */
  async removeModel(model: ServedModel): Promise<void> {
    model.isLeaving = true;
    while (!model.isIdle) await new Promise<void>((resolve) => this.onIdleModel(model, resolve));
    for (const queue of [...model.queues.values()]) this.removeQueue(queue);
    this.models.delete(model);
  }

  private readonly idleModels = new Map<ServedModel, (() => void)[]>();
  private onIdleModel(model: ServedModel, resolve: () => void): void {
    const waiting = this.idleModels.get(model) ?? [];
    waiting.push(resolve);
    this.idleModels.set(model, waiting);
  }

  // Requests

  /**
   * @param shareKey requests of equal keys may share a batch. @param rows rows of its tensors. @param extent along the variable axis.
   * @returns cancels it. @throws ServingError what is refused at once.
   */
  infer(
    model: ServedModel,
    call: InferCall,
    share: { readonly key: string; readonly rows: number; readonly extent: number | null },
    handler: InferHandler,
  ): () => void {
    const { spec } = model;
    const deadline = this.deadlineOf(model, call);
    if (this.isRefusing) throw this.refusal("draining", model);
    if (model.isLeaving) throw this.refusal("unloading", model);
    const group = this.groups[model.group]!;
    if (group.presentCount + group.restartingCount === 0) throw this.refusal("no-accelerator", model);
    if (model.bytes > 0 && model.bytes + call.byteLength > spec.queueBytesMax)
      throw this.dropAtOnce(model, DROP_BYTES_FULL, call, deadline);
    const queue = this.queueFor(model, share);
    // One queue counts for itself, and exactly; over several the sum is watched here.
    if (model.queues.size > 1 && model.queued >= spec.queueRequestsMax)
      throw this.dropAtOnce(model, DROP_QUEUE_FULL, call, deadline);
    const request = new InFlight(model, queue, call, deadline, handler);
    request.slot = this.slots.take(request);
    if (request.slot < 0) throw this.refusal("in-flight-full", model);
    if (!this.scheduler.arrive(request.slot, queue.id, call.receivedAt, deadline)) {
      this.slots.release(request.slot);
      throw this.refusal("scheduler-ring-full", model);
    }
    request.trace = this.options.tracer?.begin(call.traceparent) ?? null;
    model.live++;
    model.queued++;
    model.bytes += call.byteLength;
    queue.live++;
    queue.arrived++;
    queue.lastUsedAt = call.receivedAt;
    this.timers.set(request.slot, deadline);
    return () => this.cancel(request);
  }

  private deadlineOf(model: ServedModel, call: InferCall): number {
    const { spec } = model;
    if (call.timeoutUs !== null && call.timeoutUs > spec.timeoutMaxUs)
      throw new ServingError(
        "invalid-argument",
        `parameter 'timeout' for model '${spec.name}' must be at most ${spec.timeoutMaxUs} microseconds; was ${call.timeoutUs}`,
        { reason: "timeout-out-of-range" },
      );
    const deadline = call.receivedAt + (call.timeoutUs ?? spec.sloUs ?? spec.defaultTimeoutUs);
    return Math.min(deadline, call.transportDeadlineAt ?? Number.POSITIVE_INFINITY);
  }

  private cancel(request: InFlight): void {
    if (!request.cancel(monotonicNow())) return;
    this.timers.clear(request.slot);
    this.scheduler.cancel(request.slot);
  }

  /** The client is answered now; the scheduler ends the request in its own time. */
  private deadline(slot: number): void {
    const request = this.slots.get(slot);
    if (request === undefined || !request.isOpen) return;
    const now = monotonicNow();
    const isWaiting = request.state === "waiting";
    const isNobodyThere = this.groups[request.model.group]!.presentCount === 0;
    const error = !isWaiting
      ? this.errorFor(LATE_ENDING, "late", request)
      : isNobodyThere
        ? this.errorFor(failEnding(FAIL_NO_ACCELERATOR), "no-accelerator", request)
        : this.errorFor(dropEnding(DROP_EXPIRED), "expired", request);
    request.refuse(error, now, "deadline");
    // A policy that has not given it up yet must not run it.
    if (isWaiting) this.scheduler.cancel(slot);
  }

  // The scheduler's commands

  private dispatched(record: DispatchRecord): void {
    const queue = this.queues[record.queue]!;
    const { model } = queue;
    const group = this.groups[record.group]!;
    const members = record.slots.map((slot) => this.slots.get(slot)!);
    for (const member of members) {
      member.state = "running";
      member.dispatchedAt = record.at;
      member.openedAt = record.openedAt;
      member.batchSize = members.length;
      model.queued--;
      const openedAt = Math.max(member.receivedAt, record.openedAt);
      model.cells.batchWait.observe((openedAt - member.receivedAt) / 1e6);
      model.cells.acceleratorWait.observe(Math.max(0, record.at - openedAt) / 1e6);
    }
    const id = this.nextBatch++;
    const running: Running = {
      group,
      accelerator: record.accelerator,
      batch: record.batch,
      queue,
      members,
      dispatchedAt: record.at,
      predictedUs: record.execUs,
      wasIdle: group.holds[record.accelerator] === 0,
      execAt: record.execAt,
    };
    model.batches++;
    queue.batches++;
    group.holds[record.accelerator] = group.holds[record.accelerator]! + 1;
    this.running.set(id, running);
    if (!group.present[record.accelerator] && !group.isDraining[record.accelerator]) {
      // It left while the batch was on its way: nothing has begun.
      this.settle(id, running);
      this.handBack(running, FAIL_WORKER_CRASHED, "the worker ended before the batch reached it", false);
      if (group.presentCount + group.restartingCount === 0) this.scheduler.failQueue(queue.id, FAIL_NO_ACCELERATOR);
      return;
    }
    model.cells.closed[record.close]!.value++;
    try {
      this.options.pool.run(group.first + record.accelerator, {
        batch: id,
        model: model.spec.name,
        spec: model.spec,
        members: members.map((member) => member.call?.inputs ?? NO_TENSORS),
        outputs: outputsWanted(members),
        earliestStartAt: timeUs(record.execAt),
        predictedUs: durationUs(record.execUs),
      });
    } catch (error) {
      this.options.log.error({ err: error, model: model.spec.name }, "a batch could not be handed to its worker");
      this.settle(id, running);
      this.handBack(running, FAIL_INTERNAL, "internal error", true);
    }
  }

  private ended(slot: number, outcome: number, reason: number, at: number): void {
    const request = this.slots.get(slot);
    invariant(request !== undefined, `slot ${slot} ended but holds no request`);
    const { model, queue } = request;
    this.timers.clear(slot);
    this.slots.release(slot);
    model.live--;
    queue.live--;
    model.bytes -= request.byteLength;
    if (request.state === "waiting") model.queued--;
    if (request.isOpen) {
      invariant(outcome === DROPPED || outcome === FAILED, `request of slot ${slot} ended well but was not answered`);
      const error =
        outcome === DROPPED
          ? this.errorFor(dropEnding(reason), DROP_REASONS[reason]!, request)
          : this.failError(reason, request);
      request.refuse(error, monotonicNow(), "refused");
    }
    this.count(request, outcome, reason, at);
    request.forget();
    this.becameIdle(model);
  }

  /** What the client saw decides between finished and late. */
  private count(request: InFlight, outcome: number, reason: number, at: number): void {
    const { cells } = request.model;
    const totalUs = request.answeredAt - request.receivedAt;
    let name = "finished";
    let why = "";
    if (request.end === "replied") {
      cells.finished.value++;
      cells.duration.observe(totalUs / 1e6);
    } else if (request.end === "cancelled") {
      name = "dropped";
      why = "cancelled";
      cells.dropped[DROP_CANCELLED]!.value++;
    } else if (outcome === FAILED) {
      name = "failed";
      why = FAIL_CAUSES[reason]!;
      cells.failed[reason]!.value++;
    } else if (outcome === DROPPED && request.state === "waiting") {
      // Answered at its deadline, it was taken out of the queue by a cancellation of ours.
      const drop = request.end === "deadline" ? DROP_EXPIRED : reason;
      name = "dropped";
      why = DROP_REASONS[drop]!;
      cells.dropped[drop]!.value++;
    } else {
      name = "late";
      cells.late.value++;
    }
    if (request.end !== "cancelled") {
      const queueUs = request.dispatchedAt < 0 ? totalUs : request.dispatchedAt - request.receivedAt;
      request.model.countRequest(request.end === "replied", totalUs, queueUs);
    }
    this.groups[request.model.group]!.load.ended(request.queue, name, why);
    if (request.trace !== null) this.options.tracer?.end(request, name, why, at);
  }

  // The pool's events

  private poolEvent(event: PoolEvent): void {
    switch (event.kind) {
      case "joined":
        this.joined(event.accelerator, event.scale);
        break;
      case "draining":
        this.draining(event.accelerator);
        break;
      case "left":
        this.left(event);
        break;
      case "finished":
        this.batchFinished(event);
        break;
      case "failed":
        this.batchFailed(event);
        break;
      default:
        assertNever(event);
    }
  }

  private joined(index: number, scale: number): void {
    const group = this.groupOf(index);
    const accelerator = index - group.first;
    group.present[accelerator] = true;
    group.isRestarting[accelerator] = false;
    group.isDraining[accelerator] = false;
    recount(group);
    this.scheduler.join(group.index, accelerator, scale);
  }

  private draining(index: number): void {
    const group = this.groupOf(index);
    const accelerator = index - group.first;
    group.present[accelerator] = false;
    group.isDraining[accelerator] = true;
    recount(group);
    this.scheduler.leave(group.index, accelerator);
  }

  private left(event: PoolEvent & { kind: "left" }): void {
    const group = this.groupOf(event.accelerator);
    const accelerator = event.accelerator - group.first;
    if (group.present[accelerator]) this.scheduler.leave(group.index, accelerator);
    group.present[accelerator] = false;
    group.isRestarting[accelerator] = event.willRestart;
    group.isDraining[accelerator] = false;
    recount(group);
    if (event.cause === "draining") return;
    this.metrics.countWorkerExit(group.spec.name, event.cause);
    this.options.log.warn(
      { group: group.spec.name, accelerator, cause: event.cause, willRestart: event.willRestart },
      "an accelerator left",
    );
    if (group.presentCount + group.restartingCount > 0) return;
    this.options.log.error({ group: group.spec.name }, "no accelerator of the group is left: its requests fail");
    for (const queue of this.queues)
      if (queue?.model.group === group.index) this.scheduler.failQueue(queue.id, FAIL_NO_ACCELERATOR);
  }

  private batchFinished(event: PoolEvent & { kind: "finished" }): void {
    const running = this.running.get(event.batch);
    invariant(running !== undefined, `batch ${event.batch} ended twice or never began`);
    const now = monotonicNow();
    const { group, queue, members } = running;
    const { model } = queue;
    this.settle(event.batch, running);
    this.scheduler.finished(group.index, running.batch, event.startedAt, event.finishedAt);
    for (let index = 0; index < members.length; index++) {
      const member = members[index]!;
      member.execStartAt = event.startedAt;
      member.execEndAt = event.finishedAt;
      if (!member.isOpen) continue;
      if (now > member.deadline) {
        member.refuse(this.errorFor(LATE_ENDING, "late", member), now, "deadline");
        continue;
      }
      const { spec } = model;
      const outputs = outputsFor(member.call!, event.outputs[index]!);
      member.reply({ model: spec.name, version: spec.version, outputs, parameters: NO_PARAMETERS }, now);
    }
    const execUs = event.finishedAt - event.startedAt;
    const { cells } = model;
    cells.batchesFinished.value++;
    cells.size.observe(members.length);
    cells.execution.observe(execUs / 1e6);
    cells.ratio.observe(execUs / Math.max(1, running.predictedUs));
    if (running.wasIdle) group.delays.dispatch.observe(Math.max(0, event.startedAt - running.dispatchedAt) / 1e6);
    const answeredUs = Math.max(0, monotonicNow() - event.finishedAt);
    group.delays.answer.observe(answeredUs / 1e6);
    this.meterDelays(group, running, event.startedAt, answeredUs, now);
    group.busyUs[running.accelerator] = group.busyUs[running.accelerator]! + execUs;
    model.countExecution(members.length, event.inputUs, execUs, event.outputUs, Date.now());
  }

  /** Plans allow for the delays that are measured, not for those that were guessed. */
  private meterDelays(group: Group, running: Running, startedAt: number, answeredUs: number, now: number): void {
    const { meter } = group;
    meter.answered(answeredUs);
    // An emulated accelerator never starts before the plan: then its own delay was shorter by an unknown part.
    const isWithin = group.spec.kind === "emulated" && startedAt <= running.execAt;
    if (running.wasIdle) meter.started(isWithin ? null : startedAt - running.dispatchedAt);
    if (now < group.metersAt + METER_US || this.options.network !== undefined) return;
    group.metersAt = now;
    const delays = meter.changed();
    if (delays !== null) this.scheduler.delays(group.index, delays);
  }

  private batchFailed(event: PoolEvent & { kind: "failed" }): void {
    const running = this.running.get(event.batch);
    invariant(running !== undefined, `batch ${event.batch} ended twice or never began`);
    this.settle(event.batch, running);
    running.queue.model.cells.batchesFailed.value++;
    this.options.log.warn(
      {
        model: running.queue.model.spec.name,
        group: running.group.spec.name,
        accelerator: running.accelerator,
        size: running.members.length,
        cause: event.cause,
        text: event.message,
      },
      "a batch failed",
    );
    this.handBack(running, FAIL_CAUSES.indexOf(event.cause), event.message, null);
  }

  /** The scheduler decides who of the batch is tried again. @param hasBegun null: whatever was first in line began. */
  private handBack(running: Running, cause: number, text: string, hasBegun: boolean | null): void {
    const { model } = running.queue;
    for (const member of running.members) {
      member.failText = text;
      if (this.slots.get(member.slot) !== member) continue;
      member.state = "waiting";
      model.queued++;
    }
    this.scheduler.failed(running.group.index, running.batch, cause, hasBegun);
  }

  private settle(id: number, running: Running): void {
    this.running.delete(id);
    const { group, accelerator, queue } = running;
    group.holds[accelerator] = group.holds[accelerator]! - 1;
    queue.batches--;
    queue.model.batches--;
    this.becameIdle(queue.model);
  }

  // Queues

  private queueFor(model: ServedModel, share: { key: string; rows: number; extent: number | null }): ServedQueue {
    const key = share.rows === 1 ? share.key : `${share.rows}*${share.key}`;
    const known = model.queues.get(key);
    if (known !== undefined) return known;
    if (model.queues.size >= (this.options.shareGroupsMax ?? SHARE_GROUPS_MAX)) {
      const unused = this.longestUnused(model);
      if (unused === null) throw this.refusal("share-groups-full", model);
      this.removeQueue(unused);
    }
    const { spec } = model;
    const sizeMax = Math.min(BATCH_MAX, Math.max(1, Math.floor(spec.batchSizeMax / share.rows)));
    const timesUs = model.times.table(share.rows, share.extent, sizeMax);
    const queue: ServedQueue = {
      id: this.freeQueues.pop() ?? this.queues.length,
      key,
      model,
      rows: share.rows,
      aloneUs: timesUs[0]!,
      perRequestUs: timesUs[sizeMax - 1]! / sizeMax,
      execUs: measuredTable(timesUs),
      arrived: 0,
      dropped: 0,
      live: 0,
      batches: 0,
      lastUsedAt: 0,
    };
    const isAdded = this.scheduler.addQueue({
      group: model.group,
      queue: queue.id,
      sloUs: spec.sloUs ?? spec.defaultTimeoutUs,
      lengthMax: spec.queueRequestsMax,
      window: liveWindow(spec.policy, spec.policyOptions, spec.sloUs, this.options.policyDefaults ?? LIVE_DEFAULTS),
      timesUs,
    });
    if (!isAdded) {
      this.freeQueues.push(queue.id);
      throw this.refusal("queues-full", model);
    }
    this.queues[queue.id] = queue;
    model.queues.set(key, queue);
    return queue;
  }

  private longestUnused(model: ServedModel): ServedQueue | null {
    let oldest: ServedQueue | null = null;
    for (const queue of model.queues.values())
      if (queue.live === 0 && queue.batches === 0 && (oldest === null || queue.lastUsedAt < oldest.lastUsedAt))
        oldest = queue;
    return oldest;
  }

  private removeQueue(queue: ServedQueue): void {
    this.scheduler.removeQueue(queue.id);
    this.queues[queue.id] = undefined;
    this.freeQueues.push(queue.id);
    queue.model.queues.delete(queue.key);
  }

  private becameIdle(model: ServedModel): void {
    if (model.isIdle && this.idleModels.size > 0) {
      for (const resolve of this.idleModels.get(model) ?? []) resolve();
      this.idleModels.delete(model);
    }
    if (this.slots.used > 0 || this.running.size > 0) return;
    for (const resolve of this.onIdle.splice(0)) resolve();
  }

  private groupOf(index: number): Group {
    const group = this.groups.find(({ first, spec }) => index >= first && index < first + spec.count);
    invariant(group !== undefined, `accelerator ${index} does not exist`);
    return group;
  }

  // Errors

  /** Time until what waits for the model now is served, µs. */
  private drainUs(model: ServedModel): number {
    let us = 0;
    for (const queue of model.queues.values()) us += queue.live * queue.perRequestUs;
    return us / Math.max(1, this.groups[model.group]!.presentCount);
  }

  private retryAfterS(model: ServedModel): number {
    return Math.max(1, Math.ceil(this.drainUs(model) / 1e6));
  }

  private errorFor(ending: Ending, reason: string, request: InFlight, text = ending.text): ServingError {
    const { model, queue } = request;
    const name = model.spec.name;
    const deadlineUs = request.deadline - request.receivedAt;
    const estimateUs = Math.round(this.drainUs(model) + queue.aloneUs);
    return new ServingError(
      ending.code,
      `model '${name}': ${text} (deadline ${deadlineUs} us, estimate ${estimateUs} us)`,
      {
        reason,
        estimateUs,
        deadlineUs,
        ...(ending.retryAfter ? { retryAfterS: this.retryAfterS(model) } : {}),
      },
    );
  }

  private failError(cause: number, request: InFlight): ServingError {
    const ending = failEnding(cause);
    const text = request.failText === "" ? ending.text : `${ending.text}: ${request.failText}`;
    if (cause !== FAIL_MODEL_ERROR) return this.errorFor(ending, FAIL_CAUSES[cause]!, request, text);
    return this.errorFor({ ...ending, code: modelErrorCode(request.failText) }, FAIL_CAUSES[cause]!, request, text);
  }

  private dropAtOnce(model: ServedModel, reason: number, call: InferCall, deadline: number): ServingError {
    model.cells.dropped[reason]!.value++;
    if (reason === DROP_QUEUE_FULL) this.groups[model.group]!.load.bad++;
    const ending = dropEnding(reason);
    const limit =
      reason === DROP_BYTES_FULL
        ? `must be at most ${model.spec.queueBytesMax} bytes; was ${model.bytes + call.byteLength}`
        : `must be at most ${model.spec.queueRequestsMax} requests; was ${model.queued + 1}`;
    return new ServingError(ending.code, `model '${model.spec.name}': ${ending.text}: ${limit}`, {
      reason: DROP_REASONS[reason]!,
      estimateUs: Math.round(this.drainUs(model)),
      deadlineUs: deadline - call.receivedAt,
      retryAfterS: this.retryAfterS(model),
    });
  }

  private refusal(reason: Refusal, model: ServedModel): ServingError {
    this.metrics.countRefusal(reason);
    const { code, text } = REFUSALS[reason];
    return new ServingError(code, `model '${model.spec.name}': ${text}`, {
      reason,
      retryAfterS: this.retryAfterS(model),
    });
  }

  // What autoscaling reads

  /** Queues of the models of a group. */
  *queuesOf(group: number): Generator<ServedQueue> {
    for (const queue of this.queues) if (queue?.model.group === group) yield queue;
  }

  /** Batches on the accelerators of a group, from when each may have begun to execute. */
  *batchesOf(group: number): Generator<{ accelerator: number; queue: ServedQueue; size: number; execAt: number }> {
    for (const { group: of, accelerator, queue, members, execAt } of this.running.values())
      if (of.index === group) yield { accelerator, queue, size: members.length, execAt };
  }

  // What metrics read

  /** A version that is reloaded or moved is served twice for a while; its series are one. */
  private *modelRows() {
    const seen = new Set<ServedModel>();
    for (const model of this.models) {
      if (seen.has(model)) continue;
      const { name, version } = model.spec;
      const row = { model: name, version, ready: false, inFlight: 0, queued: 0, bytes: 0, queues: 0 };
      for (const same of this.models) {
        if (same.spec.name !== name || same.spec.version !== version) continue;
        seen.add(same);
        row.ready ||= !same.isLeaving;
        row.inFlight += same.live;
        row.queued += same.queued;
        row.bytes += same.bytes;
        row.queues += same.queues.size;
      }
      yield row;
    }
  }

  private *acceleratorRows() {
    for (const { spec, present, busyUs } of this.groups)
      for (let accelerator = 0; accelerator < spec.count; accelerator++)
        yield { group: spec.name, accelerator, present: present[accelerator]!, busyUs: busyUs[accelerator]! };
  }
}

function recount(group: Group): void {
  group.presentCount = group.present.filter(Boolean).length;
  group.restartingCount = group.isRestarting.filter(Boolean).length;
  group.load.present(group.presentCount, monotonicNow());
}

const NO_TENSORS: readonly Tensor[] = [];
const NO_PARAMETERS = Object.freeze({});

/** Names that any member asks for; empty: all. */
function outputsWanted(members: readonly InFlight[]): readonly string[] {
  const names = new Set<string>();
  for (const { call } of members) {
    if (call === null) continue;
    if (call.outputs.length === 0) return [];
    for (const name of call.outputs) names.add(name);
  }
  return [...names];
}

/** Those that this request asked for, in its order. */
function outputsFor(call: InferCall, outputs: readonly Tensor[]): readonly Tensor[] {
  if (call.outputs.length === 0) return outputs;
  return call.outputs.map((name) => {
    const output = outputs.find((candidate) => candidate.name === name);
    invariant(output !== undefined, `the worker must answer output '${name}' of model '${call.model}'`);
    return output;
  });
}
