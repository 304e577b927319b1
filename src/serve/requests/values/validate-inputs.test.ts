import { expect, test } from "vitest";
import { MODELS } from "../../../../test/fakes/fake-gateway.js";
import type { ModelSpec } from "../../../config/model.js";
import type { Tensor } from "../../../wire/tensors/tensor.js";
import { validateInputs, validateOutputs } from "./validate-inputs.js";

const spec = (name: string): ModelSpec => MODELS.find((model) => model.name === name)!;
const fp32 = (name: string, shape: number[], bytes = 4 * shape.reduce((a, b) => a * b, 1)): Tensor => ({
  name,
  datatype: "FP32",
  shape,
  data: new Uint8Array(bytes),
});

test("validate-inputs: accepts what fits and tells the batch", () => {
  expect(validateInputs(spec("echo"), [fp32("x", [3, 4])])).toBe(3);
  expect(validateInputs(spec("sum"), [fp32("b", [2, 2]), fp32("a", [2, 2])])).toBe(2);
  expect(validateInputs(spec("identity_FP32"), [fp32("x", [0])])).toBe(1);
});

test.each<[string, Tensor[], string]>([
  ["echo", [], "missing input 'x' for model 'echo': expected ['x'], got []"],
  ["sum", [fp32("a", [1, 2])], "missing input 'b' for model 'sum': expected ['a', 'b'], got ['a']"],
  ["echo", [fp32("z", [1, 4])], "unexpected inference input 'z' for model 'echo': expected ['x']"],
  ["echo", [fp32("x", [1, 4]), fp32("x", [1, 4])], "input 'x' for model 'echo' must be given once, got it again"],
  ["echo", [fp32("x", [1, 5])], "unexpected shape for input 'x' for model 'echo'. Expected [-1,4], got [1,5]"],
  ["echo", [fp32("x", [4])], "Expected [-1,4], got [4]"],
  ["echo", [fp32("x", [9, 4])], "inference request batch-size must be <= 8 for 'echo' and at least 1, got 9"],
  ["echo", [fp32("x", [0, 4])], "at least 1, got 0 in input 'x'"],
  ["echo", [fp32("x", [1, 4], 15)], "must have 16 bytes, got 15"],
  ["echo", [{ ...fp32("x", [1, 4]), datatype: "INT32" }], "data-type is 'INT32', but model 'echo' expects 'FP32'"],
  ["sum", [fp32("a", [1, 2]), fp32("b", [2, 2])], "same batch-size: 'a' has 1, 'b' has 2"],
])("validate-inputs: %s refuses %#", (model, tensors, text) => {
  expect(() => validateInputs(spec(model), tensors)).toThrow(text);
});

test("validate-inputs: an optional input may be missing, a padded axis has an end", () => {
  const echo = spec("echo");
  const optional: ModelSpec = { ...echo, inputs: [{ ...echo.inputs[0]!, optional: true }] };
  expect(validateInputs(optional, [])).toBe(1);
  const identity = spec("identity_FP32");
  const variable = { axis: 0, mode: "pad", buckets: [4, 8], padValue: 0, unpad: [] } as const;
  const padded: ModelSpec = { ...identity, inputs: [{ ...identity.inputs[0]!, variable }] };
  expect(validateInputs(padded, [fp32("x", [8])])).toBe(1);
  expect(() => validateInputs(padded, [fp32("x", [9])])).toThrow("dimension 0 must be at most 8, got 9");
});

test("validate-outputs: names what the model has", () => {
  validateOutputs(spec("sum"), ["difference"]);
  expect(() => validateOutputs(spec("sum"), ["product"])).toThrow(
    "unexpected inference output 'product' for model 'sum': expected ['sum', 'difference']",
  );
});
