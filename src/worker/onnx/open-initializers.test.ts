import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { describe, expect, test } from "vitest";
import { buildOnnx } from "../../../test/support/onnx-builder.js";
import { tensorSpec } from "../../../test/support/specs.js";
import type { Datatype } from "../../wire/tensors/tensor.js";
import { openInitializers } from "./open-initializers.js";

const value = { type: 1, dims: [2] };
const graph = {
  inputs: [{ name: "x", ...value }],
  outputs: [{ name: "y", ...value }],
  nodes: [{ op: "Add", inputs: ["x", "bias"], outputs: ["y"] }],
};
const bias = { name: "bias", dims: [2], floats: [1.5, -0] };
const kept = { name: "w", dims: [1], floats: [7] };

test("the initializer of an input is taken out of the file and nothing else is; its value stays", () => {
  const model = openInitializers(buildOnnx({ ...graph, initializers: [kept, bias] }), [
    tensorSpec("bias", "FP32", [2], { batchAxis: null }),
  ]);
  expect(Buffer.from(model.bytes)).toEqual(buildOnnx({ ...graph, initializers: [kept] }));
  const data = new Uint8Array(Float32Array.of(1.5, -0).buffer);
  expect(model.values).toEqual([{ name: "bias", datatype: "FP32", shape: [2], data }]);
});

describe("values that exporters write as numbers", () => {
  const fields: [Datatype, number, (w: BinaryWriter) => BinaryWriter, bigint | number][] = [
    ["FP32", 4, (w) => w.float(0.1), Math.fround(0.1)],
    ["FP64", 10, (w) => w.double(0.1), 0.1],
    ["INT64", 7, (w) => w.int64(-(2n ** 63n)), -(2n ** 63n)],
    ["UINT64", 11, (w) => w.uint64(2n ** 64n - 1n), 2n ** 64n - 1n],
    ["UINT32", 11, (w) => w.uint64(4294967295n), 4294967295],
    ["INT32", 5, (w) => w.int32(-2147483648), -2147483648],
    ["INT8", 5, (w) => w.int32(-128), -128],
    ["FP16", 5, (w) => w.int32(0x7e01), 0x7e01],
    ["BOOL", 5, (w) => w.int32(1), 1],
  ];
  const views = {
    FP32: Float32Array,
    FP64: Float64Array,
    INT64: BigInt64Array,
    UINT64: BigUint64Array,
    UINT32: Uint32Array,
    INT32: Int32Array,
    INT8: Int8Array,
    FP16: Uint16Array,
    BOOL: Uint8Array,
  };
  /** A model of one initializer whose data is in `field`, packed or one by one. */
  const file = (field: number, write: (w: BinaryWriter) => BinaryWriter, isPacked: boolean) => {
    const tensor = new BinaryWriter().tag(1, 0).int64(1).tag(8, 2).string("v");
    if (isPacked) write(tensor.tag(field, 2).fork()).join();
    else write(tensor.tag(field, field === 4 ? 5 : field === 10 ? 1 : 0));
    const inner = new BinaryWriter().tag(5, 2).bytes(tensor.finish()).finish();
    return new BinaryWriter().tag(7, 2).bytes(inner).finish();
  };
  test.each(fields)("%s in field %i", (datatype, field, write, expected) => {
    for (const isPacked of [true, false]) {
      const { values } = openInitializers(file(field, write, isPacked), [tensorSpec("v", datatype, [1])]);
      const data = Uint8Array.from(values[0]!.data);
      expect([...new views[datatype as keyof typeof views](data.buffer)]).toEqual([expected]);
      expect(values[0]!.shape).toEqual([1]);
    }
  });

  test("BYTES", () => {
    const { values } = openInitializers(
      file(6, (w) => w.raw(Buffer.from("hé")), true),
      [tensorSpec("v", "BYTES", [1])],
    );
    expect(Buffer.from(values[0]!.data)).toEqual(Buffer.concat([Buffer.from([3, 0, 0, 0]), Buffer.from("hé")]));
  });
});
