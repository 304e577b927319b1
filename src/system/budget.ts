/** What the queue of a module must reach: the part of a pipeline's one deadline that is its own. */
import type { Pipeline } from "./pipeline.js";

/**
 * How a module's queue, under a policy that knows one module only, is told of the others:
 * - share: of the time that is left it gets its share, by the least times of the modules from here on along the longest way;
 * - rest: all of it but the least that must still follow;
 * - whole: all of it (what follows is not looked at).
 * None of the first two begins what cannot end in time any more.
 */
export const BUDGET_RULES = ["share", "rest", "whole"] as const;
export type BudgetRule = (typeof BUDGET_RULES)[number];

export class Budgets {
  private readonly rule: BudgetRule;
  private readonly ownUs: Float64Array;
  private readonly afterUs: Float64Array;
  private readonly beforeUs: Float64Array;

  /** @param leastUs least time of one request in a module, delays before its execution included. */
  constructor(pipeline: Pipeline, rule: BudgetRule, leastUs: (module: number) => number) {
    this.rule = rule;
    this.ownUs = Float64Array.from(pipeline.modules, (_, module) => leastUs(module));
    this.afterUs = pipeline.longest("subs", leastUs);
    this.beforeUs = pipeline.longest("pres", leastUs);
  }

  /** The moment, on the clock of the deadline, that the queue of the module must reach for a request that comes to it at `at`. */
  dueBy(module: number, at: number, deadline: number): number {
    if (this.rule === "whole") return deadline;
    const after = this.afterUs[module]!;
    if (this.rule === "rest" || after === 0) return deadline - after;
    const own = this.ownUs[module]!;
    return at + Math.floor(((deadline - at) * own) / (own + after));
  }

  /** How long a request may be in the module when nothing before it took longer than it must: what its queue plans batches for. */
  sloUs(module: number, sloUs: number): number {
    if (this.rule === "whole") return sloUs;
    const others = this.beforeUs[module]! + this.afterUs[module]!;
    if (this.rule === "rest") return sloUs - others;
    const own = this.ownUs[module]!;
    return Math.floor((sloUs * own) / (own + others));
  }

  /** Least time of a request in the whole pipeline. */
  get leastUs(): number {
    return this.ownUs.reduce((most, own, module) => Math.max(most, own + this.afterUs[module]!), 0);
  }
}
