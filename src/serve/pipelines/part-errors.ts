/** How parts of a pipeline's requests end, and what the client of the whole is told of it. */
import {
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_DRAINING,
  FAIL_INTERNAL,
  FAIL_MODEL_ERROR,
  FAILED,
  LATE,
} from "../../core/outcome.js";
import { type ErrorCode, ServingError } from "../../wire/serving-error.js";
import { dropEnding, failEnding, LATE_ENDING, SERVED_CAUSES, servedCause } from "../endings.js";
import type { OpenRequest } from "./open-request.js";

/** What a module's data does wrong, in its place. */
export const moduleFault = (text: string, code: ErrorCode = "internal"): ServingError =>
  new ServingError(code, text, { reason: SERVED_CAUSES[servedCause(FAIL_MODEL_ERROR, code)]! });

export function drainingError(): ServingError {
  const { code, text } = failEnding(FAIL_DRAINING);
  return new ServingError(code, text, { reason: FAIL_CAUSES[FAIL_DRAINING]!, retryAfterS: 1 });
}

/** @param limit what all requests together have at most. */
export function fullError(limit: string): ServingError {
  const { code, text } = dropEnding(DROP_QUEUE_FULL);
  return new ServingError(code, `${text}: ${limit}`, { reason: DROP_REASONS[DROP_QUEUE_FULL]!, retryAfterS: 1 });
}

/** Its last part was a soft one, and missing only after the deadline. */
export function lateError(pipeline: string, { call, deadline }: OpenRequest): ServingError {
  const { code, text } = LATE_ENDING;
  return new ServingError(code, `pipeline '${pipeline}': ${text}`, {
    reason: "late",
    deadlineUs: deadline - call.receivedAt,
  });
}

/** What the part's client would be told, as the client of the whole is told it. */
export function moduleError(
  pipeline: string,
  module: string,
  { call, deadline }: OpenRequest,
  { code, message, details }: ServingError,
): ServingError {
  return new ServingError(code, `pipeline '${pipeline}': module '${module}': ${message}`, {
    ...details,
    module,
    deadlineUs: deadline - call.receivedAt,
  });
}

/** How a part ended, by what its client would be told. */
export function codesOf({ code, details }: ServingError): { outcome: number; reason: number } {
  const { reason = "" } = details;
  if (reason === "late") return { outcome: LATE, reason: 0 };
  const drop = (DROP_REASONS as readonly string[]).indexOf(reason);
  if (drop >= 0) return { outcome: DROPPED, reason: drop };
  if (code === "resource-exhausted") return { outcome: DROPPED, reason: DROP_QUEUE_FULL };
  const cause = (FAIL_CAUSES as readonly string[]).indexOf(reason);
  return { outcome: FAILED, reason: cause >= 0 ? cause : FAIL_INTERNAL };
}
