import { AHEAD_DEFAULTS, type AheadOptions } from "../ahead/ahead.js";
import { WINDOW_INTERVALS } from "../module-states.js";

/**
 * How a module's queue, under a policy that knows one module only, is told of the others:
 * - share: of the time that is left it gets its share, by the least times of the modules from here on along the longest way, and of
 *   parts of a fan-out by that of all that come together; a module without batches gets all but the least that must still follow;
 * - measured: the same by the times that parts took in the modules lately, if that is more; by the least times where it is not known;
 * - staggered: all of it but what later modules take when they are full: the time of the planned batch and the mean wait for an accelerator that
 *   runs such batches in turn with others; its share (as above, and of modules without batches, too) where that is more. Where modules
 *   share accelerators, later ones go first, and a request is let in only if it can end behind all that is begun (CommittedWork);
 * - rest: all of it but the least that must still follow;
 * - whole: all of it (what follows is not looked at; PARD-back);
 * - forecast: all of it but what is expected to follow, queueing and waits in batches included (PARD Eq. 3b);
 * - durations: all of it but the executions that are expected to follow (PARD-sf);
 * - split: a fixed part of the SLO from when the part came, by the planned times of all modules (Clipper++, PARD-split), of parts of a
 *   fan-out by those of all that come together (the paper's pipelines have none);
 * - worst: the same by the longest that parts took lately (PARD-WCL);
 * - overload: all of it, but a part of what comes is refused at and before a module whose queueing is too long (PARD-oc, DAGOR).
 * With share, staggered and rest nothing is begun that cannot end in time any more.
 */
export const BUDGET_RULES = [
  "share",
  "measured",
  "staggered",
  "rest",
  "whole",
  "forecast",
  "durations",
  "split",
  "worst",
  "overload",
] as const;
export type BudgetRule = (typeof BUDGET_RULES)[number];

/**
 * How forecast goes about modules whose batches are of one, of which profiles tell little (an LLM, a service elsewhere):
 * - profiles: as about all others;
 * - recent: their parts take as long as they did lately, or, where what is known of their lengths says it, as long as such took (PARD §7,
 *   proactive); they wait for no batch;
 * - foreseen: as recent, and how long an answer will be is known (predict).
 */
export const ESTIMATES = ["profiles", "recent", "foreseen"] as const;
export type Estimates = (typeof ESTIMATES)[number];

/** forecast: lambda as in ForecastOptions, and AheadOptions. */
export interface BudgetSpec extends AheadOptions {
  readonly rule: BudgetRule;
  readonly lambda: number;
  /** forecast, durations, worst, overload: seconds that what modules say is measured over. */
  readonly windowS: number;
  /** forecast. */
  readonly estimates: Estimates;
  /** overload: the part that is refused, and the mean queueing delay from which on. */
  readonly alpha: number;
  readonly thresholdUs: number;
}

/** PARD §4.2; of oc the setting for its wiki trace (§5.3). */
export const BUDGET_DEFAULTS: Omit<BudgetSpec, "rule"> = {
  ...AHEAD_DEFAULTS,
  lambda: 0.1,
  windowS: WINDOW_INTERVALS,
  estimates: "profiles",
  alpha: 0.4,
  thresholdUs: 20_000,
};
