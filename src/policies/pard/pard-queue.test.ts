/** PARD's queue by hand: l(b) = 10 b + 90 µs. */
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import { FAIL_WORKER_CRASHED } from "../../core/outcome.js";
import { pard } from "../registry.js";

const serve = (options: Parameters<typeof pard>[0] = {}, accelerators = 1): HandDriven =>
  new HandDriven({ policy: pard({ batch_size: 3, ...options }), accelerators, sizeMax: 3 });

describe("broker: who is in the batch behind the one that runs", () => {
  test("an idle worker goes with what is there; the next batch grows until that ends, up to the target", () => {
    const run = serve().arrive(0, "a").until(0).arrive(10, "b").arrive(60, "c").until(150).arrive(160, "defgh");
    expect(run.until(1000).dispatches).toEqual(["0:a", "100:bc", "210:def", "330:gh"]);
    expect(run.closes).toEqual(["eager", "eager", "full", "eager"]);
  });

  test("who would not end in a batch of the target size behind the running one is given up at once", () => {
    // From 100 on three take 120.
    const run = serve().arrive(0, "a").until(0).arrive(10, "b", 0, 219).arrive(10, "c", 0, 220).until(1000);
    expect([run.ended.get("b"), run.endedAt.get("b"), run.lateByUs.get("b")]).toEqual([
      "dropped predicted-late",
      10,
      1,
    ]);
    expect(run.ended.get("c")).toBe("finished");
  });

  test("where the batch leaves at once, it counts at the size that it has", () => {
    expect(serve().arrive(0, "a", 0, 100).until(1000).ended.get("a")).toBe("finished");
    // A second one would make the first late: it waits for the next batch.
    const two = serve().arrive(0, "a", 0, 105).arrive(0, "b").until(1000);
    expect(two.dispatches).toEqual(["0:a", "100:b"]);
  });

  test("who looks on is told when each enters a batch: when it comes if there is room, else when there is (t_b, §4.2)", () => {
    const run = serve().arrive(0, "a").until(0).arrive(10, "b").arrive(60, "cd").arrive(70, "e").until(1000);
    expect(run.dispatches).toEqual(["0:a", "100:bcd", "220:e"]);
    expect(run.joins).toEqual(["0:a", "10:b", "60:c", "60:d", "100:e"]);
  });

  test("a cancelled member leaves room for who waits", () => {
    const run = serve().arrive(0, "a").until(0).arrive(10, "bcde").cancel(20, "c").until(1000);
    expect(run.dispatches).toEqual(["0:a", "100:bde"]);
  });

  test("who can no longer be done alone is given up when that is so, behind a full batch as in it", () => {
    const run = serve({ priority: "hbf" }).arrive(0, "a").until(0).arrive(5, "bcd").arrive(10, "e", 0, 160).until(1000);
    expect([run.ended.get("e"), run.endedAt.get("e")]).toEqual(["dropped infeasible", 61]);
  });
});

describe("workers", () => {
  test.each([
    // a and b hold the workers until 100 and 150.
    ["soonest", ["0:a", "50:b", "100:cde", "150:f"]],
    ["least", ["0:a", "50:b", "100:ce", "150:df"]],
    ["round-robin", ["0:a", "50:b", "100:ce", "150:df"]],
  ] as const)("%s: %j", (dispatch, dispatches) => {
    const run = serve({ dispatch }, 2).arrive(0, "a").until(0).arrive(50, "b").until(50);
    for (const name of "cdef") run.arrive(60, name);
    const order = run.until(1000).dispatches;
    expect(order.slice(2).sort()).toEqual(dispatches.slice(2).sort());
  });

  test("what waits for a worker that leaves is sent to the others", () => {
    const run = serve({ dispatch: "round-robin" }, 2).arrive(0, "ab").until(0).arrive(10, "cdef").leave(20, 1);
    expect(run.until(1000).dispatches.slice(2)).toEqual(["100:dfc", "220:e"]);
  });

  test("without any it waits, for as long as it can be done, and goes when one comes", () => {
    const run = serve().leave(0, 0).arrive(10, "a").arrive(10, "b", 0, 150).join(100, 0).until(1000);
    expect(run.dispatches).toEqual(["100:a"]);
    expect([run.ended.get("b"), run.endedAt.get("b")]).toEqual(["failed no-accelerator", 51]);
  });

  test("who comes back from a batch that was lost goes to a worker that is idle at once", () => {
    const run = serve({}, 3).arrive(0, "a").until(0).fail(30, 0, FAIL_WORKER_CRASHED).until(1000);
    expect(run.dispatches).toEqual(["0:a", "30:a"]);
  });

  test("a queue that was held goes on when it is let go", () => {
    const run = serve();
    run.scheduler.hold(0, true, 0);
    run.arrive(10, "a").until(20);
    expect(run.dispatches).toEqual([]);
    run.scheduler.hold(0, false, 20);
    expect(run.until(1000).dispatches).toEqual(["20:a"]);
  });
});
