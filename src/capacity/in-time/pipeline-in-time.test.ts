import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadScenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { simulate } from "../../sim/simulate.js";
import { mostOfOneLength, pipelineBound } from "./pipeline-in-time.js";

/** Every subset, in order of release. */
function bestByTrial(releaseAt: readonly number[], lengthUs: number, withinUs: number): number {
  let best = 0;
  for (let subset = 0; subset < 1 << releaseAt.length; subset++) {
    let freeAt = Number.NEGATIVE_INFINITY;
    let count = 0;
    for (const [job, at] of releaseAt.entries()) {
      if ((subset & (1 << job)) === 0) continue;
      freeAt = Math.max(freeAt, at) + lengthUs;
      count = freeAt <= at + withinUs ? count + 1 : Number.NEGATIVE_INFINITY;
    }
    best = Math.max(best, count);
  }
  return best;
}

const scenarioOf = (rateRps: number) => {
  const chain = [
    { id: 0, name: "a", pres: [], subs: [1] },
    { id: 1, name: "b", pres: [0], subs: [] },
  ];
  return loadScenarioFrom(
    sourceOf(
      {
        duration_s: 5,
        groups: [
          { name: "a", accelerators: 2 },
          { name: "b", accelerators: 1 },
        ],
        models: [
          { name: "a", group: "a", profile: { alpha_ms: 2, beta_ms: 10 }, batch_max: 8 },
          { name: "b", group: "b", profile: { alpha_ms: 2, beta_ms: 4 }, batch_max: 8 },
        ],
        pipelines: [{ name: "p", slo_ms: 120, modules: chain }],
        arrivals: { process: "poisson", rate_rps: rateRps },
      },
      "bound",
    ),
  );
};

describe("a bound on a pipeline", () => {
  it("jobs of one length: as many as the best of all subsets", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 9 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 30 }),
        (moments, lengthUs, withinUs) => {
          const releaseAt = moments.toSorted((a, b) => a - b);
          expect(mostOfOneLength(releaseAt, lengthUs, withinUs)).toBe(bestByTrial(releaseAt, lengthUs, withinUs));
        },
      ),
    );
  });

  it("is everybody under little load, and what the least module can do past it", () => {
    expect(pipelineBound(scenarioOf(50), 1)).toBe(1);
    // b: a batch of 8 takes 20 ms, 400 requests/s; a does 615.
    expect(pipelineBound(scenarioOf(1000), 1)).toBeCloseTo(0.4, 1);
  });

  it("no policy is above it", () => {
    for (const policy of ["auto", "pard", "eager"])
      for (const rateRps of [300, 450, 700]) {
        const scenario = scenarioOf(rateRps);
        expect(simulate(scenario, { policy, seed: 3 }).finish_rate, `${policy} at ${rateRps}`).toBeLessThanOrEqual(
          pipelineBound(scenario, 3),
        );
      }
  });
});
