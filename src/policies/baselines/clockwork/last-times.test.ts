/** Clockwork's estimate: the largest of the last ten times of a size, and what it does to its plans. */
import { describe, expect, test } from "vitest";
import { expandScenario } from "../../../config/scenario/expand-scenario.js";
import { parseScenario } from "../../../config/scenario/scenario.js";
import { linearTable, ProfiledLatency } from "../../../core/latency/latency.js";
import { BatchTable } from "../../../core/tables/batch-table.js";
import { RequestTable } from "../../../core/tables/request-table.js";
import { simulate } from "../../../sim/simulate.js";
import { LastTimes } from "./last-times.js";

describe("the largest of the last ten times of each size", () => {
  const latency = () => new LastTimes(new ProfiledLatency(linearTable(10, 90, 4)));
  const batches = new BatchTable(1);
  const requests = new RequestTable(1);
  function measure(model: LastTimes, size: number, ...times: number[]): boolean[] {
    return times.map((us) => {
      const batch = batches.add(0, -1, size, 0, 0, 0);
      const isChanged = model.measured({ batch, batches, requests }, us);
      batches.release(batch);
      return isChanged;
    });
  }

  test("the profile is the first of them; the tenth measurement puts it out", () => {
    const model = latency();
    expect([...model.execUs.slice(1, 5)]).toEqual([100, 110, 120, 130]);
    expect(measure(model, 2, ...Array.from({ length: 9 }, () => 70))).toEqual(Array.from({ length: 9 }, () => false));
    expect(model.execUs[2]).toBe(110);
    expect(measure(model, 2, 70)).toEqual([true]);
    expect([...model.execUs.slice(1, 5)]).toEqual([100, 70, 120, 130]);
    expect(model.version).toBe(1);
  });

  test("one long time counts until ten others have followed", () => {
    const model = latency();
    measure(model, 1, 500);
    expect(model.execUs[1]).toBe(500);
    measure(model, 1, ...Array.from({ length: 9 }, () => 80));
    expect(model.execUs[1]).toBe(500);
    measure(model, 1, 80);
    expect(model.execUs[1]).toBe(80);
  });

  test("a size that was padded to is the one that was measured; quantiles are of the same ten", () => {
    const model = latency();
    const batch = batches.add(0, -1, 2, 0, 0, 0, 4);
    model.measured({ batch, batches, requests }, 300);
    batches.release(batch);
    expect([model.execUs[2], model.execUs[4]]).toEqual([110, 300]);
    measure(model, 4, 200, 400);
    expect([0.1, 0.3, 0.6, 0.99].map((q) => model.quantileUs(4, q))).toEqual([130, 200, 300, 400]);
  });
});

describe("in simulation: requests take three times what the profile says", () => {
  const run = (estimate: string, learn: boolean) =>
    simulate(
      expandScenario(
        parseScenario(`
accelerators: 1
models:
  - { name: m, profile: { alpha_ms: 1, beta_ms: 9 }, slo_ms: 200, batch_max: 1, apps: [{ name: a, time: { constant_ms: 30 } }] }
arrivals: { process: poisson, rate_rps: 20 }
duration_s: 20
learn: ${learn}
policy: clockwork
policy_options: { estimate: ${estimate} }
`),
      ),
    );

  test("by the profile, what was sent behind another has its turn too late and is refused; by what was measured it is not", () => {
    const refused = (estimate: string, learn: boolean): number =>
      run(estimate, learn).drops_by_reason["predicted-late"] ?? 0;
    expect(refused("profile", false)).toBeGreaterThan(30);
    expect(refused("last-10", true)).toBeLessThan(5);
  });

  test("it needs a scenario that learns", () => {
    expect(run("last-10", false)).toEqual(run("profile", false));
  });
});
