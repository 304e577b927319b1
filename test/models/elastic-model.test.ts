/** The elastic vision transformer: a small one of the same architecture, its graph against plain loops. */
import type { InferenceSession } from "onnxruntime-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { elasticModel, NO_CLASS } from "../../src/bench/serving/elastic/elastic-graph.js";
import { type ElasticTask, elasticReference } from "../../src/bench/serving/elastic/elastic-reference.js";
import {
  drawnWeights,
  type ElasticGeometry,
  sizeOf,
  tokensOf,
  weightShapes,
  weightsFrom,
  weightsInModel,
} from "../../src/bench/serving/elastic/elastic-weights.js";
import { normalOf, stream } from "../../src/sim/random.js";
import { ort } from "../../src/worker/onnx/onnx-runtime.js";

const SMALL: ElasticGeometry = { side: 16, width: 16, heads: 2, layers: 4, stem: [4, 8] };
const CLASSES = [3, 5];
const COLUMNS = 5;
const weights = drawnWeights(SMALL);
const model = elasticModel(SMALL, weights);

const drawn = (name: string, count: number, deviation = 1): Float32Array => {
  const random = stream(3, name);
  return Float32Array.from({ length: count }, () => deviation * normalOf(random(), random()));
};
const tasks: ElasticTask[] = CLASSES.map((classes, at) => ({
  head: drawn(`head${at}`, SMALL.width * COLUMNS),
  bias: drawn(`bias${at}`, COLUMNS),
  classes,
}));
const images = Array.from({ length: 6 }, (_, at) => {
  const random = stream(5, `image${at}`);
  return Float32Array.from({ length: SMALL.side ** 2 }, () => random());
});
/** Of the images, mixed. */
const taskOf = [0, 1, 1, 0, 1, 0];
const promptsOf = (task: number, count: number): Float32Array =>
  drawn(`prompts${task}/${count}`, SMALL.layers * count * SMALL.width);

let session: InferenceSession;
beforeAll(async () => {
  session = await ort.InferenceSession.create(model);
});
afterAll(() => session.release());

const concat = (parts: readonly Float32Array[]): Float32Array => Float32Array.from(parts.flatMap((part) => [...part]));
const int64 = (values: readonly number[]) =>
  new ort.Tensor("int64", BigInt64Array.from(values.map(BigInt)), [values.length]);

/** Rows of logits, and confidences. */
async function run(members: readonly number[], gamma: number, r = Math.max(0, -gamma)) {
  const { width, layers, side } = SMALL;
  const count = Math.max(0, gamma);
  const both = CLASSES.map((_, at) => at);
  const { logits, confidence } = await session.run({
    image: new ort.Tensor("float32", concat(members.map((at) => images[at]!)), [members.length, 1, side, side]),
    task: int64(members.map((at) => taskOf[at]!)),
    r: int64([r]),
    prompts: new ort.Tensor("float32", concat(both.map((at) => promptsOf(at, count))), [2, layers, count, width]),
    heads: new ort.Tensor("float32", concat(tasks.map(({ head }) => head)), [2, width, COLUMNS]),
    biases: new ort.Tensor("float32", concat(tasks.map(({ bias }) => bias)), [2, COLUMNS]),
    classes: int64(CLASSES),
  });
  const values = logits!.data as Float32Array;
  return {
    rows: members.map((_, row) => values.slice(row * COLUMNS, (row + 1) * COLUMNS)),
    confidence: [...(confidence!.data as Float32Array)],
  };
}

const reference = (at: number, gamma: number): Float64Array =>
  elasticReference(SMALL, weights, images[at]!, tasks[taskOf[at]!]!, {
    r: Math.max(0, -gamma),
    ...(gamma > 0 ? { prompts: promptsOf(taskOf[at]!, gamma) } : {}),
  });

const farthest = (one: ArrayLike<number>, other: ArrayLike<number>): number =>
  Math.max(...Array.from(one, (value, at) => Math.abs(value - other[at]!)));

describe("graph and plain loops", () => {
  // 17 tokens: at -9 and past it, nothing is left to merge from the second layer on but what the clamp leaves.
  test.each([-40, -9, -8, -5, -3, -1, 0, 1, 2, 6])("agree at gamma %i, in a batch that mixes tasks", async (gamma) => {
    const { rows } = await run([0, 1, 2, 3, 4, 5], gamma);
    for (const [at, row] of rows.entries()) expect(farthest(row, reference(at, gamma))).toBeLessThan(1e-4);
  });

  test("every gamma is another computation", async () => {
    const gammas = [-5, -3, -1, 0, 1, 2, 6];
    const first = await Promise.all(gammas.map(async (gamma) => (await run([1], gamma)).rows[0]!));
    for (const [at, row] of first.entries())
      for (const other of first.slice(at + 1)) expect(farthest(row, other)).toBeGreaterThan(1e-3);
  });
});

describe("a batch", () => {
  test.each([-8, -3, 0, 4])("that mixes tasks answers as one by one at gamma %i", async (gamma) => {
    const together = await run([0, 1, 2, 3, 4, 5], gamma);
    for (const at of images.keys()) {
      const alone = await run([at], gamma);
      expect(farthest(together.rows[at]!, alone.rows[0]!)).toBeLessThan(1e-5);
      expect(together.confidence[at]).toBeCloseTo(alone.confidence[0]!, 5);
    }
  });

  test("has only its own task's classes, and the confidence of the likeliest", async () => {
    const { rows, confidence } = await run([0, 1], 0);
    expect([...rows[0]!.subarray(3)]).toEqual([NO_CLASS, NO_CLASS]);
    expect(Math.min(...rows[1]!)).toBeGreaterThan(NO_CLASS);
    for (const [at, row] of rows.entries()) {
      const top = Math.max(...row);
      const total = row.reduce((sum, logit) => sum + Math.exp(logit - top), 0);
      expect(confidence[at]).toBeCloseTo(1 / total, 5);
    }
  });

  test("with prompts merges nothing, and a negative r is none", async () => {
    const prompted = await run([0, 1], 2);
    expect(await run([0, 1], 2, 5)).toEqual(prompted);
    expect(await run([0, 1], 0, -3)).toEqual(await run([0, 1], 0));
  });

  test("of a task that is not there fails", async () => {
    const kept = taskOf[0]!;
    taskOf[0] = 2;
    await expect(run([0], 0)).rejects.toThrow(/indices element out of data bounds/);
    taskOf[0] = kept;
  });
});

describe("weights", () => {
  test("come back from the model's file as they went in", () => {
    const back = weightsInModel(model, SMALL);
    expect([...back]).toEqual([...weights]);
    expect(() => weightsInModel(model, { ...SMALL, layers: 5 })).toThrow(
      /initializer layer4.norm1.scale: must be 64 bytes; was missing/,
    );
  });

  test("are read in the order of their names, and only if all are there", () => {
    const file = Buffer.concat([...weights.values()].map((values) => Buffer.from(values.buffer)));
    expect([...weightsFrom(file, SMALL)]).toEqual([...weights]);
    const bytes = 4 * weightShapes(SMALL).reduce((total, [, dims]) => total + sizeOf(dims), 0);
    expect(() => weightsFrom(file.subarray(4), SMALL)).toThrow(`weights: must be ${bytes} bytes; was ${bytes - 4}`);
  });

  test("count a token for the class and one for 4 x 4 pixels", () => {
    expect(tokensOf(SMALL)).toBe(17);
    expect(tokensOf({ ...SMALL, side: 32 })).toBe(65);
  });
});
