import { expect, test } from "vitest";
import { modelSpec, tensorSpec } from "../../../../test/support/specs.js";
import type { TensorSpec } from "../../../config/model.js";
import { atOnce, SLICE_BYTES } from "../../../wire/sliced.js";
import type { Datatype, Tensor } from "../../../wire/tensors/tensor.js";
import { packBytes } from "../../../wire/tensors/tensor-bytes.js";
import { inputValues } from "./input-values.js";

test.each<[string, Datatype, number[], string]>([
  [
    "NUL, at which the runtime would cut",
    "BYTES",
    [1, 0, 0, 0, 65, 3, 0, 0, 0, 97, 0, 98],
    "element 1 must be text without NUL",
  ],
  [
    "no UTF-8",
    "BYTES",
    [0, 0, 0, 0, 1, 0, 0, 0, 0xff],
    "element 1 must be UTF-8 text for this model's runtime; is not",
  ],
  ["a truth value of 2", "BOOL", [1, 2], "element 1 must be 0 or 1 for datatype BOOL, got 2"],
])("input-values: what the runtime cannot carry is refused before it is queued: %s", (_, datatype, bytes, text) => {
  const model = modelSpec({ name: "m", inputs: [tensorSpec("x", datatype, [-1, 2])] });
  const tensors = [{ name: "x", datatype, shape: [1, 2], data: Uint8Array.from(bytes) }];
  expect(() => atOnce(inputValues(model, tensors))).toThrow(`input 'x' for model 'm': ${text}`);
  expect(atOnce(inputValues({ ...model, platform: "rubato_emulated" }, tensors)).size).toBe(0);
});

test.each<[Datatype, number]>([
  ["INT64", 8],
  ["INT32", 4],
])("input-values: %s beyond what the model looks up is refused, wherever the bytes lie", (datatype, size) => {
  const model = modelSpec({ name: "m", inputs: [tensorSpec("ids", datatype, [-1, 2], { range: [-10, 9] })] });
  const check = (first: bigint, second: bigint): unknown => {
    const bytes = Buffer.alloc(1 + 2 * size).subarray(1);
    for (const [i, value] of [first, second].entries())
      if (size === 8) bytes.writeBigInt64LE(value, 8 * i);
      else bytes.writeInt32LE(Number(value), 4 * i);
    return atOnce(inputValues(model, [{ name: "ids", datatype, shape: [1, 2], data: bytes }])).size;
  };
  expect([check(-10n, 9n), check(0n, -1n)]).toEqual([0, 0]);
  for (const wrong of [
    10n,
    -11n,
    2n ** 31n - 1n,
    -(2n ** 31n),
    ...(size === 8 ? [2n ** 32n, -(2n ** 32n), 2n ** 62n] : []),
  ])
    expect(() => check(3n, wrong)).toThrow(
      `input 'ids' for model 'm': element 1 must be in [-10, 9], the rows that the model looks up; was ${wrong}`,
    );
});

const MIB = 1024 * 1024;
/** What comes of one tensor, and in how many slices. */
function look(datatype: Datatype, data: Uint8Array, more: Partial<TensorSpec> = {}): { slices: number; end: unknown } {
  const model = modelSpec({ name: "m", batchSizeMax: 4, inputs: [tensorSpec("x", datatype, [-1, -1], more)] });
  const tensor: Tensor = { name: "x", datatype, shape: [1, 1], data };
  const work = inputValues(model, [tensor]);
  for (let slices = 1; ; slices++) {
    try {
      const step = work.next();
      if (step.done === true) return { slices, end: step.value.get("x") ?? "taken" };
    } catch (error) {
      return { slices, end: (error as Error).message };
    }
  }
}

const filled = (bytes: number, at: number, value: number): Uint8Array => {
  // Unaligned, as tensors after a JSON header are.
  const data = new Uint8Array(bytes + 1).subarray(1);
  data[at] = value;
  return data;
};
/** Texts of one tensor whose bytes are many, and whose elements are. */
const one = (text: string): Uint8Array => packBytes([Buffer.from(text)]);
const many = (text: string, count: number): Uint8Array =>
  packBytes(new Array<Uint8Array>(count).fill(Buffer.from(text)));

test.each<[string, Datatype, Uint8Array, Partial<TensorSpec>, number]>([
  ["truth values", "BOOL", filled(2 * SLICE_BYTES + 7, 0, 1), {}, 3],
  ["indices of 32 bits", "INT32", filled(2 * SLICE_BYTES + 8, 0, 1), { range: [0, 9] }, 3],
  ["indices of 64 bits", "INT64", filled(2 * SLICE_BYTES + 8, 0, 1), { range: [0, 9] }, 3],
  ["one long text", "BYTES", one(`éa${"é".repeat(SLICE_BYTES)}`), {}, 3],
  ["texts in ASCII", "BYTES", many("abcdefgh", SLICE_BYTES / 4), {}, 3],
  ["short texts beyond ASCII", "BYTES", many("é", SLICE_BYTES / 128), {}, 3],
])("input-values: %s take as many slices as they are long", (_, datatype, data, more, slices) => {
  const found = look(datatype, data, more);
  expect(found.end).toBe("taken");
  expect(found.slices).toBeGreaterThanOrEqual(slices);
  expect(found.slices).toBeLessThan(slices + 3);
});

test("input-values: what is wrong is found in any slice, with its place in the whole", () => {
  const at = 2 * SLICE_BYTES + 16;
  expect(look("BOOL", filled(9 * MIB, at, 2)).end).toContain(`element ${at} must be 0 or 1 for datatype BOOL, got 2`);
  expect(look("BOOL", filled(SLICE_BYTES + 7, SLICE_BYTES + 6, 0x80)).end).toContain(`element ${SLICE_BYTES + 6} must`);
  const range = { range: [0, 9] as const };
  expect(look("INT32", filled(9 * MIB, at, 10), range).end).toContain(`element ${at / 4} must be in [0, 9]`);
  expect(look("INT64", filled(9 * MIB, at + 4, 1), range).end).toContain(
    `element ${at / 8} must be in [0, 9], the rows that the model looks up; was 4294967296`,
  );
  expect(look("BYTES", one(`é${"a".repeat(at)}\0`)).end).toContain(`element 0 must be text without NUL`);
  expect(look("BYTES", one(`${"a".repeat(at)}\0`)).end).toContain(`has one at byte ${at}`);
  const cut = one(`${"é".repeat(at)}`);
  expect(look("BYTES", cut).end).toBe("taken");
  cut[2 * SLICE_BYTES + 5] = 0x61;
  expect(look("BYTES", cut).end).toContain("element 0 must be UTF-8 text for this model's runtime; is not");
  const rest = packBytes([Buffer.from("ab"), Buffer.alloc(SLICE_BYTES + 7, 0x80), Buffer.from("c")]);
  expect(look("BYTES", rest).end).toContain("element 1 must be UTF-8 text");
});

test("input-values: equal values of inputs without a batch axis have equal keys, however long", () => {
  const key = (bytes: number, at: number): unknown => look("FP32", filled(bytes, at, 1), { batchAxis: null }).end;
  for (const bytes of [4, 64, 68, 9 * MIB]) {
    expect(key(bytes, 1)).toBe(key(bytes, 1));
    expect(key(bytes, bytes - 1)).not.toBe(key(bytes, 1));
  }
  expect(look("FP32", filled(9 * MIB, 1, 1), { batchAxis: null }).slices).toBe(3);
});
