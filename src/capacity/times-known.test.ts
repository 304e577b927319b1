import { describe, expect, it } from "vitest";
import { type ExpandedScenario, expandScenario, scenarioFrom, withRate } from "../config/scenario/scenario.js";
import { sourceOf } from "../config/source.js";
import { KnownTimes } from "../policies/by-kind/known-times.js";
import { simulate } from "../sim/simulate.js";
import { allRequestsOf } from "./in-time/in-time.js";
import { knowingTimes, runKnowing, withKindsOfTimes } from "./times-known.js";

/** One app of two modes: nobody can tell beforehand which requests are long. */
function scenarioOf(time: Record<string, unknown>): ExpandedScenario {
  const source = sourceOf(
    {
      name: "two-in-one",
      duration_s: 30,
      warmup_s: 2,
      accelerators: 1,
      arrivals: { process: "poisson", rate_rps: 60 },
      models: [
        {
          name: "model",
          profile: { table_ms: Array.from({ length: 8 }, (_, index) => 40 + 10 * (index + 1)) },
          slo_ms: 250,
          apps: [{ name: "any", time }],
          batch_time: { c0_ms: 40, c1: 0.2 },
          profiled: 1000,
        },
      ],
      learn: true,
    },
    "two-in-one",
  );
  return expandScenario(scenarioFrom(source), {}, source);
}
const WIDE = {
  modes: [
    { weight: 1, mean_ms: 10, sd_ms: 1 },
    { weight: 1, mean_ms: 100, sd_ms: 5 },
  ],
};
const knowing = knowingTimes({ name: "distribution+", options: {} });

describe("requests with kinds of times", () => {
  it("are the same requests, each of a kind whose time is its own within a hundredth", () => {
    const scenario = scenarioOf(WIDE);
    const before = allRequestsOf(scenario, 3);
    const after = allRequestsOf(withKindsOfTimes(scenario, 3), 3);
    expect(after.arrivalAt).toEqual(before.arrivalAt);
    expect(before.arrivalAt.length).toBeGreaterThan(1000);
    for (const [request, us] of before.aloneUs.entries())
      expect(Math.abs(after.aloneUs[request]! / us - 1), `request ${request}`).toBeLessThan(0.01);
  });

  it("have a kind for each time, not for each request", () => {
    const { models } = withKindsOfTimes(scenarioOf({ constant_ms: 20 }), 1);
    expect(models[0]!.apps).toHaveLength(1);
  });
});

describe("a policy with times known", () => {
  it("finishes what it does in any case where all take as long", () => {
    const scenario = scenarioOf({ constant_ms: 20 });
    const [own, known] = [
      simulate(scenario, { policy: "distribution+", seed: 1 }),
      runKnowing(scenario, 60, 1, knowing),
    ];
    expect(known.finished).toBe(own.finished);
  });

  it("parts long from short that only it can tell apart, and finishes far more", () => {
    const scenario = scenarioOf(WIDE);
    const own = simulate(withRate(scenario, 60), { policy: "distribution+", seed: 1 });
    expect(runKnowing(scenario, 60, 1, knowing).finish_rate).toBeGreaterThan(own.finish_rate + 0.05);
  });

  it("has one time for each kind", () => {
    const latency = { sizeMax: 2, execUs: Float64Array.of(0, 10, 20, Number.POSITIVE_INFINITY) };
    const kinds = [{ name: "a", share: 1, aloneUs: Float64Array.of(10, 12) }];
    expect(() => new KnownTimes({ latency, kinds, sloUs: 100, lengthMax: 1 } as never)).toThrow(
      "kind a must have 1 time that is known; had 2",
    );
  });
});
