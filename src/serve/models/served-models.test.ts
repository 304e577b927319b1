import { expect, test } from "vitest";
import type { ModelSpec } from "../../config/model.js";
import { PLAIN } from "../../core/tables/request-table.js";
import { decodeKinds, encodeKinds } from "../../policies/known-kinds.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { LiveScheduler } from "../live-scheduler.js";
import { silentLog } from "../observation/log.js";
import type { Metrics } from "../observation/metrics.js";
import { Apps } from "./apps.js";
import { knownBeforehand } from "./known-beforehand.js";
import type { ModelProfile } from "./model-profile.js";
import { ModelTimes } from "./model-times.js";
import type { ServedModel, ServedQueue } from "./served-model.js";
import { ServedModels } from "./served-models.js";
import { sizesTogether } from "./sizes.js";

const QUEUES_MAX = 3;

/** A scheduler that holds three queues, and lets go of one when it is told that it has closed. */
function create() {
  let held = 0;
  const closing: number[] = [];
  const scheduler = {
    addQueue: () => held < QUEUES_MAX && ++held > 0,
    removeQueue: (queue: number) => closing.push(queue),
  } as unknown as LiveScheduler;
  const network = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };
  const group = { spec: { name: "g" }, index: 0, network } as AcceleratorGroup;
  const metrics = { ofModel: () => ({}) } as unknown as Metrics;
  const models = new ServedModels({ log: silentLog() }, [group], scheduler, metrics);
  const spec = {
    group: "g",
    batchSizeMax: 4,
    sloUs: 50_000,
    queueRequestsMax: 10,
    policy: "deferred",
    policyOptions: {},
    apps: [],
    inputs: [],
  };
  const times = { us: () => 1000, table: (_rows: number, _extent: number, size: number) => new Array(size).fill(1000) };
  const add = (name: string) => models.add({ ...spec, name } as unknown as ModelSpec, times as unknown as ModelTimes);
  return {
    models,
    a: add("a"),
    b: add("b"),
    closing,
    hasClosed: () => {
      held--;
    },
  };
}
const share = (key: string) => ({ key, rows: 1, extent: null });

test("where the scheduler holds as many queues as it can, the one unused for longest gives way, whosever it is", () => {
  const { models, a, b, closing, hasClosed } = create();
  const queues = ["x", "y", "z"].map((key, index) => {
    const queue = models.queueFor(a, share(key)) as ServedQueue;
    queue.lastUsedAt = [30, 10, 20][index]!;
    return queue;
  });
  queues[1]!.live = 1;
  expect(models.queueFor(b, share("x"))).toBe("queues-full");
  expect(closing).toEqual([queues[2]!.id]);
  expect([...a.queues.keys()]).toEqual(["x", "y"]);
  hasClosed();
  expect(models.queueFor(b, share("x"))).toMatchObject({ model: b });
});

test("a queue in use never gives way", () => {
  const { models, a, b, closing } = create();
  for (const key of ["x", "y", "z"]) (models.queueFor(a, share(key)) as ServedQueue).batches = 1;
  expect(models.queueFor(b, share("x"))).toBe("queues-full");
  expect(closing).toEqual([]);
});

const padded = (...buckets: number[]) =>
  ({
    inputs: [{ mask: true, variable: { mode: "pad", buckets } }, { variable: { mode: "pad", buckets } }],
  }) as unknown as ModelSpec;

test("sizes are together where the group's policy plans by kind, or their owner says so; at most 12 of them", () => {
  expect(sizesTogether(padded(16, 32), true)).toEqual([16, 32]);
  expect(sizesTogether(padded(16, 32), false)).toBeNull();
  expect(sizesTogether({ ...padded(16, 32), sizes: "together" }, false)).toEqual([16, 32]);
  expect(sizesTogether({ ...padded(16, 32), sizes: "apart" }, true)).toBeNull();
  expect(sizesTogether({ inputs: [{ variable: null }] } as unknown as ModelSpec, true)).toBeNull();
  const many = sizesTogether(padded(...Array.from({ length: 30 }, (_, index) => index + 1)), true)!;
  expect(many).toHaveLength(12);
  expect(many.at(-1)).toBe(30);
  expect(new Set(many).size).toBe(12);
});

test("under the live policy sizes are together where it may choose by kinds", () => {
  const togetherUnder = (spec: object, options: object = {}, group: object = {}): boolean => {
    const network = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };
    const groups = [{ spec: { name: "g", ...group }, index: 0, network } as AcceleratorGroup];
    const metrics = { ofModel: () => ({}) } as unknown as Metrics;
    const models = new ServedModels({ log: silentLog(), ...options }, groups, {} as LiveScheduler, metrics);
    const own = { name: "m", group: "g", sloUs: 50_000, policy: "auto", policyOptions: {}, apps: [] };
    return models.add(
      { ...padded(16, 32), ...own, ...spec } as unknown as ModelSpec,
      { us: () => 1000 } as unknown as ModelTimes,
    ).areSizesTogether;
  };
  expect(togetherUnder({})).toBe(true);
  expect(togetherUnder({ sizes: "apart" })).toBe(false);
  expect(togetherUnder({ policyOptions: { by_app: false } })).toBe(false);
  expect(togetherUnder({ policy: "deferred" })).toBe(false);
  // Served as eager.
  expect(togetherUnder({ sloUs: null })).toBe(false);
  expect(togetherUnder({}, { hasThreads: true })).toBe(false);
  expect(togetherUnder({}, {}, { policy: { name: "nexus", options: {} } })).toBe(false);
});

test("what is known of a queue before its first request: what one of each size takes, and what a batch costs", () => {
  const point = (extent: number, batchSize: number, us: number) => {
    const quantiles = { p50Us: us, p90Us: 1.1 * us, p99Us: 1.3 * us, runs: 30 };
    return { extent, batchSize, alone: quantiles, busy: quantiles };
  };
  // A batch of k takes 500 + k (l - 500).
  const points = [point(16, 1, 1000), point(16, 4, 2500), point(32, 1, 3000), point(32, 4, 10_500)];
  const profile = { batchMax: 4, points } as unknown as ModelProfile;
  const spec = { batchSizeFixed: null } as ModelSpec;
  const times = new ModelTimes(spec, profile);
  expect(times.costUs(1)).toBeCloseTo(500, 6);
  const apps = new Apps("m", { value: 0 }, silentLog());
  apps.declare(["chat"]);
  apps.declareSizes([16, 32]);
  const { kinds, batchTime } = knownBeforehand({ apps, areSizesTogether: true, times } as ServedModel, 1, null);
  expect(batchTime!.c0Us).toBeCloseTo(500, 6);
  expect(kinds!.map(({ name, share, aloneUs }) => [name, share, aloneUs.length])).toEqual([
    ["", 0, 0],
    ["chat", 0, 0],
    ["size<=16", 0.5, 20],
    ["size<=32", 0.5, 20],
  ]);
  const [short, long] = [kinds![2]!.aloneUs, kinds![3]!.aloneUs];
  expect([...short].toSorted((a, b) => a - b)).toEqual([...short]);
  expect([short[0]! < 1000, short[10]! < 1100, short[19]! > 1100, short[19]! <= 1300]).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect(long[10]! / short[10]!).toBeCloseTo(3, 6);
  expect(apps.traitsOfSize(17).kind).toBe(3);
  expect(apps.traitsOfSize(33)).toBe(PLAIN);
  const apart = knownBeforehand({ apps, areSizesTogether: false, times } as ServedModel, 1, 16);
  expect(apart).toEqual({ kinds: [{ name: "", share: 1, aloneUs: short }] });
});

test("what is known crosses as numbers", () => {
  const kinds = [
    { name: "0", share: 0.25, aloneUs: Float64Array.of(1, 2, 3) },
    { name: "1", share: 0.75, aloneUs: new Float64Array() },
  ];
  const crossed = (known: Parameters<typeof encodeKinds>[0]) => decodeKinds(Float64Array.from(encodeKinds(known)));
  expect(crossed({ kinds })).toEqual({ kinds });
  expect(crossed({ kinds, batchTime: { c0Us: 7, c1: 1 } })).toEqual({ kinds, batchTime: { c0Us: 7, c1: 1 } });
  expect(crossed({})).toEqual({});
});
