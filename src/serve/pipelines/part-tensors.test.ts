import { expect, it } from "vitest";
import type { Tensor } from "../../wire/tensors/tensor.js";
import { RowStarts, rowAt } from "./part-tensors.js";

/** Texts as BYTES: a length of 4 bytes before each. */
function texts(shape: number[], of: readonly string[]): Tensor {
  const parts = of.map((text) => {
    const bytes = Buffer.from(text);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return Buffer.concat([length, bytes]);
  });
  return { name: "t", datatype: "BYTES", shape, data: new Uint8Array(Buffer.concat(parts)) };
}

it("rows of BYTES, in any order, are found in one pass over the tensor", () => {
  const words = ["", "a", "übel", "", "four", "five5"];
  const whole = texts([3, 2], words);
  const starts = new RowStarts();
  for (const row of [2, 0, 1, 2]) {
    const own = texts([1, 2], words.slice(row * 2, row * 2 + 2));
    expect(rowAt(whole, row, starts)).toEqual({ ...own, data: new Uint8Array(own.data) });
  }
  expect([...starts.of(whole)]).toEqual([0, 9, 22, whole.data.byteLength]);
  expect(starts.of(whole)).toBe(starts.of(whole));
  expect(starts.of(texts([1, 2], words.slice(0, 2)))).toHaveLength(2);
});
