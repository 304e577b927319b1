/** Rules of Nexus, worked by hand: l(b) = 10 b + 90 µs, times in µs; then in simulation. Source: its backend, frontend and scheduler. */
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { accelerators, linearModel, scenarioOf } from "../../../../test/support/scenario.js";
import { durationUs } from "../../../core/time.js";
import type { SimulatedEvent } from "../../../sim/event-lines.js";
import { simulate } from "../../../sim/simulate.js";
import { nexus } from "../../registry.js";
import { HELD, NexusFrontends } from "./nexus-frontends.js";
import { NexusPlan } from "./nexus-plan.js";

const serve = (options: Parameters<typeof nexus>[0] = {}, count = 1, models = 1) =>
  new HandDriven({ policy: nexus({ plan: "static", static_batch: 4, ...options }), accelerators: count, models });

describe("nexus: backends", () => {
  test("an idle one takes what is there; up to the planned batch", () => {
    const run = serve().arrive(0, "x").arrive(10, "abcdef").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:abcd", "230:ef"]);
  });

  test("models in turn, at most one batch a turn", () => {
    const run = serve({}, 1, 2).arrive(0, "x", 0).arrive(10, "abcdef", 0).arrive(20, "ghijk", 1).until(2000);
    expect(run.dispatches).toEqual(["0:0/x", "100:1/ghij", "230:0/abcd", "360:1/k", "460:0/ef"]);
  });

  test("sliding window: a head that could not finish in the planned batch goes, though alone it could", () => {
    // At 100 a batch of 4 ends at 230, one of 1 at 200.
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bcde").until(1000);
    expect(run.ended.get("a")).toBe("dropped predicted-late");
    expect(run.dispatches).toEqual(["0:x", "100:bcde"]);
  });

  test("the test gets easier as fewer are left", () => {
    // a goes before 4 can end (230), b before the 3 that are left can (220), c holds with the 2 that are left (210).
    const run = serve().arrive(0, "x").arrive(10, "ab", 0, 215).arrive(11, "c", 0, 216).arrive(12, "d").until(1000);
    expect(["a", "b"].map((name) => run.ended.get(name))).toEqual(["dropped predicted-late", "dropped predicted-late"]);
    expect(run.dispatches).toEqual(["0:x", "100:cd"]);
  });

  test("profile_multiplier: heads are dropped by times that are as much longer", () => {
    // At 100 a batch of 4 takes 130, 1.5 times of which end at 295.
    const run = serve({ profile_multiplier: 1.5 }).arrive(0, "x").arrive(10, "a", 0, 294).arrive(10, "b", 0, 295);
    run.arrive(10, "cde").until(1000);
    expect([run.ended.get("a"), run.lateByUs.get("a")]).toEqual(["dropped predicted-late", 1]);
    expect(run.dispatches).toEqual(["0:x", "100:bcde"]);
    expect(run.endedAt.get("b")).toBe(230);
  });

  test("drop earliest: only who cannot finish alone; the head bounds the batch", () => {
    const run = serve({ drop: "earliest" }).arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bcde").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:cde"]);
  });

  test("a request stays with its accelerator though another idles", () => {
    // In turn: a to 0, b to 1, c to 0, which is free at 100.
    const run = serve({}, 2).arrive(0, "a").arrive(10, "b").arrive(20, "c").until(1000);
    expect(run.order).toEqual([0, 1, 0]);
    expect(run.dispatches).toEqual(["0:a", "10:b", "100:c"]);
    const later = serve({}, 2)
      .arrive(0, "a")
      .arrive(2, "b")
      .arrive(103, "c")
      .arrive(104, "d")
      .arrive(105, "e")
      .until(1000);
    expect(later.order).toEqual([0, 1, 0, 1, 0]);
    expect(later.dispatches).toEqual(["0:a", "2:b", "103:c", "104:d", "203:e"]);
  });

  test("inputs travel when requests arrive, not when batches start", () => {
    const network = { controlUs: 20, dataUsPerRequest: 5, responseUs: 0 };
    const run = new HandDriven({ policy: nexus({ plan: "static", static_batch: 4 }), network });
    // a is there at 25; bc long before 125.
    run.arrive(0, "a").arrive(10, "bc").until(1000);
    expect([run.endedAt.get("a"), run.endedAt.get("b")]).toEqual([125, 235]);
  });

  test("who waits for an accelerator that leaves is sent to another", () => {
    const run = serve({}, 2).arrive(0, "a").arrive(1, "b").arrive(2, "c").leave(3, 0).until(1000);
    expect(run.order).toEqual([0, 1, 1]);
    expect(run.ended.get("c")).toBe("finished");
  });

  test("with no accelerator left requests wait for one", () => {
    const run = serve().leave(0, 0).arrive(10, "a").arrive(10, "b", 0, 60).join(50, 0).until(1000);
    expect(run.dispatches).toEqual(["50:a"]);
    expect(run.ended.get("b")).toBe("failed no-accelerator");
  });
});

describe("nexus: frontends", () => {
  const sent = (frontends: NexusFrontends, count: number) => Array.from({ length: count }, () => frontends.next());

  test("deficit round robin: shares by planned throughput", () => {
    const frontends = new NexusFrontends(1);
    frontends.follow([3, 7, 9], [1, 2, 1.5]);
    const first = sent(frontends, 900);
    expect([3, 7, 9].map((id) => first.filter((each) => each === id).length)).toEqual([200, 400, 300]);
  });

  test("a quantum is the share relative to the smallest: beside it a large one gets its requests in a run", () => {
    const frontends = new NexusFrontends(1);
    frontends.follow([0, 1, 2], [3, 1, 2]);
    expect(sent(frontends, 12)).toEqual([0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2]);
  });

  test("each frontend counts for itself", () => {
    const frontends = new NexusFrontends(2);
    frontends.follow([0, 1], [1, 1]);
    expect(sent(frontends, 6)).toEqual([0, 0, 1, 1, 0, 0]);
  });

  test("nowhere to go", () => {
    expect(new NexusFrontends(1).next()).toBe(HELD);
  });
});

describe("nexus: squishy bin packing", () => {
  // Times in ms here, rates per ms. l(b) = b + 5; SLO 40 - so the largest batch is 15 (20 ms), 0.75 a ms.
  const planOf = (count: number) =>
    new NexusPlan(count, { us: (_key, batch) => batch + 5, sizeMax: () => 64, budgetUs: () => 40, sloUs: () => 40 });
  const ids = (count: number) => Array.from({ length: count }, (_, id) => id);
  const shares = (plan: NexusPlan) =>
    plan.loads.map((loads) => loads.map(({ key, rate, batch }) => `${key}: ${rate.toFixed(3)} by ${batch}`));

  test("the largest batch is within half the SLO; a rate above what one accelerator does saturates as many as it fills", () => {
    const plan = planOf(3);
    expect(plan.largestBatch(0, 0)).toBe(15);
    plan.replan(new Map([[0, 1]]), ids(3));
    // The rest, 0.25 a ms: (b - 1) / 0.25 + b + 5 <= 40 up to b = 7; cycle min(40 - 12, 7 / 0.25) = 28 ms.
    expect(shares(plan)).toEqual([["0: 0.750 by 15"], ["0: 0.250 by 7"], []]);
  });

  test("two models share an accelerator within the shorter cycle, best fit", () => {
    const plan = planOf(2);
    plan.replan(
      new Map([
        [0, 0.25],
        [1, 0.1],
      ]),
      ids(2),
    );
    // 0: b = 7, cycle 28. 1: (b - 1) / 0.1 + b + 5 <= 40: b = 4, cycle min(31, 40) = 31. Together 28: 7 and 3, 12 + 8 ms.
    expect(shares(plan)).toEqual([["0: 0.250 by 7", "1: 0.100 by 3"], []]);
  });

  test("an epoch changes little: less demand gives up the smallest shares, more is raised in place first", () => {
    const plan = planOf(3);
    plan.replan(new Map([[0, 1.7]]), ids(3));
    expect(shares(plan)).toEqual([["0: 0.750 by 15"], ["0: 0.750 by 15"], ["0: 0.200 by 6"]]);
    plan.replan(new Map([[0, 1.68]]), ids(3));
    expect(shares(plan)[2]).toEqual(["0: 0.200 by 6"]);
    plan.replan(new Map([[0, 1]]), ids(3));
    expect(shares(plan)).toEqual([["0: 0.750 by 15"], ["0: 0.250 by 7"], []]);
    plan.replan(new Map([[0, 1.2]]), ids(3));
    expect(shares(plan).map((loads) => loads.length)).toEqual([1, 1, 0]);
    // The second carries what is left, 0.45 a ms: b = 11 (11 / 0.45 + 16 > 40), in a cycle of min(40 - 16, 11 / 0.45) = 24 ms.
    expect(plan.throughput(0)).toBeCloseTo(0.75 + 11 / 24, 10);
  });

  test("the last accelerator carries a whole batch a cycle, more than it was assigned, and takes requests off the full ones", () => {
    const plan = planOf(3);
    plan.replan(new Map([[0, 0.75 + 0.26]]), ids(3));
    // 0.26 a ms: b = 8 (8 / 0.26 + 14 > 40 for 9), cycle min(40 - 13, 8 / 0.26) = 27 ms.
    expect(plan.loads[1]!.map(({ batch }) => batch)).toEqual([8]);
    expect(plan.throughput(0)).toBeCloseTo(0.75 + 8 / 27, 10);
    // 1.02 is less than that: nothing changes.
    plan.replan(new Map([[0, 1.02]]), ids(3));
    expect(plan.loads[1]![0]!.rate).toBeCloseTo(0.26, 10);
  });

  test("more than all accelerators do: all are saturated", () => {
    const plan = planOf(2);
    plan.replan(new Map([[0, 9]]), ids(2));
    expect(shares(plan)).toEqual([["0: 0.750 by 15"], ["0: 0.750 by 15"]]);
  });

  test("a model for which no accelerator has room is served somewhere all the same", () => {
    const plan = planOf(1);
    plan.replan(
      new Map([
        [0, 9],
        [1, 0.2],
      ]),
      ids(1),
    );
    expect(plan.loads[0]!.map(({ key }) => key)).toEqual([0, 1]);
  });

  test("accelerators that left carry nothing; what they carried is placed anew", () => {
    const plan = planOf(3);
    plan.replan(new Map([[0, 1]]), ids(3));
    plan.replan(new Map([[0, 1]]), [1, 2]);
    expect(plan.loads[0]).toEqual([]);
    expect(plan.throughput(0)).toBeCloseTo(1, 10);
  });
});

describe("nexus in simulation", () => {
  const at = (rateRps: number, seconds = 5) =>
    scenarioOf({
      models: [linearModel("ResNet50", 1.053, 5.072, 25, rateRps, 18)],
      accelerators: accelerators(8),
      durationUs: durationUs(seconds * 1e6),
    });

  test.each([
    // As published: 1.15 l(b) <= (60 - 2) / 2, so l(b) <= 25.2: 20 of b + 5 ms. Without the margin 24, without the allowance 25.
    [{ profile_multiplier: 1.15, network_allowance_ms: 2 }, 20],
    [{ profile_multiplier: 1, network_allowance_ms: 2 }, 24],
    [{ profile_multiplier: 1, network_allowance_ms: 0 }, 25],
  ])(
    "static plan on one accelerator: the largest batch within half of what the allowance leaves (%j)",
    (options, largest) => {
      const scenario = scenarioOf({
        models: [linearModel("m", 1, 5, 60, 2000)],
        accelerators: accelerators(1),
        durationUs: durationUs(5e6),
      });
      const sizes = new Set<number>();
      const onEvent = (event: SimulatedEvent): void => {
        if (event.event === "ran") sizes.add(event.members.length);
      };
      simulate(scenario, { policy: "nexus", policyOptions: { plan: "static", ...options }, onEvent });
      expect(Math.max(...sizes)).toBe(largest);
    },
  );

  test("static plan at Symphony's ResNet50: in time at 3800, no longer at 4800", () => {
    const policyOptions = { plan: "static" };
    expect(simulate(at(3800), { policy: "nexus", policyOptions }).bad_rate).toBeLessThan(0.01);
    expect(simulate(at(4800), { policy: "nexus", policyOptions }).bad_rate).toBeGreaterThan(0.02);
  });

  test("epochs near saturation do as well as all accelerators for all: a margin on rates keeps them from being planned full", () => {
    const bad = (policyOptions: Parameters<typeof nexus>[0]) =>
      simulate({ ...at(3700, 8), warmupUs: durationUs(3e6) }, { policy: "nexus", policyOptions: { ...policyOptions } })
        .bad_rate;
    const epochs: Parameters<typeof nexus>[0] = { plan: "epochs", epoch_s: 1, epoch_min_s: 1 };
    expect(bad(epochs)).toBeLessThan(0.005);
    expect(bad({ ...epochs, rate_margin: 1 })).toBeGreaterThan(0.01);
  });

  test("the epoch planner uses no more accelerators than the rate needs, so batches are larger than with all of them", () => {
    const mean = (plan: string) =>
      simulate(at(800, 6), { policy: "nexus", policyOptions: { plan, epoch_s: 1, epoch_min_s: 1 } }).batch_size.mean!;
    expect(mean("epochs") / mean("static")).toBeGreaterThan(1.5);
  });
});
