import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { buildOnnx, type Dim, type OnnxGraph } from "../../../test/support/onnx-builder.js";
import { modelMetadata } from "./model-config.js";
import { readModel, readVersions } from "./model-reader.js";
import { readOnnxHeader } from "./onnx-header.js";
import { hasModel, modelNames, readRepository } from "./repository.js";

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
/** A model whose weights lie in another file. */
const external = (location: string): Buffer =>
  buildOnnx({
    inputs: [value("x", ["batch", 3])],
    outputs: [value("y", ["batch", 3])],
    nodes: [{ op: "Add", inputs: ["x", "w"], outputs: ["y"] }],
    initializers: [{ name: "w", dims: [3], location }],
  });
/** The same, within as many branches. */
function branched(location: string, depth: number): Buffer {
  let branch: OnnxGraph = {
    inputs: [],
    outputs: [value("y", ["batch", 3])],
    nodes: [{ op: "Add", inputs: ["x", "w"], outputs: ["y"] }],
    initializers: [{ name: "w", dims: [3], location }],
  };
  for (let level = 1; level < depth; level++) branch = { ...branch, initializers: [], nodes: [choice(branch)] };
  return buildOnnx({
    ...branch,
    inputs: [value("x", ["batch", 3]), value("c", [], 9)],
    nodes: [choice(branch)],
    initializers: [],
  });
}
const choice = (branch: OnnxGraph) => ({
  op: "If",
  inputs: ["c"],
  outputs: ["y"],
  graphs: { then_branch: branch },
});
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
      versions: ["10"],
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
    const model = external("model.onnx.data");
    put("m/1/model.onnx", model);
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
    expect(readModel(root, "m").memoryMb).toBeCloseTo(1 + model.length / 1e6, 9);
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
      policy: "auto",
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

  test("an input with an initializer may be left out; weights are inputs only where they are named", () => {
    const model = buildOnnx({
      inputs: [value("x", ["batch", 3]), value("bias", [3]), value("w", [400])],
      outputs: [value("y", ["batch", 3])],
      nodes: [{ op: "Add", inputs: ["x", "bias"], outputs: ["y"] }],
      initializers: ["bias", "w", "c"]
        .map((name) => ({ name, dims: [3], floats: [1, 2, 3] }))
        .concat([{ name: "w", dims: [400], floats: new Array(400).fill(0) }]),
    });
    put("m/1/model.onnx", model);
    const backed = { optional: true, isBacked: true, batchAxis: null };
    expect(readModel(root, "m")).toMatchObject({
      batchSizeMax: 32,
      inputs: [
        { name: "x", optional: false, batchAxis: 0 },
        { name: "bias", shape: [3], ...backed },
      ],
    });
    put("m/rubato.yaml", "inputs: { w: {} }");
    expect(readModel(root, "m").inputs[2]).toMatchObject({ name: "w", shape: [400], ...backed });
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

describe("versions", () => {
  const big = "9223372036854775807";
  const three = (policy: string): readonly string[] => {
    for (const version of ["2", "10", big, "0", "01", "9223372036854775808", "v3"])
      put(`m/${version}/model.onnx`, plain);
    put("m/config.pbtxt", policy);
    const specs = readVersions(root, "m");
    for (const { versions } of specs) expect(versions).toEqual(specs.map(({ version }) => version));
    expect(specs[0]!.warnings?.filter((text) => text.includes("is no version"))).toEqual(
      ["0", "01", "9223372036854775808", "v3"].map(
        (name) => `m/${name}: is no version: they are 1 to 2^63 - 1, without zeros before`,
      ),
    );
    return specs.map(({ version }) => version);
  };

  test("are numbers up to 2^63 - 1; the greatest alone is served unless the policy says more", () => {
    expect(three("")).toEqual([big]);
    expect(three("version_policy { latest { } }")).toEqual([big]);
  });
  test("the latest, all, or those listed are served, the greatest last", () => {
    expect(three("version_policy { latest { num_versions: 2 } }")).toEqual(["10", big]);
    expect(three("version_policy { latest { num_versions: 9 } }")).toEqual(["2", "10", big]);
    expect(three("version_policy { all { } }")).toEqual(["2", "10", big]);
    expect(three("version_policy { specific { versions: [10, 2] } }")).toEqual(["2", "10"]);
  });
  test("each has the tensors of its own file", () => {
    put("m/1/model.onnx", plain);
    put("m/2/model.onnx", graph([value("a", ["batch", 5])], [value("b", ["batch", 5])]));
    put("m/config.pbtxt", "version_policy { all { } }");
    expect(readVersions(root, "m").map(({ inputs }) => inputs[0]!.name)).toEqual(["x", "a"]);
  });
});

describe("config.pbtxt is obeyed", () => {
  const read = (config: string, yaml = "") => {
    put("m/1/model.onnx", plain);
    put("m/config.pbtxt", config);
    put("m/rubato.yaml", yaml);
    return readModel(root, "m");
  };
  const queue = (policy: string): string => `max_batch_size: 4 dynamic_batching { default_queue_policy { ${policy} } }`;

  test("timeouts and sizes of the queue; what rubato.yaml says has the last word", () => {
    const policy = queue("default_timeout_microseconds: 100000 allow_timeout_override: true max_queue_size: 3");
    expect(read(policy)).toMatchObject({ defaultTimeoutUs: 100_000, timeoutOverride: "shorten", queueRequestsMax: 3 });
    expect(read(queue("default_timeout_microseconds: 100000"))).toMatchObject({ timeoutOverride: "never" });
    expect(read(queue("default_timeout_microseconds: 120000000")).timeoutMaxUs).toBe(120_000_000);
    for (const text of [queue("allow_timeout_override: true"), "max_batch_size: 4"]) {
      expect(read(text)).toMatchObject({ defaultTimeoutUs: 10_000_000, queueRequestsMax: 1000 });
      expect(read(text).timeoutOverride).toBeUndefined();
    }
    for (const yaml of ["slo_ms: 50", "default_timeout_ms: 50"])
      expect(read(policy, yaml).timeoutOverride).toBeUndefined();
    expect(read(policy, "default_timeout_ms: 50").defaultTimeoutUs).toBe(50_000);
    expect(read(policy, "queue: { requests_max: 7 }").queueRequestsMax).toBe(7);
  });

  test("what an entry leaves out is the model file's; only outputs that are listed are served", () => {
    put("m/1/model.onnx", graph([value("x", ["batch", "n"])], [value("y", ["batch", "n"]), value("z", ["other"])]));
    put("m/config.pbtxt", 'max_batch_size: 4 input { name: "x" } output { name: "y" dims: 7 }');
    const spec = readModel(root, "m");
    expect(spec.inputs).toMatchObject([{ name: "x", datatype: "FP32", shape: [-1, -1] }]);
    expect(spec.outputs).toMatchObject([{ name: "y", datatype: "FP32", shape: [-1, 7] }]);
  });

  test("reshape: clients see dims, the model its own shape; open axes keep their order", () => {
    put("m/1/model.onnx", graph([value("x", ["batch", 1, "n", 4])], [value("y", ["batch"])]));
    put(
      "m/config.pbtxt",
      'max_batch_size: 4 input { name: "x" dims: [-1, 2, 2] reshape { shape: [1, -1, 4] } } output { name: "y" dims: 1 reshape { } }',
    );
    const spec = readModel(root, "m");
    expect(spec.inputs).toMatchObject([{ shape: [-1, 1, -1, 4], clientShape: [-1, -1, 2, 2], batchAxis: 0 }]);
    expect(spec.outputs).toMatchObject([{ shape: [-1], clientShape: [-1, 1], batchAxis: 0 }]);
    expect(modelMetadata(spec).inputs[0]!.shape).toEqual([-1, -1, 2, 2]);
  });

  test("why a model does not batch", () => {
    const because = (x: OnnxGraph["inputs"][number]["dims"], yaml = "", config?: string): string | undefined => {
      put("m/1/model.onnx", graph([value("x", x)], [value("y", ["batch", 3])]));
      put("m/rubato.yaml", yaml);
      put("m/config.pbtxt", config ?? "");
      if (config === undefined) rmSync(path.join(root, "m/config.pbtxt"));
      return readModel(root, "m").unbatched;
    };
    expect(because(["batch", 3])).toBeUndefined();
    expect(because(["batch", 3], "batch_max: 0")).toBe("batch_max is 0");
    expect(because(["batch", 3], "", "")).toBe("config.pbtxt has no max_batch_size");
    expect(because([3])).toBe("the first axis of input 'x' is fixed to 3");
    expect(because([""])).toBe("the first axis of input 'x' has no name to share");
    expect(because(["seq_len"])).toBe("'seq_len', the first axis of input 'x', names a length");
    expect(because(["N"])).toBe("'N', the first axis of input 'x', is not once in every input and output");
    expect(because([])).toBe("no input has an axis that is known");
  });
});

describe("no link leads out of the repository", () => {
  const outside = (files: Record<string, string>, target: string | Buffer): string => {
    const elsewhere = mkdtempSync(path.join(tmpdir(), "rubato-elsewhere-"));
    writeFileSync(path.join(elsewhere, "secret"), target);
    try {
      for (const [link, to] of Object.entries(files)) {
        mkdirSync(path.dirname(path.join(root, link)), { recursive: true });
        symlinkSync(to.replace("ELSEWHERE", elsewhere), path.join(root, link));
      }
      return readRepository(root)
        .errors.map(({ message }) => message)
        .join();
    } finally {
      rmSync(elsewhere, { recursive: true });
    }
  };
  test("a model, its folder, its weights, its configuration", () => {
    expect(outside({ "b/1/model.onnx": "ELSEWHERE/secret" }, plain)).toContain("must stay inside");
  });
  test("a version's folder", () => {
    expect(outside({ "b/1": "ELSEWHERE" }, plain)).toContain(
      "b/config.pbtxt: default_model_filename: must stay inside",
    );
  });
  test("weights", () => {
    put("b/1/model.onnx", external("w.bin"));
    expect(outside({ "b/1/w.bin": "ELSEWHERE/secret" }, "x")).toContain("weights of model.onnx: must stay inside");
  });
  test("configurations", () => {
    put("b/1/model.onnx", plain);
    expect(outside({ "b/rubato.yaml": "ELSEWHERE/secret" }, "slow: 1")).toMatch(/^b\/rubato\.yaml: must stay inside/);
    expect(outside({ "b/config.pbtxt": "ELSEWHERE/secret" }, "slow: 1")).toMatch(/b\/config\.pbtxt: must stay inside/);
  });
  test("links inside are followed", () => {
    put("a/1/model.onnx", plain);
    mkdirSync(path.join(root, "b", "1"), { recursive: true });
    symlinkSync("../../a/1/model.onnx", path.join(root, "b/1/model.onnx"));
    expect(readRepository(root)).toMatchObject({ errors: [], models: [{ name: "a" }, { name: "b" }] });
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
      "b/config.pbtxt: version_policy.specific.versions must be of the folders 1; was 7",
    ],
    [
      "a version of policy that is not there, beside one that is",
      {
        "b/1/model.onnx": plain,
        "b/config.pbtxt": "version_policy { specific { versions: [1, 9223372036854775807] } }",
      },
      "b/config.pbtxt: version_policy.specific.versions must be of the folders 1; was 9223372036854775807",
    ],
    [
      "more versions at once than can be",
      Object.fromEntries([
        ...Array.from({ length: 65 }, (_, i) => [`b/${i + 1}/model.onnx`, plain]),
        ["b/config.pbtxt", "version_policy { all { } }"],
      ]),
      "b/config.pbtxt: version_policy must choose at most 64 versions at once; was 65",
    ],
    [
      "one of two versions is broken",
      { "b/1/model.onnx": "", "b/2/model.onnx": plain, "b/config.pbtxt": "version_policy { all { } }" },
      /b\/1\/model\.onnx is not an ONNX model/,
    ],
    [
      "numbers that are no versions",
      { "b/007/model.onnx": plain },
      /^b: must hold a version folder .*; was 007, and versions are 1 to 2\^63 - 1, without zeros before$/,
    ],
    [
      "beyond 2^63 - 1",
      { "b/9223372036854775808/model.onnx": plain },
      /^b: must hold a version folder .*; was 9223372036854775808, and versions are/,
    ],
    [
      "a version with a letter",
      { "b/v1/model.onnx": plain },
      /^b: must hold a version folder .*; was v1, and versions/,
    ],
    [
      "a pointer of Git LFS",
      { "b/1/model.onnx": "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n" },
      /b\/1\/model\.onnx is where Git LFS keeps the model, and not the model: fetch it with `git lfs pull`/,
    ],
    [
      "a model without a version",
      { "b/net.onnx": plain },
      /^b: must hold a version folder .*; was none, but b\/net\.onnx: move it to b\/1\/model\.onnx$/,
    ],
    [
      "rubato.yml",
      { "b/1/model.onnx": plain, "b/rubato.yml": "slo_ms: 100" },
      /^b\/rubato\.yml: must be named rubato\.yaml; it is not read$/,
    ],
    [
      "both names",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "", "b/rubato.json": "{}" },
      /^b\/rubato\.json: must be named rubato\.yaml; it is not read$/,
    ],
    [
      "config.pbtx",
      { "b/1/model.onnx": plain, "b/config.pbtx": "" },
      /^b\/config\.pbtx: must be named config\.pbtxt; it is not read$/,
    ],
    [
      "both files are wrong",
      { "b/1/model.onnx": plain, "b/rubato.yaml": "slow: 1", "b/config.pbtxt": "max_batchsize: 1" },
      /^b\/rubato\.yaml:1: slow: unknown key.*\nb\/config\.pbtxt:1:1: max_batchsize is no field/,
    ],
    [
      "another model's name",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'name: "other"' },
      "b/config.pbtxt: name must be that of its folder, b; was other",
    ],
    [
      "weights that are not there",
      { "b/1/model.onnx": external("w.bin") },
      "b/1: weights of model.onnx: must lie beside it; missing are w.bin",
    ],
    [
      "weights that are a folder",
      { "b/1/model.onnx": external("w"), "b/1/w/x": "" },
      "b/1: weights of model.onnx: must lie beside it; missing are w",
    ],
    [
      "weights elsewhere on the machine",
      { "b/1/model.onnx": external("../../../etc/passwd") },
      /b\/1: weights of model\.onnx: must stay inside .*; was \.\.\/\.\.\/\.\.\/etc\/passwd/,
    ],
    [
      "weights of a branch elsewhere on the machine",
      { "b/1/model.onnx": branched("../../../etc/passwd", 2) },
      /b\/1: weights of model\.onnx: must stay inside .*; was \.\.\/\.\.\/\.\.\/etc\/passwd/,
    ],
    [
      "branches without end",
      { "b/1/model.onnx": branched("w", 40) },
      /model\.onnx has graphs within graphs, more than 32 deep \(at byte \d+/,
    ],
    [
      "weights by absolute path",
      { "b/1/model.onnx": external("/etc/passwd") },
      /b\/1: weights of model\.onnx: must stay inside .*; was \/etc\/passwd/,
    ],
    [
      "file name out of the version",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'default_model_filename: "../../good/1/model.onnx"' },
      "b/config.pbtxt: default_model_filename: must stay inside the version's folder; was ../../good/1/model.onnx",
    ],
    [
      "absolute file name",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'default_model_filename: "/etc/passwd"' },
      "b/config.pbtxt: default_model_filename: must stay inside the version's folder; was /etc/passwd",
    ],
    [
      "reshape of another number of axes than the model's",
      {
        "b/1/model.onnx": plain,
        "b/config.pbtxt": 'max_batch_size: 4 input { name: "x" dims: 3 reshape { shape: [1, 3] } }',
      },
      "inputs.x.reshape.shape: must fit the model file's [-1,3]; was [-1,1,3]",
    ],
    [
      "output that is none",
      { "b/1/model.onnx": plain, "b/config.pbtxt": 'output { name: "z" }' },
      "b/config.pbtxt: output.z: must be one of y; was z",
    ],
    [
      "sequences",
      { "b/1/model.onnx": plain, "b/config.pbtxt": "sequence_batching { }" },
      "b/config.pbtxt: sequence_batching: is not offered: state between requests is not kept here",
    ],
    [
      "no inputs",
      { "b/1/model.onnx": buildOnnx({ inputs: [], outputs: [value("y", [1])], nodes: [] }) },
      "b/rubato.yaml: inputs: must be at least one, since a request holds some; the model file has none",
    ],
    [
      "optional of an unknown shape",
      {
        "b/1/model.onnx": graph([value("x", ["batch", "n"])], [value("y", ["batch", "n"])]),
        "b/config.pbtxt": 'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [-1] optional: true }',
      },
      "b/config.pbtxt: inputs.x.optional: must have a known shape besides the batch, since it is all 0 when left out; was [-1,-1]",
    ],
    ...(
      [
        [
          "pad_value: 1.5",
          7,
          "must be a whole number in [-9007199254740991, 9007199254740991] for datatype INT64; was 1.5",
        ],
        ["profile_value: 300", 2, "must be a whole number in [0, 255] for datatype UINT8; was 300"],
        ["profile_value: 2", 9, "must be 0 or 1 for datatype BOOL; was 2"],
        ["pad_value: -1.0e39", 1, "must be a number of magnitude below 3.4028235677973366e+38 for datatype FP32"],
        ["profile_value: 1", 8, "must be absent for datatype BYTES, whose elements are texts; was 1"],
      ] as const
    ).map(([fill, type, text]): (typeof bad)[number] => [
      `${fill} for element type ${type}`,
      {
        "b/1/model.onnx": graph([value("x", ["batch", "n"], type)], [value("y", ["batch", "n"], type)]),
        "b/rubato.yaml": `inputs: { x: { variable_axis: 1, buckets: [8], ${fill} } }`,
      },
      `b/rubato.yaml: inputs.x.${fill.split(":")[0]}: ${text}`,
    ]),
    [
      "unserveable type",
      { "b/1/model.onnx": graph([value("x", ["n"], 14)], [value("y", ["n"], 14)]) },
      /has 'x' of element type COMPLEX64, which the protocol cannot carry/,
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
    expect(() => readRepository(path.join(root, "none"))).toThrow(/none: no such folder$/);
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
