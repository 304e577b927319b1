/** What a policy that plans by kinds would finish if it knew of each request what it takes. */
import type { ExpandedApp } from "../config/scenario/apps/expand-apps.js";
import { mixture, UNIFORM } from "../config/scenario/apps/time-mixture.js";
import { type ExpandedScenario, withRate } from "../config/scenario/scenario.js";
import type { NamedPolicy } from "../core/event-log.js";
import type { Policy } from "../core/policy.js";
import type { Report } from "../measure/report.js";
import { KnownTimes } from "../policies/by-kind/known-times.js";
import { createPolicy } from "../policies/registry.js";
import { simulate } from "../sim/simulate.js";
import { allRequestsOf } from "./in-time/in-time.js";

/** Times within this of each other, relative, are taken to be the same: their mean. Far below what decides anything. */
const SAME_WITHIN = 0.01;

/**
 * The run of a scenario and seed with times known: the same requests, but each of a kind of those that take as long, and that
 * time told beforehand. What is left between this and the policy itself is what uncertainty costs.
 *
 * @param policy of knowingTimes.
 */
export function runKnowing(scenario: ExpandedScenario, rateRps: number, seed: number, policy: Policy): Report {
  return simulate(withKindsOfTimes(withRate(scenario, rateRps), seed), { policy, seed });
}

/** The same policy, told the one time of each kind. @param policy that plans by kind, its options checked. */
export const knowingTimes = ({ name, options }: NamedPolicy): Policy => ({
  ...createPolicy(name, options),
  createLatency: (spec) => new KnownTimes(spec),
});

/** Its very requests, as a replay whose apps are times. One model on one accelerator without delays. */
export function withKindsOfTimes(scenario: ExpandedScenario, seed: number): ExpandedScenario {
  const { arrivalAt, aloneUs } = allRequestsOf(scenario, seed);
  const { apps, kindOf } = kindsOf(aloneUs);
  const [model] = scenario.models;
  return {
    ...scenario,
    models: [{ ...model!, apps, profiled: 1 }],
    arrivals: {
      kind: "replay",
      atUs: arrivalAt,
      model: new Int32Array(arrivalAt.length),
      app: kindOf,
      appNames: apps.map(({ name }) => name),
    },
  };
}

/** Requests that take as long. */
function kindsOf(aloneUs: Float64Array): { apps: ExpandedApp[]; kindOf: Int32Array } {
  const kindOf = new Int32Array(aloneUs.length);
  const apps: ExpandedApp[] = [];
  const ascending = Array.from(aloneUs.keys()).sort((a, b) => aloneUs[a]! - aloneUs[b]!);
  for (let from = 0; from < ascending.length; ) {
    const longest = aloneUs[ascending[from]!]! * (1 + SAME_WITHIN);
    let to = from;
    let totalUs = 0;
    for (; to < ascending.length && aloneUs[ascending[to]!]! <= longest; to++) {
      totalUs += aloneUs[ascending[to]!]!;
      kindOf[ascending[to]!] = apps.length;
    }
    const us = totalUs / (to - from);
    apps.push({ name: `time-${apps.length}`, share: to - from, time: mixture([[1, UNIFORM, us, us]]) });
    from = to;
  }
  return { apps, kindOf };
}
