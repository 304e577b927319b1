import { expect, test } from "vitest";
import { fillProblem } from "./element-range.js";
import { DATATYPES, type Datatype } from "./tensor.js";

const SAFE = Number.MAX_SAFE_INTEGER;
test.each<[Datatype, number[], number[]]>([
  ["BOOL", [0, 1], [-1, 2, 0.5]],
  ["UINT8", [0, 255], [-1, 256, 0.5]],
  ["INT8", [-128, 127], [-129, 128]],
  ["UINT16", [0, 65_535], [-1, 65_536]],
  ["INT16", [-32_768, 32_767], [-32_769, 32_768]],
  ["UINT32", [0, 4_294_967_295], [-1, 4_294_967_296]],
  ["INT32", [-2_147_483_648, 2_147_483_647], [-2_147_483_649, 2_147_483_648, 1e-3]],
  ["UINT64", [0, SAFE], [-1, SAFE + 1]],
  ["INT64", [-SAFE, SAFE], [-SAFE - 1, SAFE + 1, 0.5]],
  ["FP16", [65_504, -65_519, 1e-9], [65_520, -1e5]],
  ["BF16", [3.39e38, -3.39e38, 0.1], [3.4e38]],
  ["FP32", [3.4028235e38, -3.4028235677973362e38, 1e-50], [3.4028235677973366e38, -1e39]],
  ["FP64", [Number.MAX_VALUE, -5e-324], [Number.POSITIVE_INFINITY]],
  ["BYTES", [], [0, 1]],
])("element-range: what %s can hold", (datatype, good, bad) => {
  for (const value of good) expect([value, fillProblem(datatype, value)]).toEqual([value, null]);
  for (const value of bad) expect([value, fillProblem(datatype, value)]).toEqual([value, expect.any(String)]);
});

test("element-range: knows every datatype", () => {
  for (const datatype of Object.keys(DATATYPES) as Datatype[])
    expect([datatype, fillProblem(datatype, 0)]).toEqual([datatype, datatype === "BYTES" ? expect.any(String) : null]);
});
