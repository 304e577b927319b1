/** Rules of Shepherd's Flex, worked by hand: l(b) = 10 b + 90 µs, times in µs; then in simulation. Source: Symphony's re-implementation. */
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../../../../test/support/scenario.js";
import type { ExpandedScenario } from "../../../config/scenario/scenario.js";
import { durationUs } from "../../../core/time.js";
import { simulate } from "../../../sim/simulate.js";
import { shepherd } from "../../registry.js";

const serve = (options: Parameters<typeof shepherd>[0] = {}, count = 1, models = 1) =>
  new HandDriven({ policy: shepherd(options), accelerators: count, models });

describe("shepherd: what an accelerator takes", () => {
  test("an idle one takes a request when it arrives; there is no waiting for others", () => {
    const run = serve({}, 2).arrive(0, "a").arrive(30, "b").until(500);
    expect(run.dispatches).toEqual(["0:a", "30:b"]);
  });

  test("one that comes free takes the largest candidate of all models", () => {
    const run = serve({}, 1, 2).arrive(0, "a", 0).arrive(10, "b", 0).arrive(20, "cd", 1).until(1000);
    expect(run.dispatches).toEqual(["0:0/a", "100:1/cd", "210:0/b"]);
  });

  test("the earliest deadline bounds the candidate", () => {
    // At 100 a batch of 2 ends at 210, one of 3 at 220: a holds the first only.
    const run = serve({ preemption: false }).arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bcd").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:cd"]);
  });

  test("size_from latest: three later ones outweigh a, which is dropped", () => {
    const run = serve({ preemption: false, size_from: "latest" });
    run.arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bcd").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:bcd"]);
    expect(run.ended.get("a")).toBe("dropped predicted-late");
  });

  test("a head that cannot finish alone is dropped as soon as that is so, and nobody waits behind it", () => {
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 150).arrive(20, "b").until(1000);
    expect(run.ended.get("a")).toBe("dropped infeasible");
    expect(run.endedAt.get("a")).toBe(51);
    expect(run.dispatches).toEqual(["0:x", "100:b"]);
  });

  test("drop newest: an expired head is kept, and whoever comes behind it waits until the newest cannot finish either", () => {
    const run = serve({ drop: "newest" }).arrive(0, "x").arrive(10, "a", 0, 150).arrive(20, "b", 0, 600);
    // At 501 b could not finish; c, which comes just before, keeps all of them until 801.
    run.arrive(500, "c", 0, 900).until(801);
    expect(run.dispatches).toEqual(["0:x"]);
    expect(["a", "b", "c"].map((name) => run.ended.get(name))).toEqual([
      "dropped expired",
      "dropped expired",
      "dropped infeasible",
    ]);
    expect(["a", "b", "c"].map((name) => run.endedAt.get(name))).toEqual([801, 801, 801]);
    run.arrive(900, "d").until(2000);
    expect(run.dispatches).toEqual(["0:x", "900:d"]);
  });

  test("drop newest: below the peak it is the same", () => {
    const run = serve({ drop: "newest", preemption: false }).arrive(0, "x").arrive(10, "ab", 0, 300).arrive(20, "c");
    run.until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:abc"]);
  });

  test("the plan allows for control and data before the execution", () => {
    const network = { controlUs: 20, dataUsPerRequest: 5, responseUs: 0 };
    const run = new HandDriven({ policy: shepherd({ preemption: false }), network });
    // a ends at 125. Then a batch of 2 ends at 125 + 30 + 110 = 265, one of 3 at 280.
    run.arrive(0, "a").arrive(1, "bcd", 0, 279).until(1000);
    expect(run.dispatches).toEqual(["0:a", "125:bc"]);
    expect(run.endedAt.get("b")).toBe(265);
  });
});

describe("shepherd: preemption", () => {
  test("a running batch gives way to a candidate 3.03 times its size, its own members counted; they start from zero", () => {
    const run = serve().arrive(0, "a", 0, 900).arrive(10, "bc").arrive(20, "d").until(1000);
    expect(run.dispatches).toEqual(["0:a", "20:abcd"]);
    expect(run.preempts).toEqual(["20:0"]);
    expect([run.ended.get("a"), run.endedAt.get("a")]).toEqual(["finished", 150]);
  });

  test("three times its size is not enough", () => {
    const run = serve().arrive(0, "a", 0, 900).arrive(10, "bc").until(1000);
    expect(run.preempts).toEqual([]);
    expect(run.dispatches).toEqual(["0:a", "100:bc"]);
  });

  test("running members that could not finish from zero keep their batch", () => {
    // From 20 on a batch of 4 ends at 150; a must end by 140.
    const run = serve().arrive(0, "a", 0, 140).arrive(20, "bcd").until(1000);
    expect(run.preempts).toEqual([]);
    expect(run.ended.get("a")).toBe("finished");
  });

  test("accelerators are looked at in turn, idle or not; the preempted model is looked at like a new arrival", () => {
    const run = serve({}, 2, 2).arrive(0, "a", 0).arrive(10, "bcde", 1).until(1000);
    expect(run.dispatches).toEqual(["0:0/a", "10:1/bcde", "10:0/a"]);
    expect(run.order).toEqual([0, 0, 1]);
  });

  test("whose deadline does not allow a second start is lost", () => {
    const run = serve({}, 1, 2).arrive(0, "a", 0, 105).arrive(10, "bcde", 1).until(1000);
    expect(run.ended.get("a")).toBe("dropped infeasible");
    expect(run.dispatches).toEqual(["0:0/a", "10:1/bcde"]);
  });

  test("a client that left counts no longer", () => {
    const run = serve().arrive(0, "a", 0, 900).arrive(10, "bc").cancel(15, "a").arrive(20, "d").until(1000);
    expect(run.preempts).toEqual([]);
    expect(run.dispatches).toEqual(["0:a", "100:bcd"]);
  });

  test("preemption takes no try from a request: it is preempted twice and finishes", () => {
    const run = serve({ preemption_factor: 1.5 }).arrive(0, "a", 0, 900).arrive(10, "b", 0, 910).arrive(20, "cd");
    run.until(1000);
    expect(run.preempts).toEqual(["10:0", "20:0"]);
    expect([...run.ended.values()]).toEqual(["finished", "finished", "finished", "finished"]);
  });
});

describe("shepherd in simulation", () => {
  test("the time of a preempted batch counts as busy, and as spent on requests that did not finish", () => {
    const scenario = scenarioOf({
      models: [linearModel("m", 1, 9, 1000, 1)],
      accelerators: accelerators(1),
      arrivals: arrivalsAt([0, 4, 4, 4]),
      durationUs: durationUs(100_000),
    });
    // A batch of 1 from 0 to 4 ms, then one of 4 for 13 ms.
    const report = simulate(scenario, { policy: "shepherd", policyOptions: {} });
    expect(report.finished).toBe(4);
    expect(report.utilization).toBeCloseTo(0.17, 10);
    expect(report.invalid_rate).toBeCloseTo(4 / 17, 10);
  });

  const resnet = (rateRps: number): ExpandedScenario =>
    scenarioOf({
      models: [linearModel("ResNet50", 1.053, 5.072, 25, rateRps, 18)],
      accelerators: accelerators(8),
      durationUs: durationUs(5_000_000),
    });

  test("Symphony's ResNet50 below its peak: nobody is lost; above it batches shrink to 1 and goodput collapses to 8 / l(1)", () => {
    expect(simulate(resnet(4000), { policy: "shepherd", policyOptions: {} }).bad_rate).toBeLessThan(0.001);
    const report = simulate(resnet(6500), { policy: "shepherd", policyOptions: {} });
    expect(report.goodput_rps).toBeGreaterThan(1000);
    expect(report.goodput_rps).toBeLessThan(3000);
  });

  test("as published, past the peak: the model jams, and nothing at all is served (the public code: 0 within 2 s at 5500)", () => {
    const newest = { policy: "shepherd", policyOptions: { drop: "newest" } };
    expect(simulate(resnet(4000), newest).bad_rate).toBeLessThan(0.001);
    const late = { ...resnet(5500), warmupUs: durationUs(2_000_000) };
    expect(simulate(late, newest).finished).toBe(0);
    expect(simulate(late, { policy: "shepherd", policyOptions: {} }).finished).toBeGreaterThan(1000);
  });
});
