import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Datatype, elementCount } from "./tensor.js";
import { bytesFromJson, jsonFromBytes } from "./tensor-json.js";

const roundTrip = (datatype: Datatype, data: unknown[], shape = [data.length]): unknown => {
  const bytes = bytesFromJson("input 'x'", datatype, shape, data);
  return JSON.parse(jsonFromBytes({ name: "y", datatype, shape, data: bytes }));
};

describe("tensor-json: data survive both ways (seed 2)", () => {
  const arbitraries: [Datatype, fc.Arbitrary<unknown>][] = [
    ["BOOL", fc.boolean()],
    ["UINT8", fc.integer({ min: 0, max: 255 })],
    ["INT8", fc.integer({ min: -128, max: 127 })],
    ["UINT16", fc.integer({ min: 0, max: 65535 })],
    ["INT16", fc.integer({ min: -32768, max: 32767 })],
    ["UINT32", fc.integer({ min: 0, max: 4294967295 })],
    ["INT32", fc.integer({ min: -2147483648, max: 2147483647 })],
    ["INT64", fc.maxSafeInteger()],
    ["UINT64", fc.maxSafeNat()],
    ["FP32", fc.float({ noNaN: true, noDefaultInfinity: true })],
    ["FP64", fc.double({ noNaN: true, noDefaultInfinity: true })],
    ["BYTES", fc.string({ unit: "grapheme" })],
  ];
  test.each(arbitraries)("%s", (datatype, arbitrary) => {
    fc.assert(
      fc.property(fc.array(arbitrary, { maxLength: 20 }), (data) => {
        expect(roundTrip(datatype, data)).toEqual(data);
      }),
      { seed: 2, numRuns: 100 },
    );
  });
});

test("tensor-json: bytes are little-endian and row-major, nested as flat", () => {
  const nested = bytesFromJson(
    "input 'x'",
    "INT16",
    [2, 2],
    [
      [1, -1],
      [256, 0],
    ],
  );
  expect([...nested]).toEqual([1, 0, 255, 255, 0, 1, 0, 0]);
  expect(bytesFromJson("input 'x'", "INT16", [2, 2], [1, -1, 256, 0])).toEqual(nested);
});

test("tensor-json: 64-bit integers from bigint and decimal strings", () => {
  const bytes = bytesFromJson("input 'x'", "INT64", [3], [9007199254740993n, "-9223372036854775808", -1]);
  expect([...new BigInt64Array(bytes.buffer as ArrayBuffer)]).toEqual([9007199254740993n, -(2n ** 63n), -1n]);
  expect(jsonFromBytes({ name: "y", datatype: "INT64", shape: [3], data: bytes })).toBe(
    "[9007199254740993,-9223372036854775808,-1]",
  );
});

test("tensor-json: a float is judged after it is rounded, and -0 stays", () => {
  expect(roundTrip("FP32", [3.4028235e38, -3.4028235677973362e38, -0])).toEqual([
    3.4028234663852886e38, -3.4028234663852886e38, -0,
  ]);
  expect(roundTrip("FP64", [-0, 0])).toEqual([-0, 0]);
});

test("tensor-json: reads typed data at odd offsets", () => {
  const shifted = new Uint8Array(9).subarray(1);
  shifted.set(new Uint8Array(new Float64Array([2.5]).buffer));
  expect(jsonFromBytes({ name: "y", datatype: "FP64", shape: [1], data: shifted })).toBe("[2.5]");
});

test.each<[Datatype, unknown[], string]>([
  ["UINT8", [256], "[0, 255]"],
  ["INT8", [-129], "[-128, 127]"],
  ["UINT32", [1.5], "[0, 4294967295]"],
  ["INT32", ["1"], 'the string "1"'],
  ["UINT64", [-1], "[0, 18446744073709551615]"],
  ["INT64", ["9223372036854775808"], "9223372036854775807]"],
  ["INT64", [1e300], "1e+300"],
  ["FP32", [1e39], "1e+39"],
  ["FP32", [3.4028235677973366e38], "once rounded"],
  ["FP64", [null], "null"],
  ["BOOL", [2], "true, false, 1 or 0"],
  ["BYTES", [1], "a string"],
  ["BYTES", ["\ud800"], "valid Unicode"],
  ["FP16", [1], "binary data"],
  ["BF16", [1], "binary data"],
])("tensor-json: refuses %s %j", (datatype, data, text) => {
  expect(() => bytesFromJson("input 'x'", datatype, [1], data)).toThrow(text);
  expect(() => bytesFromJson("input 'x'", datatype, [1], data)).toThrow("input 'x'");
});

test.each<[number[], unknown, string]>([
  [[2, 2], [[1, 2], [3]], "2 items at dimension 1"],
  [[2, 2], [[1, 2], 3], "got 3 at dimension 0"],
  [[2], [[1], [2]], "nested 2 deep"],
  [[3], [1, 2], "must have 3 elements for shape [3], got 2"],
  [[1], 1, "must be an array, got 1"],
])("tensor-json: shape %j refuses %j", (shape, data, text) => {
  expect(() => bytesFromJson("input 'x'", "FP32", shape, data)).toThrow(text);
  expect(elementCount(shape)).toBeGreaterThan(0);
});

test("tensor-json: outputs without a JSON form say how to get them", () => {
  const nan = new Uint8Array(new Float32Array([1, Number.NaN]).buffer);
  expect(() => jsonFromBytes({ name: "y", datatype: "FP32", shape: [2], data: nan })).toThrow(
    /element 1 of output 'y' is NaN.*binary_data/,
  );
  const broken = Uint8Array.of(1, 0, 0, 0, 0xff);
  expect(() => jsonFromBytes({ name: "y", datatype: "BYTES", shape: [1], data: broken })).toThrow(
    /not valid UTF-8.*binary_data/,
  );
});
