/**
 * ModelStreamInfer: many requests over one stream, answered in the order they came (as Triton does for models that give
 * one reply each). An error of one request travels as error_message and the stream goes on; with the header
 * `triton_grpc_error: true` the first error ends the stream with its status instead.
 */
import type { ServerDuplexStream } from "@grpc/grpc-js";
import { wrapInStream, writeProtoParameters } from "../../wire/infer-proto.js";
import { monotonicNow } from "../../wire/monotonic-clock.js";
import { ModelInferResponse, ModelStreamInferResponse } from "../../wire/proto/inference.js";
import type { ServingError } from "../../wire/serving-error.js";
import { type CallContext, InferCallInFlight } from "./call.js";
import { receiptOf } from "./receipt.js";
import { statusOf } from "./status.js";

/** Requests of one stream in flight; beyond it the stream is not read, which the client feels as flow control. */
const STREAM_IN_FLIGHT_MAX = 256;

interface Slot {
  readonly call: InferCallInFlight;
  /** Bytes of a ModelStreamInferResponse. */
  answer: Uint8Array | null;
}

export function serveStream(context: CallContext, stream: ServerDuplexStream<Buffer, Uint8Array>): void {
  const { deadlineAt } = receiptOf(stream.metadata);
  const wantsStatus = stream.metadata.get("triton_grpc_error")[0] === "true";
  const traceparent = stream.metadata.get("traceparent")[0];
  const slots: Slot[] = [];
  let isOver = false;
  let hasEnded = false;
  let canWrite = true;

  const flush = (): void => {
    while (slots.length > 0 && slots[0]!.answer !== null && canWrite && !isOver) {
      const { call, answer } = slots.shift()!;
      canWrite = stream.write(answer!);
      call.release();
    }
    if (slots.length < STREAM_IN_FLIGHT_MAX && canWrite) stream.resume();
    if (hasEnded && slots.length === 0 && !isOver) {
      isOver = true;
      stream.end();
    }
  };
  const abandon = (): void => {
    isOver = true;
    for (const { call } of slots) {
      call.cancel();
      call.release();
    }
    slots.length = 0;
  };

  stream.on("data", (bytes: Buffer) => {
    if (isOver) return;
    const call = new InferCallInFlight(
      context,
      bytes,
      { receivedAt: monotonicNow(), deadlineAt },
      typeof traceparent === "string" ? traceparent : null,
      (error, response) => {
        if (isOver) return;
        if (error !== null && wantsStatus) {
          abandon();
          stream.emit("error", statusOf(error));
          return;
        }
        slot.answer = error === null ? wrapInStream(response!) : errorAnswer(error, call.id);
        flush();
      },
    );
    const slot: Slot = { call, answer: null };
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
function errorAnswer(error: ServingError, id: string): Uint8Array {
  const { reason, estimateUs, deadlineUs, retryAfterS } = error.details;
  return ModelStreamInferResponse.encode({
    errorMessage: error.message,
    inferResponse: ModelInferResponse.fromPartial({
      id,
      parameters: writeProtoParameters({
        rubato_reason: reason ?? error.code,
        ...(estimateUs === undefined ? {} : { rubato_estimate_us: estimateUs }),
        ...(deadlineUs === undefined ? {} : { rubato_deadline_us: deadlineUs }),
        ...(retryAfterS === undefined ? {} : { retry_after_s: retryAfterS }),
      }),
    }),
  }).finish();
}
