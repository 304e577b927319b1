/** What the client of a request that ends unanswered, or is refused, is told: the sentence, the numbers, when to come back. */
import { DROP_BYTES_FULL, DROP_REASONS, FAIL_CAUSES, FAIL_MODEL_ERROR } from "../core/outcome.js";
import { ServingError } from "../wire/serving-error.js";
import { dropEnding, type Ending, failEnding, REFUSALS, type Refusal } from "./endings.js";
import type { InferCall } from "./gateway.js";
import type { InFlight } from "./in-flight.js";
import type { ServedModel } from "./served-model.js";

/** It was a request and ended without an answer. @param reason short and fixed, for programs. */
export function endingError(ending: Ending, reason: string, request: InFlight, text = ending.text): ServingError {
  const { model, queue } = request;
  const deadlineUs = request.deadline - request.receivedAt;
  const estimateUs = Math.round(drainUs(model) + queue.aloneUs);
  return new ServingError(
    ending.code,
    `model '${model.spec.name}': ${text} (deadline ${deadlineUs} us, estimate ${estimateUs} us)`,
    {
      reason,
      estimateUs,
      deadlineUs,
      ...(ending.retryAfter ? { retryAfterS: retryAfterS(model) } : {}),
    },
  );
}

/** Its batch failed, and it is not tried again. */
export function failError(cause: number, request: InFlight): ServingError {
  const ending = failEnding(cause);
  const { failText, failCode } = request;
  const text = failText === "" ? ending.text : `${ending.text}: ${failText}`;
  const code = cause === FAIL_MODEL_ERROR ? failCode : ending.code;
  return endingError({ ...ending, code }, FAIL_CAUSES[cause]!, request, text);
}

/** Dropped as it came: the model holds its limit of requests or of bytes. */
export function limitError(reason: number, model: ServedModel, call: InferCall, deadline: number): ServingError {
  const ending = dropEnding(reason);
  const { spec } = model;
  const limit =
    reason === DROP_BYTES_FULL
      ? `must be at most ${spec.queueBytesMax} bytes; was ${model.bytes + call.byteLength}`
      : `must be at most ${spec.queueRequestsMax} requests; was ${model.queued + 1}`;
  return new ServingError(ending.code, `model '${spec.name}': ${ending.text}: ${limit}`, {
    reason: DROP_REASONS[reason]!,
    estimateUs: Math.round(drainUs(model)),
    deadlineUs: deadline - call.receivedAt,
    retryAfterS: retryAfterS(model),
  });
}

/** Refused before it was a request. */
export function refusalError(reason: Refusal, model: ServedModel): ServingError {
  const { code, text } = REFUSALS[reason];
  return new ServingError(code, `model '${model.spec.name}': ${text}`, { reason, retryAfterS: retryAfterS(model) });
}

/** Time until what waits for the model now is served, µs. */
function drainUs(model: ServedModel): number {
  let us = 0;
  for (const queue of model.queues.values()) us += queue.live * queue.perRequestUs;
  return us / Math.max(1, model.group.presentCount);
}

const retryAfterS = (model: ServedModel): number => Math.max(1, Math.ceil(drainUs(model) / 1e6));
