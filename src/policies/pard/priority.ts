/** Which of those who wait is decided about next (PARD §4.3). */
import { LoadFactor } from "./load-factor.js";

export const PRIORITIES = ["adaptive", "instant", "hbf", "lbf", "fcfs"] as const;
/**
 * hbf: most of its budget left first; lbf: least first; fcfs: as they came; adaptive: hbf above a load of 1 + epsilon, lbf below
 * 1 - epsilon, as it was between; instant: the same without epsilon.
 */
export type PriorityRule = (typeof PRIORITIES)[number];

export class Priority {
  /** Those with the most left first; else those at the other end. */
  isHighFirst: boolean;
  readonly isInOrder: boolean;
  private readonly rule: PriorityRule;
  readonly load: LoadFactor;
  private readonly throughputRps: () => number;

  /** @param throughputRps what the module can do (T_m). */
  constructor(rule: PriorityRule, intervalUs: number, throughputRps: () => number) {
    this.rule = rule;
    this.isHighFirst = rule === "hbf";
    this.isInOrder = rule === "fcfs";
    this.load = new LoadFactor(intervalUs);
    this.throughputRps = throughputRps;
  }

  /** A request came to the module. */
  arrived(at: number): void {
    const { load, rule } = this;
    if (rule !== "adaptive" && rule !== "instant") return;
    if (!load.arrived(at)) return;
    const throughput = this.throughputRps();
    const margin = rule === "adaptive" ? load.epsilon : 0;
    if (load.inputRps > throughput * (1 + margin)) this.isHighFirst = true;
    else if (load.inputRps < throughput * (1 - margin)) this.isHighFirst = false;
  }
}
