/** The budget of a pipeline that names none: that of the published system whose policy serves all of it, or ours. */
import { POLICY_NAMES, policyNamed } from "../policies/registry.js";
import { BUDGET_RULES, type BudgetRule } from "../system/budget/budget-spec.js";

const DEFAULT: BudgetRule = "staggered";

/** By policy, of those that name one. */
const NAMED: ReadonlyMap<string, BudgetRule> = new Map(
  POLICY_NAMES.flatMap((name) => {
    const { inPipelines } = policyNamed(name);
    const rule = BUDGET_RULES.find((each) => each === inPipelines?.budget);
    return rule === undefined ? [] : [[name, rule] as const];
  }),
);

/** For the reference. */
export const DEFAULT_BUDGETS = `the one of the published system, where all groups that its modules run on have a policy that names the same (${[
  ...NAMED,
]
  .map(([policy, rule]) => `${policy}: ${rule}`)
  .join(", ")}); else ${DEFAULT}`;

/** @param policies of the groups that its modules run on; null: a group without one of its own. */
export function defaultBudget(policies: Iterable<string | null>): BudgetRule {
  const rules = new Set(Array.from(policies, (policy) => (policy === null ? undefined : NAMED.get(policy))));
  const [rule = DEFAULT] = rules;
  return rules.size === 1 ? rule : DEFAULT;
}
