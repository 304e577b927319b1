import fc from "fast-check";
import { expect, test } from "vitest";
import { INFER_LIMITS } from "../infer-limits.js";
import { type InferParameter, ModelInferRequest } from "../proto/inference.js";
import { ServingError } from "../serving-error.js";
import { decodeProto } from "./infer-proto.js";
import { checkTypedElements, scanInferRequest } from "./proto-scan.js";

type Partial = Parameters<typeof ModelInferRequest.fromPartial>[0];
const encode = (request: Partial): Uint8Array =>
  ModelInferRequest.encode(ModelInferRequest.fromPartial(request)).finish();
const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const parameters = (count: number): Record<string, InferParameter> =>
  Object.fromEntries(many(count, (i) => [`p${i}`, { parameterChoice: { $case: "boolParam", value: true } }]));
const field = (number: number, value: Uint8Array): Uint8Array =>
  Buffer.concat([Uint8Array.of((number << 3) | 2, value.byteLength), value]);

const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  bytes.push(left);
  return Buffer.from(bytes);
};

test("proto-scan: tells raw from typed, and counts what decoding walks through", () => {
  const head = encode({ modelName: "m".repeat(300), id: "i", inputs: [{ name: "x" }] });
  expect(scanInferRequest(head)).toEqual({ isRaw: false, walkedBytes: head.byteLength });
  const raw = encode({
    modelName: "m".repeat(300),
    id: "i",
    inputs: [{ name: "x" }],
    rawInputContents: [new Uint8Array(9000)],
  });
  expect(scanInferRequest(raw)).toEqual({ isRaw: true, walkedBytes: raw.byteLength - 9000 });
  const typed = encode({ inputs: [{ contents: { fp32Contents: many(1000, Number) } }] });
  expect(scanInferRequest(typed)).toEqual({ isRaw: false, walkedBytes: typed.byteLength });
});

test.each<[what: string, atMost: Partial, more: Partial]>([
  ["inputs", { inputs: many(INFER_LIMITS.inputs, () => ({})) }, { inputs: many(INFER_LIMITS.inputs + 1, () => ({})) }],
  [
    "outputs",
    { outputs: many(INFER_LIMITS.outputs, () => ({})) },
    { outputs: many(INFER_LIMITS.outputs + 1, () => ({})) },
  ],
  [
    "raw_input_contents",
    { rawInputContents: many(INFER_LIMITS.inputs, () => new Uint8Array()) },
    { rawInputContents: many(INFER_LIMITS.inputs + 1, () => new Uint8Array()) },
  ],
  [
    "parameters of the request",
    { parameters: parameters(INFER_LIMITS.parameters) },
    { parameters: parameters(INFER_LIMITS.parameters + 1) },
  ],
  [
    "parameters of inputs[0]",
    { inputs: [{ parameters: parameters(INFER_LIMITS.parameters) }] },
    { inputs: [{ parameters: parameters(INFER_LIMITS.parameters + 1) }] },
  ],
  [
    "parameters of outputs[0]",
    { outputs: [{ parameters: parameters(INFER_LIMITS.parameters) }] },
    { outputs: [{ parameters: parameters(INFER_LIMITS.parameters + 1) }] },
  ],
  [
    "shape of inputs[0]",
    { inputs: [{ shape: many(INFER_LIMITS.rank, () => 2n ** 62n) }] },
    { inputs: [{ shape: many(10 * INFER_LIMITS.rank + 1, () => 1n) }] },
  ],
  [
    "model_name",
    { modelName: "€".repeat(INFER_LIMITS.nameLength) },
    { modelName: "€".repeat(INFER_LIMITS.nameLength + 1) },
  ],
  [
    "model_version",
    { modelVersion: "1".repeat(3 * INFER_LIMITS.nameLength) },
    { modelVersion: "1".repeat(3 * INFER_LIMITS.nameLength + 1) },
  ],
  ["id", { id: "1".repeat(3 * INFER_LIMITS.idLength) }, { id: "1".repeat(3 * INFER_LIMITS.idLength + 1) }],
  [
    "name of inputs[0]",
    { inputs: [{ name: "€".repeat(INFER_LIMITS.nameLength) }] },
    { inputs: [{ name: "€".repeat(INFER_LIMITS.nameLength + 1) }] },
  ],
  [
    "datatype of inputs[0]",
    { inputs: [{ datatype: "€".repeat(INFER_LIMITS.nameLength) }] },
    { inputs: [{ datatype: "€".repeat(INFER_LIMITS.nameLength + 1) }] },
  ],
  [
    "name of outputs[0]",
    { outputs: [{ name: "€".repeat(INFER_LIMITS.nameLength) }] },
    { outputs: [{ name: "€".repeat(INFER_LIMITS.nameLength + 1) }] },
  ],
  [
    "a parameter of the request",
    {
      parameters: { p: { parameterChoice: { $case: "stringParam", value: "€".repeat(INFER_LIMITS.parameterLength) } } },
    },
    { parameters: { p: { parameterChoice: { $case: "stringParam", value: "€".repeat(20_000) } } } },
  ],
])("proto-scan: %s are bounded before anything is decoded", (what, atMost, more) => {
  scanInferRequest(encode(atMost));
  expect(() => scanInferRequest(encode(more))).toThrow(`${what} must have at most`);
});

test("proto-scan: fields that say nothing are bounded too, in the request, its inputs and its outputs", () => {
  const unknown = (number: number, count: number): Uint8Array =>
    Buffer.concat(many(count, () => field(number, Uint8Array.of())));
  scanInferRequest(unknown(9, 64));
  expect(() => scanInferRequest(unknown(9, 65))).toThrow("the request must have at most 64 other fields");
  expect(() => scanInferRequest(unknown(1, 65))).toThrow("the request must have at most 64 other fields");
  for (const [number, name] of [
    [5, "inputs"],
    [6, "outputs"],
  ] as const)
    expect(() =>
      scanInferRequest(Buffer.concat([Uint8Array.of((number << 3) | 2, 0x82, 0x01), unknown(1, 65)])),
    ).toThrow(`${name}[0] must have at most 64 other fields`);
  const unpacked = Buffer.concat(many(33, () => Uint8Array.of(3 << 3, 1)));
  expect(() => scanInferRequest(field(5, unpacked))).toThrow("shape of inputs[0] must have at most 32 dimensions");
});

test("proto-scan: raw and typed contents together are refused, whichever comes first", () => {
  const raw = { rawInputContents: [new Uint8Array(4)] };
  const typed = encode({ inputs: [{ name: "a" }, { name: "b", contents: { intContents: [1] } }] });
  const text = "inputs[1] must have either raw_input_contents or contents, got both";
  expect(() => scanInferRequest(Buffer.concat([typed, encode(raw)]))).toThrow(text);
  expect(() => scanInferRequest(Buffer.concat([encode(raw), typed]))).toThrow(text);
  // Contents without a value in them are as good as none.
  scanInferRequest(encode({ inputs: [{ contents: {} }], ...raw }));
});

test.each<[field: number, size: number, weight: number]>([
  [1, 1, 1],
  [3, 1, 2],
  [4, 1, 1],
  [5, 1, 2],
  [6, 4, 1],
  [7, 8, 1],
])("proto-scan: packed values of contents field %i are counted before they are decoded", (number, size, weight) => {
  const packed = (count: number): Uint8Array => {
    const contents = Buffer.concat([varint((number << 3) | 2), varint(count * size), Buffer.alloc(count * size, 1)]);
    const input = Buffer.concat([varint((5 << 3) | 2), varint(contents.byteLength), contents]);
    return Buffer.concat([varint((5 << 3) | 2), varint(input.byteLength), input]);
  };
  const most = INFER_LIMITS.typedElements / weight;
  checkTypedElements(packed(most));
  expect(() => checkTypedElements(packed(most + 1))).toThrow("typed contents of the request must have at most");
});

test("proto-scan: empty strings and values one at a time are counted too, over all inputs", () => {
  const inputs = (contents: Buffer, count: number): Buffer => {
    const input = Buffer.concat([varint((5 << 3) | 2), varint(contents.byteLength), contents]);
    return Buffer.concat(many(count, () => Buffer.concat([varint((5 << 3) | 2), varint(input.byteLength), input])));
  };
  const strings = Buffer.alloc(2 * 1024 * 1024, Buffer.from([(8 << 3) | 2, 0]));
  checkTypedElements(inputs(strings.subarray(0, 1024 * 1024), 2));
  expect(() => checkTypedElements(inputs(strings.subarray(0, 1024 * 1024 + 2), 2))).toThrow("values, got more");
  const single = Buffer.alloc(8 * 1024 * 1024, Buffer.from([3 << 3, 1]));
  checkTypedElements(inputs(single, 2));
  expect(() => checkTypedElements(inputs(single, 3))).toThrow("values, got more");
});

test("proto-scan: whatever the bytes, it ends, and what it lets through decodes within the limits (seed 3)", () => {
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 24 }),
    fc
      .tuple(fc.integer({ min: 0, max: 9 }), fc.uint8Array({ maxLength: 40 }))
      .map(([number, value]) => field(number, value)),
    fc.constantFrom(
      encode({ modelName: "m", inputs: [{ name: "x", shape: [1n], contents: { boolContents: [true] } }] }),
    ),
  );
  let decoded = 0;
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
      const bytes = Buffer.concat(parts);
      try {
        const { isRaw, walkedBytes } = scanInferRequest(bytes);
        const request = decodeProto(bytes);
        decoded++;
        expect(isRaw).toBe(request.rawInputContents.length > 0);
        const rawBytes = request.rawInputContents.reduce((sum, entry) => sum + entry.byteLength, 0);
        expect(walkedBytes).toBe(bytes.byteLength - rawBytes);
      } catch (error) {
        if (!(error instanceof ServingError)) throw error;
      }
    }),
    { seed: 3, numRuns: 3000 },
  );
  expect(decoded).toBeGreaterThan(300);
});
