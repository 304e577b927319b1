/** Tensors between the modules of a pipeline: rows of one, and many put together. */
import type { EndSpec } from "../../config/server/pipelines/module-tensors.js";
import { lengthAt } from "../../wire/tensors/bytes-tensor.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";

/** A tensor, or a list of any number of them. */
export type TensorOrList = Tensor | readonly Tensor[];

export const isList = (value: TensorOrList): value is readonly Tensor[] => Array.isArray(value);

export const bytesOf = (tensors: Iterable<TensorOrList>): number => {
  let bytes = 0;
  for (const value of tensors) bytes += isList(value) ? bytesOf(value) : value.data.byteLength;
  return bytes;
};

/** How many parts it makes. */
export const rowCount = (value: TensorOrList): number => (isList(value) ? value.length : (value.shape[0] ?? 0));

/** Where the rows of BYTES begin, found once for each tensor: elements are only found one behind the other. */
export class RowStarts {
  private readonly known = new Map<Tensor, Float64Array>();

  /** By row; then the end of the last. */
  of(tensor: Tensor): Float64Array {
    const known = this.known.get(tensor);
    if (known !== undefined) return known;
    const { data, shape } = tensor;
    const elements = elementCount(shape.slice(1));
    const starts = new Float64Array(shape[0]! + 1);
    for (let row = 0; row < shape[0]!; row++) starts[row + 1] = skip(data, starts[row]!, elements);
    this.known.set(tensor, starts);
    return starts;
  }
}

/** One row of a tensor, its first axis kept; one tensor of a list. Nothing is copied. */
export function rowAt(value: TensorOrList, row: number, rowStarts: RowStarts): Tensor {
  if (isList(value)) return value[row]!;
  const { name, datatype, shape, data } = value;
  const rest = shape.slice(1);
  const one = { name, datatype, shape: [1, ...rest] };
  if (datatype === "BYTES") {
    const starts = rowStarts.of(value);
    return { ...one, data: data.subarray(starts[row], starts[row + 1]) };
  }
  const size = DATATYPES[datatype] * elementCount(rest);
  return { ...one, data: data.subarray(row * size, (row + 1) * size) };
}

/** Where so many elements of BYTES end. */
function skip(data: Uint8Array, from: number, elements: number): number {
  let at = from;
  for (let element = 0; element < elements; element++) at += 4 + lengthAt(data, at);
  return at;
}

/**
 * Tensors of parts, one behind the other along the first axis.
 *
 * @param spec of what they are together: that is all there is where there are no parts.
 * @returns what is wrong with them, in words.
 */
export function together(tensors: readonly Tensor[], spec: EndSpec): Tensor | string {
  const [first] = tensors;
  if (first === undefined) {
    const shape = spec.shape.map((extent, axis) => (axis === 0 ? 0 : Math.max(0, extent)));
    return { name: spec.name, datatype: spec.datatype as Datatype, shape, data: new Uint8Array(0) };
  }
  const rest = first.shape.slice(1);
  let rows = 0;
  for (const { shape } of tensors) {
    if (shape.length !== first.shape.length || rest.some((extent, axis) => extent !== shape[axis + 1]))
      return `must be of one shape but for the first axis; has [${first.shape}] and [${shape}]`;
    rows += shape[0]!;
  }
  const shape = [rows, ...rest];
  if (tensors.length === 1) return { ...first, shape };
  const data = new Uint8Array(bytesOf(tensors));
  let at = 0;
  for (const tensor of tensors) {
    data.set(tensor.data, at);
    at += tensor.data.byteLength;
  }
  return { name: first.name, datatype: first.datatype, shape, data };
}

/** An element as a number. @returns null: it has no such element. */
export function elementAt({ datatype, shape, data }: Tensor, element: number): number | null {
  if (element >= elementCount(shape)) return null;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const at = element * DATATYPES[datatype];
  switch (datatype) {
    case "BOOL":
    case "UINT8":
      return view.getUint8(at);
    case "INT8":
      return view.getInt8(at);
    case "UINT16":
      return view.getUint16(at, true);
    case "INT16":
      return view.getInt16(at, true);
    case "UINT32":
      return view.getUint32(at, true);
    case "INT32":
      return view.getInt32(at, true);
    case "UINT64":
      return Number(view.getBigUint64(at, true));
    case "INT64":
      return Number(view.getBigInt64(at, true));
    case "FP32":
      return view.getFloat32(at, true);
    case "FP64":
      return view.getFloat64(at, true);
    case "FP16":
      return halfValue(view.getUint16(at, true));
    case "BF16":
      return brainValue(view.getUint16(at, true));
    case "BYTES":
      return null;
  }
}

/** IEEE 754 binary16. */
function halfValue(bits: number): number {
  const sign = bits >> 15 === 0 ? 1 : -1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * 2 ** -14 * (fraction / 1024);
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

/** The upper half of a binary32. */
function brainValue(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits << 16);
  return view.getFloat32(0);
}
