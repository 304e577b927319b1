/** What the parts of `deferred+` promise, each alone and in short simulations. Peaks are measured by `rubato bench plus`. */
import { describe, expect, it, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import { expandScenario, scenarioFrom, withRate } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { DeadlineQueue } from "../../core/deadline-queue.js";
import { linearTable } from "../../core/latency/latency.js";
import { RateMeter } from "../../core/latency/rate-meter.js";
import { AcceleratorTable } from "../../core/tables/accelerator-table.js";
import { stream } from "../../sim/random.js";
import { simulate, simulateBadRates } from "../../sim/simulate.js";
import { deferredPlus } from "../registry.js";
import { LookAhead } from "./look-ahead.js";
import { QueuePlus } from "./queue-plus.js";
import { SharedLoad } from "./shared-load.js";
import { keepUpSize, targetSize } from "./target-size.js";

function accelerators(scales: readonly number[]): AcceleratorTable {
  const table = new AcceleratorTable(scales.length);
  for (const [id, scale] of scales.entries()) table.join(id, scale, 0);
  return table;
}

const PARTS = {
  keepUp: true,
  feedback: true,
  feedbackPastTarget: false,
  lookAhead: true,
  leaveWhenEnough: true,
  usableCapacity: false,
  marginalEarly: false,
  rehearse: false,
  byApp: false,
  handOn: false,
  backlogTarget: false,
};
/** Symphony's ResNet50 (Table 2). */
const RESNET = linearTable(1053, 5072, 18);

describe("keep-up target", () => {
  it("is the smallest batch with b / l(b) * accelerators >= rate (one model)", () => {
    for (const rateRps of [1000, 3000, 5000, 5400, 5700]) {
      const perUs = rateRps / 1e6;
      const load = new SharedLoad(accelerators(Array(8).fill(1)));
      const largest = targetSize(RESNET, 25_000, 25_000, 0, perUs);
      const target = new QueuePlus(0, { load, ...PARTS }).target(RESNET, largest, perUs, 1);
      const keepsUp = (b: number) => (8 * b) / RESNET[b]! >= perUs;
      if (target < largest) expect(keepsUp(target)).toBe(true);
      if (target > 1) expect(keepsUp(target - 1)).toBe(false);
    }
  });

  it("leaves others what they need: two equal models have the target of one at twice the rate", () => {
    const perUs = 2700 / 1e6;
    const both = new SharedLoad(accelerators(Array(8).fill(1)));
    const largest = targetSize(RESNET, 25_000, 25_000, 0, perUs);
    new QueuePlus(0, { load: both, ...PARTS }).target(RESNET, largest, perUs, 1);
    const second = new QueuePlus(1, { load: both, ...PARTS }).target(RESNET, largest, perUs, 1);
    const alone = new SharedLoad(accelerators(Array(8).fill(1)));
    expect(second).toBe(new QueuePlus(0, { load: alone, ...PARTS }).target(RESNET, largest, 2 * perUs, 1));
  });

  it("counts accelerators by their speed", () => {
    const slow = new SharedLoad(accelerators([...Array(6).fill(1), 1.25, 1.25, 1.25, 1.25, 1.25]));
    const equal = new SharedLoad(accelerators(Array(10).fill(1)));
    for (const load of [slow, equal]) load.say(0, 1, 5, 1);
    expect(slow.room).toBeCloseTo(equal.room, 10);
  });

  it("is the largest batch where no size is cheap enough", () => {
    expect(keepUpSize(RESNET, 16, 1)).toBe(16);
    expect(keepUpSize(RESNET, 16, RESNET[1]!)).toBe(1);
  });
});

describe("feedback", () => {
  const load = () => new SharedLoad(accelerators(Array(4).fill(1)));

  it("does not move a model that is alone", () => {
    const shared = load();
    const queue = new QueuePlus(0, { load: shared, ...PARTS });
    shared.batchSent(10_000);
    queue.target(RESNET, 8, 0.001, 1);
    for (let bad = 0; bad < 50; bad++) {
      queue.gaveUp();
      queue.follow();
    }
    expect(queue.boostUs).toBe(0);
  });

  it("moves the model that loses more, until it loses its share", () => {
    const shared = load();
    const [first, second] = [0, 1].map((key) => new QueuePlus(key, { load: shared, ...PARTS })) as [
      QueuePlus,
      QueuePlus,
    ];
    shared.batchSent(10_000);
    for (const queue of [first, second]) queue.target(RESNET, 8, 0.001, 1);
    for (let bad = 0; bad < 4; bad++) first.gaveUp();
    first.follow();
    second.follow();
    // Four steps of 0.3 forward, half of them back; in intervals of 10 ms / 4.
    expect(first.boostUs).toBe(Math.floor(0.3 * 2 * 2500));
    expect(second.boostUs).toBe(0);
    for (let bad = 0; bad < 4; bad++) second.gaveUp();
    first.follow();
    expect(first.boostUs).toBe(0);
  });
});

describe("look ahead", () => {
  const MS = 1000;
  const queueOf = (deadlinesMs: readonly number[]): DeadlineQueue => {
    const pending = new DeadlineQueue();
    for (const [handle, deadline] of deadlinesMs.entries()) pending.push(handle, deadline * MS);
    return pending;
  };

  it("one accelerator, four waiting: keeping the head loses two of those behind it, giving it up loses it alone", () => {
    const pending = queueOf([2, 4, 4, 4]);
    const outlook = {
      planUs: linearTable(MS, MS, 4),
      sizeMax: 4,
      sloUs: 4 * MS,
      ratePerUs: 1e-9,
      target: 1,
      enough: 0,
      early: 0,
    };
    const ahead = new LookAhead(4);
    expect(ahead.lost(pending, outlook, new Float64Array(4), 0, 0, 1, 0)).toBe(2);
    expect(ahead.lost(pending, outlook, new Float64Array(4), 0, 1, 3, 0)).toBe(1);
  });

  it("gives up heads for those behind them when the next accelerator is far, and none when it is near", () => {
    const exec = linearTable(MS, 8800, 41);
    const pending = queueOf(Array.from({ length: 34 }, (_, index) => 28.1 + 0.65 * index));
    const outlook = {
      planUs: exec,
      sizeMax: 41,
      sloUs: 49_900,
      ratePerUs: 1.34e-3,
      target: 18,
      enough: Number.POSITIVE_INFINITY,
      early: 0.25,
    };
    const sizeOf = (index: number) => {
      let size = 1;
      while (size < pending.length - index && exec[size + 1]! <= pending.deadlineAt(index)) size++;
      return size;
    };
    const givenUp = (nextFreeMs: number): number => {
      const table = accelerators([1, 1]);
      table.running[1] = 1;
      table.freeAt[1] = nextFreeMs * MS;
      const queue = new QueuePlus(0, { load: new SharedLoad(table), ...PARTS });
      return queue.headsToGiveUp(pending, 0, 0, 0, outlook, sizeOf);
    };
    expect(givenUp(8)).toBe(0);
    // Three more lost now, two fewer in all: 7 without.
    expect(givenUp(18)).toBe(3);
  });
});

test("enough: one accelerator never waits, two wait for few, eight for more than the window allows", () => {
  const enough = (count: number, saving: number) => new SharedLoad(accelerators(Array(count).fill(1))).enough(saving);
  expect(enough(1, 5)).toBe(0);
  expect(enough(2, 1)).toBe(1.25);
  expect(enough(8, 4.8)).toBeGreaterThan(18);
});

test("dispersion of arrivals: near 1 for Poisson, near n where they come n at once, 0 for equal gaps", () => {
  const of = (group: number, equal = false): number => {
    const meter = new RateMeter(60e6);
    const random = stream(1, `dispersion/${group}`);
    for (let at = 0; at < 60e6; at += equal ? 1000 : -Math.log1p(-random()) * 1000 * group)
      for (let each = 0; each < group; each++) meter.observe(at);
    return meter.dispersion;
  };
  expect(of(1)).toBeGreaterThan(0.85);
  expect(of(1)).toBeLessThan(1.15);
  expect(of(20)).toBeGreaterThan(17);
  expect(of(20)).toBeLessThan(23);
  expect(of(1, true)).toBeLessThan(0.1);
});

function scenarioOf(fields: object, rateRps: number, seconds = 10) {
  const whole = { name: "plus", duration_s: seconds, warmup_s: 2, policy: "deferred", ...fields };
  return withRate(expandScenario(scenarioFrom(sourceOf(whole, "plus.yaml"))), rateRps);
}
const poisson = { process: "poisson", rate_rps: 1000 };
const worst = (scenario: ReturnType<typeof scenarioOf>, policy: string, policyOptions = {}) =>
  Math.max(...simulateBadRates(scenario, { policy, policyOptions, seed: 1 }).badRates);

describe("early windows", () => {
  /** When one request alone leaves, l(b) = 10 b + 90, its window closed until 1000 - l(2) = 890. */
  const leavesAt = (accelerators: number, options: Parameters<typeof deferredPlus>[0]): string => {
    const only = { early: 0, early_per_idle: 0, early_by_gap: 0, burst_aware: false, feedback: false };
    const policy = deferredPlus({ ...only, look_ahead: false, leave_when_enough: false, ...options });
    const run = new HandDriven({ policy, accelerators });
    run.arrive(0, "a", 0, 1000).until(1000);
    return run.dispatches.at(-1)!;
  };

  test("none: when the window opens", () => {
    expect(leavesAt(4, {})).toBe("890:a");
  });

  test("early: by this part of l(b) over the number of accelerators", () => {
    expect(leavesAt(1, { early: 2 })).toBe("690:a");
    expect(leavesAt(4, { early: 2 })).toBe("840:a");
  });

  test("early_per_idle: each idle one beyond the first counts by the root of their number", () => {
    // l(1) x 4 / root(n) x (n - 1) / n: 150, then 118.5 rounded down.
    expect(leavesAt(1, { early_per_idle: 4 })).toBe("890:a");
    expect(leavesAt(4, { early_per_idle: 4 })).toBe("740:a");
    expect(leavesAt(9, { early_per_idle: 4 })).toBe("772:a");
  });
});

describe("simulated", () => {
  it("ResNet50 of Table 2 at 5430/s: at most 1 % bad where deferred has more", () => {
    const fields = {
      accelerators: 8,
      models: [{ name: "m", profile: { alpha_ms: 1.053, beta_ms: 5.072 }, slo_ms: 25 }],
    };
    const scenario = scenarioOf({ ...fields, arrivals: poisson }, 5430, 30);
    expect(worst(scenario, "deferred+")).toBeLessThan(0.01);
    expect(worst(scenario, "deferred")).toBeGreaterThan(0.01);
  });

  it("three accelerators, models that batch little: in time at 1750/s, where deferred loses several per cent", () => {
    const models = [
      { name: "a", profile: { alpha_ms: 1, beta_ms: 6 }, slo_ms: 50, share: 3 },
      { name: "b-1", profile: { table_ms: [4, 5, 6.5, 8] }, slo_ms: 40, share: 1 },
      { name: "b-2", profile: { table_ms: [4, 5, 6.5, 8] }, slo_ms: 40, share: 1 },
    ];
    const scenario = scenarioOf({ accelerators: 3, models, arrivals: poisson }, 1750, 30);
    expect(worst(scenario, "deferred+")).toBeLessThan(0.01);
    expect(worst(scenario, "deferred")).toBeGreaterThan(0.03);
  });

  it("A100 mix at 18,000/s: with feedback the worst model loses less than 1 %, without it narrow windows starve", () => {
    const fields = { accelerators: 64, models_from: { zoo: "a100", select: "all" }, arrivals: poisson };
    const scenario = scenarioOf(fields, 18_000, 8);
    expect(worst(scenario, "deferred+")).toBeLessThan(0.01);
    expect(worst(scenario, "deferred+", { feedback: false })).toBeGreaterThan(0.03);
  });

  it("with more than fits it serves as much as deferred: feedback rests", () => {
    const fields = {
      accelerators: 24,
      models: [{ name: "m", count: 10, profile: { alpha_ms: 1.053, beta_ms: 5.072 }, slo_ms: 100 }],
      arrivals: poisson,
    };
    const scenario = scenarioOf(fields, 28_000, 8);
    const goodputOf = (policy: string): number => simulate(scenario, { policy, seed: 1 }).goodput_rps;
    expect(goodputOf("deferred+")).toBeGreaterThan(0.99 * goodputOf("deferred"));
  });

  it("one accelerator at 510/s: at most 1 % bad looking ahead and never waiting, more without", () => {
    const fields = {
      accelerators: 1,
      models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 1.68 }, slo_ms: 12.5 }],
      arrivals: poisson,
    };
    const scenario = scenarioOf(fields, 510, 120);
    expect(worst(scenario, "deferred+")).toBeLessThan(0.01);
    expect(worst(scenario, "deferred+", { look_ahead: false, leave_when_enough: false })).toBeGreaterThan(0.01);
  });

  it("four accelerators, small batches, at 2300/s: windows by the gap to the next free one lose fewer", () => {
    const fields = {
      accelerators: 4,
      models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 2.12 }, slo_ms: 9 }],
      arrivals: poisson,
    };
    const scenario = scenarioOf(fields, 2300, 60);
    expect(worst(scenario, "deferred+") * 1.1).toBeLessThan(worst(scenario, "deferred+", { early_by_gap: 0 }));
  });

  it("with every part off it does what deferred does", () => {
    const off = {
      target: "auto",
      early: 0,
      early_per_idle: 0,
      early_by_gap: 0,
      feedback: false,
      look_ahead: false,
      leave_when_enough: false,
      fastest_first: false,
      rate_window_s: 5,
    };
    const fields = { accelerators: 8, models_from: { zoo: "a100", select: "strong" }, arrivals: poisson };
    const scenario = scenarioOf(fields, 4000, 4);
    const { policy: _plus, ...plus } = simulate(scenario, { policy: "deferred+", policyOptions: off, seed: 1 });
    const { policy: _deferred, ...deferred } = simulate(scenario, { policy: "deferred", seed: 1 });
    expect(plus).toEqual(deferred);
  });

  it("fastest first: idle slow accelerators are left alone while a fast one is idle", () => {
    const fields = {
      accelerators: [
        { kind: "slow", count: 4, scale: 1.4 },
        { kind: "fast", count: 4, scale: 1 },
      ],
      models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 40 }],
      arrivals: poisson,
    };
    const scenario = scenarioOf(fields, 500, 6);
    const mean = (options: object) =>
      simulate(scenario, { policy: "deferred+", policyOptions: options as never, seed: 1 }).utilization;
    // The same work takes 1.4 times as long on slow ones.
    expect(mean({}) * 1.2).toBeLessThan(mean({ fastest_first: false }));
  });
});
