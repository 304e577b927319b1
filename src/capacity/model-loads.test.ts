/** What models are asked for by pipelines, against parts counted in runs in which nobody is given up. */
import { expect, test } from "vitest";
import { loadScenario, loadScenarioFrom, withRate } from "../config/scenario/scenario.js";
import { parseSource } from "../config/source.js";
import { simulate } from "../sim/simulate.js";
import { modelLoads } from "./model-loads.js";
import { staggeredCapacityRps } from "./scenario-goodput.js";

/** So few that nobody is given up. */
const RATE_RPS = 0.4;

test.each(["pages", "ocr", "ocr-steps", "chain"])("%s: as many parts come as are reckoned with", (name) => {
  const scenario = withRate(
    loadScenario(`scenarios/pipelines/${name}.yaml`, { policy: "naive", durationS: 2000 }),
    RATE_RPS,
  );
  const { per_module: rows } = simulate(scenario);
  const counted = new Float64Array(scenario.models.length);
  for (const { name: pipeline, modules } of scenario.pipelines!)
    for (const module of modules) counted[module.model]! += rows[`${pipeline}/${module.name}`]!.arrived;
  const loads = modelLoads(scenario);
  const countedS = (scenario.durationUs - scenario.warmupUs) / 1e6;
  const entered = counted[scenario.pipelines![0]!.modules[0]!.model]! / countedS;
  for (const [model, load] of loads.entries()) {
    const came = counted[model]! / countedS / (entered / RATE_RPS);
    expect(came / load, scenario.models[model]!.name).toBeGreaterThan(0.85);
    expect(came / load, scenario.models[model]!.name).toBeLessThan(1.15);
  }
});

test("ways by app: each as often as its app; a group's capacity is what its models take together", () => {
  const scenario = loadScenarioFrom(
    parseSource(
      `
groups: [{ name: g, accelerators: 2 }, { name: h, accelerators: 1 }]
models:
  - { name: a, group: g, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 10 } }
  - { name: b, group: h, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 5 } }
  - { name: c, group: h, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 20 } }
pipelines:
  - name: p
    slo_ms: 100
    apps: [{ name: x, share: 3 }, { name: y }]
    modules:
      - { id: 0, name: a, subs: [1, 2], branch: { x: [0.2, 0.8], y: [1, 0] } }
      - { id: 1, name: b, pres: [0] }
      - { id: 2, name: c, pres: [0], fan_out: { counts: [0, 2, 4] } }
arrivals: { process: poisson, rate_rps: 40 }
`,
      "s.yaml",
    ),
  );
  expect([...modelLoads(scenario)].map((each) => Number(each.toFixed(6)))).toEqual([40, 16, 48]);
  // h: 0.4 of 5 ms and 1.2 of 20 ms for each request; g: 10 ms on two.
  expect(staggeredCapacityRps(scenario)).toBeCloseTo(1000 / 26, 6);
});
