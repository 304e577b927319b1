/** Rules of TensorFlow Serving's batching, worked by hand: l(b) = 10 b + 90 µs, times in µs. Sources: shared_batch_scheduler.h, basic_batch_scheduler.h. */
import { describe, expect, test } from "vitest";
import { execUs, HandDriven } from "../../../../test/support/hand-driven.js";
import { FAIL_MODEL_ERROR, FAIL_WORKER_CRASHED } from "../../../core/outcome.js";
import { tfserving } from "../../registry.js";

const serve = (options: Parameters<typeof tfserving>[0], accelerators = 1, models = 1) =>
  new HandDriven({ policy: tfserving(options), accelerators, models });

describe("tfserving: when a batch is taken (shared_batch_scheduler.h, Queue)", () => {
  test("a full open batch goes at once, its timeout still running", () => {
    const run = serve({ max_batch_size: 2, batch_timeout_micros: 500 }).arrive(0, "a").arrive(7, "b").until(1000);
    expect(run.dispatches).toEqual(["7:ab"]);
    expect(run.closes).toEqual(["full"]);
  });

  test("an open batch goes when its timeout has passed", () => {
    const run = serve({ batch_timeout_micros: 500 }).arrive(3, "a").arrive(7, "b").until(1000);
    expect(run.dispatches).toEqual(["503:ab"]);
    expect(run.closes).toEqual(["timeout"]);
  });

  test("the clock starts with the first request of the batch, not when an accelerator comes free", () => {
    // a runs from 100 to 200; b is due at 250, though the accelerator idles from 200.
    const idle = serve({ batch_timeout_micros: 100 }).arrive(0, "a").arrive(150, "b").until(400);
    expect(idle.dispatches).toEqual(["100:a", "250:b"]);
    // Here b is due at 45, long before the accelerator comes free at 120, so it does not wait again.
    const busy = serve({ batch_timeout_micros: 20 }).arrive(0, "a").arrive(25, "b").arrive(110, "c").until(400);
    expect(busy.dispatches).toEqual(["20:a", "120:bc"]);
    expect(busy.closes).toEqual(["timeout", "accelerator-free"]);
  });

  test("the clock starts anew with the first request of the next batch", () => {
    const run = serve({ max_batch_size: 2, batch_timeout_micros: 300 }, 2).arrive(0, "ab").arrive(50, "c").until(1000);
    expect(run.dispatches).toEqual(["0:ab", "350:c"]);
  });

  test("timeout 0 takes whatever is there as soon as an accelerator is free", () => {
    const run = serve({}).arrive(0, "a").arrive(10, "b").arrive(99, "c").arrive(100, "d").until(500);
    expect(run.dispatches).toEqual(["0:a", "100:bcd"]);
    expect(run.closes).toEqual(["eager", "eager"]);
  });

  test("the open batch behind closed ones is not looked at until they are gone, timed out or not", () => {
    const run = serve({ max_batch_size: 2, batch_timeout_micros: 50 });
    // a left at 50, busy until 150. bc is full, d opened its batch at 61 and is due from 111: it goes after bc.
    run.arrive(0, "a").arrive(60, "bc").arrive(61, "d").until(1000);
    expect(run.dispatches).toEqual(["50:a", "150:bc", "260:d"]);
  });

  test("as many batches run at a time as there are accelerators (num_batch_threads)", () => {
    const run = serve({ max_batch_size: 2 }, 3).arrive(0, "abcdefgh").until(0);
    expect(run.dispatches).toHaveLength(3);
    expect(run.scheduler.queueLength(0)).toBe(2);
  });
});

describe("tfserving: the queue", () => {
  test("a request that would need one batch more than max_enqueued_batches is refused at once; the open one counts", () => {
    const run = serve({ max_batch_size: 2, max_enqueued_batches: 2 });
    run.arrive(0, "x").until(0).arrive(1, "abcd").arrive(2, "e").until(2);
    expect(run.ended).toEqual(new Map([["e", "dropped queue-full"]]));
    expect(run.endedAt.get("e")).toBe(2);
    run.until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:cd"]);
  });

  test("its defaults are max_batch_size 1000, no timeout, 10 batches (BatchingParameters)", () => {
    const run = serve({}).arrive(0, "x").until(0);
    for (let number = 0; number < 81; number++) run.arrive(1, number);
    // The model's own largest batch is 8.
    expect(run.ended).toEqual(new Map([[80, "dropped queue-full"]]));
  });

  test("nothing but arrival orders, and a passed deadline drops nobody", () => {
    const run = serve({}).arrive(0, "x").arrive(1, "a", 0, 5000).arrive(2, "b", 0, 50).until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ab"]);
    expect(run.ended.get("b")).toBe("late");
  });

  test("a batch costs what the next allowed size costs (allowed_batch_sizes)", () => {
    const run = serve({ allowed_batch_sizes: [2, 4, 8] }, 3)
      .arrive(0, "a")
      .until(0)
      .arrive(1, "bcd")
      .until(1);
    run.arrive(2, "efghi").until(1000);
    expect(run.executedUs).toEqual([execUs(2), execUs(4), execUs(8)]);
  });

  test("the last allowed size is the largest batch; sizes above the model's own are left out", () => {
    const run = new HandDriven({ policy: tfserving({ allowed_batch_sizes: [2, 4, 16] }), sizeMax: 8 });
    run.arrive(0, "abcdef").until(0);
    expect(run.dispatches).toEqual(["0:abcd"]);
  });

  test("no allowed size within the model's largest batch is an error that says so", () => {
    expect(() => new HandDriven({ policy: tfserving({ allowed_batch_sizes: [16, 32] }), sizeMax: 8 })).toThrow(
      "allowed_batch_sizes must hold a size of at most 8, the model's largest batch; were 16, 32",
    );
  });
});

describe("tfserving: turns of the queues", () => {
  test("round robin goes on from the queue served last, passing empty ones", () => {
    const run = serve({ max_batch_size: 1 }, 1, 3);
    // Served 0, then 2 (1 was empty): the turn is at 0 again, although 1 was never served.
    run.arrive(0, "a", 0).until(0).arrive(10, "b", 2).until(100);
    run.arrive(110, "c", 1).arrive(120, "d", 0).arrive(130, "e", 2).arrive(131, "f", 0).until(1000);
    expect(run.dispatches).toEqual(["0:0/a", "100:2/b", "200:0/d", "300:1/c", "400:2/e", "500:0/f"]);
  });

  test("a queue with much to do gets one batch a turn", () => {
    const run = serve({ max_batch_size: 2 }, 1, 2).arrive(0, "abcdef", 0).arrive(0, "x", 1).until(1000);
    expect(run.dispatches).toEqual(["0:0/ab", "110:1/x", "210:0/cd", "320:0/ef"]);
  });
});

describe("tfserving: what Rubato adds", () => {
  test("a cancelled request leaves its batch; the batch keeps its clock", () => {
    const run = serve({ batch_timeout_micros: 100 }).arrive(0, "a").arrive(40, "b").cancel(50, "a").until(1000);
    expect(run.dispatches).toEqual(["100:b"]);
    expect(run.ended.get("a")).toBe("dropped cancelled");
  });

  test("a batch that was emptied is gone: the next request starts its own clock", () => {
    const run = serve({ batch_timeout_micros: 100 }).arrive(0, "a").cancel(50, "a").arrive(80, "b").until(1000);
    expect(run.dispatches).toEqual(["180:b"]);
  });

  test("a closed batch that lost a request is not filled up, and an emptied one no longer counts", () => {
    const run = serve({ max_batch_size: 2, max_enqueued_batches: 2 }).arrive(0, "x").until(0);
    run.arrive(1, "abc").cancel(2, "a").arrive(3, "d").until(99);
    expect(run.scheduler.queueLength(0)).toBe(3);
    run.cancel(99, "b").arrive(99, "e").until(1000);
    expect(run.ended.get("e")).toBe("finished");
    expect(run.dispatches).toEqual(["0:x", "100:cd", "210:e"]);
  });

  test("members of a batch that crashed its worker are run again alone, before what waits", () => {
    const run = serve({}, 2).arrive(0, "ab").until(0).leave(1, 1).arrive(2, "c");
    run.fail(10, 0, FAIL_WORKER_CRASHED).join(20, 0).until(1000);
    expect(run.dispatches).toEqual(["0:ab", "20:a", "120:b", "220:c"]);
    expect(run.closes).toEqual(["eager", "retry", "retry", "eager"]);
    expect([...run.ended.values()]).toEqual(["finished", "finished", "finished"]);
  });

  test("a request that the model refuses alone fails, the rest of its batch does not", () => {
    const run = serve({}).arrive(0, "ab").until(0).fail(5, 0, FAIL_MODEL_ERROR).until(5);
    run.fail(9, 0, FAIL_MODEL_ERROR).until(1000);
    expect(run.ended).toEqual(
      new Map([
        ["a", "failed model-error"],
        ["b", "finished"],
      ]),
    );
  });

  test("an accelerator starts when control and data have reached it", () => {
    const network = { controlUs: 5, dataUsPerRequest: 10, responseUs: 0 };
    const run = new HandDriven({ policy: tfserving({}), network }).arrive(0, "ab").arrive(1, "c").until(1000);
    // Free when ab ends at 25 + l(2) = 135; the lead is not hidden behind the batch before.
    expect(run.dispatches).toEqual(["0:ab", "135:c"]);
  });
});
