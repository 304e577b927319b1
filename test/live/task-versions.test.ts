/** Versions of a task that supersede each other and are rejected, over a pool whose trials the test ends. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { TaskTrial, TrialResult } from "../../src/config/elastic.js";
import { durationUs } from "../../src/core/time.js";
import type { TaskStatus } from "../../src/serve/gateway.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { packBytes } from "../../src/wire/tensors/tensor-bytes.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";
import { elasticSpec } from "../support/specs.js";

const ELASTIC = elasticSpec({ accuracyMin: 0.5 });
const IMAGES = 16;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-task-versions-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const bytes = (values: Float32Array | BigInt64Array): Uint8Array => new Uint8Array(values.buffer);
const floats = (name: string, shape: number[], count: number): Tensor => ({
  name,
  datatype: "FP32",
  shape,
  data: bytes(new Float32Array(count)),
});
const TENSORS: Tensor[] = [
  { name: "classes", datatype: "BYTES", shape: [2], data: packBytes([Buffer.from("x"), Buffer.from("y")]) },
  floats("head", [1, 2], 2),
  floats("bias", [2], 2),
  floats("images", [IMAGES, 1], IMAGES),
  { name: "labels", datatype: "INT64", shape: [IMAGES], data: bytes(new BigInt64Array(IMAGES)) },
];

/** Trials end at once, right or wrong, or wait. */
class Tasks {
  how: "right" | "wrong" | "waiting" = "right";
  readonly waiting: (() => void)[] = [];
  private constructor(readonly fake: FakeServer) {}

  static async start(): Promise<Tasks> {
    const fake = new FakeServer([modelSpec({ elastic: ELASTIC, folder })], [group(1)], { execMs: () => 1 });
    const tasks = new Tasks(fake);
    const trial = async (_accelerator: number, _model: object, { count }: TaskTrial): Promise<TrialResult> => {
      if (tasks.how === "waiting") await new Promise<void>((resolve) => tasks.waiting.push(resolve));
      return { right: tasks.how === "wrong" ? 0 : count, us: durationUs(1000) };
    };
    Object.assign(fake.pool, { trial });
    await fake.start();
    return tasks;
  }

  register(): Promise<TaskStatus> {
    return this.fake.server.tasks.register("m", "a", { tensors: TENSORS, parameters: {} });
  }

  get status(): TaskStatus {
    return this.fake.server.tasks.get("m", "a");
  }

  async settled(): Promise<TaskStatus> {
    await turns(() => this.status.profilingVersion === 0);
    return this.status;
  }

  go(how: "right" | "wrong"): void {
    this.how = how;
    for (const wake of this.waiting.splice(0)) wake();
  }
}

const turns = async (isReached: () => boolean): Promise<void> => {
  while (!isReached()) await new Promise((resolve) => setTimeout(resolve, 1));
};
const versions = (): string[] => {
  const own = path.join(folder, "tasks", "a");
  return readdirSync(own)
    .filter((name) => /^\d/.test(name))
    .sort();
};

test("a superseded version goes at once and is never served, the served one stays, no number is given twice", async () => {
  let tasks = await Tasks.start();
  await tasks.register();
  expect(await tasks.settled()).toMatchObject({ state: "READY", version: 1 });
  tasks.how = "waiting";
  expect(await tasks.register()).toMatchObject({ version: 1, profilingVersion: 2 });
  await turns(() => tasks.waiting.length === 1);
  const third = tasks.register();
  await turns(() => tasks.status.profilingVersion === 3);
  tasks.go("wrong");
  expect(await third).toMatchObject({ version: 1 });
  expect(versions()).not.toContain("2");
  expect(await tasks.settled()).toMatchObject({
    state: "READY",
    version: 1,
    reason: expect.stringContaining("was 0.0000"),
  });
  expect(versions()).toEqual(["1"]);
  await tasks.fake.stop();

  tasks = await Tasks.start();
  expect(tasks.status).toMatchObject({ state: "READY", version: 1, profilingVersion: 0 });
  expect(await tasks.register()).toMatchObject({ profilingVersion: 4 });
  expect(await tasks.settled()).toMatchObject({ state: "READY", version: 4 });
  await turns(() => versions().length === 2);
  expect(versions()).toEqual(["1", "4"]);
  await tasks.fake.stop();
});

test("a server that ends between goes on with the newest registration, beside what was served", async () => {
  let tasks = await Tasks.start();
  await tasks.register();
  await tasks.settled();
  tasks.how = "waiting";
  await tasks.register();
  const third = tasks.register();
  await turns(() => tasks.status.profilingVersion === 3);
  for (const wake of tasks.waiting.splice(0)) wake();
  await third;
  await tasks.fake.stop();
  expect(versions()).toEqual(["1", "3"]);
  tasks = await Tasks.start();
  expect(await tasks.settled()).toMatchObject({ state: "READY", version: 3 });
  await tasks.fake.stop();
});

test("a first version that is rejected leaves nothing on disk, and its number is not given to the next", async () => {
  const tasks = await Tasks.start();
  tasks.how = "wrong";
  await tasks.register();
  expect(await tasks.settled()).toMatchObject({ state: "UNAVAILABLE", version: 0, profiling: null });
  expect(readdirSync(path.join(folder, "tasks"))).toEqual([]);
  expect(await tasks.register()).toMatchObject({ profilingVersion: 2 });
  await tasks.settled();
  await tasks.fake.stop();
});

test("while it is profiled it says how far it is, and a query when to come back", async () => {
  const tasks = await Tasks.start();
  tasks.how = "waiting";
  expect(await tasks.register()).toMatchObject({ profiling: { done: 0, of: 2 * IMAGES, leftS: null } });
  await turns(() => tasks.waiting.length === 1);
  tasks.waiting.pop()!();
  await turns(() => tasks.waiting.length === 1);
  expect(tasks.status.profiling!.done).toBeGreaterThan(0);
  expect(tasks.status.profiling!.leftS).toBeGreaterThan(0);
  const { error } = await tasks.fake.infer({ parameters: { task: "a" } });
  expect(error).toMatchObject({ code: "unavailable", details: { reason: "task-profiling" } });
  expect(error!.details.retryAfterS).toBeGreaterThanOrEqual(1);
  tasks.go("right");
  expect(await tasks.settled()).toMatchObject({ state: "READY", profiling: null });
  await tasks.fake.stop();
});
