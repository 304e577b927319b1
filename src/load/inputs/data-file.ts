import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, type Datatype, type Tensor } from "../../wire/tensors/tensor.js";
import { bytesFromJson } from "../../wire/tensors/tensor-json.js";
import type { Sample } from "./inputs.js";
import type { ModelMetadata } from "./metadata.js";

/**
 * Requests from a file: JSON lines, each an Open Inference Protocol request body (`{"inputs": [{name, shape, datatype,
 * data}], "parameters": {...}}`; a datatype left out is the model's).
 *
 * @throws ServingError invalid-argument naming file, line and what is wrong.
 */
export function parseDataFile(name: string, text: string, metadata: ModelMetadata): Sample[] {
  const samples: Sample[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const where = `${name}: line ${index + 1}`;
    const bad = (what: string): never => {
      throw new ServingError("invalid-argument", `${where}: ${what}`);
    };
    let json: { inputs?: unknown; parameters?: unknown };
    try {
      json = JSON.parse(line) as typeof json;
    } catch (error) {
      return bad(`is not JSON: ${(error as Error).message}`);
    }
    if (!Array.isArray(json?.inputs) || json.inputs.length === 0) return bad("'inputs' must be a non-empty array");
    const tensors = json.inputs.map((input: Record<string, unknown>, position): Tensor => {
      const at = `inputs[${position}]`;
      const declared = metadata.inputs.find((candidate) => candidate.name === input?.name);
      if (declared === undefined)
        return bad(
          `${at}.name must be one of ${metadata.inputs.map((i) => i.name).join(", ")}; was '${String(input?.name)}'`,
        );
      const datatype = (input.datatype ?? declared.datatype) as Datatype;
      if (!(datatype in DATATYPES)) bad(`${at}.datatype '${String(datatype)}' is unknown`);
      const shape = input.shape;
      if (!Array.isArray(shape) || shape.some((extent) => !Number.isInteger(extent) || extent < 0))
        return bad(`${at}.shape must be an array of whole numbers >= 0`);
      return {
        name: declared.name,
        datatype,
        shape,
        data: bytesFromJson(`${where}: input '${declared.name}'`, datatype, shape, input.data),
      };
    });
    samples.push({ tensors, parameters: (json.parameters ?? {}) as Sample["parameters"] });
  }
  if (samples.length === 0) throw new ServingError("invalid-argument", `${name}: holds no requests`);
  return samples;
}
