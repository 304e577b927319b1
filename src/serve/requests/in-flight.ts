import type { RequestTraits } from "../../core/tables/request-table.js";
import type { ErrorCode, ServingError } from "../../wire/serving-error.js";
import type { CallOfPart, InferCall, InferHandler, InferReply } from "../gateway.js";
import type { CommittedBatch } from "../groups/accelerator-group.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import type { RequestTrace } from "../observation/tracing.js";

/**
 * One request from its entry until the scheduler says that it ended.
 *
 * The client's end and the scheduler's are two moments: a client is answered at its deadline while its batch runs on,
 * and has its answer before the scheduler has counted it. Each happens exactly once.
 *
 * waiting -> running (dispatched) -> waiting (its batch failed and it is tried again) ...; ended from any.
 */
export class InFlight {
  slot = -1;
  state: "waiting" | "running" = "waiting";
  /**
   * How the client's end came: still open, a reply, an error that was no deadline, at its deadline (deserted: with nobody
   * there to run it; withdrawn: when its task was deleted), or by its own wish.
   */
  end: "open" | "replied" | "refused" | "deadline" | "deserted" | "withdrawn" | "cancelled" = "open";
  dispatchedAt = -1;
  openedAt = -1;
  execStartAt = -1;
  execEndAt = -1;
  batchSize = 0;
  /** That it runs in; null while it waits. */
  batch: CommittedBatch | null = null;
  /** What its wait adds to that of others behind it, µs; see AcceleratorGroup. */
  workUs = 0;
  /** By how much the scheduler found that it would miss its deadline, at the earliest; 0: it made no estimate. */
  lateByUs = 0;
  answeredAt = -1;
  /** The runtime's text when a batch with it failed. */
  failText = "";
  /** Whose fault that was. */
  failCode: ErrorCode = "internal";
  trace: RequestTrace | null = null;
  readonly model: ServedModel;
  readonly queue: ServedQueue;
  readonly deadline: number;
  /** Time that it had when it came until it must be done, µs. */
  readonly allowedUs: number;
  private held: InferCall | null;
  private handler: InferHandler | null;
  readonly receivedAt: number;
  /** Of the whole request, where this is a part of a pipeline's; else `receivedAt`. What its client is told counts from here. */
  readonly askedAt: number;
  readonly byteLength: number;
  readonly traits: RequestTraits;
  private readonly part: CallOfPart | undefined;

  /** @throws ServingError invalid-argument: its app is no name. */
  constructor(model: ServedModel, queue: ServedQueue, call: InferCall, deadline: number, handler: InferHandler) {
    this.model = model;
    this.queue = queue;
    this.deadline = deadline;
    this.held = call;
    this.handler = handler;
    this.receivedAt = call.receivedAt;
    this.part = call.part;
    this.askedAt = call.part?.askedAt ?? call.receivedAt;
    this.byteLength = call.byteLength;
    const traits = call.traits ?? model.apps.traitsOf(call.parameters.app);
    this.traits =
      call.part === undefined ? traits : { ...traits, dueBy: call.part.dueBy, headStartUs: call.part.headStartUs };
    this.allowedUs = Math.max(0, Math.min(deadline, this.traits.dueBy) - call.receivedAt);
  }

  get isOpen(): boolean {
    return this.handler !== null;
  }

  get call(): InferCall | null {
    return this.held;
  }

  /** Its batch ended well, from and to these moments. */
  executed(startedAt: number, finishedAt: number): void {
    this.execStartAt = startedAt;
    this.execEndAt = finishedAt;
    this.part?.ran((finishedAt - startedAt) / this.batchSize);
  }

  reply(reply: InferReply, now: number): void {
    this.close("replied", now)?.onReply(reply);
  }

  refuse(error: ServingError, now: number, end: "refused" | "deadline" | "deserted" | "withdrawn"): void {
    this.close(end, now)?.onError(error);
  }

  /** @returns false when it had been answered. */
  cancel(now: number): boolean {
    return this.close("cancelled", now) !== null;
  }

  /** Its tensors are no longer needed: memory is given back before the slot is. */
  forget(): void {
    this.held = null;
  }

  private close(end: InFlight["end"], now: number): InferHandler | null {
    const { handler } = this;
    if (handler === null) return null;
    this.handler = null;
    this.end = end;
    this.answeredAt = now;
    return handler;
  }
}
