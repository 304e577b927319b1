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

describe("a bound where modules branch", () => {
  /** As many requests go through b as through c, which has an accelerator of its own. */
  const forkOf = (rateRps: number, branch: readonly number[]) =>
    loadScenarioFrom(
      sourceOf(
        {
          duration_s: 20,
          groups: ["a", "b", "c"].map((name) => ({ name, accelerators: name === "a" ? 2 : 1 })),
          models: [
            { name: "a", group: "a", profile: { alpha_ms: 0.2, beta_ms: 2 }, batch_max: 16 },
            { name: "b", group: "b", profile: { alpha_ms: 2, beta_ms: 4 }, batch_max: 8 },
            { name: "c", group: "c", profile: { alpha_ms: 2, beta_ms: 4 }, batch_max: 8 },
          ],
          pipelines: [
            {
              name: "p",
              slo_ms: 120,
              modules: [
                { id: 0, name: "a", subs: [1, 2], branch },
                { id: 1, name: "b", pres: [0] },
                { id: 2, name: "c", pres: [0] },
              ],
            },
          ],
          arrivals: { process: "poisson", rate_rps: rateRps },
        },
        "fork",
      ),
    );

  it("counts who goes there: b and c do 400 requests/s each, of those that come to them", () => {
    expect(pipelineBound(forkOf(700, [0.5, 0.5]), 1)).toBe(1);
    // 900 of 1,000 come to b.
    expect(pipelineBound(forkOf(1000, [0.9, 0.1]), 1)).toBeCloseTo(0.5, 1);
    // Both are short: each loses of its own, 100 of 500.
    expect(pipelineBound(forkOf(1000, [0.5, 0.5]), 1)).toBeCloseTo(0.8, 1);
  });

  it("no policy is above it", () => {
    for (const branch of [
      [0.5, 0.5],
      [0.9, 0.1],
    ])
      for (const policy of ["auto", "pard"]) {
        const scenario = forkOf(1000, branch);
        expect(simulate(scenario, { policy, seed: 3 }).finish_rate).toBeLessThanOrEqual(pipelineBound(scenario, 3));
      }
  });
});
