/** What an answer, or the lack of one, means as an outcome, seen from the client. */
import { DROP_REASONS, DROPPED, FAIL_CAUSES, FAILED, FINISHED, LATE } from "../core/outcome.js";

/** The server's reasons, and what only a client sees. */
export const LOAD_REASONS = [
  ...DROP_REASONS,
  "shed", // 429 without a reason we know
  "generator-outstanding-full", // not sent: as many requests as allowed were already under way (voids the run)
] as const;
export type LoadReason = (typeof LOAD_REASONS)[number];

/** The server's causes, and what only a client sees. */
export const LOAD_CAUSES = [
  ...FAIL_CAUSES,
  "rejected", // any other 4xx: the request was wrong
  "unavailable", // 503 without a cause we know
  "server-error", // any other 5xx
  "connection-refused", // nobody listened
  "connection-lost", // the connection broke before the answer was complete
  "client-timeout", // no answer within the client's own limit
  "response-too-large", // the answer exceeded the client's limit
  "bad-response", // not HTTP or not gRPC
] as const;
export type LoadCause = (typeof LOAD_CAUSES)[number];

export interface Answer {
  readonly outcome: 0 | 1 | 2 | 3;
  /** Index into LOAD_REASONS or LOAD_CAUSES. */
  readonly code: number;
  /** Counted by this: an HTTP status, a gRPC status name, or the cause when there was no status. */
  readonly status: string;
  /** The server's own word for it; "" = none. */
  readonly reason: string;
  /** What it, or the connection, said to people; "" = nothing. */
  readonly text: string;
}

export const answerDropped = (reason: LoadReason, status: string, said = "", text = ""): Answer => ({
  outcome: DROPPED,
  code: LOAD_REASONS.indexOf(reason),
  status,
  reason: said,
  text,
});
export const answerFailed = (cause: LoadCause, status: string = cause, said = "", text = ""): Answer => ({
  outcome: FAILED,
  code: LOAD_CAUSES.indexOf(cause),
  status,
  reason: said,
  text,
});

export const HTTP_OK: Answer = { outcome: FINISHED, code: 0, status: "200", reason: "", text: "" };
export const GRPC_OK: Answer = { outcome: FINISHED, code: 0, status: "OK", reason: "", text: "" };

/**
 * An answer other than success.
 *
 * A reason the server gives decides, whatever the status: a drop reason is dropped, a failure cause is failed. Without
 * one, a status speaks: past the deadline (504) is late, since a server that does not say that it dropped the request
 * may well have run it; too many (429) is dropped; 503 and the rest are failed. Triton says "timed out in the queue"
 * and "queue full" only in the text of a 503, so the text is looked at as well.
 *
 * @param http   HTTP status of the answer, or the HTTP equivalent of a gRPC status.
 * @param status the name to count it by.
 * @param reason the member `reason` of the error body, "" if there is none.
 * @param text   the error text.
 */
export function answerOf(http: number, status: string, reason: string, text: string): Answer {
  if ((DROP_REASONS as readonly string[]).includes(reason))
    return answerDropped(reason as LoadReason, status, reason, text);
  if ((FAIL_CAUSES as readonly string[]).includes(reason))
    return answerFailed(reason as LoadCause, status, reason, text);
  if (http === 504) return { outcome: LATE, code: 0, status, reason, text };
  if (http === 429) return answerDropped("shed", status, reason, text);
  if (http === 503) {
    if (/timeout expired/i.test(text)) return answerDropped("expired", status, reason, text);
    if (/exceeds maximum queue size/i.test(text)) return answerDropped("queue-full", status, reason, text);
    return answerFailed("unavailable", status, reason, text);
  }
  if (http >= 500) return answerFailed("server-error", status, reason, text);
  return answerFailed("rejected", status, reason, text);
}

/** Error text and reason of a JSON error body; anything else is its text. */
export function readErrorBody(body: string): { reason: string; text: string } {
  try {
    const json = JSON.parse(body) as { error?: unknown; reason?: unknown };
    return { reason: typeof json.reason === "string" ? json.reason : "", text: String(json.error ?? "") };
  } catch {
    return { reason: "", text: body };
  }
}
