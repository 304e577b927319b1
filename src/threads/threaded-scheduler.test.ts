import { expect, test } from "vitest";
import { eager } from "../policies/registry.js";
import { LocalHost } from "./hosts.js";
import { createMemory } from "./memory.js";
import type { RunOptions } from "./run-record.js";
import { ThreadedScheduler } from "./threaded-scheduler.js";

const RUN: RunOptions = {
  network: { controlUs: 100, dataUsPerRequest: 0, responseUs: 0 },
  acceleratorsMax: 1,
  queuesMax: 4,
  requestsMax: 8,
  tagsMax: 8,
  retriesMax: 0,
  learn: false,
  oneAtATime: false,
  threadsMax: 2,
};
const SPEC = { execUs: [1000], sloUs: 10_000, lengthMax: 8 };

/** A scheduler of two queue threads with an accelerator, actors in this thread, and what it told its driver. */
function create() {
  const said: (readonly [string, number])[] = [];
  const memory = createMemory(RUN, { front: 64, rank: 64 });
  const host = new LocalHost({ options: RUN, memory, rowsMax: 0 }, eager, (each) => front.pollThread(each));
  const front: ThreadedScheduler = new ThreadedScheduler(RUN, memory, host, {
    dispatch: (_batch, model) => said.push(["dispatch", model]),
    end: (tag, _outcome, reason) => said.push([`end ${reason}`, tag]),
    batchEnded: () => {},
  });
  const settle = (now: number): void => {
    front.show();
    while (host.turnThread(0, now) || host.turnThread(1, now) || host.turnRank(now)) {}
  };
  front.startThread();
  front.startThread();
  front.join(0, 1);
  return { front, said, settle };
}

test("batches of an accelerator are dispatched in the order of their grants, whichever thread is read first", () => {
  const { front, said, settle } = create();
  const second = front.addModel(SPEC, [0]);
  const first = front.addModel(SPEC, [1]);
  settle(0);
  front.arrive(first, 0, 10, 10_000);
  settle(10);
  // Granted ahead: the accelerator is about to be free. Thread 0 is read first.
  front.arrive(second, 1, 1050, 11_000);
  settle(1050);
  front.poll(1050);
  expect(said).toEqual([
    ["dispatch", first],
    ["dispatch", second],
  ]);
});

test("what waits of a model fails when it is told to; the model goes on", () => {
  const { front, said, settle } = create();
  const model = front.addModel(SPEC, [0]);
  settle(0);
  front.leave(0);
  front.arrive(model, 3, 10, 10_000);
  settle(10);
  front.failWaiting(model, 2);
  settle(20);
  front.join(0, 1);
  front.arrive(model, 4, 30, 10_000);
  settle(30);
  front.poll(30);
  expect(said).toEqual([
    ["end 2", 3],
    ["dispatch", model],
  ]);
});

test("says when no further queue can be opened, and again can when one has closed", () => {
  const { front, settle } = create();
  const models = Array.from({ length: 4 }, () => front.addModel(SPEC, [0]));
  settle(0);
  expect(front.hasQueueRoom).toBe(false);
  front.removeModel(models[0]!);
  settle(1);
  front.poll(1);
  expect(front.hasQueueRoom).toBe(true);
});

test("delays of one model are no other's, and follow it to another thread", () => {
  const { front, said, settle } = create();
  const slow = front.addModel(SPEC, [0]);
  const quick = front.addModel(SPEC, [0]);
  front.delaysChanged(slow, { controlUs: 5000, dataUsPerRequest: 0, responseUs: 5000 });
  settle(0);
  front.arrive(slow, 0, 10, 10_000);
  front.arrive(quick, 1, 10, 10_000);
  settle(10);
  front.spread(slow, [1]);
  settle(20);
  front.arrive(slow, 2, 30, 10_020);
  settle(30);
  front.poll(30);
  // A request that has 5 ms for 5 ms of delay and 1 ms of work is infeasible.
  expect(said).toEqual([
    ["end 1", 0],
    ["dispatch", quick],
    ["end 1", 2],
  ]);
});
