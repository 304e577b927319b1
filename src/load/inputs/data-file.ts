import { readParameters } from "../../wire/infer-parameters.js";
import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import { packBytes } from "../../wire/tensors/tensor-bytes.js";
import { bytesFromJson } from "../../wire/tensors/tensor-json.js";
import type { Sample } from "./inputs.js";
import type { ModelMetadata } from "./metadata.js";

/**
 * Requests from a file: JSON lines, each an Open Inference Protocol request body (`{"inputs": [{name, shape, datatype,
 * data}], "parameters": {...}}`; a datatype left out is the model's). Bytes that are no text are `{"b64": "..."}`, as elements of BYTES.
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
        data:
          base64Elements(`${where}: ${at}.data`, datatype, shape, input.data) ??
          bytesFromJson(`${where}: input '${declared.name}'`, datatype, shape, input.data),
      };
    });
    samples.push({ tensors, parameters: readParameters(json.parameters, where) });
  }
  if (samples.length === 0) throw new ServingError("invalid-argument", `${name}: holds no requests`);
  return samples;
}

/** @returns undefined: they are written otherwise. @throws ServingError invalid-argument naming what is no base64, or how many there must be. */
function base64Elements(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  data: unknown,
): Uint8Array | undefined {
  if (datatype !== "BYTES" || !Array.isArray(data) || !isBase64(data[0])) return undefined;
  if (data.length !== elementCount(shape))
    throw new ServingError(
      "invalid-argument",
      `${where} must have ${elementCount(shape)} elements for shape [${shape}]; has ${data.length}`,
    );
  return packBytes(
    data.map((element: unknown, index) => {
      if (!isBase64(element) || !BASE64.test(element.b64))
        throw new ServingError("invalid-argument", `${where}[${index}] must be {"b64": "..."}, padded base64`);
      return Buffer.from(element.b64, "base64");
    }),
  );
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const isBase64 = (element: unknown): element is { readonly b64: string } =>
  typeof (element as { b64?: unknown } | null)?.b64 === "string";
