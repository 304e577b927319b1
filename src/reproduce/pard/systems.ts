/** The systems of PARD's evaluation, as a policy in every module and a budget of the pipeline. */
import type { Choice } from "../point.js";

export interface PipelineSystem {
  readonly name: string;
  readonly choice: Choice;
  /** As in a scenario's pipeline. */
  readonly budget: string | Readonly<Record<string, unknown>>;
}

const systemOf = (
  name: string,
  policy: string,
  options: Choice["options"],
  budget: PipelineSystem["budget"],
): PipelineSystem => ({
  name,
  choice: { policy, options },
  budget,
});

const pardWith = (
  name: string,
  budget: PipelineSystem["budget"] = "forecast",
  options: Choice["options"] = {},
): PipelineSystem => systemOf(name, "pard", options, budget);

export const PARD = pardWith("PARD");
/** The same where modules branch or requests make parts: the rule's defaults are past the paper there. */
export const PUBLISHED = pardWith("PARD", { rule: "forecast", executions: "mean", ways: "longest", joins: "one" });
/** On the workers of one module its planner has nothing to place; the deadline is the end-to-end one. Profile as it is: equal information. */
export const NEXUS = systemOf("Nexus", "nexus", { plan: "static", profile_multiplier: 1 }, "whole");
export const CLIPPER = systemOf("Clipper++", "clipper++", {}, "split");
export const NAIVE = systemOf("Naive", "naive", {}, "whole");

export const SYSTEMS: readonly PipelineSystem[] = [PARD, NEXUS, CLIPPER, NAIVE];

/** What Rubato has by default in every module, and its way of telling a module of the others ("pipeline+"). */
export const PLUS = systemOf("pipeline+", "auto", {}, "staggered");
/** The same without one of its parts, or told otherwise. */
export const PLUS_PARTS: readonly PipelineSystem[] = [
  systemOf("budget: share", "auto", {}, "share"),
  systemOf("budget: forecast", "auto", {}, "forecast"),
  systemOf("hand_on: false", "auto", { hand_on: false }, "staggered"),
  systemOf("backlog_target: false", "auto", { backlog_target: false }, "staggered"),
];
/** What others get by telling modules alone. */
export const PARD_STAGGERED = pardWith("PARD, staggered", "staggered");

/** Table 1, and §5.3's instant, in its order. */
export const ABLATIONS: readonly PipelineSystem[] = [
  pardWith("PARD-back", "whole"),
  pardWith("PARD-sf", "durations"),
  pardWith("PARD-oc", { rule: "overload", alpha: 0.4, threshold_ms: 25 }),
  pardWith("PARD-split", "split"),
  pardWith("PARD-WCL", "worst"),
  pardWith("PARD-lower", { rule: "forecast", lambda: 0 }),
  pardWith("PARD-upper", { rule: "forecast", lambda: 1 }),
  pardWith("PARD-FCFS", "forecast", { priority: "fcfs" }),
  pardWith("PARD-HBF", "forecast", { priority: "hbf" }),
  pardWith("PARD-LBF", "forecast", { priority: "lbf" }),
  pardWith("PARD-instant", "forecast", { priority: "instant" }),
];

export const pardAt = (lambda: number, windowS?: number): PipelineSystem =>
  pardWith("PARD", { rule: "forecast", lambda, ...(windowS === undefined ? {} : { window_s: windowS }) });

/**
 * §7's three. In order of coming: what a generating module can do is not known from a profile, so that no load factor is. The first drops who cannot be in time
 * by the least that the module takes.
 */
const inOrder = { priority: "fcfs" } as const;
export const REACTIVE = pardWith("reactive", "whole", inOrder);
export const PROACTIVE = pardWith("proactive", { rule: "forecast", estimates: "recent" }, inOrder);
export const PREDICT = pardWith("predict", { rule: "forecast", estimates: "foreseen" }, inOrder);
export const RAG_SYSTEMS: readonly PipelineSystem[] = [REACTIVE, PROACTIVE, PREDICT];

/** What is past the paper in the estimate, each alone, beside PARD's. */
export const MEAN_HALF = pardWith("mean, lambda 0.5", { rule: "forecast", lambda: 0.5 });
export const DISTRIBUTION = pardWith("distribution", { rule: "forecast", executions: "distribution" });
export const DISTRIBUTION_HALF = pardWith("distribution, lambda 0.5", {
  rule: "forecast",
  executions: "distribution",
  lambda: 0.5,
});
export const LEARNT = pardWith("learnt", { rule: "forecast", ways: "learnt" });
export const SLOWEST = pardWith("slowest", { rule: "forecast", joins: "slowest" });
