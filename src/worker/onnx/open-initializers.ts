/**
 * The runtime's binding for Node feeds no input that has an initializer: it must be without one in the file to be given.
 * So it is taken out of the graph, and its value is fed wherever a request leaves it out.
 *
 * Source of the field numbers: onnx.proto (ModelProto 7 graph; GraphProto 5 initializer; TensorProto 1 dims,
 * 4 float_data, 5 int32_data, 6 string_data, 7 int64_data, 8 name, 9 raw_data, 10 double_data, 11 uint64_data).
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { TensorSpec } from "../../config/model.js";
import type { Datatype, Tensor } from "../../wire/tensors/tensor.js";
import { packBytes } from "../../wire/tensors/tensor-bytes.js";

const GRAPH = 7;
const INITIALIZER = 5;

export interface OpenModel {
  /** The file, without the initializers. */
  readonly bytes: Uint8Array;
  readonly values: readonly Tensor[];
}

export function openInitializers(file: Uint8Array, inputs: readonly TensorSpec[]): OpenModel {
  const values: Tensor[] = [];
  const bytes = withoutFields(file, GRAPH, (graph) =>
    withoutFields(graph, INITIALIZER, (initializer) => {
      const value = readTensor(initializer, inputs);
      if (value !== null) values.push(value);
      return value === null ? initializer : null;
    }),
  );
  return { bytes, values };
}

/** A message with each field of this number replaced, or left out where `replace` says null; the rest byte by byte. */
function withoutFields(
  message: Uint8Array,
  number: number,
  replace: (field: Uint8Array) => Uint8Array | null,
): Uint8Array {
  const reader = new BinaryReader(message);
  const writer = new BinaryWriter();
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [field, type] = reader.tag();
    if (field === number && type === WireType.LengthDelimited) {
      const replaced = replace(reader.bytes());
      if (replaced !== null) writer.tag(number, type).bytes(replaced);
    } else {
      reader.skip(type, field);
      writer.raw(message.subarray(from, reader.pos));
    }
  }
  return writer.finish();
}

/** @returns null when it is not one of the inputs. */
function readTensor(message: Uint8Array, inputs: readonly TensorSpec[]): Tensor | null {
  const reader = new BinaryReader(message);
  let name = "";
  let raw: Uint8Array | null = null;
  const shape: number[] = [];
  const numbers: (number | bigint | string)[] = [];
  const strings: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    const repeated = (read: () => number | bigint | string, into: unknown[] = numbers): void => {
      const end = type === WireType.LengthDelimited ? reader.uint32() + reader.pos : reader.pos + 1;
      while (reader.pos < end) into.push(read());
    };
    if (field === 1) repeated(() => Number(reader.int64()), shape);
    else if (field === 4) repeated(() => reader.float());
    else if (field === 5) repeated(() => reader.int32());
    else if (field === 6) strings.push(reader.bytes());
    else if (field === 7) repeated(() => reader.int64());
    else if (field === 8) name = reader.string();
    else if (field === 9) raw = reader.bytes();
    else if (field === 10) repeated(() => reader.double());
    else if (field === 11) repeated(() => reader.uint64());
    else reader.skip(type, field);
  }
  const input = inputs.find((candidate) => candidate.name === name);
  if (input === undefined) return null;
  const datatype = input.datatype as Datatype;
  const data =
    datatype === "BYTES" ? packBytes(strings) : raw === null ? pack(datatype, numbers) : Uint8Array.from(raw);
  return { name, datatype, shape, data };
}

/** FP16 is there as its bits. */
const ARRAYS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  INT8: Int8Array,
  UINT16: Uint16Array,
  INT16: Int16Array,
  FP16: Uint16Array,
  UINT32: Uint32Array,
  INT32: Int32Array,
  FP32: Float32Array,
  FP64: Float64Array,
} as const;

function pack(datatype: Datatype, numbers: readonly (number | bigint | string)[]): Uint8Array {
  if (datatype === "INT64") return new Uint8Array(BigInt64Array.from(numbers.map(BigInt)).buffer);
  if (datatype === "UINT64") return new Uint8Array(BigUint64Array.from(numbers.map(BigInt)).buffer);
  const Type = ARRAYS[datatype as keyof typeof ARRAYS];
  return new Uint8Array(new Type(numbers.map(Number)).buffer);
}
