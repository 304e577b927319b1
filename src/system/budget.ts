/** What the queue of a module must reach: the part of a pipeline's one deadline that is its own. */
import type { Board } from "./board.js";
import { columnOf } from "./module-states.js";
import type { Pipeline } from "./pipeline.js";

/**
 * How a module's queue, under a policy that knows one module only, is told of the others:
 * - share: of the time that is left it gets its share, by the least times of the modules from here on along the longest way;
 * - measured: the same by the times that parts took in the modules lately; by the least times where that is not known;
 * - rest: all of it but the least that must still follow;
 * - whole: all of it (what follows is not looked at).
 * With share and rest nothing is begun that cannot end in time any more.
 */
export const BUDGET_RULES = ["share", "measured", "rest", "whole"] as const;
export type BudgetRule = (typeof BUDGET_RULES)[number];

const QUEUE_US = columnOf("queue_us");
const RUN_US = columnOf("run_us");

export class Budgets {
  private readonly pipeline: Pipeline;
  private readonly rule: BudgetRule;
  /** By module: least time of one request in it, and in all modules after and before it along the longest way. */
  private readonly leastOwnUs: Float64Array;
  private readonly leastAfterUs: Float64Array;
  private readonly leastBeforeUs: Float64Array;
  /** What shares go by. */
  private ownUs: Float64Array;
  private afterUs: Float64Array;

  /** @param leastUs least time of one request in a module, delays before its execution included. */
  constructor(pipeline: Pipeline, rule: BudgetRule, leastUs: (module: number) => number) {
    this.pipeline = pipeline;
    this.rule = rule;
    this.leastOwnUs = Float64Array.from(pipeline.modules, (_, module) => leastUs(module));
    this.leastAfterUs = pipeline.longest("subs", leastUs);
    this.leastBeforeUs = pipeline.longest("pres", leastUs);
    this.ownUs = this.leastOwnUs;
    this.afterUs = this.leastAfterUs;
  }

  /** The modules published. @param states of them, a row each; see ModuleStates. */
  published(states: Board, at: number): void {
    if (this.rule !== "measured") return;
    const row = states.blank();
    this.ownUs = this.leastOwnUs.map((leastUs, module) =>
      states.read(module, at, row) === "fresh" ? row.value(QUEUE_US) + row.value(RUN_US) : leastUs,
    );
    this.afterUs = this.pipeline.longest("subs", (module) => this.ownUs[module]!);
  }

  /** The moment, on the clock of the deadline, that the queue of the module must reach for a request that comes to it at `at`. */
  dueBy(module: number, at: number, deadline: number): number {
    if (this.rule === "whole") return deadline;
    if (this.rule === "rest") return deadline - this.leastAfterUs[module]!;
    const after = this.afterUs[module]!;
    if (after === 0) return deadline;
    const own = this.ownUs[module]!;
    return at + Math.floor(((deadline - at) * own) / (own + after));
  }

  /** How long a request may be in the module when nothing before it took longer than it must: what its queue plans batches for. */
  sloUs(module: number, sloUs: number): number {
    if (this.rule === "whole") return sloUs;
    const others = this.leastBeforeUs[module]! + this.leastAfterUs[module]!;
    if (this.rule === "rest") return sloUs - others;
    const own = this.leastOwnUs[module]!;
    return Math.floor((sloUs * own) / (own + others));
  }

  /** Least time of a request in the whole pipeline. */
  get leastUs(): number {
    return this.leastOwnUs.reduce((most, own, module) => Math.max(most, own + this.leastAfterUs[module]!), 0);
  }
}
