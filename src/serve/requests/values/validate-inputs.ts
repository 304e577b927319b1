/**
 * Does a request fit its model? Names, datatypes, shapes, batch extents, byte counts: everything that can be refused
 * before a request is queued, but for the values (input-values.ts). Texts follow Triton's where clients match on them.
 */
import type { ModelSpec, TensorSpec } from "../../../config/model.js";
import { ServingError } from "../../../wire/serving-error.js";
import { type Datatype, elementCount, type Tensor } from "../../../wire/tensors/tensor.js";
import { checkTensorBytes } from "../../../wire/tensors/tensor-bytes.js";

const invalid = (message: string): ServingError => new ServingError("invalid-argument", message);
/** Names in an error text; models with hundreds of inputs exist, and the text travels in a header over gRPC. */
const NAMES_SHOWN_MAX = 16;
const list = (tensors: readonly { readonly name: string }[]): string => {
  const names = tensors.slice(0, NAMES_SHOWN_MAX).map(({ name }) => `'${name}'`);
  if (tensors.length > names.length) names.push(`and ${tensors.length - names.length} more`);
  return `[${names.join(", ")}]`;
};
const shapeText = (shape: readonly number[]): string => `[${shape.join(",")}]`;

/**
 * @returns the request's batch extent: 1 for a model without a batch dimension.
 * @throws ServingError invalid-argument naming the input, what the model expects and what was got.
 */
export function validateInputs(model: ModelSpec, tensors: readonly Tensor[]): number {
  const given = new Map<string, Tensor>();
  for (const tensor of tensors) {
    if (given.has(tensor.name))
      throw invalid(`input '${tensor.name}' for model '${model.name}' must be given once, got it again`);
    given.set(tensor.name, tensor);
  }
  let batch = 0;
  let batchFrom = "";
  let known = 0;
  let missing: TensorSpec | null = null;
  for (const spec of model.inputs) {
    const tensor = given.get(spec.name);
    if (tensor === undefined) {
      if (!spec.optional) missing ??= spec;
      continue;
    }
    known++;
    const extent = validateInput(model, spec, tensor);
    if (extent === null) continue;
    if (batchFrom !== "" && extent !== batch)
      throw invalid(
        `inputs of model '${model.name}' must have the same batch-size: '${batchFrom}' has ${batch}, '${tensor.name}' has ${extent}`,
      );
    batch = extent;
    batchFrom = tensor.name;
  }
  if (known < given.size) {
    const expected = new Set(model.inputs.map((input) => input.name));
    const unexpected = tensors.find((tensor) => !expected.has(tensor.name))!;
    throw invalid(
      `unexpected inference input '${unexpected.name}' for model '${model.name}': expected ${list(model.inputs)}`,
    );
  }
  if (missing !== null)
    throw invalid(
      `missing input '${missing.name}' for model '${model.name}': expected ${list(model.inputs)}, got ${list(tensors)}`,
    );
  return batchFrom === "" ? 1 : batch;
}

/** @returns the batch extent of this input, or null where it has none. */
function validateInput(model: ModelSpec, spec: TensorSpec, tensor: Tensor): number | null {
  if (tensor.datatype !== spec.datatype)
    throw invalid(
      `inference input '${tensor.name}' data-type is '${tensor.datatype}', but model '${model.name}' expects '${spec.datatype}'`,
    );
  const batchAxis = model.batchSizeMax > 0 ? spec.batchAxis : null;
  const fits =
    tensor.shape.length === spec.shape.length &&
    spec.shape.every((extent, axis) => extent === -1 || axis === batchAxis || extent === tensor.shape[axis]);
  if (!fits)
    throw invalid(
      `unexpected shape for input '${tensor.name}' for model '${model.name}'. Expected ${shapeText(spec.shape)}, got ${shapeText(tensor.shape)}`,
    );
  const { variable } = spec;
  const longest = variable?.mode === "pad" ? variable.buckets.at(-1) : undefined;
  if (variable !== null && longest !== undefined && tensor.shape[variable.axis]! > longest)
    throw invalid(
      `unexpected shape for input '${tensor.name}' for model '${model.name}': dimension ${variable.axis} must be at most ${longest}, got ${tensor.shape[variable.axis]}`,
    );
  checkTensorBytes(
    `input '${tensor.name}'`,
    tensor.datatype as Datatype,
    tensor.shape,
    elementCount(tensor.shape),
    tensor.data,
  );
  if (batchAxis === null) return null;
  const extent = tensor.shape[batchAxis]!;
  if (extent < 1 || extent > model.batchSizeMax)
    throw invalid(
      `inference request batch-size must be <= ${model.batchSizeMax} for '${model.name}' and at least 1, got ${extent} in input '${tensor.name}'`,
    );
  return extent;
}

/** @throws ServingError invalid-argument when an output asked for is not one of the model's. */
export function validateOutputs(model: ModelSpec, names: readonly string[]): void {
  if (names.length === 0) return;
  const offered = new Set(model.outputs.map((output) => output.name));
  for (const name of names)
    if (!offered.has(name))
      throw invalid(`unexpected inference output '${name}' for model '${model.name}': expected ${list(model.outputs)}`);
}
