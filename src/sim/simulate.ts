import { type ExpandedScenario, groupsOf } from "../config/scenario/expand-scenario.js";
import type { Policy } from "../core/policy.js";
import type { CollectorSnapshot } from "../measure/collector.js";
import type { Report } from "../measure/report.js";
import { createPolicy } from "../policies/registry.js";
import type { EventListener } from "./event-lines.js";
import { Simulation } from "./simulation.js";

export interface SimulateOptions {
  /** A policy, or the name of one. Default: the scenario's. Pipelines keep the budgets that the scenario was expanded with. */
  readonly policy?: string | Policy;
  /** Default: the scenario's when the policy is the scenario's, else the policy's own. */
  readonly policyOptions?: Readonly<Record<string, unknown>>;
  /** Default: the scenario's. */
  readonly seed?: number;
  /** Told of all that happens; slows the run down. */
  readonly onEvent?: EventListener;
  /** Policies that ask for the accuracy of late (`accuracy: recent`) are told the true one: a bound on what estimating may earn. */
  readonly tellsTruth?: boolean;
}

/** One simulated run: a function of (scenario, policy, seed). */
export function simulate(scenario: ExpandedScenario, options: SimulateOptions = {}): Report {
  const seed = options.seed ?? scenario.seed;
  const simulation = new Simulation(scenario, policiesOf(scenario, options), seed, options.onEvent, options.tellsTruth);
  simulation.run();
  return simulation.report(seed);
}

/** The same run with all that was counted: distributions, and not only their quantiles. */
export function simulateOutcomes(
  scenario: ExpandedScenario,
  options: SimulateOptions = {},
): { report: Report; outcomes: CollectorSnapshot } {
  const seed = options.seed ?? scenario.seed;
  const simulation = new Simulation(scenario, policiesOf(scenario, options), seed);
  simulation.run();
  return { report: simulation.report(seed), outcomes: simulation.snapshot() };
}

/** The same run when only each model's bad rate and number of arrivals are asked for: what a search for the peak reads. */
export function simulateBadRates(
  scenario: ExpandedScenario,
  options: SimulateOptions = {},
): { badRates: number[]; arrived: number[] } {
  const simulation = new Simulation(scenario, policiesOf(scenario, options), options.seed ?? scenario.seed);
  simulation.run();
  return simulation.badRates();
}

/** One for each group: the one that is asked for, else its own. */
function policiesOf(scenario: ExpandedScenario, options: SimulateOptions): Policy[] {
  return groupsOf(scenario).map((group) => {
    const name = options.policy ?? group.policy;
    if (typeof name !== "string") return name;
    return createPolicy(name, options.policyOptions ?? (name === group.policy ? group.policyOptions : {}));
  });
}
