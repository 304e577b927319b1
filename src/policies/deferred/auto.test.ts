/** What `auto` adds to `deferred+`, each part alone and in short simulations. `rubato bench default --simulated` measures them. */
import { describe, expect, it, test } from "vitest";
import { expandScenario, scenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { linearTable } from "../../core/latency/latency.js";
import { OfferTable } from "../../core/policy.js";
import { AcceleratorTable } from "../../core/tables/accelerator-table.js";
import { simulate } from "../../sim/simulate.js";
import { Backlog } from "./backlog.js";
import { PLUS_ARBITER } from "./deferred-plus.js";
import { RankArbiter } from "./rank-arbiter.js";
import { SharedLoad } from "./shared-load.js";

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

test("joining: what a queue said last, none before", () => {
  const load = loadOf([1, 1]);
  expect(load.joining(3)).toBe(0);
  load.say(3, 0.001, 0.5, 1, 4);
  expect(load.joining(3)).toBe(4);
});

describe("backlog", () => {
  const offered = (...batches: readonly (readonly [execUs: number, latestAt: number])[]) => {
    const offers = new OfferTable(32);
    const backlog = new Backlog(offers);
    backlog.grow(32);
    const put = (key: number, execUs: number, latestAt: number, size = 1, joining = 0): void => {
      offers.size[key] = size;
      offers.execUs[key] = execUs;
      offers.latestAt[key] = latestAt;
      backlog.note(key, joining);
    };
    for (const [key, [execUs, latestAt]] of batches.entries()) put(key, execUs, latestAt);
    return { backlog, put };
  };

  it("presses when the work over the accelerators is twice the mean time that is left", () => {
    // 60 ms of work on two accelerators take 30; the mean is 40 ms.
    const { backlog } = offered([20_000, 30_000], [40_000, 50_000]);
    expect(backlog.pressesAt(2)).toBe(40_000 - 15_000);
    expect(backlog.pressesAt(1)).toBe(40_000 - 30_000);
  });

  it("forgets what was there before, and who offers nothing", () => {
    const { backlog, put } = offered([20_000, 30_000], [40_000, 50_000]);
    put(1, 10_000, 90_000);
    expect(backlog.pressesAt(1)).toBe(60_000 - 15_000);
    put(0, 5, 5, 0);
    put(0, 7, 7, 0);
    expect(backlog.pressesAt(1)).toBe(90_000 - 5000);
    put(1, 0, 0, 0);
    expect(backlog.pressesAt(1)).toBe(Number.POSITIVE_INFINITY);
  });

  it("gains by all that join while all wait, less where batches are large already", () => {
    const { backlog, put } = offered();
    put(0, 10_000, 50_000, 2, 1);
    put(1, 10_000, 50_000, 4, 6);
    expect(backlog.gains).toBe(0.5 + 1.5);
    put(1, 10_000, 50_000, 8, 6);
    expect(backlog.gains).toBe(0.5 + 0.75);
    put(0, 0, 0, 0, 1);
    expect(backlog.gains).toBe(0.75);
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
    expect(run(slow, "auto")).toBeGreaterThan(run(slow, "auto", { usable_capacity: false }) + 0.02);
  });

  it("many models, few accelerators: what waits in all ends the waiting of each", () => {
    expect(run(many, "auto")).toBeGreaterThan(run(many, "auto", { early_by_backlog: false }) + 0.01);
  });

  it("strong batching, tight SLO: early windows count what grows with the batch", () => {
    const tight = {
      accelerators: 8,
      models: [{ name: "m", profile: { alpha_ms: 0.5, beta_ms: 97.5 }, slo_ms: 210 }],
      arrivals: { process: "poisson", rate_rps: 7200 },
    };
    expect(1 - run(tight, "auto")).toBeLessThan(0.5 * (1 - run(tight, "auto", { marginal_early: false })));
  });

  it("accelerators that serve nobody do not make windows open early", () => {
    const fields = {
      accelerators: [{ count: 25 }, { count: 19, scale: 2.4 }],
      models: [{ name: "m", count: 2, profile: { alpha_ms: 2.76, beta_ms: 540 }, slo_ms: 976, batch_max: 64 }],
      arrivals: { process: "gamma", shape: 0.05, rate_rps: 2100 },
    };
    // Counted as idle they cost 8 points.
    expect(run(fields, "auto")).toBeGreaterThan(run(fields, "deferred") - 0.02);
  });

  it("at capacity feedback makes no batches smaller than what keeps up", () => {
    const fields = {
      accelerators: 18,
      models: [{ name: "m", count: 4, profile: { alpha_ms: 5, beta_ms: 22 }, slo_ms: 140 }],
      arrivals: { process: "poisson", rate_rps: 3000 },
    };
    expect(run(fields, "auto")).toBeGreaterThan(run(fields, "auto", { feedback_past_target: false }) + 0.02);
  });

  it("with what it adds off it is deferred+", () => {
    const off = { usable_capacity: false, marginal_early: false, early_by_backlog: false, feedback_past_target: false };
    expect(run(many, "auto", off)).toBe(run(many, "deferred+"));
    expect(run(slow, "auto", off)).toBe(run(slow, "deferred+"));
  });
});
