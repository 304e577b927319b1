/**
 * How a request ends: exactly one of four ways.
 *
 * finished: its execution ended by the deadline. late: it began to execute but did not end in time.
 * dropped: given up before execution, with a reason. failed: something broke, with a cause.
 * What is refused before it is a request (malformed, unknown model, draining) has not arrived.
 *
 * Codes are small integers so that the hot path and the ring between threads carry them without allocation;
 * the names are what reports, metrics and answers show.
 */
export const OUTCOMES = ["finished", "late", "dropped", "failed"] as const;
export type Outcome = (typeof OUTCOMES)[number];
export const FINISHED = 0;
export const LATE = 1;
export const DROPPED = 2;
export const FAILED = 3;

/** Why a request was dropped. The list is closed; order is the wire code. */
export const DROP_REASONS = [
  "expired", // its deadline passed while it was queued
  "infeasible", // not even alone could it finish by its deadline
  "predicted-late", // the policy predicts that it cannot finish (Symphony: its batch cannot; PARD: end-to-end estimate)
  "queue-full", // the queue holds its limit of requests
  "bytes-full", // the queue holds its limit of bytes
  "budget", // PARD, Clipper++: its share of the pipeline's budget is spent
  "skipped", // OTAS: the allocation chose not to run its batch
  "cancelled", // the client went away or asked to cancel
] as const;
export type DropReason = (typeof DROP_REASONS)[number];
export const DROP_EXPIRED = 0;
export const DROP_INFEASIBLE = 1;
export const DROP_PREDICTED_LATE = 2;
export const DROP_QUEUE_FULL = 3;
export const DROP_BYTES_FULL = 4;
export const DROP_BUDGET = 5;
export const DROP_SKIPPED = 6;
export const DROP_CANCELLED = 7;

/**
 * Given up by an estimate, not by the clock: its deadline has not passed, but not even alone and now would it be answered
 * by then. What refuses must be measured again (see Release).
 * @param deadline the client's.
 */
export const isRefusal = (reason: number, deadline: number, at: number): boolean =>
  reason === DROP_INFEASIBLE || (reason === DROP_EXPIRED && at < deadline);

/** Why a request failed. The list is closed; order is the wire code. */
export const FAIL_CAUSES = [
  "worker-crashed", // the process that ran its batch ended
  "worker-hung", // the batch ran longer than the configured multiple of its prediction and was killed
  "model-error", // the model refused the batch (the runtime's text goes to the client)
  "no-accelerator", // nothing that could run it is left
  "draining", // the server shut down before it could run
  "internal", // a bug; the log has the stack
  "task-deleted", // its task was deleted while it waited
] as const;
export type FailCause = (typeof FAIL_CAUSES)[number];
export const FAIL_WORKER_CRASHED = 0;
export const FAIL_WORKER_HUNG = 1;
export const FAIL_MODEL_ERROR = 2;
export const FAIL_NO_ACCELERATOR = 3;
export const FAIL_DRAINING = 4;
export const FAIL_INTERNAL = 5;
export const FAIL_TASK_DELETED = 6;

/** Why a batch was closed, one per execution (rubato_batches_closed_total). Order is the wire code. */
export const CLOSE_REASONS = [
  "window", // its schedulable window opened: one more request would have missed the deadline
  "full", // it reached the largest batch size
  "idle", // nothing pressed: accelerators were idle beyond what the present rate needs
  "accelerator-free", // its window was open and it waited for an accelerator
  "timeout", // timeout policy: the oldest request waited its time
  "eager", // eager policy: an accelerator was free
  "retry", // members of a failed batch, run again alone
] as const;
export type CloseReason = (typeof CLOSE_REASONS)[number];
export const CLOSE_WINDOW = 0;
export const CLOSE_FULL = 1;
export const CLOSE_IDLE = 2;
export const CLOSE_ACCELERATOR_FREE = 3;
export const CLOSE_TIMEOUT = 4;
export const CLOSE_EAGER = 5;
export const CLOSE_RETRY = 6;
