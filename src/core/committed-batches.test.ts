/** Batches beyond the running one: a line of them, ends out of turn, refusal of a late start, preemption. */
import { describe, expect, test } from "vitest";
import { linearTable, ProfiledLatency } from "./latency/latency.js";
import { DROP_PREDICTED_LATE, DROPPED, FAIL_MODEL_ERROR, FAILED, FINISHED } from "./outcome.js";
import type { Arbiter, CoreView, Policy, Queue } from "./policy.js";
import { NO_DELAYS, Scheduler } from "./scheduler.js";
import { DISPATCHED } from "./tables/request-table.js";

const DEPTH = 4;
const EXEC_US = 100;

/** Each request is a batch of its own, on accelerator 0, as soon as there is room. */
class OneByOne implements Queue {
  readonly waiting: number[] = [];
  latestUs = Number.POSITIVE_INFINITY;
  private readonly core: CoreView;
  constructor(core: CoreView) {
    this.core = core;
  }
  get length(): number {
    return this.waiting.length;
  }
  arrived(request: number, at: number): void {
    this.waiting.push(request);
    this.refresh(at);
  }
  remove(request: number): void {
    this.waiting.splice(this.waiting.indexOf(request), 1);
  }
  returned(request: number, _alone: boolean, at: number): void {
    this.arrived(request, at);
  }
  refresh(at: number): void {
    const { accelerators } = this.core;
    while (this.waiting.length > 0 && accelerators.inFlight(0) < DEPTH) this.core.grant(0, 0, at);
  }
  planChanged(): void {}
  refreshDemand(): void {}
  take(accelerator: number, at: number): number {
    const { accelerators, batches, requests } = this.core;
    const request = this.waiting.shift()!;
    requests.state[request] = DISPATCHED;
    const startAt = accelerators.inFlight(accelerator) === 0 ? at : accelerators.freeAt[accelerator]!;
    const batch = batches.add(0, request, 1, at, EXEC_US, 0);
    batches.finishAt[batch] = startAt + EXEC_US;
    batches.latestAt[batch] = startAt + this.latestUs;
    return batch;
  }
}

function setUp() {
  const ends: string[] = [];
  let queue: OneByOne | undefined;
  let preempted = -1;
  const policy: Policy = {
    name: "one by one",
    depth: DEPTH,
    createQueue: (_key, _spec, core) => {
      queue = new OneByOne(core);
      return queue;
    },
    createArbiter: (): Arbiter => ({
      queueAdded: () => {},
      queueRemoved: () => {},
      offerChanged: () => {},
      available: () => {},
      withdrawn: () => {},
      nextWakeAt: Number.POSITIVE_INFINITY,
      wake: () => {},
    }),
  };
  const scheduler: Scheduler = new Scheduler(
    policy,
    {
      dispatch: () => {},
      end: (request, outcome, reason, _execStartAt, at) =>
        ends.push(`${at}: ${scheduler.requests.tag[request]} ${outcome}/${reason}`),
      batchEnded: () => {},
      preempt: (batch) => {
        preempted = batch;
      },
    },
    { network: NO_DELAYS, acceleratorsMax: 2, requestsMax: 20, retriesMax: 1, learn: false },
  );
  scheduler.addQueue({ latency: new ProfiledLatency(linearTable(0, EXEC_US, 1)), sloUs: 1000, lengthMax: 100 });
  scheduler.join(0, 1, 0);
  const planned = () => {
    const { accelerators, batches } = scheduler;
    const line: number[] = [];
    for (let batch = accelerators.running[0]!; batch >= 0; ) {
      line.push(batches.finishAt[batch]!);
      batch = batch === accelerators.running[0] ? accelerators.waiting[0]! : batches.behind[batch]!;
    }
    return { line, freeAt: accelerators.freeAt[0], held: accelerators.inFlight(0) };
  };
  return { scheduler, ends, queue: queue!, planned, preempted: () => preempted };
}

describe("a line of batches on one accelerator", () => {
  test("each waits for the one before; when one ends sooner or later than planned all behind it move", () => {
    const { scheduler, planned, ends } = setUp();
    for (let tag = 0; tag < 4; tag++) scheduler.arrive(0, tag, 0, 1000, 0);
    expect(planned()).toEqual({ line: [100, 200, 300, 400], freeAt: 400, held: 4 });
    scheduler.finished(scheduler.accelerators.running[0]!, 0, 150, 150);
    expect(planned()).toEqual({ line: [250, 350, 450], freeAt: 450, held: 3 });
    scheduler.arrive(0, 4, 160, 1000, 160);
    expect(planned()).toEqual({ line: [250, 350, 450, 550], freeAt: 550, held: 4 });
    for (const at of [250, 350, 450, 550]) scheduler.finished(scheduler.accelerators.running[0]!, at - 100, at, at);
    expect(planned()).toEqual({ line: [], freeAt: 550, held: 0 });
    expect(ends).toEqual([0, 1, 2, 3, 4].map((tag) => `${150 + 100 * tag}: ${tag} ${FINISHED}/0`));
    expect([scheduler.batches.live, scheduler.requests.live]).toEqual([0, 0]);
  });

  test.each([1, 2, 3])("batch %i of the line ends before its turn: those behind it move up", (index) => {
    const { scheduler, planned, ends } = setUp();
    for (let tag = 0; tag < 4; tag++) scheduler.arrive(0, tag, 0, 50, 0);
    scheduler.failed(index, FAIL_MODEL_ERROR, 40, false);
    // Its deadline does not allow another try.
    expect(ends).toEqual([`40: ${index} ${FAILED}/${FAIL_MODEL_ERROR}`]);
    expect(planned()).toMatchObject({ line: [100, 200, 300], held: 3 });
    for (const at of [100, 200, 300]) scheduler.finished(scheduler.accelerators.running[0]!, at - 100, at, at);
    expect([scheduler.batches.live, scheduler.requests.live]).toEqual([0, 0]);
  });

  test("a batch beyond the depth is a bug of the policy", () => {
    const { scheduler, queue } = setUp();
    for (let tag = 0; tag < 5; tag++) scheduler.arrive(0, tag, 0, 1000, 0);
    expect(queue.length).toBe(1);
    expect(() => scheduler.grant(0, 0, 0)).toThrow("already holds 4 batches");
  });
});

test("rejected: a batch whose turn came too late ends its members as dropped, and the next begins", () => {
  const { scheduler, planned, ends, queue } = setUp();
  queue.latestUs = 30;
  for (let tag = 0; tag < 3; tag++) scheduler.arrive(0, tag, 0, 1000, 0);
  const [first, second] = [scheduler.accelerators.running[0]!, scheduler.accelerators.waiting[0]!];
  scheduler.finished(first, 0, 140, 140);
  expect(scheduler.batches.latestAt[second]).toBe(130);
  scheduler.rejected(second, 140);
  expect(ends).toEqual([`140: 0 ${FINISHED}/0`, `140: 1 ${DROPPED}/${DROP_PREDICTED_LATE}`]);
  expect(planned()).toEqual({ line: [240], freeAt: 240, held: 1 });
});

describe("preempt", () => {
  test("members wait again with no try spent, what was behind begins, the driver is told once", () => {
    const { scheduler, queue, planned, preempted, ends } = setUp();
    for (let tag = 0; tag < 2; tag++) scheduler.arrive(0, tag, 0, 1000, 0);
    const running = scheduler.accelerators.running[0]!;
    const request = scheduler.batches.first[running]!;
    queue.refresh = () => {};
    scheduler.preempt(0, 30);
    expect(preempted()).toBe(running);
    expect(queue.waiting).toEqual([request]);
    expect(scheduler.requests.retries[request]).toBe(0);
    expect(planned()).toEqual({ line: [130], freeAt: 130, held: 1 });
    expect(ends).toEqual([]);
  });

  test("a member that its client cancelled is gone", () => {
    const { scheduler, queue } = setUp();
    scheduler.arrive(0, 0, 0, 1000, 0);
    scheduler.cancel(scheduler.requests.lastAdded, 10);
    scheduler.preempt(0, 30);
    expect([queue.length, scheduler.requests.live, scheduler.batches.live]).toEqual([0, 0, 0]);
  });

  test("nothing runs there: a bug of the policy", () => {
    const { scheduler } = setUp();
    expect(() => scheduler.preempt(0, 0)).toThrow("runs nothing");
  });
});
