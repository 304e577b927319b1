/** What is told of a part that could not be in time: what its module would take, what is kept for those after it, and so what deadline it needed. */
import { DROP_BUDGET, DROP_REASONS } from "../../core/outcome.js";
import type { BudgetRule } from "../../system/budget/budget-spec.js";
import { ServingError } from "../../wire/serving-error.js";
import { DROP_ENDINGS, dropEnding, LATE_ENDING } from "../endings.js";

/** What a part was told to reach, and what it could have. */
export interface PartBudget {
  readonly rule: BudgetRule;
  /** When the whole was received, and when the part came to its module. */
  readonly askedAt: number;
  readonly cameAt: number;
  readonly dueBy: number;
  readonly deadline: number;
  /** One alone in its module, and in those after it along the longest way. */
  readonly leastUs: number;
  readonly leastAfterUs: number;
  /** All that came with it, in its module. */
  readonly allUs: number;
  /** What the part's queue must reach with another deadline. */
  readonly dueWith: (deadline: number) => number;
  /** What a request would need to be let in at the module; 0: all are. */
  readonly entryUs: number;
}

/** Ends that another deadline would have spared it. */
const TIME_TEXTS: Readonly<Record<string, string>> = {
  expired: DROP_ENDINGS.expired.text,
  infeasible: DROP_ENDINGS.infeasible.text,
  "predicted-late": DROP_ENDINGS["predicted-late"].text,
  late: LATE_ENDING.text,
};
/** A deadline is found to so much. */
const STEP_US = 100;
const DEADLINE_MAX_US = 86_400e6;

/** What the model or step says of a part that it gave up at `at`, with what its request would have needed. */
export function partError(error: ServingError, budget: PartBudget, at: number): ServingError {
  const { code, message, details } = error;
  const { rule, askedAt, cameAt, dueBy, deadline, leastUs, entryUs } = budget;
  const text = TIME_TEXTS[details.reason ?? ""];
  if (text === undefined) return error;
  const whose = message.slice(0, Math.max(0, message.indexOf(text)));
  const isBudgets = details.reason !== "late" && dueBy < deadline && at + leastUs <= deadline;
  const reason = isBudgets ? DROP_REASONS[DROP_BUDGET]! : details.reason!;
  const hadUs = deadline - askedAt;
  if (isBudgets && dueBy === cameAt && entryUs > 0) {
    const neededUs = Math.ceil(cameAt - askedAt + entryUs);
    const entry = `the request was not let in: it would end too late behind what is begun on the accelerators that the pipeline's modules share (budget: ${rule})`;
    const needs =
      neededUs > hadUs ? ([`; ${wholeOf(neededUs, hadUs)}`, { estimateUs: neededUs }] as const) : (["", {}] as const);
    return new ServingError(code, `${whose}${entry}${needs[0]}`, { ...details, reason, ...needs[1], cause: error });
  }
  const ownAt = details.reason === "late" ? at : at + leastUs;
  const doneAt = Math.max(askedAt + (details.estimateUs ?? 0), ownAt, cameAt + budget.allUs);
  const keptUs = Math.max(keptFor(doneAt, budget), budget.leastAfterUs);
  const neededUs = Math.ceil(doneAt - askedAt + keptUs);
  const cause = isBudgets ? budgetText(budget) : text;
  // What is known of a module when it gives somebody up may be less than what it went by.
  if (neededUs <= hadUs) return new ServingError(code, `${whose}${cause}`, { ...details, reason, cause: error });
  const kept = keptUs > 0 ? `, and ${ms(keptUs)} are kept for the modules after it` : "";
  const needs = `${cause}; it would take at least ${ms(doneAt - cameAt)} here${kept}: ${wholeOf(neededUs, hadUs)}`;
  return new ServingError(code, `${whose}${needs}`, { ...details, reason, estimateUs: neededUs, cause: error });
}

/** A request that makes more parts than can be done in time. @param takesUs from its receipt, by what is expected. */
export function partsError(rule: BudgetRule, parts: number, takesUs: number): ServingError {
  const { code, text } = dropEnding(DROP_BUDGET);
  const estimateUs = Math.ceil(takesUs);
  return new ServingError(
    code,
    `${text}: ${parts} parts cannot be done in time behind what must end before them (budget: ${rule}); the request would need a deadline of at least ${ms(estimateUs)}`,
    { reason: DROP_REASONS[DROP_BUDGET]!, estimateUs },
  );
}

function budgetText({ rule, cameAt, dueBy, deadline }: PartBudget): string {
  const left = `of the ${ms(deadline - cameAt)} left when it came`;
  const why =
    dueBy > cameAt
      ? `${ms(dueBy - cameAt)} ${left}`
      : `nothing ${left} was its own, as more is kept for the modules after it`;
  return `the part could not be done in the module's budget: ${why} (budget: ${rule})`;
}

/** What the modules after it are kept where the request has a deadline by which the part may be done at `doneAt`. */
function keptFor(doneAt: number, { cameAt, dueBy, deadline, dueWith }: PartBudget): number {
  // What the rule adds to that for who is begun already stays as it is.
  const shiftUs = dueBy > cameAt ? dueBy - dueWith(deadline) : 0;
  const due = (other: number): number => dueWith(other) + shiftUs;
  let [short, enough] = [deadline, deadline];
  for (let moreUs = STEP_US; due(enough) < doneAt && moreUs < DEADLINE_MAX_US; moreUs *= 2)
    [short, enough] = [enough, enough + moreUs];
  while (enough - short > STEP_US) {
    const middle = (short + enough) / 2;
    if (due(middle) < doneAt) short = middle;
    else enough = middle;
  }
  return Math.max(0, enough - doneAt);
}

const wholeOf = (neededUs: number, hadUs: number): string =>
  `the request would need a deadline of at least ${ms(neededUs)}; was ${ms(hadUs)}`;

/** Rounded up: who asks for so much has it. */
const ms = (us: number): string => (us < 100 ? `${us / 1000} ms` : `${(Math.ceil(us / 100) / 10).toFixed(1)} ms`);
