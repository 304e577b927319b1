/** Outputs of a model that computes nothing: the first input where an output has its shape, zeros else. */
import type { ModelSpec, TensorSpec } from "../../config/model.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import { packBytes } from "../../wire/tensors/tensor-bytes.js";

const zeros = new Map<number, Uint8Array>();
/** Zero memory is shared between answers of the same size: nobody writes to an output. */
const ZERO_SIZES_MAX = 256;

export function emulatedOutputs(
  spec: ModelSpec,
  inputs: readonly Tensor[],
  rows: number,
  wanted: readonly string[],
): Tensor[] {
  return spec.outputs
    .filter((output) => wanted.length === 0 || wanted.includes(output.name))
    .map((output) => answer(output, inputs[0], rows));
}

function answer(output: TensorSpec, first: Tensor | undefined, rows: number): Tensor {
  const shape = output.shape.map((extent, axis) => {
    if (axis === output.batchAxis) return rows;
    return extent >= 0 ? extent : (first?.shape[axis] ?? 1);
  });
  const datatype = output.datatype as Datatype;
  if (first !== undefined && first.datatype === datatype && first.shape.join() === shape.join())
    return { name: output.name, datatype, shape, data: first.data };
  const count = elementCount(shape);
  if (datatype === "BYTES")
    return { name: output.name, datatype, shape, data: packBytes(new Array(count).fill(new Uint8Array())) };
  return { name: output.name, datatype, shape, data: zeroBytes(count * DATATYPES[datatype]) };
}

function zeroBytes(bytes: number): Uint8Array {
  let data = zeros.get(bytes);
  if (data === undefined) {
    if (zeros.size >= ZERO_SIZES_MAX) zeros.clear();
    data = new Uint8Array(bytes);
    zeros.set(bytes, data);
  }
  return data;
}
