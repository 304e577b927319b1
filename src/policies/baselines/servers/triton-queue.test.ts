/** Triton's dynamic batcher, worked by hand: l(b) = 10 b + 90 µs, times in µs. Sources: dynamic_batch_scheduler.cc, scheduler_utils.cc, model_config.proto. */
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { FAIL_WORKER_CRASHED, FAIL_WORKER_HUNG } from "../../../core/outcome.js";
import { triton } from "../../registry.js";

const serve = (options: Parameters<typeof triton>[0], accelerators = 1, models = 1) =>
  new HandDriven({ policy: triton(options), accelerators, models });
/** A queue policy that never acts: batches are then formed only when an accelerator is free. */
const NO_PREFETCH = { max_queue_size: 1000 };

describe("triton: when a batch leaves", () => {
  test("delay 0, the default, sends what is there when an instance is free", () => {
    const run = serve({}).arrive(0, "a").arrive(10, "b").arrive(99, "c").arrive(100, "d").until(1000);
    expect(run.dispatches).toEqual(["0:a", "100:bcd"]);
  });

  test("the preferred size, by default the largest batch, does not wait", () => {
    const options = { max_queue_delay_microseconds: 500 };
    expect(serve(options).arrive(0, "abcdefg").arrive(30, "h").until(1000).dispatches).toEqual(["30:abcdefgh"]);
    const run = serve({ ...options, preferred_batch_size: [2, 4] })
      .arrive(0, "a")
      .arrive(30, "b")
      .until(1000);
    expect(run.dispatches).toEqual(["30:ab"]);
    expect(run.closes).toEqual(["full"]);
  });

  test("the delay is counted from the oldest request of the batch", () => {
    const run = serve({ max_queue_delay_microseconds: 50 }).arrive(3, "a").arrive(40, "b").until(1000);
    expect(run.dispatches).toEqual(["53:ab"]);
    expect(run.closes).toEqual(["timeout"]);
  });

  test("a preferred size is sent and the rest stays, with its own delay to wait", () => {
    const run = serve({ ...NO_PREFETCH, preferred_batch_size: [4], max_queue_delay_microseconds: 300 }, 2);
    run.arrive(0, "ab").arrive(10, "cdef").until(1000);
    expect(run.dispatches).toEqual(["10:abcd", "310:ef"]);
  });

  test("when the oldest has waited the delay behind a busy instance, all that fits leaves instead of a preferred size", () => {
    const run = serve({ ...NO_PREFETCH, preferred_batch_size: [4], max_queue_delay_microseconds: 60 });
    run.arrive(0, "x").until(60).arrive(70, "abcdef").arrive(90, "ghi").until(1000);
    expect(run.dispatches).toEqual(["60:x", "160:abcdefgh", "330:i"]);
    expect(run.closes).toEqual(["timeout", "full", "accelerator-free"]);
  });
});

describe("triton: batches formed ahead of an instance", () => {
  test("without a queue policy a preferred size is formed while the instance is busy, with one when it is free", () => {
    const options = { preferred_batch_size: [4, 8] };
    const letters = [..."abcdefgh"];
    const ahead = serve(options).arrive(0, "x").until(0);
    for (const [index, letter] of letters.entries()) ahead.arrive(10 + index, letter);
    expect(ahead.until(1000).dispatches).toEqual(["0:x", "100:abcd", "230:efgh"]);
    const onDemand = serve({ ...options, ...NO_PREFETCH })
      .arrive(0, "x")
      .until(0);
    for (const [index, letter] of letters.entries()) onDemand.arrive(10 + index, letter);
    expect(onDemand.until(1000).dispatches).toEqual(["0:x", "100:abcdefgh"]);
  });

  test("two batches an instance are formed ahead, and no third", () => {
    const run = serve({ preferred_batch_size: [2, 4] })
      .arrive(0, "x")
      .until(0)
      .arrive(1, "abcd")
      .arrive(2, "efgh");
    // ab and c are formed and fill the slots: c does not even become cd before ab leaves, and then becomes four.
    expect(run.until(1000).dispatches).toEqual(["0:x", "100:ab", "210:cdef", "340:gh"]);
  });

  test("a formed batch grows until an instance starts it", () => {
    const run = serve({}).arrive(0, "x").until(0).arrive(1, "a").arrive(50, "b").arrive(100, "c").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:abc"]);
  });

  test("a delay that ends while the instance is busy forms the batch then, and who comes after joins it at once", () => {
    const run = serve({ max_queue_delay_microseconds: 20, preferred_batch_size: [4] });
    run.arrive(0, "x").until(20).arrive(30, "a").arrive(110, "b").arrive(119, "c").until(1000);
    expect(run.dispatches).toEqual(["20:x", "120:abc"]);
    expect(run.closes).toEqual(["timeout", "accelerator-free"]);
  });

  test("a batch is formed at the moment its delay ended, not when the next event shows that it did", () => {
    const run = serve({ max_queue_delay_microseconds: 20, preferred_batch_size: [2] });
    // a alone at 50; with b at 60 it is two and may still grow. Formed together at 60 they would be saturated.
    run.arrive(0, "x").until(20).arrive(30, "a").arrive(60, "b").arrive(70, "c").until(1000);
    expect(run.dispatches).toEqual(["20:x", "120:abc"]);
  });

  test("a formed batch of a preferred size makes a newcomer wait its own delay before it may join", () => {
    const options = { max_queue_delay_microseconds: 50, preferred_batch_size: [2, 8] };
    // x runs from 50 to 150. ab is formed at 60. c may join at 120; d may not before 190.
    const run = serve(options).arrive(0, "x").until(50).arrive(60, "ab").arrive(70, "c").until(1000);
    expect(run.dispatches).toEqual(["50:x", "150:abc"]);
    const late = serve(options).arrive(0, "x").until(50).arrive(60, "ab").arrive(140, "d").until(1000);
    expect(late.dispatches).toEqual(["50:x", "150:ab", "260:d"]);
  });
});

describe("triton: queue policy (ModelQueuePolicy)", () => {
  test("a request beyond max_queue_size is refused at once", () => {
    const run = serve({ max_queue_size: 2 }).arrive(0, "x").until(0).arrive(1, "abc").until(1);
    expect(run.ended).toEqual(new Map([["c", "dropped queue-full"]]));
  });

  test("max_queue_size 0 has no limit of its own; the scheduler's holds", () => {
    const run = new HandDriven({ policy: triton({}), lengthMax: 50 }).arrive(0, "x").until(0);
    for (let number = 0; number < 51; number++) run.arrive(1, number);
    expect(run.ended).toEqual(new Map([[50, "dropped queue-full"]]));
  });

  test("REJECT: a request that has waited its timeout is dropped, also while every instance is busy", () => {
    const run = serve({ default_timeout_microseconds: 40 }).arrive(0, "x").arrive(10, "a").arrive(70, "b").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:b"]);
    expect(run.ended.get("a")).toBe("dropped expired");
    expect(run.endedAt.get("a")).toBe(51);
  });

  test("REJECT: at its timeout to the microsecond a request may still leave", () => {
    const run = serve({ default_timeout_microseconds: 40 }).arrive(0, "x").arrive(60, "a").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:a"]);
  });

  test("REJECT: the wait for others ends for a request when its timeout passes", () => {
    const run = serve({ default_timeout_microseconds: 40, max_queue_delay_microseconds: 60 });
    run.arrive(0, "a").arrive(30, "b").until(1000);
    expect(run.dispatches).toEqual([]);
    expect([...run.endedAt]).toEqual([
      ["a", 41],
      ["b", 71],
    ]);
  });

  test("DELAY: a request that has waited its timeout leaves after all whose timeout has not passed, but does leave", () => {
    const options = { default_timeout_microseconds: 40, timeout_action: "DELAY", preferred_batch_size: [2] } as const;
    const run = serve(options).arrive(0, "x").arrive(10, "ab").arrive(80, "cd").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:cd", "210:ab"]);
    expect(run.ended.get("a")).toBe("finished");
  });

  test("DELAY: a batch is filled up with those whose timeout has passed", () => {
    const options = { default_timeout_microseconds: 40, timeout_action: "DELAY" } as const;
    const run = serve(options).arrive(0, "x").arrive(10, "ab").arrive(80, "cd").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:cdab"]);
  });

  test("no deadline is looked at", () => {
    const run = serve({}).arrive(0, "x").arrive(1, "a", 0, 50).until(1000);
    expect(run.ended.get("a")).toBe("late");
  });
});

describe("triton: what Rubato adds", () => {
  test("of several models the batch that has been ready longest is taken first", () => {
    const run = serve({ max_queue_delay_microseconds: 50 }, 1, 3).arrive(0, "x", 0).until(50);
    run.arrive(60, "a", 2).arrive(70, "b", 0).arrive(80, "c", 1).until(1000);
    expect(run.dispatches).toEqual(["50:0/x", "150:2/a", "250:0/b", "350:1/c"]);
  });

  test("a cancelled request leaves the batch that was formed with it; an emptied batch gives up its slot", () => {
    const run = serve({ preferred_batch_size: [1, 4] })
      .arrive(0, "x")
      .until(0)
      .arrive(1, "ab")
      .arrive(2, "cde");
    // c is formed in the slot that was a's, before f makes it four with d and e.
    run.cancel(50, "a").arrive(60, "f").until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:b", "200:c", "300:d", "400:e", "500:f"]);
    expect(run.ended.get("a")).toBe("dropped cancelled");
  });

  test("members of a batch that hung are run again alone, first of all", () => {
    const run = serve({}).arrive(0, "ab").until(0).arrive(5, "c").fail(50, 0, FAIL_WORKER_HUNG).join(60, 0).until(1000);
    expect(run.dispatches).toEqual(["0:ab", "60:a", "160:b", "260:c"]);
    expect(run.closes).toEqual(["eager", "retry", "retry", "accelerator-free"]);
  });

  test("while nothing is there to serve, requests wait; what comes first starts them", () => {
    const run = serve({}).leave(0, 0).arrive(1, "ab").until(500);
    expect(run.dispatches).toEqual([]);
    expect(run.join(600, 0).until(600).dispatches).toEqual(["600:ab"]);
  });

  test("an accelerator that crashes takes its slots along; what was formed still leaves", () => {
    const run = serve({ preferred_batch_size: [2] }, 2)
      .arrive(0, "abcd")
      .until(0)
      .arrive(1, "efgh");
    run.fail(10, 1, FAIL_WORKER_CRASHED).until(2000);
    expect(run.dispatches).toEqual(["0:ab", "0:cd", "110:c", "210:d", "310:ef", "420:gh"]);
  });
});
