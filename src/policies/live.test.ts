import { describe, expect, it } from "vitest";
import { violated } from "../core/invariant.js";
import { linearTable, ProfiledLatency } from "../core/latency/latency.js";
import { CLOSE_IDLE, DROP_EXPIRED, FAIL_WORKER_CRASHED, FAILED } from "../core/outcome.js";
import { type CommandSink, Scheduler } from "../core/scheduler.js";
import {
  decodeWindow,
  encodeWindow,
  LIVE_DEFAULTS,
  type LiveQueueSpec,
  livePolicy,
  liveWindow,
  WINDOW_NUMBERS,
} from "./live.js";

interface Dispatch {
  readonly at: number;
  readonly batch: number;
  readonly size: number;
  readonly execAt: number;
  readonly close: number;
}

function setUp(accelerators: number, network = { controlUs: 300, dataUsPerRequest: 10, responseUs: 200 }) {
  const dispatches: Dispatch[] = [];
  const ends: { tag: number; outcome: number; reason: number; at: number }[] = [];
  const sink: CommandSink = {
    dispatch: (batch, _accelerator, at) => {
      const { size, execAt, close } = scheduler.batches;
      dispatches.push({ at, batch, size: size[batch]!, execAt: execAt[batch]!, close: close[batch]! });
    },
    end: (handle, outcome, reason, _execStartAt, at) =>
      ends.push({ tag: scheduler.requests.tag[handle]!, outcome, reason, at }),
    batchEnded: () => {},
    preempt: (batch) => violated(`batch ${batch}: a live policy does not preempt`),
  };
  const scheduler: Scheduler = new Scheduler(livePolicy(), sink, {
    network,
    acceleratorsMax: accelerators,
    requestsMax: 1000,
    retriesMax: 1,
    learn: false,
  });
  for (let id = 0; id < accelerators; id++) scheduler.join(id, 1, 0);
  const add = (
    policy: "deferred" | "eager" | "timeout",
    options: object,
    sloUs: number | null,
    sizeMax = 8,
  ): number => {
    const spec: LiveQueueSpec = {
      latency: new ProfiledLatency(linearTable(1000, 5000, sizeMax)),
      sloUs: sloUs ?? 1_000_000,
      lengthMax: 100,
      window: liveWindow(policy, options as never, sloUs, LIVE_DEFAULTS),
    };
    return scheduler.addQueue(spec);
  };
  /** Wakes it whenever it asks to be, until `to`; a scheduler that asks for ever in one moment fails the test. */
  const runTo = (to: number, from = 0): void => {
    let now = from;
    for (let turns = 0; scheduler.nextWakeAt <= to; turns++) {
      if (turns > 10_000) throw new Error("the scheduler asks to be woken without end");
      now = Math.max(now, scheduler.nextWakeAt);
      scheduler.wake(now);
    }
  };
  return { scheduler, dispatches, ends, add, runTo };
}

describe("live policy", () => {
  it("idle dispatch: after a burst, the rest leaves once its demand has faded, long before its window opens", () => {
    const { scheduler, dispatches, add, runTo } = setUp(1);
    const key = add("deferred", {}, 2_000_000);
    for (let tag = 0; tag < 5; tag++) {
      scheduler.arrive(key, tag, 0, 2_000_000, 0);
      if (scheduler.nextWakeAt <= 0) scheduler.wake(0);
    }
    expect(dispatches.length).toBe(1);
    scheduler.finished(dispatches[0]!.batch, 300, 6300, 6500);
    runTo(100_000, 6500);
    expect(dispatches.length).toBe(2);
    expect(dispatches[1]).toMatchObject({ size: 4, close: CLOSE_IDLE });
    expect(dispatches[1]!.at).toBeLessThan(50_000);
  });

  it("idle dispatch is each queue's own: a timeout queue beside it waits its time", () => {
    const { scheduler, dispatches, add, runTo } = setUp(2);
    const waits = add("timeout", { timeout_ms: 20 }, 500_000);
    scheduler.arrive(waits, 1, 0, 500_000, 0);
    runTo(10_000);
    expect(dispatches).toEqual([]);
    runTo(30_000, 10_000);
    expect(dispatches.length).toBe(1);
    expect(dispatches[0]!.execAt).toBe(20_000);
  });

  it("expired rule with delays: gives up at the last moment to begin, without end of wake-ups, and begins nothing late", () => {
    const { scheduler, dispatches, ends, add, runTo } = setUp(1);
    const key = add("eager", {}, null, 1);
    scheduler.arrive(key, 1, 0, 1_000_000, 0);
    runTo(0);
    scheduler.arrive(key, 2, 10, 5000, 10);
    runTo(6000, 10);
    // The deadline for ends of executions is 4800 (response 200); asked for by 4490, it would begin at 4800.
    expect(ends).toEqual([{ tag: 2, outcome: 2, reason: DROP_EXPIRED, at: 4491 }]);
    expect(dispatches.length).toBe(1);
  });

  it("a batch that never reached its accelerator costs its members no try", () => {
    const { scheduler, dispatches, ends, add, runTo } = setUp(1);
    const key = add("eager", {}, null);
    scheduler.arrive(key, 1, 0, 1_000_000, 0);
    runTo(0);
    scheduler.failed(dispatches[0]!.batch, FAIL_WORKER_CRASHED, 10, false);
    runTo(20, 10);
    scheduler.failed(dispatches[1]!.batch, FAIL_WORKER_CRASHED, 30, true);
    runTo(40, 30);
    expect(ends).toEqual([]);
    scheduler.failed(dispatches[2]!.batch, FAIL_WORKER_CRASHED, 50, true);
    expect(ends).toEqual([{ tag: 1, outcome: FAILED, reason: FAIL_WORKER_CRASHED, at: 50 }]);
  });

  it("an accelerator that left and came back while two batches were on their way to it gets no third", () => {
    const { scheduler, dispatches, add, runTo } = setUp(1);
    const key = add("eager", {}, null, 1);
    for (let tag = 0; tag < 4; tag++) scheduler.arrive(key, tag, 0, 1_000_000, 0);
    // The first runs until 6310; the second is handed over ahead of its end.
    runTo(6200);
    expect(dispatches.length).toBe(2);
    scheduler.leave(0, 6200);
    scheduler.join(0, 1, 6200);
    runTo(100_000, 6200);
    expect(dispatches.length).toBe(2);
    scheduler.finished(dispatches[0]!.batch, 310, 6310, 100_000);
    scheduler.finished(dispatches[1]!.batch, 6310, 12_310, 100_000);
    runTo(100_000, 100_000);
    expect(dispatches.length).toBe(3);
  });

  it("writes window rules as numbers and reads them back", () => {
    for (const [policy, options, sloUs] of [
      ["deferred", {}, 50_000],
      ["deferred", { target: 4, idle_dispatch: false, timer_slack_us: 7 }, 50_000],
      ["deferred+", {}, 50_000],
      ["deferred+", { target: 6, feedback: false, look_ahead: false }, 50_000],
      ["eager", {}, null],
      ["timeout", { timeout_fraction: 0.4 }, 50_000],
    ] as const) {
      const window = liveWindow(policy, options, sloUs, LIVE_DEFAULTS);
      const numbers = new Float64Array(WINDOW_NUMBERS + 1);
      encodeWindow(window, numbers, 1);
      expect(decodeWindow(numbers, 1)).toEqual(window);
    }
  });
});
