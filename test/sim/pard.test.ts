/** PARD beside what it is compared with (§5), on five emulated modules in a row with bursts past what they can do. */
import { describe, expect, test } from "vitest";
import { loadScenario } from "../../src/config/scenario/scenario.js";
import type { Report } from "../../src/measure/report.js";
import { simulate } from "../../src/sim/simulate.js";
import type { BudgetRule } from "../../src/system/budget/budget-spec.js";

function run(policy: string, budget: BudgetRule, policyOptions: Record<string, unknown> = {}, durationS = 65): Report {
  return simulate(loadScenario("scenarios/pipelines/lv.yaml", { policy, policyOptions, budget, durationS }));
}
const badRate = ({ finish_rate: rate }: Report): number => 1 - rate;
/** Part of those lost that each module lost. */
function lostAt({ per_module: modules }: Report): number[] {
  const lost = Object.values(modules!).map(({ dropped, late }) => dropped + late);
  const all = lost.reduce((sum, each) => sum + each, 0);
  return lost.map((each) => each / all);
}

describe("lv: five modules in a row", () => {
  const pard = run("pard", "forecast");

  test.each([
    ["nexus", "whole", { plan: "static" }],
    ["clipper++", "split", {}],
    ["naive", "whole", {}],
  ] as const)("pard loses less than half of what %s loses, and wastes less than half", (policy, budget, options) => {
    const other = run(policy, budget, options);
    expect(other.arrived).toBe(pard.arrived);
    expect(other.dropped === 0).toBe(policy === "naive");
    expect(badRate(pard)).toBeLessThan(badRate(other) / 2);
    expect(pard.invalid_rate).toBeLessThan(other.invalid_rate / 2);
  });

  test("nexus is not pard-back: it looks at the end-to-end deadline too, but keeps the first that come", () => {
    const back = run("pard", "whole");
    const backFcfs = run("pard", "whole", { priority: "fcfs" });
    const nexus = run("nexus", "whole", { plan: "static" });
    const rates = [back, backFcfs, nexus].map(badRate);
    expect(new Set(rates.map((rate) => rate.toFixed(3))).size).toBe(3);
    expect(badRate(nexus)).toBeGreaterThan(badRate(back) * 1.5);
  });

  test("proactive drops come early: the first module loses most under the forecast, less where nothing that follows is looked at", () => {
    const [first, , , , last] = lostAt(pard);
    const back = lostAt(run("pard", "whole"));
    expect(first!).toBeGreaterThan(0.5);
    expect(first!).toBeGreaterThan(back[0]!);
    expect(last!).toBeLessThan(back[4]!);
    // Waits reckoned as whole executions refuse more at the door than need be (PARD-upper).
    const late = run("clipper++", "split");
    expect(lostAt(late)[4]!).toBeGreaterThan(last!);
  });

  test("high budget first loses less past capacity than in order of coming; adaptive as little", () => {
    const [adaptive, hbf, lbf, fcfs] = [{}, { priority: "hbf" }, { priority: "lbf" }, { priority: "fcfs" }].map(
      (options) => badRate(run("pard", "forecast", options)),
    );
    expect(hbf!).toBeLessThan(0.9 * fcfs!);
    expect(adaptive!).toBeLessThan(0.9 * lbf!);
    expect(adaptive!).toBeLessThan(1.1 * hbf!);
  });

  test("the same seed gives the same report", () => {
    expect(run("pard", "forecast", {}, 12)).toEqual(run("pard", "forecast", {}, 12));
  });
});
