import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { buildOnnx, type Dim, type OnnxGraph } from "../../test/support/onnx-builder.js";
import { readOnnxHeader } from "./onnx-header.js";
import { hasModel, modelNames, readModel, readRepository } from "./repository.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "rubato-repository-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(file: string, content: string | Buffer): void {
  const full = path.join(root, file);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, content);
}
const value = (name: string, dims: readonly Dim[], type = 1) => ({ name, type, dims });
function graph(inputs: OnnxGraph["inputs"], outputs: OnnxGraph["outputs"]): Buffer {
  return buildOnnx({
    inputs,
    outputs,
    nodes: [{ op: "Identity", inputs: [inputs[0]!.name], outputs: [outputs[0]!.name] }],
    initializers: [{ name: "w", dims: [1000], floats: new Array(1000).fill(1) }],
  });
}
const plain = graph([value("x", ["batch", 3])], [value("y", ["batch", 3])]);

test("a link to nowhere is no model and keeps none from being found", () => {
  put("m/1/model.onnx", plain);
  symlinkSync(path.join(root, "nowhere"), path.join(root, "dangling"));
  symlinkSync(path.join(root, "nowhere"), path.join(root, "m", "2"));
  expect(modelNames(root)).toEqual(["m"]);
  expect(readModel(root, "m").versions).toEqual(["1"]);
});

test("a name is there if it is in the list, whatever else it looks like", () => {
  put("m/1/model.onnx", plain);
  put("emulated/resnet50/rubato.yaml", "");
  put("empty/notes.txt", "");
  put(".hidden/1/model.onnx", plain);
  const names = modelNames(root);
  expect(names).toEqual(["empty", "emulated/resnet50", "m"]);
  for (const name of [...names, "emulated", "emulated/absent", "m/1", ".hidden", "absent", "", "../x", "m/", "a/b/c"])
    expect(hasModel(root, name), name).toBe(names.includes(name));
});

describe("what a model file says is not asked again", () => {
  test("a first dimension shared by all is the batch axis; versions, defaults", () => {
    put("m/1/model.onnx", plain);
    put("m/10/model.onnx", plain);
    put("m/2/model.onnx", plain);
    expect(readModel(root, "m")).toMatchObject({
      name: "m",
      version: "10",
      versions: ["1", "2", "10"],
      platform: "onnx_onnxv1",
      inputs: [{ name: "x", datatype: "FP32", shape: [-1, 3], batchAxis: 0 }],
      outputs: [{ name: "y", datatype: "FP32", shape: [-1, 3], batchAxis: 0 }],
      batchSizeMax: 32,
      sloUs: null,
      policy: "eager",
      group: "cpu",
      defaultTimeoutUs: 10_000_000,
    });
  });

  test("who names no group leaves it to placement where there is one for its kind; memory is the file's size", () => {
    put("m/1/model.onnx", plain);
    put("m/1/model.onnx.data", Buffer.alloc(1_000_000));
    put("e/rubato.yaml", "emulated: {alpha_ms: 1, beta_ms: 2}\nmemory_mb: 40\ndynamic_memory_mb: 2\n");
    put("n/rubato.yaml", "emulated: {alpha_ms: 1, beta_ms: 2}\ngroup: mine\n");
    put("a/rubato.yaml", "emulated: {alpha_ms: 1, beta_ms: 2}\ngroup: auto\n");
    const groups = (options = {}) => readRepository(root, options).models.map(({ name, group }) => [name, group]);
    const named = [["n", "mine"]];
    expect(groups()).toEqual([["a", "auto"], ["e", "emulated"], ["m", "cpu"], ...named]);
    expect(groups({ autoKind: "onnx" })).toEqual([["a", "auto"], ["e", "emulated"], ["m", "auto"], ...named]);
    expect(groups({ autoKind: "emulated" })).toEqual([["a", "auto"], ["e", "auto"], ["m", "cpu"], ...named]);
    expect(readModel(root, "e")).toMatchObject({ memoryMb: 40, dynamicMemoryMb: 2 });
    expect(readModel(root, "n")).toMatchObject({ memoryMb: 0, dynamicMemoryMb: 0 });
    expect(readModel(root, "m").memoryMb).toBeCloseTo(1 + plain.length / 1e6, 9);
  });

  test("the shared dimension may stand elsewhere, and scalars have none", () => {
    const file = graph(
      [value("input", ["batch", "n"]), value("sr", [], 7), value("h", [2, "batch", 64])],
      [value("output", ["batch", 1]), value("hn", [2, "batch", 64])],
    );
    put("vad/1/model.onnx", file);
    const spec = readModel(root, "vad");
    expect(spec.inputs.map((input) => input.batchAxis)).toEqual([0, null, 1]);
    expect(spec.outputs.map((output) => output.batchAxis)).toEqual([0, 1]);
  });

  test("no batching is inferred from lengths, from unshared or from fixed dimensions", () => {
    put("sequence/1/model.onnx", graph([value("x", ["seq_len", 3])], [value("y", ["seq_len", 3])]));
    put("unshared/1/model.onnx", graph([value("x", ["a", 3])], [value("y", ["b", 3])]));
    put("fixed/1/model.onnx", graph([value("x", [1, 3])], [value("y", [1, 3])]));
    for (const name of ["sequence", "unshared", "fixed"]) {
      const spec = readModel(root, name);
      expect([spec.batchSizeMax, spec.inputs[0]!.batchAxis]).toEqual([0, null]);
    }
  });

  test("rubato.yaml declares what cannot be inferred", () => {
    put("m/1/model.onnx", graph([value("x", ["a", "w"])], [value("y", ["b", "v"])]));
    put(
      "m/rubato.yaml",
      "slo_ms: 20\ninputs: { x: { batch_axis: 0, variable_axis: 1, buckets: [8, 16], pad_value: 2 } }\noutputs: { y: { unpad: { axis: 1, of: x, scale: 0.5 } } }\n",
    );
    expect(readModel(root, "m")).toMatchObject({
      sloUs: 20_000,
      policy: "deferred",
      batchSizeMax: 32,
      inputs: [
        {
          batchAxis: 0,
          variable: {
            axis: 1,
            mode: "pad",
            buckets: [8, 16],
            padValue: 2,
            unpad: [{ output: "y", axis: 1, scale: 0.5 }],
          },
        },
      ],
      outputs: [{ batchAxis: 0 }],
    });
  });

  test("batch_fixed opens the dimension that the model fixes", () => {
    put("m/1/model.onnx", graph([value("x", [8, 3])], [value("y", [8, 3])]));
    put("m/rubato.yaml", "batch_fixed: 8\n");
    expect(readModel(root, "m")).toMatchObject({
      batchSizeMax: 8,
      batchSizeFixed: 8,
      inputs: [{ shape: [-1, 3], batchAxis: 0 }],
      outputs: [{ shape: [-1, 3], batchAxis: 0 }],
    });
  });

  test("config.pbtxt: batch size, dims without the batch, version policy; Triton's delays are kept for display", () => {
    put("m/1/model.onnx", graph([value("x", ["N", "n"])], [value("y", ["M", "k"])]));
    put("m/3/model.onnx", plain);
    put(
      "m/config.pbtxt",
      'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [5] } version_policy { specific { versions: 1 } } dynamic_batching { max_queue_delay_microseconds: 100 }',
    );
    expect(readModel(root, "m")).toMatchObject({
      version: "1",
      batchSizeMax: 4,
      inputs: [{ shape: [-1, 5], batchAxis: 0 }],
      outputs: [{ shape: [-1, -1], batchAxis: 0 }],
      parameters: { "dynamic_batching.max_queue_delay_microseconds": "100" },
    });
  });

  test("models in packages and in nested folders; emulated models need no file", () => {
    put(
      "vad/rubato.yaml",
      "model_file: npm:@ricky0123/vad-web/dist/silero_vad_v5.onnx\ninputs: { input: { batch_axis: 0 }, state: { batch_axis: 1 } }\noutputs: { stateN: { batch_axis: 1 } }\n",
    );
    put("emulated/resnet50/rubato.yaml", "slo_ms: 25\nemulated: { alpha_ms: 1.053, beta_ms: 5.072 }\nbatch_max: 64\n");
    const { models, errors } = readRepository(root);
    expect(errors).toEqual([]);
    expect(models.map((model) => model.name)).toEqual(["emulated/resnet50", "vad"]);
    expect(models[0]).toMatchObject({
      platform: "rubato_emulated",
      group: "emulated",
      file: null,
      emulated: { alphaMs: 1.053, betaMs: 5.072, tableMs: null },
      batchSizeMax: 64,
      inputs: [{ name: "INPUT", datatype: "FP32", shape: [-1, 1], batchAxis: 0 }],
    });
    expect(models[1]!.inputs.map((input) => input.batchAxis)).toEqual([0, 1, null]);
  });
});

describe("what is wrong is said, and the others are served", () => {
  const bad: [string, Record<string, string | Buffer>, string | RegExp][] = [
    ["empty folder", { "b/readme.txt": "" }, "b: must hold a version folder such as b/1"],
    ["no model in the version", { "b/1/other.onnx": plain }, "b/1: must hold model.onnx"],
    ["not protobuf", { "b/1/model.onnx": "\x07garbage" }, /model\.onnx is not a protobuf: .*\(at byte 0 of 8\)/],
    ["empty file", { "b/1/model.onnx": "" }, /is not an ONNX model: it has no graph/],
    ["cut short", { "b/1/model.onnx": plain.subarray(0, 60) }, /ends early: a field of \d+ bytes goes beyond byte 60/],
    ["bad yaml key", { "b/1/model.onnx": plain, "b/rubato.yaml": "slow: 1" }, "b/rubato.yaml:1: slow: unknown key"],
    [
      "bad pbtxt",
      { "b/1/model.onnx": plain, "b/config.pbtxt": "input {" },
      "b/config.pbtxt:1:8: expected a field name or '}'",
    ],
    [
      "unknown input",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { z: {} }" },
      "b/rubato.yaml: inputs.z: must be one of x; was z",
    ],
    [
      "contradicted shape",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { x: { shape: [-1, 4] } }" },
      "inputs.x.shape: must fit the model file's [-1,3]; was [-1,4]",
    ],
    [
      "contradicted type",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { x: { datatype: INT8 } }" },
      "inputs.x.datatype: must be FP32 as in the model file; was INT8",
    ],
    [
      "axis beyond the rank",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { x: { batch_axis: 2 } }" },
      "inputs.x.batch_axis: must be below the rank 2; was 2",
    ],
    [
      "axis that is fixed",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { x: { batch_axis: 1 } }" },
      "the model fixes axis 1 to 3",
    ],
    [
      "variable axis that is fixed",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "inputs: { x: { variable_axis: 1 } }" },
      "inputs.x.variable_axis: must be a -1 axis of [-1,3]; was 1",
    ],
    [
      "batch without an axis",
      { "b/1/model.onnx": graph([value("x", [3])], [value("y", [3])]), "b/rubato.yaml": "batch_max: 4" },
      "batch_max: must be 0, since no dimension is shared",
    ],
    [
      "batch_max above batch_fixed",
      {
        "b/1/model.onnx": graph([value("x", [8])], [value("y", [8])]),
        "b/rubato.yaml": "batch_fixed: 8\nbatch_max: 16",
      },
      "batch_max: must be at most batch_fixed 8; was 16",
    ],
    [
      "other runtime",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'platform: "tensorrt_plan"' },
      "platform must be onnxruntime_onnx (backend: onnxruntime); was tensorrt_plan",
    ],
    [
      "type of config.pbtxt",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'input { name: "x" data_type: TYPE_INT8 dims: [-1, 3] }' },
      "inputs.x.data_type: must be FP32 as in the model file; was INT8",
    ],
    [
      "package that is not there",
      { "b/rubato.yaml": "model_file: npm:no-such-package/m.onnx" },
      "b/rubato.yaml: model_file: package no-such-package is not installed",
    ],
    [
      "path out of the package",
      { "b/rubato.yaml": "model_file: npm:onnxruntime-node/../../x.onnx" },
      /model_file: must stay inside .*onnxruntime-node/,
    ],
    ["path out of the repository", { "b/rubato.yaml": "model_file: ../../x.onnx" }, /model_file: must stay inside/],
    [
      "version policy",
      { "b/1/model.onnx": plain, "b/config.pbtxt": "version_policy { specific { versions: 7 } }" },
      "version_policy: must list one of the folders 1; was 7",
    ],
    [
      "unserveable type",
      { "b/1/model.onnx": graph([value("x", ["n"], 14)], [value("y", ["n"], 14)]) },
      /has 'x' of element type 14/,
    ],
  ];
  for (const [what, files, message] of bad)
    test(what, () => {
      put("good/1/model.onnx", plain);
      for (const [file, content] of Object.entries(files)) put(file, content);
      const { models, errors } = readRepository(root);
      expect(models.map((model) => model.name)).toEqual(["good"]);
      expect(errors.map((error) => error.name)).toEqual(["b"]);
      if (typeof message === "string") expect(errors[0]!.message).toContain(message);
      else expect(errors[0]!.message).toMatch(message);
    });

  test("limits: number of models, size of a model", () => {
    put("a/1/model.onnx", plain);
    put("b/1/model.onnx", plain);
    expect(() => readRepository(root, { modelsMax: 1 })).toThrow(/must hold at most 1 models; was 2/);
    expect(readRepository(root, { modelBytesMax: 100 }).errors[0]!.message).toMatch(
      /must be at most 100 bytes; was \d+/,
    );
    expect(() => readRepository(path.join(root, "none"))).toThrow(/none: cannot be read/);
  });

  test("names that are no names are refused before the disk is touched", () => {
    expect(() => readModel(root, "../etc")).toThrow(/model name must be words of letters/);
    expect(() => readModel(root, "a/b/c")).toThrow(/at most one '\/'/);
    expect(() => readModel(root, "absent")).toThrow("model 'absent' is not in the repository");
    put(".hidden/1/model.onnx", plain);
    expect(modelNames(root)).toEqual([]);
  });

  test("any damage to a model file is an error or a header, never anything else", () => {
    const file = path.join(root, "x.onnx");
    fc.assert(
      fc.property(fc.nat({ max: plain.length - 1 }), fc.nat({ max: 255 }), fc.boolean(), (at, byte, cut) => {
        const damaged = Buffer.from(cut ? plain.subarray(0, at) : plain);
        if (!cut) damaged[at] = byte;
        writeFileSync(file, damaged);
        try {
          expect(readOnnxHeader(file).outputs.length).toBeGreaterThan(0);
        } catch (error) {
          expect((error as Error).name).toBe("ServingError");
          expect((error as Error).message).toContain("x.onnx");
        }
      }),
      { numRuns: 500 },
    );
  });
});
