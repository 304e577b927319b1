/** What is past OTAS's paper, each part alone: who shares a batch, what time is worth, when a batch leaves; and that `auto` has it. */
import { describe, expect, test } from "vitest";
import { HandDriven, type HandDrivenOptions } from "../../../test/support/hand-driven.js";
import type { ElasticProfile } from "../../core/latency/elastic.js";
import { linearTable } from "../../core/latency/latency.js";
import { stream } from "../../sim/random.js";
import { auto } from "../deferred/deferred-plus.js";
import { otas, otasPlus } from "../otas/otas.js";
import { NOT_EXECUTED } from "./allocation/allocation.js";
import { TimeDemand } from "./allocation/time-demand.js";
import { ElasticTimes } from "./elastic-times.js";
import { PricedWork } from "./planners/priced-work.js";
import type { BatchLine, WorkPlanner } from "./planners/work-planner.js";

const SIZE_MAX = 8;
/** l(b) = alpha b + 100 µs. */
const way = (gamma: number, alphaUs: number, runMb: number) => ({
  name: String(gamma),
  gamma,
  family: 0,
  execUs: linearTable(alphaUs, 100, SIZE_MAX),
  loadUs: 0,
  runMb,
});
/** Kind 0 gains by work, kind 1 does not. */
const ELASTIC: ElasticProfile = {
  variants: [way(-8, 50, 5), way(0, 100, 10), way(8, 200, 20)],
  plain: 1,
  accuracy: [
    [0.6, 0.8, 0.9],
    [0.5, 0.5, 0.5],
  ],
};
const [LESS, PLAIN, MORE] = [1, 2, 3];
const drive = (policy: HandDrivenOptions["policy"], rest: Partial<HandDrivenOptions> = {}): HandDriven =>
  new HandDriven({ policy, elastic: ELASTIC, ...rest });

describe("grouping: wanted", () => {
  const wait = (run: HandDriven): HandDriven =>
    run
      .arrive(0, "x")
      .arrive(10, "a", 0, 5000, 0)
      .arrive(20, "b", 0, 5000, 1)
      .arrive(30, "c", 0, 5001, 0)
      .arrive(40, "d", 0, 5001, 1)
      .until(4000);

  test("those that want the same gamma run together, though like utility and deadline would put all into one batch", () => {
    const apart = wait(drive(otasPlus({ price: "none" })));
    expect(apart.dispatches.map((each) => each.split(":")[1])).toEqual(["x", "ac", "bd"]);
    expect(apart.variants.slice(1)).toEqual([MORE, LESS]);
    const together = wait(drive(otasPlus({ price: "none", grouping: "arrival" })));
    expect(together.dispatches.map((each) => each.split(":")[1])).toEqual(["x", "abcd"]);
  });

  test("who is cancelled is in no batch; what was passed over is skipped", () => {
    const run = drive(otasPlus({ price: "none" }))
      .arrive(0, "x")
      .arrive(10, "ab", 0, 5000)
      .cancel(20, "a")
      .until(3000);
    expect(run.dispatches.map((each) => each.split(":")[1])).toEqual(["x", "b"]);
    // x until 300. There is time for one: b earns more.
    const skipped = drive(otasPlus({ price: "none" }))
      .arrive(0, "x")
      .arrive(10, "a", 0, 460, 1, 1)
      .arrive(20, "b", 0, 461, 0, 2)
      .until(3000);
    expect([...skipped.ended]).toEqual([
      ["x", "finished"],
      ["a", "dropped skipped"],
      ["b", "finished"],
    ]);
  });
});

describe("price: demand", () => {
  const times = new ElasticTimes({
    latency: { execUs: linearTable(100, 100, 8), sizeMax: 8 } as never,
    elastic: ELASTIC,
  });
  /** Written down: what it was given. */
  const seen: number[][] = [];
  const inner = (choose: (round: number) => number): WorkPlanner => ({
    arrived: () => {},
    sent: () => {},
    plan: ({ count, utility }, chosen) => {
      seen.push([...utility.subarray(0, count * times.count)]);
      chosen.fill(choose(seen.length), 0, count);
    },
  });
  const line = (): BatchLine => ({
    batches: [],
    count: 1,
    timeUs: Float64Array.of(150, 200, Number.POSITIVE_INFINITY),
    utility: Float64Array.of(6, 8, 9),
    dueAt: Float64Array.of(1e6),
    startAt: 0,
    scale: 1,
    accelerators: 1,
  });
  /** Twice what fits of kind 0, whose first gamma is worth 0.6 in 62.5 µs: the price of time. */
  const demand = new TimeDemand(Float64Array.of(0.6, 0.8, 0.9), Float64Array.of(62.5, 112.5, 212.5), 1000);
  for (let each = 0; each < 32; each++) demand.arrived(0, 1, 0);

  test("batches are worth what they earn less the price of their time", () => {
    seen.length = 0;
    const work = new PricedWork(
      inner(() => 0),
      demand,
      times,
    );
    const price = work.price(1, 1, 0);
    expect(price).toBeGreaterThan(0.0085);
    expect(price).toBeLessThanOrEqual(0.6 / 62.5);
    // Of two that share the load, and twice as slow: as much time as before, worth half.
    expect(work.price(2, 2, 0)).toBeCloseTo(price / 2, 12);
    work.plan(line(), new Int32Array(1), 0);
    expect(seen).toEqual([[6 - price * 150, 8 - price * 200, 9]]);
  });

  test("where nothing is worth its time it is planned as if time were free", () => {
    seen.length = 0;
    const work = new PricedWork(
      inner((round) => (round === 1 ? NOT_EXECUTED : 1)),
      demand,
      times,
    );
    const chosen = new Int32Array(1);
    work.plan(line(), chosen, 0);
    expect(chosen[0]).toBe(1);
    expect(seen).toHaveLength(2);
    for (const [cell, utility] of [6, 8, 9].entries()) expect(seen[1]![cell]).toBeCloseTo(utility, 9);
  });
});

describe("dispatch: deferred", () => {
  const later = { dispatch: "deferred", price: "none" } as const;

  test("a batch leaves when it could hold no more by the gamma that it is worth, and at once when it is full", () => {
    // By the most work l(2) = 500, l(3) = 700.
    expect(drive(otasPlus(later)).arrive(0, "a", 0, 5000).until(6000).dispatches).toEqual(["4500:a"]);
    const two = drive(otasPlus(later)).arrive(0, "a", 0, 5000).arrive(100, "b", 0, 6000).until(6000);
    expect(two.dispatches).toEqual(["4300:ab"]);
    expect(two.variants).toEqual([MORE]);
    expect(drive(otasPlus(later)).arrive(0, "abcdefgh", 0, 5000).until(6000).dispatches).toEqual(["0:abcdefgh"]);
  });

  test("to kind 1 work is worth nothing: it waits longer", () => {
    // l(2) = 200 by the least.
    expect(drive(otasPlus(later)).arrive(0, "a", 0, 5000, 1).until(6000).dispatches).toEqual(["4800:a"]);
  });
});

describe("every request ends once, in time where it runs, and no batch is above its size or memory", () => {
  const MEMORY_MB = 60;
  const combinations = (["arrival", "wanted"] as const).flatMap((grouping) =>
    (["none", "demand"] as const).flatMap((price) =>
      (["eager", "deferred"] as const).flatMap((dispatch) =>
        (["token-adaptation", "frontier"] as const).map((allocator) => ({ grouping, price, dispatch, allocator })),
      ),
    ),
  );

  test.each(combinations)("$grouping, $price, $dispatch, $allocator", (options) => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = stream(seed, "otas-plus");
      const run = drive(otasPlus({ ...options, memory_mb: MEMORY_MB, price_window_ms: 2 }), {
        accelerators: 1 + (seed % 3),
      });
      let at = 0;
      let arrived = 0;
      for (; arrived < 400; arrived++) {
        at += Math.floor(random() < 0.1 ? 3000 * random() : 60 * random());
        const kind = random() < 0.5 ? 0 : 1;
        run.arrive(at, arrived, 0, at + 100 + Math.floor(3000 * random()), kind, random() < 0.3 ? 0.01 : random());
        if (random() < 0.05) run.cancel(at, Math.floor(random() * arrived));
      }
      run.until(at + 1e6);
      expect(run.ended.size).toBe(arrived);
      expect(new Set(run.ended.values())).not.toContain("late");
      expect(run.dispatches.length).toBeGreaterThan(20);
      const executed = [LESS, PLAIN, MORE].map((variant) => ELASTIC.variants[variant - 1]!);
      run.variants.forEach((variant, batch) => {
        const { execUs, runMb } = executed[variant - 1]!;
        const size = execUs.indexOf(run.executedUs[batch]!);
        expect(size).toBeGreaterThan(0);
        expect(size).toBeLessThanOrEqual(SIZE_MAX);
        expect(size * runMb).toBeLessThanOrEqual(MEMORY_MB);
      });
    }
  });
});

describe("auto", () => {
  const load = (run: HandDriven): HandDriven => {
    const random = stream(7, "auto-elastic");
    let at = 0;
    for (let each = 0; each < 300; each++) {
      at += Math.floor(120 * random());
      run.arrive(at, each, 0, at + 500 + Math.floor(2000 * random()), random() < 0.5 ? 0 : 1, random());
    }
    return run.until(at + 1e6);
  };

  test("an elastic model is served as by otas+; adapt_tokens: false, by one gamma", () => {
    const [plus, ours, off] = [otasPlus(), auto(), auto({ adapt_tokens: false })].map((policy) => load(drive(policy)));
    expect(ours!.dispatches).toEqual(plus!.dispatches);
    expect(ours!.variants).toEqual(plus!.variants);
    expect(ours!.executedUs).toEqual(plus!.executedUs);
    expect(new Set(off!.variants)).toEqual(new Set([0]));
  });

  test("a model that is not elastic is served as it was", () => {
    const run = (policy: HandDrivenOptions["policy"]) => load(new HandDriven({ policy })).dispatches;
    expect(run(auto())).toEqual(run(auto({ adapt_tokens: false })));
  });
});

test("with all that is past the paper off, otas+ is otas", () => {
  const off = { grouping: "arrival", price: "none", allocator: "token-adaptation", beta: 5, initial_s: 2 } as const;
  const run = (policy: HandDrivenOptions["policy"]): HandDriven => {
    const random = stream(3, "otas-plus-off");
    const driven = drive(policy);
    for (let each = 0, at = 0; each < 300; each++) {
      at += Math.floor(150 * random());
      driven.arrive(at, each, 0, at + 500 + Math.floor(2000 * random()), random() < 0.5 ? 0 : 1, random());
    }
    return driven.until(1e7);
  };
  const [plus, plain] = [run(otasPlus(off)), run(otas())];
  expect(plus.dispatches).toEqual(plain.dispatches);
  expect(plus.variants).toEqual(plain.variants);
});

describe("accuracy: recent", () => {
  const HARDER = [
    [0.6, 0.65, 0.5],
    [0.5, 0.5, 0.5],
  ];
  const told = (policy: HandDrivenOptions["policy"]): HandDriven => {
    const run = drive(policy).arrive(0, "x").arrive(10, "ab", 0, 50_000);
    if (run.scheduler.takesAccuracy(0)) run.scheduler.accuracyChanged(0, HARDER, 20);
    return run.until(5000).arrive(10_000, "c").until(20_000);
  };

  test.each([
    ["otas, pools by arrival", otas({ accuracy: "recent", beta: 0, initial_s: 0 })],
    ["otas+", otasPlus({ accuracy: "recent" })],
    ["auto", auto({ accuracy: "recent" })],
  ])("%s: those that wait and those that come get the gamma by what the queue is told", (_, policy) => {
    const run = told(policy);
    expect(run.dispatches.map((each) => each.split(":")[1])).toEqual(["x", "ab", "c"]);
    expect(run.variants).toEqual([MORE, PLAIN, PLAIN]);
  });

  test.each([
    ["otas+", otasPlus({ accuracy: "profiled" })],
    ["auto", auto({ accuracy: "profiled" })],
  ])("%s by the profile is not told", (_, policy) => {
    expect(told(policy).variants).toEqual([MORE, MORE, MORE]);
  });
});
