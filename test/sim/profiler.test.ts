/** The online profiler in simulation: what it costs those who came, and what is known by it. */
import { describe, expect, it } from "vitest";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { type ExpandedScenario, parseScenario } from "../../src/config/scenario/scenario.js";
import type { Policy } from "../../src/core/policy.js";
import { conservation, type Report } from "../../src/measure/report.js";
import { TimesByKind } from "../../src/policies/by-kind/times-by-kind.js";
import { createPolicy } from "../../src/policies/registry.js";
import { Simulation } from "../../src/sim/simulation.js";

/** Three apps that take 30.5, 38.5 and 46.5 ms alone. */
const scenario = (keys: string, sloMs: number): ExpandedScenario =>
  expandScenario(
    parseScenario(`
models:
  - name: dynamic
    slo_ms: ${sloMs}
    batch_max: 16
    profile: { alpha_ms: 11, beta_ms: 27.5 }
    batch_time: { c0_ms: 27.5, c1: 0.2 }
    profiled: 1000
    apps:
      - { name: short, time: { normal: { mean_ms: 15, sd_ms: 2 } } }
      - { name: middle, time: { normal: { mean_ms: 55, sd_ms: 2 } } }
      - { name: long, time: { normal: { mean_ms: 95, sd_ms: 2 } } }
${keys}`),
  );

function run(given: ExpandedScenario, policy: Policy): { report: Report; inTime: Set<number> } {
  const inTime = new Set<number>();
  const simulation = new Simulation(given, policy, 1, (event) => {
    if (event.event === "ended" && event.outcome === "finished") inTime.add(event.request);
  });
  simulation.run();
  return { report: simulation.report(1), inTime };
}

describe("the same requests finish in time with the profiler and without", () => {
  // The load as a part of what keeps the accelerators busy, from a third to past all. What is learnt is left out: only what runs cost.
  it.each([
    { accelerators: 1, rate: 20, sloMs: 400, runs: 10 },
    { accelerators: 1, rate: 30, sloMs: 1000, runs: 10 },
    { accelerators: 1, rate: 45, sloMs: 1000, runs: 10 },
    { accelerators: 1, rate: 77, sloMs: 195, runs: 0 },
    { accelerators: 4, rate: 80, sloMs: 195, runs: 10 },
    { accelerators: 4, rate: 120, sloMs: 400, runs: 10 },
    { accelerators: 4, rate: 240, sloMs: 195, runs: 0 },
  ])("$accelerators accelerators, $rate requests/s within $sloMs ms", ({ accelerators, rate, sloMs, runs }) => {
    const keys = `duration_s: 605\naccelerators: ${accelerators}\narrivals: { process: poisson, rate_rps: ${rate} }\n`;
    for (const [name, options] of [
      ["distribution", {}],
      ["distribution", { size: "earliest" }],
      ["distribution+", {}],
    ] as const) {
      const without = run(scenario(`${keys}profiler: { time_share: 0 }`, sloMs), createPolicy(name, options));
      const { report, inTime } = run(scenario(`${keys}profiler: {}`, sloMs), createPolicy(name, options));
      expect(without.report.profiler).toBeUndefined();
      expect([...without.inTime].filter((request) => !inTime.has(request))).toEqual([]);
      expect(conservation(report)).toEqual([]);
      expect(report.arrived).toBe(without.report.arrived);
      expect(report.profiler!.share).toBeLessThanOrEqual(0.002);
      expect(report.latency_ms.p99! / without.report.latency_ms.p99!).toBeLessThan(1.02);
      if (name === "distribution+") expect(report.profiler!.runs).toBeGreaterThanOrEqual(runs);
      if (runs === 0) expect(report.profiler!.runs).toBe(0);
    }
  });
});

const BUSY = "duration_s: 305\naccelerators: 1\narrivals: { process: poisson, rate_rps: 45 }\n";

describe("what a run alone is, and is not", () => {
  it("teaches the model of its queue what each app takes", () => {
    const known: TimesByKind[] = [];
    const plain = createPolicy("distribution+", {});
    const policy: Policy = {
      ...plain,
      createLatency: (spec) => {
        // As if nothing were known of the apps beforehand.
        const { kinds: _, ...rest } = spec;
        known.push(new TimesByKind(rest, { windowUs: 600e6 }));
        return known.at(-1)!;
      },
    };
    const { report } = run(
      scenario(`${BUSY}learn: true\nprofiler: { time_share: 0.01, request_share: 0.2 }`, 1000),
      policy,
    );
    expect(known).toHaveLength(1);
    const { runs_by_app: byApp, runs, share } = report.profiler!;
    expect(Object.values(byApp).reduce((sum, each) => sum + each, 0)).toBe(runs);
    expect(share).toBeGreaterThan(0.003);
    for (const [kind, [name, us]] of [
      ["short", 30_500],
      ["middle", 38_500],
      ["long", 46_500],
    ].entries()) {
      expect(known[0]!.aloneSeen(kind, 305e6)).toBeGreaterThan(byApp[`dynamic/${name}`]! / 2);
      expect(Math.abs(known[0]!.meanAloneUs(kind) / (us as number) - 1)).toBeLessThan(0.02);
    }
  });

  it("is asked for by default where plans follow what is measured, and only by a policy that learns from it", () => {
    const given = scenario(`${BUSY}learn: true`, 1000);
    expect(run(given, createPolicy("distribution+", {})).report.profiler!.runs).toBeGreaterThan(0);
    expect(run(given, createPolicy("deferred", {})).report.profiler).toBeUndefined();
    expect(run({ ...given, learn: false }, createPolicy("distribution+", {})).report.profiler).toBeUndefined();
  });

  it("is not asked for once enough of its app are known of late", () => {
    const runs = (observations: number): number =>
      run(
        scenario(
          `${BUSY}learn: true\nprofiler: { time_share: 0.01, request_share: 1, observations: ${observations} }`,
          1000,
        ),
        createPolicy("distribution+", {}),
      ).report.profiler!.runs;
    expect(runs(1)).toBeLessThan(runs(100) / 2);
  });
});
