import { expect, test } from "vitest";
import type { ModelSpec } from "../../config/model.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { LiveScheduler } from "../live-scheduler.js";
import { silentLog } from "../observation/log.js";
import type { Metrics } from "../observation/metrics.js";
import type { ModelTimes } from "./model-times.js";
import type { ServedQueue } from "./served-model.js";
import { ServedModels } from "./served-models.js";

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
