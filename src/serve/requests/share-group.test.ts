import { describe, expect, test } from "vitest";
import { fp32, int64, modelSpec, padded, tensorSpec } from "../../../test/support/specs.js";
import { shareGroup } from "./share-group.js";

const ids = (length: number, rows = 1) => int64("ids", [rows, length], new Array(rows * length).fill(1));
const text = modelSpec({
  name: "text",
  inputs: [
    tensorSpec("ids", "INT64", [-1, -1], { variable: padded(1, [16, 32, 64]) }),
    tensorSpec("mask", "INT64", [-1, -1], { variable: padded(1, [16, 32, 64]), optional: true, mask: true }),
  ],
});
const vad = modelSpec({
  name: "vad",
  inputs: [tensorSpec("x", "FP32", [-1, -1]), tensorSpec("rate", "INT64", [], { batchAxis: null })],
});

describe("share group", () => {
  test("lengths of one bucket share, lengths of two do not", () => {
    expect(shareGroup(text, [ids(3)])).toEqual(shareGroup(text, [ids(16)]));
    expect(shareGroup(text, [ids(16)]).key).not.toBe(shareGroup(text, [ids(17)]).key);
    expect(shareGroup(text, [ids(17)]).extent).toBe(32);
  });

  test("where sizes are together lengths of any bucket share, and what each runs with alone is told", () => {
    const [short, long] = [ids(3), ids(64)].map((tensor) => shareGroup(text, [tensor], new Map(), true));
    expect(short!.key).toBe(long!.key);
    expect([short!.extent, long!.extent]).toEqual([16, 64]);
    expect(() => shareGroup(text, [ids(65)], new Map(), true)).toThrow("at most 64; was 65");
  });

  test("a mask given and a mask left out share; a mask of another length is refused", () => {
    const mask = int64("mask", [1, 3], [1, 1, 0]);
    expect(shareGroup(text, [ids(3), mask]).key).toBe(shareGroup(text, [ids(3)]).key);
    expect(() => shareGroup(text, [ids(4), mask])).toThrow(
      "mask 'mask' axis 1 must have extent 4, as what it masks; was 3",
    );
  });

  test("longer than the last bucket is refused, naming bound and value", () => {
    expect(() => shareGroup(text, [ids(65)])).toThrow("input 'ids' axis 1: extent must be at most 64; was 65");
  });

  test("rows that differ between inputs are refused before they spoil a batch", () => {
    const mask = int64("mask", [2, 3], [1, 1, 0, 1, 1, 1]);
    expect(() => shareGroup(text, [ids(3), mask])).toThrow("input 'mask' must have 1 rows on axis 0; was 2");
    expect(() => shareGroup(text, [ids(3, 0)])).toThrow("must have at least 1 rows on axis 0; was 0");
    expect(() => shareGroup(text, [int64("ids", [3], [1, 2, 3])])).toThrow(
      "input 'ids' must have 2 axes; shape is [3]",
    );
  });

  test("bytes that do not fit the shape are refused", () => {
    expect(() => shareGroup(text, [{ ...ids(3), shape: [1, 4] }])).toThrow(
      "tensor 'ids' of shape [1,4] and datatype INT64 must have 32 bytes; has 24",
    );
  });

  test("without padding only equal extents share", () => {
    const frame = (n: number) => [fp32("x", [1, n], new Array(n).fill(0)), int64("rate", [], [16_000])];
    expect(shareGroup(vad, frame(512)).key).toBe(shareGroup(vad, frame(512)).key);
    expect(shareGroup(vad, frame(512)).key).not.toBe(shareGroup(vad, frame(513)).key);
    const equal = modelSpec({
      name: "equal",
      inputs: [tensorSpec("x", "FP32", [-1, -1], { variable: { ...padded(1, []), mode: "equal" } })],
    });
    expect(shareGroup(equal, [fp32("x", [1, 5], [1, 2, 3, 4, 5])])).toEqual({ key: "5,", extent: 5 });
  });

  test("who leaves an input out and who gives it do not share, nor do different values of it", () => {
    const optional = { optional: true } as const;
    const spec = modelSpec({
      name: "o",
      inputs: [
        tensorSpec("x", "FP32", [-1, 1]),
        tensorSpec("z", "FP32", [-1, 1], optional),
        tensorSpec("bias", "FP32", [1], { ...optional, isBacked: true, batchAxis: null }),
      ],
    });
    const x = fp32("x", [1, 1], [0]);
    const z = fp32("z", [1, 1], [0]);
    const bias = (value: number) => fp32("bias", [1], [value]);
    const keys = [[x], [x, z], [x, bias(1)], [x, bias(2)], [x, z, bias(1)]].map((t) => shareGroup(spec, t).key);
    expect(new Set(keys).size).toBe(5);
    expect(shareGroup(spec, [x, bias(1)]).key).toBe(keys[2]);
  });

  test("different values without a batch axis never share, short or long", () => {
    const frame = (rate: number) => [fp32("x", [1, 1], [0]), int64("rate", [], [rate])];
    expect(shareGroup(vad, frame(8000)).key).not.toBe(shareGroup(vad, frame(16_000)).key);
    const table = modelSpec({
      name: "t",
      inputs: [tensorSpec("x", "FP32", [-1, 1]), tensorSpec("w", "FP32", [100], { batchAxis: null })],
    });
    const member = (last: number) => [fp32("x", [1, 1], [0]), fp32("w", [100], [...new Array(99).fill(1), last])];
    expect(shareGroup(table, member(1)).key).toBe(shareGroup(table, member(1)).key);
    expect(shareGroup(table, member(1)).key).not.toBe(shareGroup(table, member(2)).key);
  });
});
