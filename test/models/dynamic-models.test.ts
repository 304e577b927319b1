/** The models whose time lies in their input: counts of what ONNX Runtime ran, and answers. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drawnClasses, EARLY_EXIT, earlyExitModel, near } from "../../src/bench/serving/early-exit-model.js";
import { drawnSteps, LOOP, loopModel } from "../../src/bench/serving/loop-model.js";
import { stream } from "../../src/sim/random.js";
import { ort } from "../../src/worker/onnx/onnx-runtime.js";
import { modelFile } from "./direct-client.js";

const SIZE_MAX = 300_000;

test.each([
  ["early-exit", earlyExitModel],
  ["loop", loopModel],
])("%s: the committed file is what its script writes, and small", (name, make) => {
  const file = readFileSync(modelFile(name));
  expect(file.equals(make())).toBe(true);
  expect(file.length).toBeLessThan(SIZE_MAX);
});

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-dynamic-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Run = (session: InferenceSession) => Promise<unknown>;

/** Multiplications of matrices in one run, by the runtime's own record. */
async function multiplications(model: string, run: Run): Promise<number> {
  const profileFilePrefix = path.join(mkdtempSync(path.join(folder, "run-")), "profile");
  const session = await ort.InferenceSession.create(modelFile(model), { enableProfiling: true, profileFilePrefix });
  await run(session);
  session.endProfiling();
  await session.release();
  const [file] = readdirSync(path.dirname(profileFilePrefix));
  const events: { cat: string; name: string; args?: { op_name?: string } }[] = JSON.parse(
    readFileSync(path.join(path.dirname(profileFilePrefix), file!), "utf8"),
  );
  const isOne = ({ cat, name, args }: (typeof events)[number]): boolean =>
    cat === "Node" && name.endsWith("_kernel_time") && args?.op_name === "MatMul";
  return events.filter(isOne).length;
}

const rowsOf = (tensor: Tensor): number[][] => {
  const [count, width] = tensor.dims as [number, number];
  const values = [...(tensor.data as Float32Array)];
  return Array.from({ length: count }, (_, row) => values.slice(row * width, (row + 1) * width));
};

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  const off = Math.max(...actual.map((value, at) => Math.abs(value - expected[at]!)));
  expect(off).toBeLessThan(1e-5);
}

describe("early-exit", () => {
  const { width, classes, steps, sure } = EARLY_EXIT;
  const drawn = drawnClasses();
  const sureOf = drawn.map(({ centre }) => centre);
  /** Between two classes. */
  const hard = drawn[0]!.centre.map((value, at) => (value + drawn[1]!.centre[at]!) / 2);
  const feed = (rows: readonly Float32Array[]) => ({
    x: new ort.Tensor("float32", Float32Array.from(rows.flatMap((row) => [...row])), [rows.length, width]),
  });
  const largest = (row: readonly number[]): number => row.indexOf(Math.max(...row));

  test("the second stage runs only if some member of the batch needs it, and then for all", async () => {
    const count = (rows: readonly Float32Array[]) =>
      multiplications("early-exit", (session) => session.run(feed(rows)));
    const first = 1;
    const both = first + 2 * steps - 1;
    expect(both).toBeGreaterThan(3 * first);
    expect(await count([sureOf[0]!])).toBe(first);
    expect(await count(sureOf)).toBe(first);
    expect(await count([hard])).toBe(both);
    expect(await count([...sureOf, hard])).toBe(both);
    // What profiles feed is a longest run.
    expect(await count([new Float32Array(width)])).toBe(both);
  });

  test("answers are those of the request alone, and the second stage knows what the first does not", async () => {
    const session = await ort.InferenceSession.create(modelFile("early-exit"));
    const run = async (rows: readonly Float32Array[]) => rowsOf((await session.run(feed(rows))).classes!);
    const random = stream(7, "noise");
    const cases = drawn.flatMap(({ templates }, name) =>
      templates.map((template) => ({ name, x: near(template, 0.6, random) })),
    );
    const nearest = (x: Float32Array): number =>
      largest(drawn.map(({ centre }) => centre.reduce((sum, value, at) => sum + value * x[at]!, 0)));
    const alone: number[][] = [];
    for (const { x } of cases) alone.push((await run([x]))[0]!);
    const together = await run(cases.map(({ x }) => x));
    for (const [at, row] of alone.entries()) {
      expectClose(together[at]!, row);
      expect(row.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 4);
    }
    const right = cases.filter(({ name }, at) => largest(alone[at]!) === name).length;
    const rightByCentre = cases.filter(({ name, x }) => nearest(x) === name).length;
    const noisySure = cases.filter((_, at) => Math.max(...alone[at]!) >= sure).length;
    expect(right).toBe(cases.length);
    expect(rightByCentre).toBeLessThan(cases.length);
    expect(noisySure).toBe(cases.length);
    for (const [name, row] of (await run(sureOf)).entries())
      expect([row.length, largest(row)]).toEqual([classes, name]);
    await session.release();
  });
});

describe("loop", () => {
  const { places, stepsMax } = LOOP;
  const feed = (steps: readonly number[]) => {
    // Each starts at a place of its own.
    const start = new Float32Array(steps.length * places);
    for (let row = 0; row < steps.length; row++) start[row * places + row] = 1;
    return {
      start: new ort.Tensor("float32", start, [steps.length, places]),
      steps: new ort.Tensor("int64", BigInt64Array.from(steps.map(BigInt)), [steps.length, 1]),
    };
  };

  test.each([
    [[1], 1],
    [[3], 3],
    [[100], 100],
    [[1, 7, 2], 7],
    [[0], 0],
    [[-5, 0], 0],
    [[9_000_000_000, 1], stepsMax],
  ])("walks of %j steps take as many turns as the longest, at most 512", async (steps, turns) => {
    expect(await multiplications("loop", (session) => session.run(feed(steps)))).toBe(turns);
  });

  test("who has arrived stays: each ends where it would alone", async () => {
    const session = await ort.InferenceSession.create(modelFile("loop"));
    const steps = [2, 0, 17, 1];
    const ends = rowsOf((await session.run(feed(steps))).end!);
    const graph = drawnSteps();
    for (const [row, end] of ends.entries()) {
      let here: number[] = Array.from({ length: places }, (_, at) => (at === row ? 1 : 0));
      for (let step = 0; step < steps[row]!; step++)
        here = here.map((_, to) => here.reduce((sum, share, from) => sum + share * graph[from * places + to]!, 0));
      expectClose(end, here);
    }
    await session.release();
  });
});
