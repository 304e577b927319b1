import { describe, expect, it } from "vitest";
import type { ErrorCode } from "../../wire/serving-error.js";
import { runtimeError } from "./runtime-error.js";

describe("what the runtime's text says about whose fault it is", () => {
  it.each<[string, ErrorCode]>([
    ["INVALID_ARGUMENT : Got invalid dimensions for input: x for the following indices", "invalid-argument"],
    [
      "indices element out of data bounds, idx=99999 must be within the inclusive range [-30522,30521]",
      "invalid-argument",
    ],
    ["Unexpected input data type. Actual: (tensor(float)) , expected: (tensor(int64))", "invalid-argument"],
    ["Failed to allocate memory for requested buffer of size 1073741824", "internal"],
    ["CUDA failure 700: an illegal memory access was encountered", "internal"],
  ])("%s: %s", (text, code) => expect(runtimeError(new Error(text)).code).toBe(code));
});
