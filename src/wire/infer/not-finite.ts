/** Why an output is no finite number: looked for only where one is not, and a client is told. */
import { ServingError } from "../serving-error.js";
import type { Tensor } from "../tensors/tensor.js";
import { typedView } from "../tensors/tensor-json.js";

/** Elements of a tensor that are looked at. */
const LOOKED_AT_MAX = 1 << 20;

/** The same error, with what in the inputs led to it where it is of an output that is not finite. */
export function withInputs(error: unknown, outputs: readonly Tensor[], inputs: readonly Tensor[]): unknown {
  if (!(error instanceof ServingError) || !outputs.some((output) => firstNotFinite(output) !== null)) return error;
  const found = notFiniteInput(inputs) ?? largestInput(inputs);
  return found === null ? error : new ServingError(error.code, `${error.message}; ${found}`, error.details);
}

function notFiniteInput(inputs: readonly Tensor[]): string | null {
  for (const input of inputs) {
    const at = firstNotFinite(input);
    if (at !== null) return `element ${at} of input '${input.name}' is ${floatsOf(input)![at]}, which leads to it`;
  }
  return null;
}

function largestInput(inputs: readonly Tensor[]): string | null {
  let found: string | null = null;
  let most = -1;
  for (const input of inputs) {
    const values = floatsOf(input) ?? [];
    for (let at = 0; at < values.length; at++)
      if (Math.abs(values[at]!) > most) {
        most = Math.abs(values[at]!);
        found = `inputs are finite and may lead to it: the furthest from 0 is ${values[at]}, element ${at} of '${input.name}'`;
      }
  }
  return found;
}

function firstNotFinite(tensor: Tensor): number | null {
  const at = floatsOf(tensor)?.findIndex((value) => !Number.isFinite(value)) ?? -1;
  return at < 0 ? null : at;
}

function floatsOf(tensor: Tensor): Float32Array | Float64Array | null {
  if (tensor.datatype !== "FP32" && tensor.datatype !== "FP64") return null;
  return (typedView(tensor) as Float32Array | Float64Array).subarray(0, LOOKED_AT_MAX);
}
