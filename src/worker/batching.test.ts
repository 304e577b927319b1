import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { floats, fp32, int64, modelSpec, padded, tensorSpec } from "../../test/support/specs.js";
import { readBytesElements } from "../wire/tensors/bytes-tensor.js";
import { elementCount, type Tensor } from "../wire/tensors/tensor.js";
import { packBytes } from "../wire/tensors/tensor-bytes.js";
import { assemble, bucketOf, split } from "./batching.js";

/** Every element of a tensor by its index, as a naive twin sees it. */
function entries(tensor: Tensor): Map<string, number> {
  const values = floats(tensor);
  const out = new Map<string, number>();
  values.forEach((value, i) => {
    let rest = i;
    const index = [...tensor.shape].reverse().map((extent) => {
      const at = rest % extent;
      rest = Math.floor(rest / extent);
      return at;
    });
    out.set(index.reverse().join(), value);
  });
  return out;
}

const rank3 = fc.record({
  batchAxis: fc.integer({ min: 0, max: 2 }),
  shift: fc.integer({ min: 1, max: 2 }),
  rest: fc.integer({ min: 1, max: 4 }),
  members: fc.array(fc.record({ rows: fc.integer({ min: 1, max: 3 }), extent: fc.integer({ min: 0, max: 8 }) }), {
    minLength: 1,
    maxLength: 5,
  }),
  padValue: fc.constantFrom(0, -1, 7.5),
});

/** One variable axis, one batch axis, one other axis, in any order. */
function casesOf(source: typeof rank3 extends fc.Arbitrary<infer T> ? T : never) {
  const { batchAxis, shift, rest, padValue } = source;
  const variable = (batchAxis + shift) % 3;
  let next = 1;
  const members = source.members.map(({ rows, extent }) => {
    const shape = [rest, rest, rest];
    shape[batchAxis] = rows;
    shape[variable] = extent;
    return [
      fp32(
        "x",
        shape,
        Array.from({ length: elementCount(shape) }, () => next++),
      ),
    ];
  });
  const unpad = [{ output: "y", axis: variable, scale: 1 }];
  const input = tensorSpec("x", "FP32", [-1, -1, -1], {
    batchAxis,
    variable: padded(variable, [2, 5, 8], { padValue, unpad }),
  });
  const spec = modelSpec({
    name: "m",
    inputs: [input],
    outputs: [tensorSpec("y", "FP32", [-1, -1, -1], { batchAxis })],
  });
  return { spec, members, batchAxis, variable, input };
}

describe("batching", () => {
  test("puts each member in its rows, pads up to the bucket and nowhere else (naive twin)", () => {
    fc.assert(
      fc.property(rank3, (source) => {
        const { spec, members, batchAxis, variable, input } = casesOf(source);
        const batch = assemble(spec, members);
        const joined = batch.inputs[0]!;
        const longest = Math.max(...members.map((tensors) => tensors[0]!.shape[variable]!));
        expect(joined.shape[variable]).toBe(bucketOf(input, longest));
        const seen = entries(joined);
        let row = 0;
        for (const [tensor] of members) {
          for (const [index, value] of entries(tensor!)) {
            const at = index.split(",").map(Number);
            at[batchAxis]! += row;
            expect(seen.get(at.join())).toBe(value);
            seen.delete(at.join());
          }
          row += tensor!.shape[batchAxis]!;
        }
        for (const value of seen.values()) expect(value).toBe(source.padValue);
      }),
    );
  });

  test("taking apart undoes putting together, to the byte", () => {
    fc.assert(
      fc.property(rank3, (source) => {
        const { spec, members } = casesOf(source);
        const batch = assemble(spec, members);
        const back = split(spec, batch, [{ ...batch.inputs[0]!, name: "y" }]);
        members.forEach(([tensor], i) => {
          expect(back[i]![0]!.shape).toEqual(tensor!.shape);
          expect(Buffer.compare(back[i]![0]!.data, tensor!.data)).toBe(0);
        });
      }),
    );
  });

  test("a lone member that needs no padding is passed on without a copy", () => {
    const spec = modelSpec({ name: "m", inputs: [tensorSpec("x", "FP32", [-1, 2])] });
    const tensor = fp32("x", [1, 2], [1, 2]);
    expect(assemble(spec, [[tensor]]).inputs[0]).toBe(tensor);
  });

  test("a model that accepts only batch 8: 3 requests make one run of 8 rows and 3 outputs", () => {
    const spec = modelSpec({
      name: "m",
      batchSizeFixed: 8,
      inputs: [tensorSpec("x", "FP32", [-1, 2]), tensorSpec("s", "FP32", [1, -1, 1], { batchAxis: 1 })],
      outputs: [tensorSpec("y", "FP32", [-1, 2])],
    });
    const members = [1, 2, 3].map((v) => [fp32("x", [1, 2], [v, v]), fp32("s", [1, 1, 1], [v])]);
    const batch = assemble(spec, members);
    expect(batch.inputs[0]!.shape).toEqual([8, 2]);
    expect(floats(batch.inputs[0]!)).toEqual([1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    expect(floats(batch.inputs[1]!)).toEqual([1, 2, 3, 3, 3, 3, 3, 3]);
    const back = split(spec, batch, [{ ...batch.inputs[0]!, name: "y" }]);
    expect(back.map((tensors) => floats(tensors[0]!))).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
  });

  test("a batch axis that the graph took away is put back for one row, and is an error for more", () => {
    const spec = modelSpec({
      name: "m",
      inputs: [tensorSpec("x", "FP32", [-1, 1])],
      outputs: [tensorSpec("y", "FP32", [-1])],
    });
    const answer = (rows: number) =>
      split(spec, assemble(spec, [[fp32("x", [rows, 1], new Array(rows).fill(0))]]), [fp32("y", [], [7])]);
    expect(answer(1)).toEqual([[fp32("y", [1], [7])]]);
    expect(() => answer(2)).toThrow("output 'y' of model 'm' must have 2 rows on axis 0; shape is []");
  });

  test("a mask that nobody sent is made: ones over the member's own extent, zeros over padding", () => {
    const spec = modelSpec({
      name: "m",
      inputs: [
        tensorSpec("ids", "INT64", [-1, -1], { variable: padded(1, [4]) }),
        tensorSpec("mask", "INT64", [-1, -1], { variable: padded(1, [4]), optional: true, mask: true }),
      ],
    });
    const batch = assemble(spec, [[int64("ids", [1, 2], [5, 6])], [int64("ids", [1, 3], [7, 8, 9])]]);
    const mask = new BigInt64Array(Uint8Array.from(batch.inputs[1]!.data).buffer);
    expect([...mask].map(Number)).toEqual([1, 1, 0, 0, 1, 1, 1, 0]);
  });

  test("one member's own mask and another's made one share a batch", () => {
    const spec = modelSpec({
      name: "m",
      inputs: [
        tensorSpec("ids", "INT64", [-1, -1], { variable: padded(1, [2]) }),
        tensorSpec("mask", "INT64", [-1, -1], { variable: padded(1, [2]), optional: true, mask: true }),
      ],
    });
    const own = [int64("ids", [1, 2], [5, 6]), int64("mask", [1, 2], [1, 0])];
    const batch = assemble(spec, [own, [int64("ids", [1, 1], [7])]]);
    const mask = new BigInt64Array(Uint8Array.from(batch.inputs[1]!.data).buffer);
    expect([...mask].map(Number)).toEqual([1, 0, 1, 0]);
  });

  test("BYTES are joined, padded with empty text and cut back", () => {
    const text = (...words: string[]) => packBytes(words.map((word) => Buffer.from(word)));
    const spec = modelSpec({
      name: "m",
      inputs: [
        tensorSpec("x", "BYTES", [-1, -1], {
          variable: padded(1, [2], { unpad: [{ output: "y", axis: 1, scale: 1 }] }),
        }),
      ],
      outputs: [tensorSpec("y", "BYTES", [-1, -1])],
    });
    const members: Tensor[][] = [
      [{ name: "x", datatype: "BYTES", shape: [1, 1], data: text("a") }],
      [{ name: "x", datatype: "BYTES", shape: [1, 2], data: text("bc", "") }],
    ];
    const batch = assemble(spec, members);
    expect(readBytesElements("x", batch.inputs[0]!.data, 4).map((b) => Buffer.from(b).toString())).toEqual([
      "a",
      "",
      "bc",
      "",
    ]);
    const back = split(spec, batch, [{ ...batch.inputs[0]!, name: "y" }]);
    expect(back.map((tensors) => Buffer.from(tensors[0]!.data))).toEqual(members.map((m) => Buffer.from(m[0]!.data)));
  });

  test("an input without a batch axis is passed once, and only if all agree", () => {
    const spec = modelSpec({
      name: "m",
      inputs: [tensorSpec("x", "FP32", [-1, 1]), tensorSpec("rate", "INT64", [], { batchAxis: null })],
    });
    const member = (rate: number) => [fp32("x", [1, 1], [1]), int64("rate", [], [rate])];
    expect(assemble(spec, [member(8), member(8)]).inputs[1]!.shape).toEqual([]);
    expect(() => assemble(spec, [member(8), member(16)])).toThrow("input 'rate' has no batch axis");
  });

  test("what does not fit together is refused, naming input, expected and found", () => {
    const x = tensorSpec("x", "FP32", [-1, 2], { variable: null });
    const spec = modelSpec({ name: "m", inputs: [x, tensorSpec("z", "FP32", [-1])] });
    const z = fp32("z", [1], [0]);
    expect(() =>
      assemble(spec, [
        [fp32("x", [1, 2], [1, 2]), z],
        [fp32("x", [1, 3], [1, 2, 3]), z],
      ]),
    ).toThrow("input 'x' of model 'm': shape [1,3] does not go with [2,2]");
    expect(() => assemble(spec, [[fp32("x", [2, 2], [1, 2, 3, 4]), z]])).toThrow("'z' has 1, another has 2");
    expect(() => assemble(spec, [[fp32("x", [1, 2], [1, 2])]])).toThrow("input 'z' must be given by all members");
    expect(() => assemble(spec, [[int64("x", [1, 2], [1, 2]), z]])).toThrow("must have datatype FP32; has INT64");
    expect(() => bucketOf({ ...x, variable: padded(1, [4, 8]) }, 9)).toThrow(
      "input 'x' axis 1: extent must be at most 8; was 9",
    );
  });

  test("an output with the wrong number of rows is the model's error, and says so", () => {
    const spec = modelSpec({
      name: "m",
      inputs: [tensorSpec("x", "FP32", [-1, 1])],
      outputs: [tensorSpec("y", "FP32", [-1])],
    });
    const batch = assemble(spec, [[fp32("x", [1, 1], [1])], [fp32("x", [1, 1], [2])]]);
    expect(() => split(spec, batch, [fp32("y", [3], [1, 2, 3])])).toThrow(
      "output 'y' of model 'm' must have 2 rows on axis 0",
    );
  });
});

test("batching: members that leave out every input are a row each", () => {
  const spec = modelSpec({
    name: "m",
    batchSizeMax: 4,
    inputs: [tensorSpec("x", "FP32", [-1, 3], { optional: true })],
    outputs: [tensorSpec("y", "FP32", [-1, 3])],
  });
  const { inputs, rows, memberRows } = assemble(spec, [[], []]);
  expect([rows, memberRows, inputs[0]!.shape, inputs[0]!.data.byteLength]).toEqual([2, [1, 1], [2, 3], 24]);
});
