/** Inputs that nobody sent, for warm-up and for measuring run times. */
import type { ModelSpec, TensorSpec } from "../config/model.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../wire/tensors/tensor.js";
import { packBytes } from "../wire/tensors/tensor-bytes.js";
import { fillBytes } from "./fill.js";

/** What an axis that nothing gives an extent is warmed up and profiled with; real requests correct the times. */
export const OPEN_EXTENT = 32;

/**
 * One member of `rows` rows; `extent` along the variable axis of every input that has one.
 */
export function syntheticInputs(spec: ModelSpec, rows: number, extent: number | null): Tensor[] {
  return spec.inputs.filter((input) => !input.optional || input.mask === true).map((input) => one(input, rows, extent));
}

function one(input: TensorSpec, rows: number, extent: number | null): Tensor {
  const shape = input.shape.map((declared, axis) => {
    if (axis === input.batchAxis) return rows;
    if (axis === input.variable?.axis && extent !== null) return extent;
    if (declared >= 0) return declared;
    const given = input.profileShape?.[axis];
    if (given !== undefined && given >= 0) return given;
    const bucket = axis === input.variable?.axis ? input.variable.buckets[0] : undefined;
    if (bucket !== undefined) return bucket;
    return OPEN_EXTENT;
  });
  const datatype = input.datatype as Datatype;
  const count = elementCount(shape);
  if (datatype === "BYTES") {
    const data = packBytes(new Array<Uint8Array>(count).fill(new Uint8Array()));
    return { name: input.name, datatype, shape, data };
  }
  const data = new Uint8Array(count * DATATYPES[datatype]);
  fillBytes(data, datatype, input.profileValue ?? (input.mask === true ? 1 : 0));
  return { name: input.name, datatype, shape, data };
}
