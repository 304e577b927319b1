/** Models that end, keep or never leave their workers, beside one that behaves: real worker processes, real models. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ModelSpec } from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { ProcessPool, type ProcessPoolOptions } from "../../src/serve/workers/process-pool.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { type Ended, FakeServer, sleep } from "../fakes/fake-server.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { fp32, group, modelSpec, tensorSpec } from "../support/specs.js";

let folder: string;
let fake: FakeServer;
let pool: ProcessPool;
/** Fewest accelerators that were up at once after the start. */
let upMin: number;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-hostile-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  expect(fake.broken).toBeNull();
  await fake.stop();
});

async function serve(specs: ModelSpec[], options: ProcessPoolOptions = {}): Promise<void> {
  const groups = [group({ name: "cpu", kind: "onnx", count: 2 })];
  pool = new ProcessPool(groups, { warmUpMs: 0, ...options });
  const start = pool.start.bind(pool);
  let up = 0;
  upMin = 2;
  pool.start = (onEvent) =>
    start((event) => {
      if (event.kind === "joined") up++;
      if (event.kind === "left") up--;
      if (event.kind === "left") upMin = Math.min(upMin, up);
      onEvent(event);
    });
  const models = {
    names: () => specs.map(({ name }) => name),
    read: (name: string) => specs.filter((spec) => spec.name === name),
    times: (spec: ModelSpec) => Promise.resolve(timesOf(spec)),
  };
  fake = new FakeServer([], groups, { pool, models });
  await fake.start();
}

function onnx(name: string, graph: Parameters<typeof buildOnnx>[0]): string {
  const file = path.join(folder, `${name}.onnx`);
  writeFileSync(file, buildOnnx(graph));
  return file;
}

const FLOAT = 1;
const INT32 = 6;
const INT64 = 7;
/** What every model is believed to take, whatever it does take. */
const EMULATED = { alphaMs: 0, betaMs: 1, tableMs: null };
const timesOf = (spec: ModelSpec) => new ModelTimes(spec, profileOfEmulated({ ...spec, emulated: EMULATED }));

const neighbour = (): ModelSpec =>
  modelSpec({
    name: "neighbour",
    file: onnx("neighbour", {
      inputs: [{ name: "x", type: FLOAT, dims: ["b", 1] }],
      outputs: [{ name: "y", type: FLOAT, dims: ["b", 1] }],
      nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    }),
    inputs: [tensorSpec("x", "FP32", [-1, 1])],
    outputs: [tensorSpec("y", "FP32", [-1, 1])],
    sloUs: durationUs(500_000),
    policy: "deferred",
  });

/** The smallest integer by -1 traps in the processor. */
const deadly = (): ModelSpec => {
  const names = ["a", "b"];
  return modelSpec({
    name: "deadly",
    file: onnx("deadly", {
      inputs: names.map((name) => ({ name, type: INT32, dims: ["n"] })),
      outputs: [{ name: "y", type: INT32, dims: ["n"] }],
      nodes: [{ op: "Div", inputs: names, outputs: ["y"] }],
    }),
    inputs: names.map((name) => tensorSpec(name, "INT32", [-1], { batchAxis: null })),
    outputs: [tensorSpec("y", "INT32", [-1], { batchAxis: null })],
    batchSizeMax: 0,
    sloUs: durationUs(1_000_000),
  });
};
const int32 = (name: string, value: number): Tensor => ({
  name,
  datatype: "INT32",
  shape: [1],
  data: new Uint8Array(Int32Array.of(value).buffer),
});
const divide = (a: number, b: number) => fake.infer({ model: "deadly", inputs: [int32("a", a), int32("b", b)] });

/** Multiplies two matrices of n x n: its time depends on a value. */
const looper = (rest: Partial<ModelSpec> = {}): ModelSpec =>
  modelSpec({
    name: "looper",
    file: onnx("looper", {
      inputs: [{ name: "n", type: INT64, dims: [1] }],
      outputs: [{ name: "y", type: FLOAT, dims: [1, 1] }],
      nodes: [
        { op: "Concat", inputs: ["n", "n"], outputs: ["shape"], attributes: { axis: 0 } },
        { op: "ConstantOfShape", inputs: ["shape"], outputs: ["m"] },
        { op: "MatMul", inputs: ["m", "m"], outputs: ["p"] },
        { op: "ReduceMax", inputs: ["p"], outputs: ["y"] },
      ],
    }),
    inputs: [tensorSpec("n", "INT64", [1], { batchAxis: null })],
    outputs: [tensorSpec("y", "FP32", [1, 1], { batchAxis: null })],
    batchSizeMax: 0,
    ...rest,
  });
const loop = (n: number) => {
  const data = new Uint8Array(BigInt64Array.of(BigInt(n)).buffer);
  return fake.infer({ model: "looper", inputs: [{ name: "n", datatype: "INT64", shape: [1], data }] });
};

/** The neighbour's steady load until it is told to end. */
function steady(perS: number): () => Promise<Ended[]> {
  const ends: Promise<Ended>[] = [];
  const timer = setInterval(
    () => ends.push(fake.infer({ model: "neighbour", inputs: [fp32("x", [1, 1], [1])] })),
    1000 / perS,
  );
  return () => {
    clearInterval(timer);
    return Promise.all(ends);
  };
}
const inTime = (ends: readonly Ended[]): number => ends.filter(({ reply }) => reply !== null).length / ends.length;

describe("hostile models", { retry: 2 }, () => {
  test("a request that ends its worker, ten times a second: one worker at a time, twice, and the neighbour is served", async () => {
    await serve([neighbour(), deadly()]);
    expect((await divide(6, 3)).error).toBeNull();
    const end = steady(30);
    const attacks: Promise<Ended>[] = [];
    for (let i = 0; i < 30; i++) {
      attacks.push(divide(-2_147_483_648, -1));
      await sleep(100);
    }
    const [first, ...rest] = await Promise.all(attacks);
    expect(first!.error).toMatchObject({ code: "internal", message: /signal SIG|exit code/ });
    expect(rest.every(({ error }) => error !== null)).toBe(true);
    expect(inTime(await end())).toBeGreaterThanOrEqual(0.98);
    expect(upMin).toBe(1);
    expect(await fake.metric("rubato_worker_exits_total", ['cause="worker-crashed"'])).toBe(2);
  });

  test("half of all requests are refused by the model, not by the graph: the other half is answered", async () => {
    const poisoned = modelSpec({
      name: "poisoned",
      // The index is computed, so nobody reads its bound from the graph.
      file: onnx("poisoned", {
        inputs: [{ name: "n", type: INT64, dims: ["b", 1] }],
        outputs: [{ name: "y", type: FLOAT, dims: ["b", 1] }],
        nodes: [
          { op: "Mul", inputs: ["n", "one"], outputs: ["index"] },
          { op: "Gather", inputs: ["table", "index"], outputs: ["y"] },
        ],
        initializers: [
          { name: "one", dims: [1], ints: [1] },
          { name: "table", dims: [2], floats: [5, 6] },
        ],
      }),
      inputs: [tensorSpec("n", "INT64", [-1, 1])],
      outputs: [tensorSpec("y", "FP32", [-1, 1])],
      sloUs: durationUs(500_000),
      policy: "deferred",
    });
    await serve([poisoned]);
    const ask = (n: number) => {
      const data = new Uint8Array(BigInt64Array.of(BigInt(n)).buffer);
      return fake.infer({ model: "poisoned", inputs: [{ name: "n", datatype: "INT64", shape: [1, 1], data }] });
    };
    const good: Promise<Ended>[] = [];
    const bad: Promise<Ended>[] = [];
    for (let n = 0; n < 40; n++) {
      for (let each = 0; each < 3; each++) {
        good.push(ask(1));
        bad.push(ask(2));
      }
      await sleep(25);
    }
    expect(inTime(await Promise.all(good))).toBeGreaterThanOrEqual(0.9);
    for (const { error } of await Promise.all(bad)) expect(error).not.toBeNull();
    expect((await bad[0])!.error).toMatchObject({ code: "invalid-argument", details: { reason: "invalid-argument" } });
  });

  test("a run that takes longer than was predicted, and computes, ends well; meanwhile the neighbour is served elsewhere", async () => {
    await serve([neighbour(), looper()], { hangFactor: 2, hangFloorMs: 200 });
    const end = steady(30);
    const [slow, second] = await Promise.all([loop(4500), sleep(150).then(() => loop(100))]);
    expect([slow.error, second.error]).toEqual([null, null]);
    expect(slow.afterMs).toBeGreaterThan(500);
    expect(inTime(await end())).toBeGreaterThanOrEqual(0.98);
    expect(upMin).toBe(2);
  });

  test("a load that never ends keeps no worker from being replaced, and says what became of it", async () => {
    await serve([neighbour()], { loadTimeoutMs: 4000, warmUpMs: 50 });
    const endless = looper({ inputs: [tensorSpec("n", "INT64", [1], { batchAxis: null, profileValue: 12_000 })] });
    let hasEnded = false;
    const load = pool.load(endless).finally(() => {
      hasEnded = true;
    });
    load.catch(() => {});
    await sleep(500);
    // Loads go from the first to the last: this worker has nothing to do with it.
    process.kill(pool.pidOf(1), "SIGKILL");
    await expect.poll(() => fake.metric("rubato_accelerator_up"), { timeout: 1000, interval: 5 }).toBe(1);
    await expect.poll(() => fake.metric("rubato_accelerator_up"), { timeout: 8000, interval: 20 }).toBe(2);
    expect(hasEnded).toBe(false);
    await expect(load).rejects.toThrow(/ended \(load of model 'looper' took longer than 4000 ms\)$/);
    await expect.poll(() => pool.isUp(0) && pool.isUp(1), { timeout: 8000, interval: 20 }).toBe(true);
    expect((await fake.infer({ model: "neighbour", inputs: [fp32("x", [1, 1], [1])] })).error).toBeNull();
  });
});
