/** What a request says of itself reaches the policy on threads too, also after its queue has moved. */
import { expect, test } from "vitest";
import { ProfiledLatency } from "../../src/core/latency/latency.js";
import { FAIL_MODEL_ERROR } from "../../src/core/outcome.js";
import { Scheduler } from "../../src/core/scheduler.js";
import type { RequestTraits } from "../../src/core/tables/request-table.js";
import { stream } from "../../src/sim/random.js";
import { LocalHost } from "../../src/threads/hosts.js";
import { createMemory } from "../../src/threads/memory.js";
import { replayRun } from "../../src/threads/replay/replay.js";
import type { RunOptions } from "../../src/threads/run-record.js";
import { ThreadedScheduler } from "../../src/threads/threaded-scheduler.js";
import { byWeight } from "../support/by-weight.js";

const RUN: RunOptions = {
  network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 100 },
  acceleratorsMax: 1,
  queuesMax: 8,
  requestsMax: 400,
  tagsMax: 400,
  retriesMax: 1,
  learn: false,
  oneAtATime: true,
  threadsMax: 2,
};
const EXEC_US = [1000, 1010, 1020];
const SLO_US = 1_000_000;

interface Batch {
  readonly batch: number;
  readonly variant: number;
  readonly tags: readonly number[];
}

function onThreads({ isRecording = false, execUs = EXEC_US } = {}) {
  const batches: Batch[] = [];
  const memory = createMemory(RUN);
  const setup = { options: RUN, memory, rowsMax: isRecording ? 10_000 : 0 };
  const host = new LocalHost(setup, byWeight, (each) => front.pollThread(each));
  const front: ThreadedScheduler = new ThreadedScheduler(
    RUN,
    memory,
    host,
    {
      dispatch: (batch, _model, { size, members, variant }) =>
        batches.push({ batch, variant, tags: [...members.subarray(0, size)] }),
      end: () => {},
      batchEnded: () => {},
    },
    isRecording,
  );
  const settle = (now: number): void => {
    for (let isBusy = true; isBusy; ) {
      front.show();
      isBusy = false;
      for (const thread of [0, 1]) if (host.turnThread(thread, now)) isBusy = true;
      if (host.turnRank(now)) isBusy = true;
      front.poll(now);
    }
  };
  front.startThread();
  front.startThread();
  const model = front.addModel({ execUs, sloUs: SLO_US, lengthMax: 300 }, [0]);
  settle(0);
  return { front, host, settle, batches, model };
}

const takeOne = (batches: Batch[]): Batch => {
  expect(batches).toHaveLength(1);
  return batches.pop()!;
};

test("lockstep: queue threads form the batches of a Scheduler, by weight, due moment and kind", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = stream(seed, "traits");
    const requests = Array.from({ length: 60 }, (): RequestTraits | undefined =>
      random() < 0.3
        ? undefined
        : {
            kind: Math.floor(random() * 4),
            weight: Math.floor(random() * 5),
            dueBy: random() < 0.5 ? Number.POSITIVE_INFINITY : Math.floor(random() * SLO_US),
            headStartUs: Math.floor(random() * 3) * 1000,
          },
    );
    const inOne: Omit<Batch, "batch">[] = [];
    const scheduler: Scheduler = new Scheduler(
      byWeight(),
      {
        dispatch: (batch) => {
          const tags: number[] = [];
          for (let each = scheduler.batches.first[batch]!; each >= 0; each = scheduler.requests.next[each]!)
            tags.push(scheduler.requests.tag[each]!);
          inOne.push({ variant: scheduler.batches.variant[batch]!, tags });
        },
        end: () => {},
        batchEnded: () => {},
        preempt: () => {},
      },
      RUN,
    );
    const table = Float64Array.from([0, ...EXEC_US, Number.POSITIVE_INFINITY]);
    const key = scheduler.addQueue({ latency: new ProfiledLatency(table), sloUs: SLO_US, lengthMax: 300 });
    const { front, settle, batches, model } = onThreads();
    for (const [tag, traits] of requests.entries()) {
      scheduler.arrive(key, tag, 10, 10 + SLO_US, 10, traits);
      front.arrive(model, tag, 10, 10 + SLO_US, traits);
      settle(10);
    }
    // Half of them wait in another thread from now on, and come back.
    for (const on of [[1], [0]]) {
      front.spread(model, on);
      settle(20);
    }
    scheduler.join(0, 1, 30);
    front.join(0, 1);
    settle(30);
    const told: Omit<Batch, "batch">[] = [];
    scheduler.wake(30);
    for (let now = 30; ; now += 2000) {
      const next = batches.shift();
      if (next === undefined) break;
      told.push({ variant: next.variant, tags: next.tags });
      scheduler.finished(scheduler.accelerators.running[0]!, now, now + 1000, now + 1000);
      front.finished(next.batch, now, now + 1000);
      scheduler.wake(now + 1000);
      settle(now + 1000);
    }
    expect(told, `seed ${seed}`).toEqual(inOne);
    expect(told.flatMap(({ tags }) => tags)).toHaveLength(60);
  }
});

test("a part of a refused batch stays one when its queue moves", () => {
  const execUs = [1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070];
  const { front, settle, batches, model } = onThreads({ execUs });
  front.join(0, 1);
  const refuse = (now: number): void => {
    front.failed(takeOne(batches).batch, FAIL_MODEL_ERROR, true);
    settle(now);
  };
  for (let tag = 0; tag < 8; tag++) front.arrive(model, tag, 10, 10 + SLO_US);
  settle(10);
  front.leave(0);
  settle(11);
  refuse(20);
  expect(batches).toEqual([]);
  front.spread(model, [1]);
  settle(30);
  front.join(0, 1);
  settle(40);
  const parts = [takeOne(batches)];
  for (let now = 50; now < 60; now++) {
    front.finished(parts.at(-1)!.batch, now, now);
    settle(now);
    if (batches.length === 0) break;
    parts.push(takeOne(batches));
  }
  expect(parts.map(({ tags }) => tags)).toEqual([
    [0, 1],
    [2, 3],
    [4, 5],
    [6, 7],
  ]);
});

test("a run with traits and moves replays to the same commands", async () => {
  const { front, host, settle, batches, model } = onThreads({ isRecording: true });
  for (let tag = 0; tag < 20; tag++)
    front.arrive(model, tag, 10, 10 + SLO_US, {
      kind: tag % 3,
      weight: tag % 5,
      dueBy: 500_000 - tag,
      headStartUs: tag % 2,
    });
  settle(10);
  front.spread(model, [1]);
  settle(20);
  front.join(0, 1);
  settle(30);
  for (let now = 40; batches.length > 0; now += 1000) {
    front.finished(batches.shift()!.batch, now, now + 900);
    settle(now + 900);
  }
  front.removeModel(model);
  settle(50_000);
  for (const thread of front.threads) front.stopThread(thread);
  settle(50_001);
  front.stopRank();
  while (host.turnRank(50_002)) {}
  const record = await front.record();
  const { commands, difference } = replayRun(record!, byWeight);
  expect(difference).toBeNull();
  expect(commands).toBeGreaterThan(100);
});
