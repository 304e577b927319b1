/** What `auto` adds to `deferred+`, each part alone and in short simulations. `rubato bench default --simulated` measures them. */
import { describe, expect, it, test } from "vitest";
import { expandScenario, scenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { linearTable } from "../../core/latency/latency.js";
import { OfferTable } from "../../core/policy.js";
import { AcceleratorTable } from "../../core/tables/accelerator-table.js";
import { simulate } from "../../sim/simulate.js";
import { PLUS_ARBITER } from "./deferred-plus.js";
import { RankArbiter } from "./rank-arbiter.js";
import { SharedLoad } from "./shared-load.js";

/** Its own rules, whatever else would earn more. */
const OWN = { rehearse: false };
/** l(b) = b + 9 ms. */
const TABLE = linearTable(1000, 9000, 10);

function loadOf(scales: readonly number[]): SharedLoad {
  const table = new AcceleratorTable(scales.length);
  for (const [id, scale] of scales.entries()) table.join(id, scale, 0);
  return new SharedLoad(table);
}

describe("usable capacity", () => {
  it("equal accelerators are all of use", () => {
    expect(loadOf([1, 1, 1]).usable(TABLE, 6)).toBeCloseTo(1, 12);
  });

  it("a slow one serves the batch that it ends within the largest batch's time on the fastest", () => {
    // 15 ms: half as fast it runs l = 7.5 ms, less than one request's 10.
    expect(loadOf([1, 2]).usable(TABLE, 6)).toBeCloseTo(1 / 1.5, 12);
    // 18 ms at 1.5: l(3) = 12 fits, 3 in 18 ms where the fastest has 9; by speed it would count 2 / 3.
    expect(loadOf([1, 1.5]).usable(TABLE, 9)).toBeCloseTo((1 + 3 / 9) / (1 + 2 / 3), 12);
  });
});

test("without accelerators usable capacity is a number, and so is room ever after", () => {
  const table = new AcceleratorTable(2);
  const load = new SharedLoad(table);
  load.say(0, 0.001, 1 / load.usable(TABLE, 6), 1);
  table.join(0, 1, 0);
  load.say(0, 0.001, 0.5, 1);
  expect(load.room).toBe(2);
});

test("a queue that was removed needs nothing any more", () => {
  const load = loadOf([1, 1]);
  const arbiter = new RankArbiter({ offers: new OfferTable(4), accelerators: load.accelerators } as never, {
    idleDispatch: false,
    plus: { load, ...PLUS_ARBITER },
  });
  for (const key of [0, 1]) load.say(key, 0.001, 1, 1);
  arbiter.queueRemoved(1);
  expect(load.room).toBe(2);
  expect(load.isAlone(0)).toBe(true);
});

describe("accelerators too slow for anybody", () => {
  it("are counted once a queue has said what it could take", () => {
    const load = loadOf([1, 1, 2.5, 3]);
    expect(load.useless).toBe(0);
    load.mayTake(10_000, 24_000);
    expect(load.useless).toBe(2);
    load.mayTake(10_000, 25_000);
    expect(load.useless).toBe(1);
    // The most tolerant queue decides.
    load.mayTake(10_000, 12_000);
    expect(load.useless).toBe(1);
  });

  it("are counted anew when one comes or the fastest goes", () => {
    const table = new AcceleratorTable(3);
    table.join(0, 1, 0);
    table.join(1, 3, 0);
    const load = new SharedLoad(table);
    load.mayTake(10_000, 20_000);
    expect(load.useless).toBe(1);
    table.join(2, 4, 0);
    expect(load.useless).toBe(2);
  });
});

describe("in short simulations", () => {
  const run = (fields: Readonly<Record<string, unknown>>, policy: string, policyOptions = {}): number => {
    const whole = { name: "case", duration_s: 12, warmup_s: 2, ...fields };
    const scenario = expandScenario(scenarioFrom(sourceOf(whole, "case.yaml")));
    return 1 - simulate(scenario, { policy, policyOptions, seed: 1 }).bad_rate;
  };
  const slow = {
    accelerators: [{ count: 4 }, { count: 4, scale: 3.5 }],
    models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 8 }, slo_ms: 36 }],
    arrivals: { process: "poisson", rate_rps: 2600 },
  };
  const many = {
    accelerators: 3,
    models: [{ name: "m", count: 37, profile: { alpha_ms: 0.57, beta_ms: 27.6 }, slo_ms: 240 }],
    arrivals: { process: "gamma", shape: 0.07, rate_rps: 1000 },
  };

  it("slow accelerators do not make the target smaller than what the fast ones must serve", () => {
    expect(run(slow, "auto", OWN)).toBeGreaterThan(run(slow, "auto", { ...OWN, usable_capacity: false }) + 0.02);
  });

  it("strong batching, tight SLO: early windows count what grows with the batch", () => {
    const tight = {
      accelerators: 8,
      models: [{ name: "m", profile: { alpha_ms: 0.5, beta_ms: 97.5 }, slo_ms: 210 }],
      arrivals: { process: "poisson", rate_rps: 7200 },
    };
    const unlike = { ...OWN, marginal_early: false };
    expect(1 - run(tight, "auto", OWN)).toBeLessThan(0.5 * (1 - run(tight, "auto", unlike)));
  });

  it("accelerators that serve nobody do not make windows open early", () => {
    const fields = {
      accelerators: [{ count: 25 }, { count: 19, scale: 2.4 }],
      models: [{ name: "m", count: 2, profile: { alpha_ms: 2.76, beta_ms: 540 }, slo_ms: 976, batch_max: 64 }],
      arrivals: { process: "gamma", shape: 0.05, rate_rps: 2100 },
    };
    // Counted as idle they cost 8 points.
    expect(run(fields, "auto", OWN)).toBeGreaterThan(run(fields, "deferred") - 0.02);
  });

  it("at capacity feedback makes no batches smaller than what keeps up", () => {
    const fields = {
      accelerators: 18,
      models: [{ name: "m", count: 4, profile: { alpha_ms: 5, beta_ms: 22 }, slo_ms: 140 }],
      arrivals: { process: "poisson", rate_rps: 3000 },
    };
    const always = { ...OWN, feedback_past_target: false };
    expect(run(fields, "auto", OWN)).toBeGreaterThan(run(fields, "auto", always) + 0.02);
  });

  it("with what it adds off it is deferred+", () => {
    const off = { usable_capacity: false, marginal_early: false, feedback_past_target: false, rehearse: false };
    expect(run(many, "auto", off)).toBe(run(many, "deferred+"));
    expect(run(slow, "auto", off)).toBe(run(slow, "deferred+"));
  });
});
