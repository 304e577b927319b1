/**
 * A policy with a latency model of its own: times by kind, l = c0 + c1 k max l(kind), fitted from measured batches; the
 * plan takes the batch that is given, and sizes are judged by a quantile.
 */
import { describe, expect, test } from "vitest";
import { PLAIN } from "../../src/core/tables/request-table.js";
import { durationUs } from "../../src/core/time.js";
import {
  type Batcher,
  createScheduler,
  deferred,
  eager,
  type GivenBatch,
  type LatencyModel,
  linearTable,
  type Policy,
  ProfiledLatency,
  type QueueSpec,
  Scheduler,
  simulate,
} from "../../src/index.js";
import { accelerators, linearModel, scenarioOf } from "../support/scenario.js";

/** What a request takes alone, by kind: nine of ten are short. */
const ALONE_US = [1000, 9000];
const SHARE = [0.9, 0.1];
const CAREFUL = 0.9;

class KindTimes implements LatencyModel {
  readonly execUs: Float64Array;
  version = 0;
  told = 0;
  private c0 = 100;
  private c1 = 1;
  /** Sums for the least squares of Eq. 3: of 1, x, x², y, x y. */
  private readonly sums = [0, 0, 0, 0, 0];

  constructor(readonly sizeMax: number) {
    this.execUs = new Float64Array(sizeMax + 2);
    this.execUs[sizeMax + 1] = Number.POSITIVE_INFINITY;
    this.compile();
  }

  quantileUs(size: number, q: number): number {
    // The longest of `size` requests is short where all of them are.
    const kind = SHARE[0]! ** size >= q ? 0 : 1;
    return this.c0 + this.c1 * size * ALONE_US[kind]!;
  }

  givenUs(given: GivenBatch): number {
    return this.c0 + this.c1 * this.workUs(given);
  }

  measured(given: GivenBatch, us: number): boolean {
    const x = this.workUs(given);
    this.told++;
    for (const [index, value] of [1, x, x * x, us, x * us].entries()) this.sums[index]! += value;
    const [n, sx, sxx, sy, sxy] = this.sums as [number, number, number, number, number];
    const spread = n * sxx - sx * sx;
    if (spread === 0) return false;
    this.c1 = (n * sxy - sx * sy) / spread;
    this.c0 = (sy - this.c1 * sx) / n;
    this.compile();
    return true;
  }

  private workUs({ batch, batches, requests }: GivenBatch): number {
    let longest = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      longest = Math.max(longest, ALONE_US[requests.kind[member]!]!);
    return batches.size[batch]! * longest;
  }

  private compile(): void {
    this.version++;
    for (let size = 1; size <= this.sizeMax; size++) this.execUs[size] = this.quantileUs(size, CAREFUL);
  }
}

const kindPolicy = (models: KindTimes[]): Policy => {
  const inner = eager();
  return {
    name: "by-kind",
    createLatency: ({ latency }: QueueSpec) => {
      const model = new KindTimes(latency.sizeMax);
      models.push(model);
      return model;
    },
    createQueue: (key, spec, core) => inner.createQueue(key, spec, core),
    createArbiter: (core) => inner.createArbiter(core),
  };
};

/** One accelerator that is twice as slow as the profile says, driven by hand. */
function driven(learn: boolean) {
  const models: KindTimes[] = [];
  const sent: { batch: number; kinds: number[]; execAt: number; execUs: number; finishAt: number }[] = [];
  const scheduler: Scheduler = new Scheduler(
    kindPolicy(models),
    {
      dispatch: (batch) => {
        const { batches, requests } = scheduler;
        const kinds: number[] = [];
        for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
          kinds.push(requests.kind[member]!);
        const [execAt, execUs, finishAt] = [batches.execAt[batch]!, batches.execUs[batch]!, batches.finishAt[batch]!];
        sent.push({ batch, kinds, execAt, execUs, finishAt });
      },
      end: () => {},
      batchEnded: () => {},
      preempt: () => {},
    },
    {
      network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
      acceleratorsMax: 1,
      requestsMax: 100,
      retriesMax: 0,
      learn,
    },
  );
  const key = scheduler.addQueue({ latency: new ProfiledLatency(linearTable(1, 1, 8)), sloUs: 1e6, lengthMax: 100 });
  scheduler.join(0, 2, 0);
  let tag = 0;
  const arrive = (at: number, ...kinds: number[]): void => {
    for (const kind of kinds) scheduler.arrive(key, tag++, at, at + 1e6, at, { ...PLAIN, kind });
    scheduler.wake(at);
  };
  return { models, sent, scheduler, key, arrive };
}

describe("a policy's own latency model", () => {
  test("its table is what plans take, and its quantiles are of the longest of so many", () => {
    const { models } = driven(false);
    const [model] = models;
    expect([...model!.execUs.slice(1, 4)]).toEqual([1100, 18_100, 27_100]);
    expect(model!.quantileUs(4, 0.5)).toBe(100 + 4 * 1000);
  });

  test("a batch is planned to end when its members say, on this accelerator", () => {
    const { sent, scheduler, arrive } = driven(false);
    arrive(0, 1);
    arrive(10, 0, 0, 0);
    scheduler.finished(sent[0]!.batch, 0, 18_200, 18_200);
    scheduler.wake(18_200);
    expect(
      sent.map(({ kinds, execUs, execAt, finishAt }) => ({ kinds, execUs, isPlanned: finishAt === execAt + execUs })),
    ).toEqual([
      { kinds: [1], execUs: 2 * (100 + 9000), isPlanned: true },
      { kinds: [0, 0, 0], execUs: 2 * (100 + 3 * 1000), isPlanned: true },
    ]);
    expect(scheduler.accelerators.freeAt[0]).toBe(sent[1]!.finishAt);
  });

  test.each([true, false])("it hears what its batches took where the scheduler learns (%s), on scale 1", (learn) => {
    const { models, sent, scheduler, arrive } = driven(learn);
    let at = 0;
    // In truth l = 500 + 2 k max l.
    for (const kind of [0, 1, 0]) {
      arrive(at, kind);
      const { batch } = sent.at(-1)!;
      const endAt = at + 2 * (500 + 2 * ALONE_US[kind]!);
      scheduler.finished(batch, at, endAt, endAt);
      at = endAt;
    }
    expect(models[0]!.told).toBe(learn ? 3 : 0);
    arrive(at, 1);
    expect(sent.at(-1)!.execUs).toBeCloseTo(learn ? 2 * (500 + 2 * 9000) : 2 * (100 + 9000), 6);
  });

  test("what is measured after its queue was removed is told to nobody", () => {
    const { models, sent, scheduler, key, arrive } = driven(true);
    arrive(0, 0);
    scheduler.removeQueue(key);
    scheduler.finished(sent[0]!.batch, 0, 2000, 2000);
    expect(models[0]!.told).toBe(0);
  });
});

const scenario = scenarioOf({
  models: [linearModel("m", 1, 5, 60, 500, 16)],
  accelerators: accelerators(3),
  durationUs: durationUs(5e6),
});

test("simulate takes a policy; a model that only repeats the profile changes nothing", () => {
  const inner = deferred();
  let made = 0;
  const policy: Policy = {
    name: "deferred",
    createLatency: ({ latency: { sizeMax, execUs, version } }) => {
      made++;
      return {
        sizeMax,
        execUs,
        version,
        quantileUs: (size) => execUs[size]!,
        givenUs: ({ batch, batches }) => execUs[batches.size[batch]!]!,
      };
    },
    createQueue: (key, spec, core) => inner.createQueue(key, spec, core),
    createArbiter: (core) => inner.createArbiter(core),
  };
  expect(simulate(scenario, { policy })).toEqual(simulate(scenario));
  expect(made).toBe(1);
});

test("the profile's quantiles are of what was measured, about its mean", () => {
  const latency = new ProfiledLatency(linearTable(1000, 9000, 8));
  expect(latency.quantileUs(1, 0.99)).toBe(10_000);
  for (let run = 0; run < 400; run++) latency.observe(1, durationUs(run % 2 === 0 ? 8000 : 12_000), true);
  expect(latency.quantileUs(1, 0.5)).toBeCloseTo(latency.meanUs(1), 6);
  const deviationUs = latency.spread * latency.meanUs(1);
  expect((latency.quantileUs(1, 0.9) - latency.meanUs(1)) / deviationUs).toBeCloseTo(1.2816, 2);
  expect((latency.meanUs(1) - latency.quantileUs(1, 0.01)) / deviationUs).toBeCloseTo(2.3263, 2);
});

test("live: createScheduler takes a policy, plans with its model and tells it", async () => {
  const models: KindTimes[] = [];
  const batcher: Batcher<number, number> = createScheduler({
    run: async (items: number[]) => items.map((item) => item + 1),
    profile: { alpha_ms: 1, beta_ms: 1 },
    slo_ms: 10_000,
    batch_max: 4,
    policy: kindPolicy(models),
  });
  expect(await Promise.all([1, 2, 3].map((item) => batcher.submit(item)))).toEqual([2, 3, 4]);
  await batcher.close();
  expect(models[0]!.told).toBeGreaterThan(0);
});

test.each([
  [{ policy: { name: "x" } }, /policy: must be/],
  [{ policy: deferred(), policy_options: { idle_dispatch: true } }, /policy_options: must be absent/],
])("createScheduler refuses what is no policy, and options beside one: %o", (options, text) => {
  const create = () =>
    createScheduler({ run: async () => [], profile: { alpha_ms: 1, beta_ms: 1 }, slo_ms: 100, ...(options as object) });
  expect(create).toThrow(text);
});
