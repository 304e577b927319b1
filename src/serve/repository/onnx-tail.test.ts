import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { buildOnnx, type Dim, type OnnxGraph } from "../../../test/support/onnx-builder.js";
import { readModel } from "./model-reader.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "rubato-tail-"));
  mkdirSync(path.join(root, "m", "1"), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const value = (name: string, dims: readonly Dim[], type = 1) => ({ name, type, dims });
const put = (file: string, content: string | Buffer): void => writeFileSync(path.join(root, "m", file), content);
const MODEL: OnnxGraph = {
  inputs: [value("x", ["batch", 3])],
  outputs: [value("y", ["batch", 3]), value("z", ["batch"])],
  nodes: [
    { op: "Identity", inputs: ["x"], outputs: ["y"] },
    { op: "ReduceMax", inputs: ["x"], outputs: ["z"], attributes: { axes: [1], keepdims: 0 } },
  ],
};
const TAIL: OnnxGraph = {
  inputs: [value("y", ["rows", 3])],
  outputs: [value("best", ["rows"], 7)],
  nodes: [{ op: "ArgMax", inputs: ["y"], outputs: ["best"], attributes: { axis: 1, keepdims: 0 } }],
};
function read(tail: Partial<OnnxGraph>, settings = "") {
  put("1/model.onnx", buildOnnx(MODEL));
  put("tail.onnx", buildOnnx({ ...TAIL, ...tail }));
  put("rubato.yaml", `tail_file: tail.onnx\n${settings}`);
  return readModel(root, "m");
}

describe("a tail", () => {
  test("gives its outputs in place of those that it takes, and counts in the model's memory", () => {
    const model = read({}, "outputs: { best: { batch_axis: 0 } }");
    expect(model.outputs).toMatchObject([
      { name: "z", datatype: "FP32" },
      { name: "best", datatype: "INT64", batchAxis: 0 },
    ]);
    expect(model.inputs.map(({ name }) => name)).toEqual(["x"]);
    expect(model).toMatchObject({ tailFile: path.join(root, "m", "tail.onnx"), batchSizeMax: 32 });
    expect(model.memoryMb! * 1e6).toBe(buildOnnx(MODEL).length + buildOnnx(TAIL).length);
  });

  test.each([
    ["another operator set", { opset: 13 }, "tail_file: must be of the model's operator set 17; is of 13"],
    [
      "what the model does not give",
      { inputs: [value("q", [1])] },
      "tail_file: input 'q' must be an output of the model: y, z",
    ],
    [
      "another datatype",
      { inputs: [value("y", ["rows", 3], 7)] },
      "tail_file: input 'y' must be FP32 [-1,3], as the model gives it; is INT64 [-1,3]",
    ],
    [
      "another rank",
      { inputs: [value("y", ["rows"])] },
      "tail_file: input 'y' must be FP32 [-1,3], as the model gives it; is FP32 [-1]",
    ],
    [
      "another extent",
      { inputs: [value("y", ["rows", 4])] },
      "tail_file: input 'y' must be FP32 [-1,3], as the model gives it; is FP32 [-1,4]",
    ],
    [
      "an output's name again",
      { outputs: [value("z", ["rows"], 7)] },
      "tail_file: output 'z' must have another name: the model gives one of that name",
    ],
    [
      "weights in a file of their own",
      { initializers: [{ name: "w", dims: [3], location: "../1/model.onnx" }] },
      "tail_file: must be absent where weights lie in files of their own; there is ../1/model.onnx",
    ],
  ])("is refused: %s", (_, tail, why) => {
    expect(() => read(tail)).toThrow(why);
  });

  test("must be there, inside the repository, and of a model that runs", () => {
    put("1/model.onnx", buildOnnx(MODEL));
    put("rubato.yaml", "tail_file: gone.onnx");
    expect(() => readModel(root, "m")).toThrow("rubato.yaml: tail_file: no such file; was gone.onnx");
    put("rubato.yaml", "tail_file: ../../elsewhere.onnx");
    expect(() => readModel(root, "m")).toThrow("tail_file: must stay inside");
    put("rubato.yaml", "tail_file: tail.onnx\nemulated: { alpha_ms: 1, beta_ms: 1 }");
    expect(() => readModel(root, "m")).toThrow("tail_file: must be absent where the model is emulated; was tail.onnx");
    put("rubato.yaml", "tail_file: 1/model.onnx");
    expect(() => readModel(root, "m")).toThrow("input 'x' must be an output of the model");
  });
});
