/** What batches were expected to take against what they took: intervals cover what they say. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { parseScenario } from "../../src/config/scenario/scenario.js";
import { combineReports } from "../../src/measure/report.js";
import { simulate } from "../../src/sim/simulate.js";

const THREE_MODES = readFileSync(new URL("../../scenarios/apps/three-modes.yaml", import.meta.url), "utf8");
const POLICIES = ["distribution", "distribution+"];

const predicted = (text: string, policy: string, seeds = [1, 2]) => {
  const scenario = expandScenario(parseScenario(text));
  return combineReports(seeds.map((seed) => simulate(scenario, { policy, seed }))).prediction;
};

/** Standard deviations of a share of 0.9 among so many that a bound must be away from it: chance alone does not reach it. */
const MARGIN = 2;

describe.each(POLICIES)("%s: the interval of nine in ten covers 85 to 95 of a hundred batches", (policy) => {
  test.each([
    ["known beforehand", ""],
    ["learnt", "learn: true\n"],
  ])("%s", (_, more) => {
    const { batches, within_90: within, mean_ratio: ratio, at_most } = predicted(THREE_MODES + more, policy)!;
    const chance = MARGIN * Math.sqrt((0.9 * 0.1) / batches);
    expect(batches).toBeGreaterThan(2500);
    expect(within).toBeGreaterThan(0.85 + chance);
    expect(within).toBeLessThan(0.95 - chance);
    expect(ratio).toBeCloseTo(1, 1);
    expect(at_most["0.9"]).toBeGreaterThan(0.85);
  });
});

test("nothing is said where no distribution is known", () => {
  expect(predicted(THREE_MODES, "deferred", [1])).toBeUndefined();
  expect(predicted(THREE_MODES.replace("profiled: 1000", ""), "distribution+", [1])).toBeUndefined();
});
