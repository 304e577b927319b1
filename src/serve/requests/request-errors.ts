/** What the client of a request that ends unanswered, or is refused, is told: the sentence, the numbers, when to come back. */
import { DROP_BYTES_FULL, DROP_REASONS, FAIL_MODEL_ERROR } from "../../core/outcome.js";
import { ServingError } from "../../wire/serving-error.js";
import { dropEnding, type Ending, failEnding, REFUSALS, type Refusal, SERVED_CAUSES, servedCause } from "../endings.js";
import type { InferCall } from "../gateway.js";
import type { ServedModel } from "../models/served-model.js";
import { answerEstimate, entryEstimate, retryAfterS } from "./answer-estimate.js";
import type { InFlight } from "./in-flight.js";

/** It was a request and ended without an answer. @param reason short and fixed, for programs. */
export function endingError(
  ending: Ending,
  reason: string,
  request: InFlight,
  now: number,
  text = ending.text,
): ServingError {
  const { model } = request;
  const { askedAt, receivedAt } = request;
  const deadlineUs = request.deadline - askedAt;
  const { estimateUs: ownUs, estimateSpreadUs } = answerEstimate(request, now);
  const estimateUs = ownUs + receivedAt - askedAt;
  return new ServingError(
    ending.code,
    `model '${model.spec.name}': ${text} (deadline ${deadlineUs} us, estimate ${estimateUs} us, give or take ${estimateSpreadUs})`,
    {
      reason,
      estimateUs,
      estimateSpreadUs,
      deadlineUs,
      ...(ending.retryAfter ? { retryAfterS: retryAfterS(model.group, now) } : {}),
    },
  );
}

/** Its batch failed, and it is not tried again. */
export function failError(cause: number, request: InFlight, now: number): ServingError {
  const { failText, failCode } = request;
  const served = servedCause(cause, failCode);
  const ending = failEnding(served);
  const text = failText === "" ? ending.text : `${ending.text}: ${failText}`;
  const code = cause === FAIL_MODEL_ERROR ? failCode : ending.code;
  return endingError({ ...ending, code }, SERVED_CAUSES[served]!, request, now, text);
}

/** Dropped as it came: the model holds its limit of requests or of bytes. */
export function limitError(
  reason: number,
  model: ServedModel,
  call: InferCall,
  deadline: number,
  now: number,
): ServingError {
  const ending = dropEnding(reason);
  const { spec } = model;
  const askedAt = call.part?.askedAt ?? call.receivedAt;
  const { estimateUs, estimateSpreadUs } = entryEstimate(model, null, call.receivedAt, now);
  const limit =
    reason === DROP_BYTES_FULL
      ? `must be at most ${spec.queueBytesMax} bytes; was ${model.bytes + call.byteLength}`
      : `must be at most ${spec.queueRequestsMax} requests; was ${model.queued + 1}`;
  return new ServingError(ending.code, `model '${spec.name}': ${ending.text}: ${limit}`, {
    reason: DROP_REASONS[reason]!,
    estimateUs: estimateUs + call.receivedAt - askedAt,
    estimateSpreadUs,
    deadlineUs: deadline - askedAt,
    retryAfterS: retryAfterS(model.group, now),
  });
}

/** Refused before it was a request. */
export function refusalError(reason: Refusal, model: ServedModel, now: number): ServingError {
  const { code, text } = REFUSALS[reason];
  return new ServingError(code, `model '${model.spec.name}': ${text}`, {
    reason,
    retryAfterS: retryAfterS(model.group, now),
  });
}
