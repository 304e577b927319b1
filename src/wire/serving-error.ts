/**
 * The one class of operating error, with a closed list of codes that map to HTTP and gRPC in one table.
 *
 * `cause` is for logs and never goes on the wire. Messages say what was expected, what was got and, where it helps, the fix.
 */
export const ERROR_CODES = {
  "invalid-argument": { http: 400, grpc: 3 },
  "permission-denied": { http: 403, grpc: 7 },
  "not-found": { http: 404, grpc: 5 },
  "method-not-allowed": { http: 405, grpc: 12 },
  "already-exists": { http: 409, grpc: 6 },
  "payload-too-large": { http: 413, grpc: 8 },
  "unsupported-encoding": { http: 415, grpc: 12 },
  "resource-exhausted": { http: 429, grpc: 8 },
  cancelled: { http: 499, grpc: 1 },
  internal: { http: 500, grpc: 13 },
  unimplemented: { http: 501, grpc: 12 },
  unavailable: { http: 503, grpc: 14 },
  "deadline-exceeded": { http: 504, grpc: 4 },
} as const;
export type ErrorCode = keyof typeof ERROR_CODES;

export interface ErrorDetails {
  /** A drop reason or failure cause of core/outcome.ts, or a refusal reason ("draining", "loading", "in-flight-full", ...). */
  readonly reason?: string;
  /** Predicted time to an answer, from the receipt of the request. */
  readonly estimateUs?: number;
  /** By how much more or less is usual. */
  readonly estimateSpreadUs?: number;
  /** The deadline, as a length from the receipt of the request. */
  readonly deadlineUs?: number;
  /** For 429 and 503: when to come back, whole seconds >= 1, from the predicted drain time. */
  readonly retryAfterS?: number;
  /** The module of a pipeline that failed or dropped. */
  readonly module?: string;
  readonly cause?: unknown;
}

export class ServingError extends Error {
  override readonly name = "ServingError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.details = details;
  }
  /** The one documented conversion from unknown: a bug becomes `internal` and keeps its cause for the log. */
  static from(thrown: unknown): ServingError {
    if (thrown instanceof ServingError) return thrown;
    return new ServingError("internal", "internal error", { cause: thrown, reason: "internal" });
  }
}
