/**
 * What takes as long as a request's inputs are large: are their values what the model can take, and are those of inputs
 * without a batch axis the same as another request's? In slices, for it is the thread of everybody's requests that looks.
 */
import { createHash } from "node:crypto";
import type { ModelSpec, TensorSpec } from "../../../config/model.js";
import { ServingError } from "../../../wire/serving-error.js";
import { SLICE_BYTES, type Sliced } from "../../../wire/sliced.js";
import { textProblem } from "../../../wire/tensors/bytes-tensor.js";
import { DATATYPES, type Tensor } from "../../../wire/tensors/tensor.js";

/** Values up to this size stand in the key as they are; longer ones as their SHA-256. */
const VALUE_BYTES_IN_KEY_MAX = 64;

/**
 * The tensors must have passed `validateInputs`.
 *
 * @returns the keys of inputs without a batch axis, for `shareGroup`.
 * @throws ServingError invalid-argument, naming input and element: found here it costs its sender an answer, found by the
 *   runtime it costs the whole batch a run.
 */
export function* inputValues(model: ModelSpec, tensors: readonly Tensor[]): Sliced<ReadonlyMap<string, string>> {
  const keys = new Map<string, string>();
  for (const spec of model.inputs) {
    const problemOf = model.platform === "onnx_onnxv1" ? looks(spec) : null;
    const isShared = spec.batchAxis === null && model.batchSizeMax > 0;
    if (problemOf === null && !isShared) continue;
    const tensor = tensors.find(({ name }) => name === spec.name);
    if (tensor === undefined) continue;
    const problem = problemOf === null ? null : yield* problemOf(tensor);
    if (problem !== null)
      throw new ServingError("invalid-argument", `input '${tensor.name}' for model '${model.name}': ${problem}`);
    if (isShared) keys.set(spec.name, yield* valueKey(tensor));
  }
  return keys;
}

/** Equal for equal values. */
export function* valueKey({ data }: Tensor): Sliced<string> {
  if (data.byteLength <= VALUE_BYTES_IN_KEY_MAX)
    return `=${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}`;
  const hash = createHash("sha256");
  for (let from = 0; from < data.byteLength; from += SLICE_BYTES) {
    if (from > 0) yield;
    hash.update(data.subarray(from, from + SLICE_BYTES));
  }
  return `#${hash.digest("base64")}`;
}

/** How to find what of an input's values the model cannot take; null: it takes all. */
function looks({ datatype, range }: TensorSpec): ((tensor: Tensor) => Sliced<string | null>) | null {
  switch (datatype) {
    case "BYTES":
      return ({ data }) => textProblem(data);
    case "BOOL":
      return boolProblem;
    case "INT32":
    case "INT64":
      return range === undefined ? null : (tensor) => rangeProblem(tensor, range);
    default:
      return null;
  }
}

/** To compiled code a byte beyond 1 is neither true nor false: `not` of it may be true as well. */
function* boolProblem({ data }: Tensor): Sliced<string | null> {
  for (let from = 0; from < data.byteLength; from += SLICE_BYTES) {
    if (from > 0) yield;
    const index = beyondOne(data.subarray(from, from + SLICE_BYTES));
    if (index >= 0) return `element ${from + index} must be 0 or 1 for datatype BOOL, got ${data[from + index]}`;
  }
  return null;
}

// The loops over values are functions of their own: in a generator they run ten times as long.
function beyondOne(bytes: Uint8Array): number {
  const words = wordsOf(bytes.subarray(0, bytes.byteLength & ~3));
  let at = 0;
  while (at < words.length && (words[at]! & ~0x01010101) === 0) at++;
  const index = bytes.subarray(4 * at).findIndex((byte) => byte > 1);
  return index < 0 ? -1 : 4 * at + index;
}

function wordsOf(bytes: Uint8Array): Int32Array {
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}

function* rangeProblem({ data, datatype }: Tensor, range: readonly [number, number]): Sliced<string | null> {
  const size = DATATYPES[datatype];
  for (let from = 0; from < data.byteLength; from += SLICE_BYTES) {
    if (from > 0) yield;
    const words = wordsOf(data.subarray(from, from + SLICE_BYTES));
    const index = size === 4 ? outside32(words, range) : outside64(words, range);
    if (index < 0) continue;
    const view = new DataView(words.buffer, words.byteOffset);
    const value = size === 4 ? words[index]! : view.getBigInt64(8 * index, true);
    return `element ${from / size + index} must be in [${range[0]}, ${range[1]}], the rows that the model looks up; was ${value}`;
  }
  return null;
}

function outside32(values: Int32Array, [low, high]: readonly [number, number]): number {
  for (let at = 0; at < values.length; at++) if (values[at]! < low || values[at]! > high) return at;
  return -1;
}

/** Compared as halves of 32 bits: reading each as a bigint takes several times as long. */
function outside64(halves: Int32Array, [low, high]: readonly [number, number]): number {
  for (let at = 0; at < halves.length; at += 2) {
    const value = halves[at + 1]! * 2 ** 32 + (halves[at]! >>> 0);
    if (value < low || value > high) return at / 2;
  }
  return -1;
}
