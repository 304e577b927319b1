/**
 * One inference over gRPC, unary or one message of a stream: from its bytes to a reply or an error, exactly once.
 *
 * Its place at the door is taken before the message is decoded and given back when it ends.
 */
import type { TimeUs } from "../../core/time.js";
import { decodeProto, type InferMessage, readInferMessage, writeAnswer } from "../../wire/infer-proto.js";
import { monotonicNow } from "../../wire/monotonic-clock.js";
import type { ModelInferResponse } from "../../wire/proto/inference.js";
import type { ServingError } from "../../wire/serving-error.js";
import type { Admission } from "../admission.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway, InferHandler, InferReply } from "../gateway.js";
import type { Receipt } from "./receipt.js";

export interface CallContext {
  readonly gateway: Gateway;
  readonly options: DoorOptions;
  readonly admission: Admission;
}

/** grpc-js ends a call by a timer of whole milliseconds; a cancellation this close before the deadline is an expiry. */
const DEADLINE_SLACK_US = 2000;

export class InferCallInFlight implements InferHandler {
  private isAdmitted = false;
  private isOver = false;
  private cancelGateway: (() => void) | null = null;
  private message: InferMessage | null = null;
  /** The request's id, once decoded. */
  id = "";

  constructor(
    private readonly context: CallContext,
    private readonly bytes: Buffer,
    private readonly receipt: Receipt,
    private readonly traceparent: string | null,
    private readonly done: (error: ServingError | null, response: ModelInferResponse | null) => void,
  ) {}

  start(): void {
    const { gateway, admission } = this.context;
    try {
      admission.enter(this.bytes.byteLength);
      this.isAdmitted = true;
      const request = decodeProto(this.bytes);
      this.id = request.id;
      const message = readInferMessage(request);
      this.message = message;
      const cancel = gateway.infer(
        {
          model: message.model,
          version: message.version,
          id: message.id,
          inputs: message.inputs,
          outputs: message.outputs,
          receivedAt: this.receipt.receivedAt,
          timeoutUs: message.timeoutUs,
          transportDeadlineAt: this.receipt.deadlineAt,
          parameters: message.parameters,
          traceparent: this.traceparent,
          byteLength: this.bytes.byteLength,
        },
        this,
      );
      if (!this.isOver) this.cancelGateway = cancel;
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * The client has gone, or its deadline has passed. An expiry is left to the gateway, which answers at the deadline
   * and counts it as what it is; the answer then finds nobody, which is fine.
   */
  cancel(): void {
    const { deadlineAt } = this.receipt;
    if (this.isOver || (deadlineAt !== null && isPast(deadlineAt))) return;
    this.end("cancelled", "cancelled");
    this.cancelGateway?.();
  }

  onReply(reply: InferReply): void {
    if (this.isOver) return;
    try {
      const response = writeAnswer(reply, this.message!.id, this.message!.isRaw);
      this.end("ok", "");
      this.done(null, response);
    } catch (error) {
      this.fail(error);
    }
  }

  onError(error: ServingError): void {
    if (!this.isOver) this.fail(error);
  }

  private fail(thrown: unknown): void {
    if (this.isOver) return;
    const error = servingErrorOf(thrown, this.context.options);
    this.end(error.code, error.details.reason ?? error.code);
    this.done(error, null);
  }

  private end(code: Parameters<NonNullable<DoorOptions["onAnswer"]>>[1], reason: string): void {
    this.isOver = true;
    if (this.isAdmitted) this.context.admission.leave(this.bytes.byteLength);
    this.context.options.onAnswer?.("grpc", code, reason);
  }
}

const isPast = (deadlineAt: TimeUs): boolean => monotonicNow() >= deadlineAt - DEADLINE_SLACK_US;
