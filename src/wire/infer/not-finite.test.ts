import { expect, test } from "vitest";
import { ServingError } from "../serving-error.js";
import type { Tensor } from "../tensors/tensor.js";
import { withInputs } from "./not-finite.js";

const floats = (name: string, ...values: number[]): Tensor => ({
  name,
  datatype: "FP32",
  shape: [values.length],
  data: new Uint8Array(Float32Array.from(values).buffer),
});
const error = new ServingError("invalid-argument", "no");
const told = (output: number, ...inputs: Tensor[]): unknown => {
  const told = withInputs(error, [floats("y", 0, output)], inputs);
  return told instanceof ServingError ? told.message : told;
};

test("an output that is not finite: the first input that is not, or the one furthest from 0", () => {
  expect(told(Number.NaN, floats("x", 1), floats("z", 0, Number.NaN))).toBe(
    "no; element 1 of input 'z' is NaN, which leads to it",
  );
  expect(told(Number.NEGATIVE_INFINITY, floats("x", 1, 3), floats("z", 0, -4))).toBe(
    "no; inputs are finite and may lead to it: the furthest from 0 is -4, element 1 of 'z'",
  );
});

test("another error, and inputs that are no floats, say what they said", () => {
  expect(withInputs(error, [floats("y", 1)], [floats("x", Number.NaN)])).toBe(error);
  expect(told(Number.NaN, { ...floats("x", 1), datatype: "INT32" })).toBe("no");
});
