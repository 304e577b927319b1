/** How parts of a pipeline's requests end, and what the client of the whole is told of it. */
import {
  DROP_BUDGET,
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
import type { BudgetRule } from "../../system/budget/budget-spec.js";
import { type ErrorCode, ServingError } from "../../wire/serving-error.js";
import { DROP_ENDINGS, dropEnding, failEnding, LATE_ENDING } from "../endings.js";
import type { OpenRequest } from "./open-request.js";

/** What a module's data does wrong, in its place. */
export const moduleFault = (text: string, code: ErrorCode = "internal"): ServingError =>
  new ServingError(code, text, { reason: FAIL_CAUSES[FAIL_MODEL_ERROR]! });

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

/** A request that makes more parts than can be done in time. */
export function partsError(rule: BudgetRule, parts: number): ServingError {
  const { code, text } = dropEnding(DROP_BUDGET);
  return new ServingError(
    code,
    `${text}: ${parts} parts cannot be done in time behind what must end before them (budget: ${rule})`,
    {
      reason: DROP_REASONS[DROP_BUDGET]!,
    },
  );
}

/** What a part was told to reach, and what it could have. */
export interface PartBudget {
  readonly rule: BudgetRule;
  readonly cameAt: number;
  readonly dueBy: number;
  readonly deadline: number;
  /** One alone in its module. */
  readonly leastUs: number;
}

/** What its model or step says of a part that it gave up at `at`, unless that could not be in time by the deadline either. */
export function budgetError(error: ServingError, budget: PartBudget, at: number): ServingError {
  const { rule, cameAt, dueBy, deadline, leastUs } = budget;
  const { code, message, details } = error;
  const reason = DUE_REASONS.find((each) => each === details.reason);
  if (reason === undefined || dueBy >= deadline || at + leastUs > deadline) return error;
  const whose = message.replace(DROP_ENDINGS[reason].text, "");
  const ms = (us: number): string => (us / 1000).toFixed(3);
  const text = `the part could not be done in the module's budget: ${ms(dueBy - cameAt)} ms of the ${ms(deadline - cameAt)} ms left when it came (budget: ${rule}); the deadline was not passed`;
  return new ServingError(code, `${whose}${text}`, { ...details, reason: "budget", cause: error });
}

/** Why queues give up who cannot reach what they are told. */
const DUE_REASONS = ["expired", "infeasible", "predicted-late"] as const;

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
