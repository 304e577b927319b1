/** Rules of Clockwork's INFER5 scheduler, worked by hand: l(b) = 10 b + 90 µs, times in µs; then in simulation. Source: its controller. */
import { describe, expect, test } from "vitest";
import { CLOCKWORK_EQUAL_CARE } from "../../../../test/support/chaos-driver.js";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../../../../test/support/scenario.js";
import { durationUs, timeUs } from "../../../core/time.js";
import { simulate } from "../../../sim/simulate.js";
import { clockwork } from "../../registry.js";

const NO_CONSTANTS: Parameters<typeof clockwork>[0] = CLOCKWORK_EQUAL_CARE;

const serve = (options: Parameters<typeof clockwork>[0] = {}, count = 1, models = 1) =>
  new HandDriven({ policy: clockwork({ ...NO_CONSTANTS, ...options }), accelerators: count, models, depth: 64 });

describe("clockwork: when an accelerator is given work", () => {
  test("while its plan ends less than the horizon ahead, whatever is there, so batches stay small", () => {
    // 150 µs ahead: b at 10 fits (the plan ends at 100), c does not until 51, when 200 is less than 150 ahead.
    const run = serve({ schedule_ahead_ms: 0.15 }).arrive(0, "a").arrive(10, "b").arrive(20, "c").until(1000);
    expect(run.dispatches).toEqual(["0:a", "10:b", "51:c"]);
    expect(["a", "b", "c"].map((name) => run.endedAt.get(name))).toEqual([100, 200, 300]);
  });

  test("with no horizon only when it holds nothing: then the largest full size", () => {
    const run = serve().arrive(0, "x").arrive(10, "a").arrive(20, "bc").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:abc"]);
  });

  test("lowest-id fills one plan before the next, earliest-free takes the one that is free first", () => {
    const order = (first: "lowest-id" | "earliest-free") =>
      serve({ schedule_ahead_ms: 0.15, first }, 2).arrive(0, "a").arrive(10, "b").arrive(20, "c").until(1000).order;
    expect(order("lowest-id")).toEqual([0, 0, 1]);
    expect(order("earliest-free")).toEqual([0, 1, 0]);
  });

  test("only the sizes given", () => {
    const run = serve({ batch_sizes: [1, 2, 4] })
      .arrive(0, "x")
      .arrive(10, "abc")
      .until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:c"]);
  });
});

describe("clockwork: sizes", () => {
  test("those that are profiled to take longer than exec_max_ms are left out, but for one alone", () => {
    const run = (ms: number) => serve({ exec_max_ms: ms }).arrive(0, "x").arrive(10, "abc").until(1000).dispatches;
    expect(run(0.11)).toEqual(["0:x", "100:ab", "210:c"]);
    expect(run(0.05)).toEqual(["0:x", "100:a", "200:b", "300:c"]);
  });
});

describe("clockwork: who goes together, who is lost", () => {
  test("a size whose queue holds too few in time is not taken: a could not finish in a batch of 3", () => {
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bc").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:c"]);
  });

  test("where the larger size is full without a, it runs and a is lost", () => {
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 215).arrive(10, "bcde").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:bcde"]);
    expect(run.ended.get("a")).toBe("dropped predicted-late");
  });

  test("a request that cannot finish on the accelerator at hand is lost, though another is free sooner", () => {
    // The lowest id's plan ends at 100, less than 150 ahead of 10: a would end there at 200.
    const run = serve({ schedule_ahead_ms: 0.15, first: "lowest-id" }, 2).arrive(0, "x").arrive(10, "a", 0, 190);
    run.until(1000);
    expect(run.ended.get("a")).toBe("dropped predicted-late");
  });

  test("one that waits past its deadline is answered by a timer", () => {
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 60).until(1000);
    expect([run.ended.get("a"), run.endedAt.get("a")]).toEqual(["dropped expired", 61]);
  });

  test("the margin is taken off every deadline", () => {
    const run = (slo_margin_ms: number) =>
      serve({ slo_margin_ms }).arrive(0, "x").arrive(10, "a", 0, 210).until(1000).ended.get("a");
    expect(run(0.01)).toBe("finished");
    expect(run(0.011)).toBe("dropped predicted-late");
  });

  test("but no deadline is planned for that is nearer than horizon and margin: such requests run late", () => {
    // An SLO of 120 µs against 300 + 20.
    const run = serve({ slo_margin_ms: 0.02, schedule_ahead_ms: 0.3 })
      .arrive(0, "x")
      .arrive(10, "a", 0, 130)
      .until(1000);
    expect(run.ended.get("a")).toBe("late");
  });

  test("that floor is horizon and margin together: where a plan ends by both it is kept, a microsecond less and it is lost", () => {
    // x ends at 100; a, which arrives at 11 with hardly any time, would end at 200: 89 + 100 µs after its arrival.
    const run = (slo_margin_ms: number) =>
      serve({ slo_margin_ms, schedule_ahead_ms: 0.089 })
        .arrive(0, "x")
        .arrive(11, "a", 0, 20)
        .until(1000)
        .ended.get("a");
    expect(run(0.1)).toBe("late");
    expect(run(0.099)).toBe("dropped predicted-late");
  });

  test("plans start no sooner than the control delay after the decision; the batch itself starts at once", () => {
    const run = (deadline: number) => serve({ control_delay_ms: 0.05 }).arrive(0, "a", 0, deadline).until(1000);
    expect(run(149).ended.get("a")).toBe("dropped predicted-late");
    expect(run(150).endedAt.get("a")).toBe(100);
  });
});

describe("clockwork: sizes that know nothing of each other", () => {
  // One request is thought to take 200, two 110.
  const latency = {
    sizeMax: 2,
    execUs: Float64Array.of(0, 200, 110, Number.POSITIVE_INFINITY),
    version: 0,
    quantileUs: () => 0,
  };
  const run = () => new HandDriven({ policy: { ...clockwork(NO_CONSTANTS), createLatency: () => latency }, depth: 64 });

  test("whom the smallest passes is not lost while a larger could hold them: they wait for more, until they expire", () => {
    const alone = run().arrive(0, "a", 0, 150).until(1000);
    expect([alone.ended.get("a"), alone.endedAt.get("a")]).toEqual(["dropped expired", 151]);
    // The smallest is full again with c.
    const together = run().arrive(0, "a", 0, 150).arrive(20, "b", 0, 150).arrive(30, "c").until(1000);
    expect(together.dispatches).toEqual(["30:ab", "140:c"]);
    expect(together.ended.get("a")).toBe("finished");
  });
});

describe("clockwork: the most urgent model goes first", () => {
  test("by latest start", () => {
    const run = serve({}, 1, 2).arrive(0, "x", 0).arrive(10, "a", 1, 900).arrive(20, "b", 0, 800).until(1000);
    expect(run.dispatches).toEqual(["0:0/x", "100:0/b", "200:1/a"]);
  });

  test("a full large batch with a later deadline has the earlier latest start", () => {
    // Eight until 900 must start by 730, one until 850 by 750 (its own queue of eight, 680, holds too few).
    const run = serve({}, 1, 2).arrive(0, "x", 0).arrive(10, "b", 0, 850).arrive(20, "aicdefgh", 1, 900);
    run.until(1000);
    expect(run.dispatches).toEqual(["0:0/x", "100:1/aicdefgh", "270:0/b"]);
  });
});

describe("clockwork in simulation", () => {
  const late = scenarioOf({
    models: [linearModel("m", 1, 9, 1000, 1)],
    accelerators: accelerators(1),
    arrivals: arrivalsAt([0, 5]),
    durationUs: durationUs(100_000),
    // Five times slower than planned: what was planned for 10 ms has its turn at 50.
    faults: [{ kind: "slow", at: timeUs(0), accelerator: 0, factor: 5 }],
  });

  test("a batch whose turn comes after its window is refused whole", () => {
    const report = simulate(late, { policy: "clockwork", policyOptions: {} });
    expect([report.finished, report.dropped]).toEqual([1, 1]);
    expect(report.drops_by_reason["predicted-late"]).toBe(1);
  });

  test("without a window it runs", () => {
    const report = simulate(late, { policy: "clockwork", policyOptions: { action_window_ms: 0 } });
    expect(report.finished).toBe(2);
  });

  test("its constants keep batches near 1 at Symphony's ResNet50; without them it does far more", () => {
    const at = (rateRps: number) =>
      scenarioOf({
        models: [linearModel("ResNet50", 1.053, 5.072, 25, rateRps, 18)],
        accelerators: accelerators(8),
        durationUs: durationUs(5_000_000),
      });
    const published = simulate(at(1000), { policy: "clockwork", policyOptions: {} });
    expect(published.bad_rate).toBeLessThan(0.01);
    expect(published.batch_size.mean!).toBeLessThan(1.2);
    expect(simulate(at(2500), { policy: "clockwork", policyOptions: {} }).bad_rate).toBeGreaterThan(0.01);
    expect(simulate(at(2500), { policy: "clockwork", policyOptions: NO_CONSTANTS as never }).bad_rate).toBeLessThan(
      0.01,
    );
  });
});
