/**
 * ModelStreamInfer: many requests over one stream, answered in the order they came (as Triton does for models that give
 * one reply each). An error of one request travels as error_message and the stream goes on; with the header
 * `triton_grpc_error: true` the first error ends the stream with its status instead.
 */
import type { ServerDuplexStream } from "@grpc/grpc-js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { writeProtoParameters } from "../../wire/infer/infer-proto.js";
import { MessagePieces, wrapInStream } from "../../wire/infer/message-pieces.js";
import { ModelInferResponse, ModelStreamInferResponse } from "../../wire/proto/inference.js";
import type { ServingError } from "../../wire/serving-error.js";
import { servingErrorOf } from "../door.js";
import type { Place } from "../requests/admission.js";
import { type CallContext, FINAL_RESPONSE, InferCallInFlight, refuseBefore } from "./call.js";
import { receptionOf } from "./reception.js";
import { statusOf } from "./status.js";

/** Requests of one stream in flight; beyond it the stream is not read, which the client feels as flow control. */
const STREAM_IN_FLIGHT_MAX = 256;

interface Slot {
  /** null: there was no place for it. */
  readonly place: Place | null;
  /** A ModelStreamInferResponse. */
  answer: MessagePieces | null;
}

export function serveStream(context: CallContext, stream: ServerDuplexStream<Buffer, MessagePieces>): void {
  const { deadlineAt, inlet } = receptionOf(stream.metadata);
  const wantsStatus = stream.metadata.get("triton_grpc_error")[0] === "true";
  const traceparent = stream.metadata.get("traceparent")[0];
  const slots: Slot[] = [];
  let isOver = false;
  let hasEnded = false;
  let canWrite = true;

  const flush = (): void => {
    while (slots.length > 0 && slots[0]!.answer !== null && canWrite && !isOver) {
      const { place, answer } = slots.shift()!;
      canWrite = stream.write(answer!, () => place?.end());
    }
    if (slots.length < STREAM_IN_FLIGHT_MAX && canWrite) stream.resume();
    if (hasEnded && slots.length === 0 && !isOver) {
      isOver = true;
      stream.end();
    }
  };
  const settle = (slot: Slot, error: ServingError | null, response: MessagePieces | null, id: string): void => {
    if (isOver) return;
    if (error !== null && wantsStatus) {
      abandon();
      stream.emit("error", statusOf(error));
      return;
    }
    slot.answer = error === null ? wrapInStream(response!) : errorAnswer(error, id);
    flush();
  };
  const abandon = (): void => {
    isOver = true;
    for (const { place } of slots) place?.end();
    slots.length = 0;
  };

  stream.on("data", (bytes: Buffer) => {
    if (isOver) return;
    let place: Place;
    try {
      place = inlet.take();
    } catch (thrown) {
      const refusal = servingErrorOf(thrown, context.options);
      refuseBefore(context, refusal, monotonicNow(), null);
      context.options.onAnswer?.("grpc", refusal.code, refusal.details.reason ?? refusal.code);
      const slot: Slot = { place: null, answer: null };
      slots.push(slot);
      settle(slot, refusal, null, "");
      return;
    }
    const slot: Slot = { place, answer: null };
    const call = new InferCallInFlight(
      context,
      "streamed",
      bytes,
      place,
      { receivedAt: monotonicNow(), deadlineAt },
      typeof traceparent === "string" ? traceparent : null,
      (error, response) => settle(slot, error, response, call.id),
    );
    slots.push(slot);
    if (slots.length >= STREAM_IN_FLIGHT_MAX) stream.pause();
    call.start();
  });
  stream.on("drain", () => {
    canWrite = true;
    flush();
  });
  stream.on("end", () => {
    hasEnded = true;
    flush();
  });
  stream.on("cancelled", abandon);
}

/** The text for Triton's clients; the id, reason and numbers beside it, for those who look. */
function errorAnswer(error: ServingError, id: string): MessagePieces {
  const { reason, estimateUs, estimateSpreadUs, deadlineUs, retryAfterS } = error.details;
  const bytes = ModelStreamInferResponse.encode({
    errorMessage: error.message,
    inferResponse: ModelInferResponse.fromPartial({
      id,
      parameters: writeProtoParameters({
        ...FINAL_RESPONSE,
        rubato_reason: reason ?? error.code,
        ...(estimateUs === undefined ? {} : { rubato_estimate_us: estimateUs }),
        ...(estimateSpreadUs === undefined ? {} : { rubato_estimate_spread_us: estimateSpreadUs }),
        ...(deadlineUs === undefined ? {} : { rubato_deadline_us: deadlineUs }),
        ...(retryAfterS === undefined ? {} : { retry_after_s: retryAfterS }),
      }),
    }),
  }).finish();
  return new MessagePieces([bytes]);
}
