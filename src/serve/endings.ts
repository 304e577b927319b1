/**
 * What the client is told for each way a request can end without an answer, and each way it is refused before it
 * began. The one table of cause -> error code (and so HTTP status and gRPC code) and reason; docs/errors.md shows it.
 */
import { DROP_REASONS, type DropReason, FAIL_CAUSES, FAIL_MODEL_ERROR } from "../core/outcome.js";
import { type ErrorCode, ServingError } from "../wire/serving-error.js";

export interface Ending {
  readonly code: ErrorCode;
  /** Whether a client should come back, and so is told when. */
  readonly retryAfter: boolean;
  /** A sentence for people; the numbers are in the error's details. */
  readonly text: string;
}

const deadline = (text: string): Ending => ({ code: "deadline-exceeded", retryAfter: false, text });
const exhausted = (text: string): Ending => ({ code: "resource-exhausted", retryAfter: true, text });
const unavailable = (text: string): Ending => ({ code: "unavailable", retryAfter: true, text });

export const DROP_ENDINGS: Readonly<Record<DropReason, Ending>> = {
  expired: deadline("the deadline passed while the request was queued"),
  infeasible: deadline("the deadline can no longer be met, not even by running the request alone and now"),
  "predicted-late": deadline("the request cannot be answered by its deadline behind what is queued"),
  "queue-full": exhausted("the model's queue holds its limit of requests"),
  "bytes-full": exhausted("the model's queue holds its limit of bytes"),
  budget: deadline("the request has spent its share of the pipeline's time"),
  skipped: deadline("the request was given up in favour of others"),
  cancelled: { code: "cancelled", retryAfter: false, text: "the request was cancelled" },
};

export const LATE_ENDING: Ending = deadline("the deadline passed while the request was executing");

/** Why a request failed, as its client and metrics are told: the core's causes, and what only shows in what a model or step says. */
export const SERVED_CAUSES = [...FAIL_CAUSES, "invalid-argument"] as const;
export type ServedCause = (typeof SERVED_CAUSES)[number];

export const FAIL_ENDINGS: Readonly<Record<ServedCause, Ending>> = {
  "worker-crashed": unavailable("the worker that ran the request ended"),
  "worker-hung": unavailable("the worker that ran the request hung and was ended"),
  "model-error": { code: "internal", retryAfter: false, text: "the model failed" },
  "no-accelerator": unavailable("no accelerator that could run the model is left"),
  draining: unavailable("the server is shutting down"),
  internal: { code: "internal", retryAfter: false, text: "internal error" },
  "task-deleted": { code: "not-found", retryAfter: false, text: "the request's task was deleted while it waited" },
  "invalid-argument": {
    code: "invalid-argument",
    retryAfter: false,
    text: "the model refused the request's values",
  },
};

/** Refused before it was a request: counted apart, since it has not arrived. */
export const REFUSALS = {
  draining: unavailable("the server is shutting down"),
  loading: unavailable("the model is being loaded"),
  unloading: unavailable("the model is being unloaded"),
  unloaded: unavailable("the model is not loaded"),
  "no-accelerator": unavailable("no accelerator that could run the model is left"),
  "task-profiling": unavailable("the task is being profiled"),
  "in-flight-full": exhausted("the server holds its limit of requests"),
  "in-flight-bytes-full": exhausted("the door holds its limit of bytes"),
  "address-full": exhausted("the client's address holds its part of the door's limits"),
  "connection-full": exhausted("the connection holds its limit of requests or bytes"),
  "parse-queue-full": exhausted("too many large bodies wait to be parsed; binary data needs no parsing"),
  expired: deadline("the deadline passed before the body was parsed"),
  "scheduler-ring-full": exhausted("the scheduler has not yet taken what came before"),
  "queues-full": exhausted("the scheduler holds its limit of groups of unlike requests"),
  "share-groups-full": exhausted("the model holds its limit of groups of unlike requests"),
} as const satisfies Readonly<Record<string, Ending>>;
export type Refusal = keyof typeof REFUSALS;

export const dropEnding = (reason: number): Ending => DROP_ENDINGS[DROP_REASONS[reason]!];
/** @param cause of SERVED_CAUSES. */
export const failEnding = (cause: number): Ending => FAIL_ENDINGS[SERVED_CAUSES[cause]!];

/** What the core knows as a model's error is the client's where the model or step says so. @returns of SERVED_CAUSES. */
export const servedCause = (cause: number, code: ErrorCode): number =>
  cause === FAIL_MODEL_ERROR && code === "invalid-argument" ? FAIL_CAUSES.length : cause;

/** A folder that has become the other kind of what is served. */
export const kindError = (
  name: string,
  was: "model" | "pipeline",
  state: string,
  is: "model" | "pipeline",
): ServingError =>
  new ServingError(
    "invalid-argument",
    `'${name}': its folder holds a ${is} now, and it is still there as a ${was} (${state}): unload it first`,
  );
