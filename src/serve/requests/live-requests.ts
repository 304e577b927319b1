import { gammaOf } from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { invariant } from "../../core/invariant.js";
import {
  DROP_BYTES_FULL,
  DROP_CANCELLED,
  DROP_EXPIRED,
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_NO_ACCELERATOR,
  FAIL_TASK_DELETED,
  FAILED,
  isRefusal,
} from "../../core/outcome.js";
import type { Clock } from "../../wire/clock/clock.js";
import type { ErrorCode, ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import { dropEnding, failEnding, LATE_ENDING, type Refusal, SERVED_CAUSES, servedCause } from "../endings.js";
import type { InferCall, InferHandler, InferReply } from "../gateway.js";
import type { LiveScheduler } from "../live-scheduler.js";
import type { ServedModel } from "../models/served-model.js";
import type { ServedModels, Share } from "../models/served-models.js";
import type { Metrics } from "../observation/metrics.js";
import type { Tracer } from "../observation/tracing.js";
import { deadlineOf } from "./deadline.js";
import { DeadlineTimers } from "./deadline-timers.js";
import { InFlight } from "./in-flight.js";
import { endingError, failError, limitError, refusalError } from "./request-errors.js";
import { Slots } from "./slots.js";

export interface LiveRequestsOptions {
  /** Most requests at once. */
  readonly slots: number;
  readonly tracer: Tracer | null;
}

/**
 * The requests that have entered and not ended: how they enter, what becomes of them, what their clients are told.
 *
 * Invariants, checked: a client hears once; a request is counted once, when the scheduler says that it ended; after all
 * have ended nothing is held.
 */
export class LiveRequests {
  private readonly tracer: Tracer | null;
  private readonly clock: Clock;
  private readonly models: ServedModels;
  private readonly scheduler: LiveScheduler;
  private readonly metrics: Metrics;
  private readonly onEnded: (model: ServedModel) => void;
  private readonly slots: Slots<InFlight>;
  private readonly timers: DeadlineTimers;
  private isRefusing = false;

  /** @param onEnded a request of the model ended, and nothing of it is held any more. */
  constructor(
    options: LiveRequestsOptions,
    clock: Clock,
    models: ServedModels,
    scheduler: LiveScheduler,
    metrics: Metrics,
    onEnded: (model: ServedModel) => void,
  ) {
    this.tracer = options.tracer;
    this.clock = clock;
    this.models = models;
    this.scheduler = scheduler;
    this.metrics = metrics;
    this.onEnded = onEnded;
    this.slots = new Slots(options.slots);
    this.timers = new DeadlineTimers(options.slots, clock, (slot) => this.deadline(slot));
  }

  get count(): number {
    return this.slots.used;
  }

  /** From now on every call is refused as draining, but for parts of requests that were let in. */
  refuseAll(): void {
    this.isRefusing = true;
  }

  /** No deadline is watched any more. */
  stop(): void {
    this.timers.stop();
  }

  // In

  /** @returns cancels it. @throws ServingError what is refused at once. */
  infer(model: ServedModel, call: InferCall, share: Share, handler: InferHandler): () => void {
    const { spec } = model;
    const deadline = call.part?.deadline ?? deadlineOf(spec, call);
    // What was let in goes on.
    if (this.isRefusing && call.part === undefined) throw this.refusal("draining", model);
    if (model.isLeaving) throw this.refusal("unloading", model);
    if (model.group.isDeserted) throw this.refusal("no-accelerator", model);
    if (model.bytes > 0 && model.bytes + call.byteLength > spec.queueBytesMax)
      throw this.dropAtOnce(DROP_BYTES_FULL, model, call, deadline);
    const queue = this.models.queueFor(model, share);
    if (typeof queue === "string") throw this.refusal(queue, model);
    // One queue counts for itself, and exactly; over several the sum is watched here.
    if (model.queues.size > 1 && model.queued >= spec.queueRequestsMax)
      throw this.dropAtOnce(DROP_QUEUE_FULL, model, call, deadline);
    const request = new InFlight(model, queue, call, deadline, handler);
    request.slot = this.slots.take(request);
    if (request.slot < 0) throw this.refusal("in-flight-full", model);
    if (!this.scheduler.arrive(request.slot, queue.id, call.receivedAt, deadline, request.traits)) {
      this.slots.release(request.slot);
      throw this.refusal("scheduler-ring-full", model);
    }
    request.trace = this.tracer?.begin(call.traceparent) ?? null;
    model.tasks?.hold(request.traits.kind);
    model.live++;
    beginWait(request);
    model.bytes += call.byteLength;
    queue.live++;
    queue.allowedUs += request.allowedUs;
    queue.arrived++;
    queue.lastUsedAt = call.receivedAt;
    this.timers.set(request.slot, deadline);
    return () => this.cancel(request);
  }

  private refusal(reason: Refusal, model: ServedModel): ServingError {
    this.metrics.countRefusal(reason);
    return refusalError(reason, model, this.clock.now());
  }

  /** It has arrived and ended, and is counted so. */
  private dropAtOnce(reason: number, model: ServedModel, call: InferCall, deadline: number): ServingError {
    model.cells.dropped[reason]!.value++;
    if (reason === DROP_QUEUE_FULL) model.group.load.bad++;
    return limitError(reason, model, call, deadline, this.clock.now());
  }

  // To an accelerator and back

  /** It goes to an accelerator in a batch of `size`. @param openedAt when the batch could first have gone. */
  dispatched(slot: number, size: number, openedAt: number, at: number): InFlight {
    const request = this.slots.get(slot)!;
    const { model } = request;
    endWait(request);
    request.state = "running";
    request.dispatchedAt = at;
    request.openedAt = openedAt;
    request.batchSize = size;
    const waitedUntil = Math.max(request.receivedAt, openedAt);
    model.cells.batchWait.observe((waitedUntil - request.receivedAt) / 1e6);
    model.cells.acceleratorWait.observe(Math.max(0, at - waitedUntil) / 1e6);
    return request;
  }

  /** Its batch ended well: the client is answered, if it still waits. @param variant of the batch, which its client is told, or what it stands for. @param outputs all that the batch has. */
  executed(
    request: InFlight,
    startedAt: number,
    finishedAt: number,
    variant: number,
    outputs: readonly Tensor[],
    now: number,
  ): void {
    request.executed(startedAt, finishedAt);
    if (!request.isOpen) return;
    if (now > request.deadline) {
      request.refuse(endingError(LATE_ENDING, "late", request, now), now, "deadline");
      return;
    }
    const { name, version } = request.model.spec;
    const wanted = outputsFor(request.call!, outputs);
    const parameters = parametersFor(request.model.spec, variant);
    const ran = { startedAt, size: request.batchSize };
    request.reply({ model: name, version, outputs: wanted, parameters, ran }, now);
  }

  /** Its batch failed: it waits, unless the scheduler ends it. */
  returned(request: InFlight, text: string, code: ErrorCode): void {
    request.failText = text;
    request.failCode = code;
    request.batch = null;
    if (this.slots.get(request.slot) !== request) return;
    request.state = "waiting";
    beginWait(request);
  }

  // Out

  /** All that waits of a kind fails: its task was deleted. What runs is answered. */
  withdraw(of: ServedModel, kind: number): void {
    const now = this.clock.now();
    const ending = failEnding(FAIL_TASK_DELETED);
    for (const request of this.slots) {
      const { model, traits, state, isOpen, slot } = request;
      if (model !== of || traits.kind !== kind || state !== "waiting" || !isOpen) continue;
      request.refuse(endingError(ending, FAIL_CAUSES[FAIL_TASK_DELETED]!, request, now), now, "withdrawn");
      this.timers.clear(slot);
      this.scheduler.cancel(slot);
    }
  }

  private cancel(request: InFlight): void {
    if (!request.cancel(this.clock.now())) return;
    this.timers.clear(request.slot);
    this.scheduler.cancel(request.slot);
  }

  /** The client is answered now; the scheduler ends the request in its own time. */
  private deadline(slot: number): void {
    const request = this.slots.get(slot);
    if (request === undefined || !request.isOpen) return;
    const now = this.clock.now();
    const isWaiting = request.state === "waiting";
    const isDeserted = isWaiting && request.model.group.presentCount === 0;
    const error = !isWaiting
      ? endingError(LATE_ENDING, "late", request, now)
      : isDeserted
        ? endingError(failEnding(FAIL_NO_ACCELERATOR), "no-accelerator", request, now)
        : endingError(dropEnding(DROP_EXPIRED), "expired", request, now);
    request.refuse(error, now, isDeserted ? "deserted" : "deadline");
    // A policy that has not given it up yet must not run it.
    if (isWaiting) this.scheduler.cancel(slot);
  }

  /** The scheduler ended the request in this slot. @param lateByUs see CommandSink.end. */
  ended(slot: number, outcome: number, reason: number, at: number, lateByUs: number): void {
    const request = this.slots.get(slot);
    invariant(request !== undefined, `slot ${slot} ended but holds no request`);
    request.lateByUs = lateByUs;
    const { model, queue } = request;
    this.timers.clear(slot);
    this.slots.release(slot);
    model.live--;
    queue.live--;
    queue.allowedUs -= request.allowedUs;
    model.bytes -= request.byteLength;
    if (request.state === "waiting") endWait(request);
    if (request.isOpen) {
      // By an estimate, perhaps by one of delays: those are measured anew where they refuse everything.
      if (outcome === DROPPED && isRefusal(reason, request.deadline, at) && model.meter.refused(at))
        this.models.tellDelays(model);
      invariant(outcome === DROPPED || outcome === FAILED, `request of slot ${slot} ended well but was not answered`);
      const now = this.clock.now();
      const error =
        outcome === DROPPED
          ? endingError(dropEnding(reason), DROP_REASONS[reason]!, request, now)
          : failError(reason, request, now);
      request.refuse(error, now, "refused");
    }
    this.countEnd(request, outcome, reason, at);
    request.forget();
    model.tasks?.release(request.traits.kind);
    this.onEnded(model);
  }

  /** What the client saw decides between finished and late. */
  private countEnd(request: InFlight, outcome: number, reason: number, at: number): void {
    const { model } = request;
    const { cells } = model;
    const totalUs = request.answeredAt - request.receivedAt;
    let name: "finished" | "late" | "dropped" | "failed" = "finished";
    let why = "";
    if (request.end === "replied") {
      cells.finished.value++;
      cells.duration.observe(totalUs / 1e6);
    } else if (request.end === "cancelled") {
      name = "dropped";
      why = "cancelled";
      cells.dropped[DROP_CANCELLED]!.value++;
    } else if (outcome === FAILED || request.end === "deserted" || request.end === "withdrawn") {
      const ended = request.end === "withdrawn" ? FAIL_TASK_DELETED : outcome === FAILED ? reason : FAIL_NO_ACCELERATOR;
      const cause = servedCause(ended, request.failCode);
      name = "failed";
      why = SERVED_CAUSES[cause]!;
      cells.failed[cause]!.value++;
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
      model.counts.ended(request.end === "replied", totalUs, queueUs);
    }
    if (model.tasks !== null) cells.elastic.ended(model.tasks.nameOf(request.traits.kind), name);
    model.group.load.ended(request.queue, name, why);
    if (request.trace !== null) this.tracer?.end(request, name, why, at);
  }
}

/** It counts for all that is said of how long others wait, at what its share of a largest batch takes by now. */
function beginWait(request: InFlight): void {
  const { model, queue } = request;
  model.queued++;
  request.workUs = queue.perRequestUs * queue.ratio.mean;
  model.group.waits(request.workUs);
}

function endWait(request: InFlight): void {
  const { model } = request;
  model.queued--;
  model.group.waits(-request.workUs);
  request.workUs = 0;
}

const NO_PARAMETERS = Object.freeze({});

/** What an answer says of how much work it is made with. */
function parametersFor({ elastic }: ModelSpec, variant: number): InferReply["parameters"] {
  if (elastic !== undefined) return { gamma: gammaOf(elastic, variant) };
  return variant === 0 ? NO_PARAMETERS : { variant };
}

/** Those that this request asked for, in its order. */
function outputsFor(call: InferCall, outputs: readonly Tensor[]): readonly Tensor[] {
  if (call.outputs.length === 0) return outputs;
  const byName = new Map(outputs.map((output) => [output.name, output]));
  return call.outputs.map((name) => {
    const output = byName.get(name);
    invariant(output !== undefined, `the worker must answer output '${name}' of model '${call.model}'`);
    return output;
  });
}
