/** Workers that follow the rate (PARD §5.1): who joins takes a cold start, and nobody is lost when one goes. */
import { describe, expect, test } from "vitest";
import { loadScenarioFrom } from "../../src/config/scenario/scenario.js";
import { parseSource } from "../../src/config/source.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";

/** A batch of 9 takes 15 ms: 600 requests/s a worker of either module. The load goes up at 5 s and down at 15 s. */
const scenario = (workers: string, module = "second") =>
  loadScenarioFrom(
    parseSource(
      `
duration_s: 40
groups:
  - { name: left, accelerators: 6${module === "first" ? `, workers: ${workers}` : ""} }
  - { name: right, accelerators: 6${module === "second" ? `, workers: ${workers}` : ""} }
models:
  - { name: first, group: left, slo_ms: 30, profile: { alpha_ms: 1, beta_ms: 6 } }
  - { name: second, group: right, slo_ms: 30, profile: { alpha_ms: 1, beta_ms: 6 } }
pipelines:
  - { name: p, slo_ms: 100, budget: forecast, modules: [{ id: 0, name: first }, { id: 1, name: second, pres: [0] }] }
arrivals: { process: poisson, steps: [{ at_s: 0, rate_rps: 500 }, { at_s: 5, rate_rps: 2000 }, { at_s: 15, rate_rps: 500 }] }
policy: pard
`,
      "workers.yaml",
    ),
  );

/** Largest number of accelerators of the second group that ran batches which began in each second. */
function usedBySecond(of: ReturnType<typeof scenario>): { used: number[]; report: ReturnType<typeof simulate> } {
  const bySecond: Set<number>[] = Array.from({ length: 41 }, () => new Set());
  const report = simulate(of, {
    onEvent: (event: SimulatedEvent) => {
      if (event.event !== "ran" || event.accelerator < 6) return;
      bySecond[Math.min(40, Math.floor(event.start_us / 1e6))]!.add(event.accelerator);
    },
  });
  return { used: bySecond.map(({ size }) => size), report };
}

describe("workers of the second module follow what comes to it", () => {
  const { used, report } = usedBySecond(scenario("{ initial: 1, cold_start_s: 3, down_after_s: 6 }"));

  test("they are there a decision and a cold start after the load, and go a while after it", () => {
    expect(used[4]).toBe(1);
    // Seen at 6 s; there from 9 s on.
    expect([used[7], used[8]]).toEqual([1, 1]);
    expect(used[10]).toBeGreaterThanOrEqual(4);
    expect(used[14]).toBeGreaterThanOrEqual(4);
    expect(used[38]).toBe(1);
  });

  test("nobody is lost when workers go: every request ends once, and in the quiet nearly all in time", () => {
    const { arrived, finished, late, dropped, failed } = report;
    expect(finished + late + dropped + failed).toBe(arrived);
    expect(failed).toBe(0);
    expect(dropped).toBeGreaterThan(1000);
  });

  test("without a cold start less is lost", () => {
    const cold = report.finish_rate;
    const warm = simulate(scenario("{ initial: 1, cold_start_s: 0, down_after_s: 6 }")).finish_rate;
    expect(warm).toBeGreaterThan(cold + 0.05);
  });

  test("a module that requests come to first follows as well", () => {
    const first = simulate(scenario("{ initial: 1, cold_start_s: 3 }", "first"));
    expect(first.finish_rate).toBeGreaterThan(0.6);
    expect(first.finish_rate).toBeLessThan(0.9);
  });
});

test.each([
  ["{ initial: 7 }", "groups[1].workers.initial: must be at most the 6 accelerators of the group; was 7"],
  ["{ min: 9 }", "groups[1].workers.min: must be at most the 6 accelerators of the group; was 9"],
  ["{ min: 3, initial: 2 }", "groups[1].workers.initial: must be at least min (3); was 2"],
  ["{ cold_start_s: -1 }", "groups[1].workers.cold_start_s"],
])("workers: %s is refused by field, bound and value", (workers, message) => {
  expect(() => scenario(workers)).toThrow(message);
});
