import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { buildOnnx, type OnnxGraph, type OnnxNode } from "../../../test/support/onnx-builder.js";
import { type OnnxHeader, readOnnxHeader } from "./onnx-header.js";

const folder = mkdtempSync(path.join(tmpdir(), "rubato-header-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function header(graph: Partial<OnnxGraph>): OnnxHeader {
  const file = path.join(folder, "model.onnx");
  const outputs = [{ name: "y", type: 1, dims: ["batch"] }];
  writeFileSync(file, buildOnnx({ inputs: [], outputs, nodes: [], ...graph }));
  return readOnnxHeader(file);
}

describe("the range of an index input", () => {
  const ids = { name: "ids", type: 7, dims: ["batch", "n"] };
  const table = (name: string, rows: number, columns: number) => ({
    name,
    dims: [rows, columns],
    floats: new Array(rows * columns).fill(0),
  });
  const gather = (data: string, indices: string, axis?: number): OnnxNode => ({
    op: "Gather",
    inputs: [data, indices],
    outputs: [`${data}[${indices}]`],
    ...(axis === undefined ? {} : { attributes: { axis } }),
  });
  const range = (nodes: OnnxNode[]) =>
    header({ inputs: [ids], nodes, initializers: [table("w", 10, 3), table("v", 7, 2)] }).inputs[0]!.range;

  test("is that of the rows it looks up, through what only reshapes it, on any axis", () => {
    expect(range([gather("w", "ids")])).toEqual([-10, 9]);
    expect(range([gather("w", "ids", 1)])).toEqual([-3, 2]);
    expect(range([gather("w", "ids", -1)])).toEqual([-3, 2]);
    const cast = { op: "Cast", inputs: ["ids"], outputs: ["a"], attributes: { to: 6 } };
    const flat = { op: "Reshape", inputs: ["a", "shape"], outputs: ["b"] };
    expect(range([cast, flat, gather("w", "b")])).toEqual([-10, 9]);
  });

  test("is the narrowest of several", () => {
    expect(range([gather("w", "ids"), gather("v", "ids")])).toEqual([-7, 6]);
    expect(range([gather("v", "ids"), gather("w", "ids")])).toEqual([-7, 6]);
  });

  test("is open where it is computed with, looked up itself, or the table is not in the file", () => {
    expect(range([{ op: "Add", inputs: ["ids", "one"], outputs: ["a"] }, gather("w", "a")])).toBeUndefined();
    expect(range([{ op: "Gather", inputs: ["ids", "w"], outputs: ["a"] }])).toBeUndefined();
    expect(range([gather("x", "ids")])).toBeUndefined();
    expect(range([{ op: "Identity", inputs: ["w"], outputs: ["ids2"] }])).toBeUndefined();
  });
});

describe("an input with an initializer", () => {
  const input = (name: string) => ({ name, type: 1, dims: [2] });
  const initializer = (name: string, length = 2) => ({ name, dims: [length], floats: new Array(length).fill(0) });
  const overridable = (graph: Partial<OnnxGraph>) =>
    header({ inputs: [input("x"), input("a")], initializers: [initializer("a")], ...graph }).overridable.map(
      ({ value, isWeight }) => [value.name, isWeight],
    );

  test("may be given; large ones, and all of several, are weights that an exporter listed", () => {
    expect(overridable({})).toEqual([["a", false]]);
    expect(overridable({ initializers: [initializer("a"), initializer("b")] })).toEqual([["a", false]]);
    expect(overridable({ initializers: [initializer("a", 129)] })).toEqual([["a", true]]);
    // A file changed in memory has lost the folder of its weights.
    expect(overridable({ initializers: [initializer("a"), { name: "b", dims: [2], location: "w.bin" }] })).toEqual([]);
    const all = { inputs: ["x", "a", "b"].map(input), initializers: [initializer("a"), initializer("b")] };
    expect(overridable(all)).toEqual([
      ["a", true],
      ["b", true],
    ]);
  });

  test("is a constant below ir_version 4", () => {
    expect(overridable({ irVersion: 3 })).toEqual([]);
    expect(header({ inputs: [input("a")], initializers: [initializer("a")], irVersion: 3 }).inputs).toEqual([]);
  });
});

test.each<[string, object, RegExp]>([
  ["a sequence", { kind: 4 }, /'y', which must be a tensor; is a sequence; .* export it without ZipMap/],
  ["a map", { kind: 5 }, /'y', which must be a tensor; is a map/],
  ["BF16", { type: 16 }, /'y' of BF16, which onnxruntime-node cannot carry; put a Cast/],
])("an output that cannot be carried is refused with the cure: %s", (_, change, message) => {
  expect(() => header({ outputs: [{ name: "y", type: 1, dims: [1], ...change }] })).toThrow(message);
});
