import { beforeEach, describe, expect, it } from "vitest";
import { distribution } from "../../policies/registry.js";
import { linearTable, ProfiledLatency } from "../latency/latency.js";
import { DROP_EXPIRED, DROP_SKIPPED, DROPPED, FAIL_WORKER_CRASHED, FINISHED, LATE } from "../outcome.js";
import { NO_DELAYS, Scheduler } from "../scheduler.js";
import { PLAIN } from "../tables/request-table.js";
import { LOOK_BACK } from "./shadow-room.js";

const SPEC = { latency: new ProfiledLatency(linearTable(1000, 4000, 8)), sloUs: 100_000, lengthMax: 1000 };
const ALONE_US = 5000;
/** Above all tags of others. */
const SHADOW = 10_000;

let scheduler: Scheduler;
let sent: { batch: number; queue: number; accelerator: number }[];
let ends: { tag: number; outcome: number; reason: number }[];
let queue: number;
let shadow: number;
let now: number;

beforeEach(() => {
  sent = [];
  ends = [];
  now = 0;
  scheduler = new Scheduler(
    distribution(),
    {
      dispatch: (batch, accelerator) => sent.push({ batch, accelerator, queue: scheduler.batches.queue[batch]! }),
      end: (request, outcome, reason) => ends.push({ tag: scheduler.requests.tag[request]!, outcome, reason }),
      batchEnded: () => {},
      preempt: () => {},
    },
    { network: NO_DELAYS, acceleratorsMax: 2, requestsMax: 100, retriesMax: 1, learn: true },
  );
  queue = scheduler.addQueue(SPEC);
  shadow = scheduler.addShadowOf(queue);
  scheduler.join(0, 1, 0);
});

function wake(): void {
  if (scheduler.nextWakeAt <= now) scheduler.wake(now);
}
function arrive(key: number, tag: number, withinUs = 100_000): void {
  scheduler.arrive(key, tag, now, now + withinUs, now, PLAIN);
  wake();
}
function finish(us = ALONE_US): void {
  const { batch } = sent.pop()!;
  now += us;
  scheduler.finished(batch, now - us, now, now);
  wake();
}
/** Enough requests have ended that it is known what they have left. */
function serve(): void {
  for (let tag = 0; tag < LOOK_BACK; tag++) {
    arrive(queue, tag);
    finish();
  }
  ends = [];
}

describe("a run in the shadow of a queue", () => {
  it("starts at once on an accelerator that nobody wants, is measured, and ends", () => {
    serve();
    arrive(shadow, SHADOW);
    expect(sent).toEqual([{ batch: expect.any(Number), accelerator: 0, queue: shadow }]);
    expect(scheduler.isShadow(shadow)).toBe(true);
    expect(scheduler.isShadow(queue)).toBe(false);
    const before = scheduler.wantedAloneUs(queue, 0, 1e9);
    for (let run = 1; run < 60; run++) {
      now += 20_000;
      finish(8000);
      arrive(shadow, SHADOW + run);
    }
    expect(scheduler.wantedAloneUs(queue, 0, 1e9)).toBeGreaterThan(1.2 * before);
    expect(scheduler.wantedAloneUs(queue, 0, 60)).toBe(0);
    expect(ends.every(({ outcome }) => outcome === FINISHED)).toBe(true);
    expect(ends).toHaveLength(59);
  });

  it("waits while the accelerator is another's, and begins when that has ended", () => {
    serve();
    arrive(queue, 1);
    arrive(shadow, SHADOW);
    expect(sent).toHaveLength(1);
    finish();
    expect(sent).toEqual([{ batch: expect.any(Number), accelerator: 0, queue: shadow }]);
    expect(ends).toEqual([{ tag: 1, outcome: FINISHED, reason: 0 }]);
  });

  it("goes behind all others: who came meanwhile has the accelerator first", () => {
    serve();
    arrive(queue, 1);
    arrive(shadow, SHADOW);
    arrive(queue, 2);
    finish();
    expect(sent.map((each) => each.queue)).toEqual([queue]);
    finish();
    expect(sent.map((each) => each.queue)).toEqual([shadow]);
  });

  it("lets who comes while it runs have the accelerator afterwards", () => {
    serve();
    arrive(shadow, SHADOW);
    const { batch } = sent[0]!;
    arrive(queue, 1);
    arrive(queue, 2);
    now += ALONE_US;
    scheduler.finished(batch, now - ALONE_US, now, now);
    wake();
    expect(sent.at(-1)!.queue).toBe(queue);
    expect(scheduler.batches.size[sent.at(-1)!.batch]).toBe(2);
  });

  it("is dropped when no accelerator has room for it in time", () => {
    // Nothing is known of what requests have left.
    arrive(shadow, SHADOW, 50_000);
    expect(sent).toEqual([]);
    expect(scheduler.nextWakeAt).toBe(50_000);
    now = 50_000;
    wake();
    expect(ends).toEqual([{ tag: SHADOW, outcome: DROPPED, reason: DROP_EXPIRED }]);
    expect(scheduler.nextWakeAt).toBe(Number.POSITIVE_INFINITY);
    expect(scheduler.requests.live).toBe(0);
  });

  it("is not tried again when its worker fails", () => {
    serve();
    arrive(shadow, SHADOW);
    scheduler.leave(0, now);
    scheduler.join(0, 1, now);
    scheduler.failed(sent[0]!.batch, FAIL_WORKER_CRASHED, now);
    wake();
    expect(ends).toEqual([{ tag: SHADOW, outcome: DROPPED, reason: DROP_SKIPPED }]);
    expect(scheduler.requests.live).toBe(0);
  });

  it("ends though its queue, and the one that it shadows, were removed while it ran; their keys are given out again", () => {
    serve();
    arrive(shadow, SHADOW, 1000);
    scheduler.removeQueue(shadow);
    scheduler.removeQueue(queue);
    expect(scheduler.isShadow(shadow)).toBe(true);
    finish();
    expect(ends).toEqual([{ tag: SHADOW, outcome: LATE, reason: 0 }]);
    const keys = [scheduler.addQueue(SPEC), scheduler.addQueue(SPEC)];
    expect(keys.sort()).toEqual([queue, shadow]);
    expect(keys.map((key) => scheduler.isShadow(key))).toEqual([false, false]);
  });
});
