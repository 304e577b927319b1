/** Inputs that no request of a batch gives: masks, and those that may be absent. */
import type { ModelSpec, TensorSpec } from "../../config/model.js";
import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import { fillBytes } from "../fill.js";

/** What a batch has decided before its inputs are put together. */
export interface Layout {
  readonly memberRows: readonly number[];
  readonly rows: number;
  readonly extents: ReadonlyMap<string, readonly number[]>;
}

/** Ones over the member's own rows and extent; what padding adds is 0. */
export function makeMask(spec: ModelSpec, input: TensorSpec, layout: Layout, member: number): Tensor {
  const source = spec.inputs.find((other) => layout.extents.has(other.name) && other.mask !== true);
  const shape = input.shape.map((extent, axis) => {
    if (axis === input.batchAxis) return layout.memberRows[member]!;
    if (axis === input.variable?.axis && source !== undefined) return layout.extents.get(source.name)![member]!;
    return extent;
  });
  if (shape.some((extent) => extent < 0))
    throw new ServingError(
      "invalid-argument",
      `mask '${input.name}' cannot be made: no input gives the extent of its axis ${input.variable?.axis}`,
    );
  const datatype = input.datatype as Tensor["datatype"];
  const data = new Uint8Array(elementCount(shape) * DATATYPES[datatype]);
  fillBytes(data, datatype, 1);
  return { name: input.name, datatype, shape, data };
}

/** Left out by all members: every element is 0, or empty text. */
export function leftOut(input: TensorSpec, { rows }: Layout): Tensor {
  const shape = input.shape.map((extent, axis) => (axis === input.batchAxis ? Math.max(1, rows) : extent));
  const count = elementCount(shape);
  const datatype = input.datatype as Tensor["datatype"];
  // An empty element is its length: four bytes of 0.
  const data = new Uint8Array(count * (datatype === "BYTES" ? 4 : DATATYPES[datatype]));
  return { name: input.name, datatype, shape, data };
}
