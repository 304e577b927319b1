import { ServingError } from "../../wire/serving-error.js";

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  /** -1 = variable. */
  readonly shape: readonly number[];
}

/** What a server says of a model: all that is needed to make inputs for it. */
export interface ModelMetadata {
  readonly inputs: readonly TensorMetadata[];
  /** Whether tensors may travel as raw bytes over HTTP (extension `binary_tensor_data`); gRPC always can. */
  readonly hasBinaryData: boolean;
}

/** @throws ServingError unavailable when what a server sent is not model metadata; names the member. */
export function parseMetadata(where: string, json: unknown, hasBinaryData: boolean): ModelMetadata {
  const inputs = (json as { inputs?: unknown } | null)?.inputs;
  const bad = (what: string): never => {
    throw new ServingError("unavailable", `${where}: model metadata ${what}`);
  };
  if (!Array.isArray(inputs) || inputs.length === 0) return bad("has no inputs");
  return {
    hasBinaryData,
    inputs: inputs.map((input: Record<string, unknown>, index) => {
      const shape = Array.isArray(input.shape)
        ? input.shape.map(Number)
        : bad(`inputs[${index}].shape is not an array`);
      if (shape.some((extent) => !Number.isInteger(extent) || extent < -1))
        bad(`inputs[${index}].shape must hold whole numbers >= -1; was [${shape.join(",")}]`);
      if (typeof input.name !== "string" || typeof input.datatype !== "string")
        bad(`inputs[${index}] must have a name and a datatype`);
      return { name: input.name as string, datatype: input.datatype as string, shape };
    }),
  };
}
