/** Tensors as a step's function has them: typed arrays in, what it returns checked against what it said it gives. */
import type { EndSpec } from "../../../config/server/pipelines/module-tensors.js";
import { readBytesElements } from "../../../wire/tensors/bytes-tensor.js";
import { type Datatype, elementCount, type Tensor } from "../../../wire/tensors/tensor.js";
import { checkTensorBytes, packBytes, readShape } from "../../../wire/tensors/tensor-bytes.js";
import { bytesFromJson, NUMERIC_ARRAYS } from "../../../wire/tensors/tensor-json.js";
import { isList, type TensorOrList } from "../part-tensors.js";
import type { NamedValue } from "./step-pool.js";

/** Of FP16 and BF16 the bits. */
const ARRAYS = { ...NUMERIC_ARRAYS, BOOL: Uint8Array, FP16: Uint16Array, BF16: Uint16Array } as const;

export interface StepTensor {
  readonly datatype: string;
  readonly shape: readonly number[];
  /** A typed array; of BYTES an array of Uint8Array. */
  readonly data: ArrayBufferView | readonly Uint8Array[];
}
export type StepTensors = Readonly<Record<string, StepTensor | readonly StepTensor[]>>;

/** What the function is called with. */
export const toStep = (inputs: readonly NamedValue[]): StepTensors =>
  Object.fromEntries(
    inputs.map(({ name, value }) => [name, isList(value) ? value.map(stepTensor) : stepTensor(value)]),
  );

function stepTensor({ name, datatype, shape, data }: Tensor): StepTensor {
  if (datatype === "BYTES") return { datatype, shape, data: readBytesElements(name, data, elementCount(shape)) };
  const array = ARRAYS[datatype];
  const { buffer, byteOffset, byteLength } = aligned(data, array.BYTES_PER_ELEMENT);
  return { datatype, shape, data: new array(buffer as ArrayBuffer, byteOffset, byteLength / array.BYTES_PER_ELEMENT) };
}

const aligned = (data: Uint8Array, size: number): Uint8Array =>
  data.byteOffset % size === 0 ? data : new Uint8Array(data);

/** @throws ServingError, TypeError: what it returned is not what it gives. */
export function fromStep(returned: unknown, outputs: readonly EndSpec[]): NamedValue[] {
  if (returned === null || typeof returned !== "object" || Array.isArray(returned))
    throw new TypeError(`must return an object of tensors by name; returned ${describe(returned)}`);
  const given = returned as Readonly<Record<string, unknown>>;
  const names = outputs.map(({ name }) => name);
  for (const name of Object.keys(given))
    if (!names.includes(name))
      throw new TypeError(`must return what it gives (${names.join(", ")}); returned '${name}', too`);
  return outputs.map((spec) => {
    if (!Object.hasOwn(given, spec.name))
      throw new TypeError(`must return '${spec.name}'; returned ${Object.keys(given).join(", ") || "nothing"}`);
    return { name: spec.name, value: valueFor(given[spec.name], spec) };
  });
}

function valueFor(value: unknown, spec: EndSpec): TensorOrList {
  const where = `output '${spec.name}'`;
  if (spec.list !== true) return tensorOf(value, spec, where);
  if (!Array.isArray(value)) throw new TypeError(`${where} must be a list of tensors; was ${describe(value)}`);
  // Holes are looked at, too.
  return Array.from(value, (item: unknown, index) => tensorOf(item, spec, `${where}[${index}]`));
}

function tensorOf(value: unknown, spec: EndSpec, where: string): Tensor {
  const datatype = spec.datatype as Datatype;
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new TypeError(`${where} must be a tensor { shape, data }; was ${describe(value)}`);
  const { shape: written, data: elements, datatype: said = datatype } = value as Record<string, unknown>;
  if (said !== datatype) throw new TypeError(`${where} must be ${datatype}; was ${describe(said)}`);
  const shape = [...readShape(written, where)];
  const isOfShape =
    shape.length === spec.shape.length && spec.shape.every((extent, axis) => extent === -1 || extent === shape[axis]);
  if (!isOfShape) throw new TypeError(`${where} must be ${datatype} [${spec.shape}]; was of shape [${shape}]`);
  const data = bytes(elements, datatype, shape, where);
  checkTensorBytes(where, datatype, shape, elementCount(shape), data);
  return { name: spec.name, datatype, shape, data };
}

function bytes(elements: unknown, datatype: Datatype, shape: readonly number[], where: string): Uint8Array {
  if (datatype === "BYTES") return packBytes(textsOf(elements, where));
  const array = ARRAYS[datatype];
  const isBits = datatype === "FP16" || datatype === "BF16";
  if (Array.isArray(elements) && !isBits)
    return bytesFromJson(where, datatype, shape, elements, `return a ${array.name}`);
  if (!(elements instanceof array)) {
    const must = isBits ? `a ${array.name} of the bits` : `an array or ${array.name}`;
    throw new TypeError(`data of ${where} must be ${must} for ${datatype}; was ${describe(elements)}`);
  }
  return viewOf(elements, `data of ${where}`);
}

function viewOf({ buffer, byteOffset, byteLength }: ArrayBufferView, what: string): Uint8Array {
  try {
    return new Uint8Array(buffer, byteOffset, byteLength);
  } catch {
    throw new TypeError(`${what} must have its bytes; its buffer was given away (transfer, postMessage)`);
  }
}

function textsOf(elements: unknown, where: string): Uint8Array[] {
  if (!Array.isArray(elements))
    throw new TypeError(`data of ${where} must be an array of text or Uint8Array for BYTES; was ${describe(elements)}`);
  return Array.from(elements, (element: unknown, index) => {
    if (typeof element === "string") return Buffer.from(element);
    if (element instanceof Uint8Array) return viewOf(element, `element ${index} of ${where}`);
    throw new TypeError(`element ${index} of ${where} must be text or Uint8Array for BYTES; was ${describe(element)}`);
  });
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== "object") return `${typeof value} ${String(value).slice(0, 60)}`;
  return value.constructor?.name ?? "an object";
}

/** Copies of the bytes, each in a buffer of its own, that can go to another thread; and those buffers. */
export function movable(values: readonly NamedValue[]): { values: NamedValue[]; buffers: ArrayBuffer[] } {
  const buffers: ArrayBuffer[] = [];
  const move = (tensor: Tensor): Tensor => {
    const data = new Uint8Array(tensor.data);
    buffers.push(data.buffer);
    return { ...tensor, data };
  };
  return {
    values: values.map(({ name, value }) => ({ name, value: isList(value) ? value.map(move) : move(value) })),
    buffers,
  };
}
