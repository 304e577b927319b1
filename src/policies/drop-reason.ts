import { DROP_EXPIRED, DROP_INFEASIBLE, DROP_PREDICTED_LATE } from "../core/outcome.js";

/**
 * Why a request is given up that would end too late in the batch planned for it.
 *
 * @param deadline what it must reach. @param expiredBefore a deadline before this has passed: now, as a rule.
 * @param aloneEndAt when it would end, were it run at once and alone.
 */
export function dropReason(deadline: number, expiredBefore: number, aloneEndAt: number): number {
  if (deadline < expiredBefore) return DROP_EXPIRED;
  return deadline < aloneEndAt ? DROP_INFEASIBLE : DROP_PREDICTED_LATE;
}
