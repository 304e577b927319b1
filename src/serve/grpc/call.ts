/**
 * One inference over gRPC, unary or one message of a stream: from its bytes to those of a reply, or an error, exactly once.
 *
 * Its place at the door is taken while the message comes (inlet.ts) and ends with its answer or its stream; a request
 * that is not over by then is cancelled.
 */
import type { TimeUs } from "../../core/time.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { type BodyPool, DECODE_INLINE_BYTES_MAX, ENCODE_INLINE_BYTES_MAX } from "../../wire/infer/body-pool.js";
import { decodeProto, type InferMessage, readInferMessage, writeAnswer } from "../../wire/infer/infer-proto.js";
import { encodeProto, MessagePieces } from "../../wire/infer/message-pieces.js";
import { scanInferRequest } from "../../wire/infer/proto-scan.js";
import type { ErrorCode, ServingError } from "../../wire/serving-error.js";
import { type DoorOptions, servingErrorOf } from "../door.js";
import type { Gateway, InferHandler, InferReply } from "../gateway.js";
import type { Place } from "../requests/admission.js";
import type { Receipt } from "./reception.js";

export interface CallContext {
  readonly gateway: Gateway;
  readonly options: DoorOptions;
  readonly bodyPool: BodyPool;
}

/**
 * A cancellation this close before the deadline is an expiry: grpc-js ends calls by a timer of whole milliseconds, and a
 * client's own timer runs ahead of ours by the time its request was on the way.
 */
const DEADLINE_SLACK_US = 5000;
/** Bytes that a message is taken to need more while its typed contents are decoded. */
const PARSE_FACTOR = 4;

/** On the last answer of every request of a stream, and the only one: Triton's clients of decoupled models wait for it. */
export const FINAL_RESPONSE = { triton_final_response: true } as const;

export class InferCallInFlight implements InferHandler {
  private isOver = false;
  /** The gateway has seen it: what becomes of it is counted there. */
  private isRequest = false;
  private cancelGateway: (() => void) | null = null;
  private message: InferMessage | null = null;
  /** The request's id, "" until it is decoded. */
  id = "";

  constructor(
    private readonly context: CallContext,
    private readonly kind: "unary" | "streamed",
    private readonly bytes: Buffer,
    private readonly place: Place,
    private readonly receipt: Receipt,
    private readonly traceparent: string | null,
    /** Gets a ModelInferResponse, or the error. Not called after `cancel`. */
    private readonly done: (error: ServingError | null, response: MessagePieces | null) => void,
  ) {}

  start(): void {
    try {
      this.place.onEnd(() => this.cancel());
      if (this.isOver) return;
      if (scanInferRequest(this.bytes).walkedBytes <= DECODE_INLINE_BYTES_MAX) {
        const request = decodeProto(this.bytes);
        this.id = request.id;
        this.infer(readInferMessage(request));
      } else this.decodeElsewhere();
    } catch (error) {
      this.fail(error);
    }
  }

  private decodeElsewhere(): void {
    const { deadlineAt } = this.receipt;
    // Values of a byte or two become numbers of eight.
    const needed = PARSE_FACTOR * this.bytes.byteLength;
    this.place.grow(needed);
    const settle = (error: ServingError | null, message: InferMessage | null): void => {
      this.cancelGateway = null;
      this.place.hold(-needed);
      if (this.isOver) return;
      if (error !== null) this.fail(error);
      else this.infer(message!);
    };
    const giveUp = this.context.bodyPool.decodeProto(this.bytes, settle, deadlineAt ?? undefined);
    if (!this.isOver && this.message === null) this.cancelGateway = giveUp;
  }

  private infer(message: InferMessage): void {
    this.message = message;
    this.id = message.id;
    try {
      const cancel = this.context.gateway.infer(
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
      this.isRequest = true;
      if (!this.isOver) this.cancelGateway = cancel;
    } catch (error) {
      // The gateway has counted what it refuses.
      this.isRequest = true;
      this.fail(error);
    }
  }

  /**
   * The client has gone, or its deadline has passed. An expiry is left to the gateway, which answers at the deadline
   * and counts it as what it is; the answer then finds nobody, which is fine.
   */
  cancel(): void {
    const { deadlineAt } = this.receipt;
    if (this.isOver || (deadlineAt !== null && this.message !== null && isPast(deadlineAt))) return;
    this.end("cancelled", "cancelled");
    this.cancelGateway?.();
  }

  onReply(reply: InferReply): void {
    if (this.isOver) return;
    this.cancelGateway = null;
    const { id, isRaw } = this.message!;
    const answer = this.kind === "unary" ? reply : { ...reply, parameters: { ...reply.parameters, ...FINAL_RESPONSE } };
    let bytes = 0;
    for (const output of reply.outputs) bytes += output.data.byteLength;
    try {
      if (isRaw || bytes <= ENCODE_INLINE_BYTES_MAX) this.answer(encodeProto(writeAnswer(answer, id, isRaw)));
      else
        this.context.bodyPool.encodeProto(answer, id, (error, response) => {
          if (this.isOver) return;
          try {
            if (error !== null) throw error;
            this.answer(new MessagePieces([response!]));
          } catch (refusal) {
            this.fail(refusal);
          }
        });
    } catch (error) {
      this.fail(error);
    }
  }

  onError(error: ServingError): void {
    if (this.isOver) return;
    this.cancelGateway = null;
    this.fail(error);
  }

  private answer(response: MessagePieces): void {
    // Refused where the client has not read what it was sent before: an answer is held until it is.
    this.place.grow(response.length);
    this.end("ok", "");
    this.done(null, response);
  }

  private fail(thrown: unknown): void {
    if (this.isOver) return;
    const error = servingErrorOf(thrown, this.context.options);
    if (!this.isRequest) refuseBefore(this.context, error, this.receipt.receivedAt, this.traceparent);
    this.end(error.code, error.details.reason ?? error.code);
    this.done(error, null);
  }

  private end(code: ErrorCode | "ok", reason: string): void {
    this.isOver = true;
    this.context.options.onAnswer?.("grpc", code, reason);
  }
}

/** An inference was refused before the gateway saw it, and before its message was read: told for counters and traces. */
export function refuseBefore(
  { gateway }: Pick<CallContext, "gateway">,
  error: ServingError,
  receivedAt: TimeUs,
  traceparent: string | null,
): void {
  gateway.refused({ model: "", version: "", receivedAt, traceparent }, error);
}

const isPast = (deadlineAt: TimeUs): boolean => monotonicNow() >= deadlineAt - DEADLINE_SLACK_US;
