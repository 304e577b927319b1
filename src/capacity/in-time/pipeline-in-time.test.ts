import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadScenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { simulate } from "../../sim/simulate.js";
import { mostOfOneLength, pipelineBounds } from "./pipeline-in-time.js";

/** Every subset on every assignment to machines, in order of release. */
function bestByTrial(releaseAt: readonly number[], lengthUs: number, withinUs: number, machines: number): number {
  const from = (job: number, freeAt: readonly number[]): number => {
    const at = releaseAt[job];
    if (at === undefined) return 0;
    let best = from(job + 1, freeAt);
    for (let machine = 0; machine < machines; machine++) {
      const endAt = Math.max(freeAt[machine]!, at) + lengthUs;
      if (endAt <= at + withinUs) best = Math.max(best, 1 + from(job + 1, freeAt.with(machine, endAt)));
    }
    return best;
  };
  return from(0, new Array(machines).fill(Number.NEGATIVE_INFINITY));
}

const LINEAR = { a: { alpha_ms: 2, beta_ms: 10 }, b: { alpha_ms: 2, beta_ms: 4 } };
/** Batches of any size take the same: nobody's are smaller than what keeps up. */
const CONSTANT = { a: { alpha_ms: 0, beta_ms: 26 }, b: { alpha_ms: 0, beta_ms: 20 } };

const scenarioOf = (rateRps: number, profiles = LINEAR) => chainOf({ process: "poisson", rate_rps: rateRps }, profiles);

const chainOf = (arrivals: object, profiles = LINEAR) => {
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
          { name: "a", group: "a", profile: profiles.a, batch_max: 8 },
          { name: "b", group: "b", profile: profiles.b, batch_max: 8 },
        ],
        pipelines: [{ name: "p", slo_ms: 120, modules: chain }],
        arrivals,
      },
      "bound",
    ),
  );
};

describe("a bound on a pipeline", () => {
  it("jobs of one length: as many as the best of all subsets on all machines", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: 3 }),
        (moments, lengthUs, withinUs, machines) => {
          const releaseAt = moments.toSorted((a, b) => a - b);
          expect(mostOfOneLength(releaseAt, lengthUs, withinUs, machines)).toBe(
            bestByTrial(releaseAt, lengthUs, withinUs, machines),
          );
        },
      ),
    );
  });

  it("is everybody under little load, and what the least module can do past it", () => {
    expect(pipelineBounds(scenarioOf(50), 1)).toEqual({ any: 1, keepUp: 1 });
    // b: a batch of 8 takes 20 ms, 400 requests/s; a does 615.
    expect(pipelineBounds(scenarioOf(1000), 1).any).toBeCloseTo(0.4, 1);
  });

  it("no policy is above it", () => {
    for (const policy of ["auto", "pard", "eager"])
      for (const rateRps of [300, 450, 700]) {
        const scenario = scenarioOf(rateRps);
        expect(simulate(scenario, { policy, seed: 3 }).finish_rate, `${policy} at ${rateRps}`).toBeLessThanOrEqual(
          pipelineBounds(scenario, 3).any,
        );
      }
  });
});

describe("a bound on batches that keep up", () => {
  it("counts a batch's whole time in every module, of the least size that does what the short one can", () => {
    // All at once. b is short, 400 requests/s; in a 4 of 18 ms do as much. Of 120 ms b has 102 then, five batches; in shares of 2.5 ms it has 108.
    const steps = [
      { at_s: 0, rate_rps: 1e5 },
      { at_s: 0.001, rate_rps: 0 },
    ];
    const { any, keepUp } = pipelineBounds(chainOf({ process: "poisson", steps }), 1);
    expect(any / keepUp).toBeCloseTo(43 / 40, 9);
  });

  it("no policy is above it whose batches take that time", () => {
    for (const policy of ["auto", "pard", "eager"])
      for (const rateRps of [300, 390, 450, 700]) {
        const scenario = scenarioOf(rateRps, CONSTANT);
        const { any, keepUp } = pipelineBounds(scenario, 3);
        expect(simulate(scenario, { policy, seed: 3 }).finish_rate, `${policy} at ${rateRps}`).toBeLessThanOrEqual(
          keepUp,
        );
        expect(keepUp).toBeLessThanOrEqual(any);
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
    expect(pipelineBounds(forkOf(700, [0.5, 0.5]), 1).any).toBe(1);
    // 900 of 1,000 come to b.
    expect(pipelineBounds(forkOf(1000, [0.9, 0.1]), 1).any).toBeCloseTo(0.5, 1);
    // Both are short: each loses of its own, 100 of 500.
    expect(pipelineBounds(forkOf(1000, [0.5, 0.5]), 1).any).toBeCloseTo(0.8, 1);
  });

  it("no policy is above it", () => {
    for (const branch of [
      [0.5, 0.5],
      [0.9, 0.1],
    ])
      for (const policy of ["auto", "pard"]) {
        const scenario = forkOf(1000, branch);
        expect(simulate(scenario, { policy, seed: 3 }).finish_rate).toBeLessThanOrEqual(
          pipelineBounds(scenario, 3).any,
        );
      }
  });
});
