/**
 * The body of an HTTP inference request: JSON, then the bytes of the inputs that say `binary_data_size`, back to back.
 *
 * Everything here is synchronous and pure, so that large bodies can be decoded on another thread (json-pool.ts).
 */
import { isUtf8 } from "node:buffer";
import type { DurationUs } from "../../core/time.js";
import { BytesElements, checkLength, INFER_LIMITS, tooMany } from "../infer-limits.js";
import { describe, type Parameters, readParameters, readTimeoutUs } from "../infer-parameters.js";
import { ServingError } from "../serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../tensors/tensor.js";
import { checkTensorBytes, packBytes, readDatatype, readShape } from "../tensors/tensor-bytes.js";
import { bytesFromJson, mayHaveLostDigits } from "../tensors/tensor-json.js";
import { checkJsonBounds } from "./json-bounds.js";
import { parseLossless } from "./lossless-json.js";

/** Which outputs go back as binary. */
export interface OutputFormat {
  readonly isBinaryByDefault: boolean;
  /** Outputs that say otherwise. */
  readonly isBinary: ReadonlyMap<string, boolean> | null;
}

export interface InferBody {
  readonly id: string;
  readonly timeoutUs: DurationUs | null;
  readonly parameters: Parameters;
  readonly inputs: readonly Tensor[];
  /** Output names asked for; empty = all. */
  readonly outputs: readonly string[];
  readonly format: OutputFormat;
}

/** What a raw binary request needs to know of a model (a ModelSpec is one). */
export interface RawTarget {
  readonly name: string;
  readonly batchSizeMax: number;
  readonly inputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly batchAxis: number | null;
  }[];
}

const invalid = (message: string): ServingError => new ServingError("invalid-argument", message);

/**
 * The header `Inference-Header-Content-Length`: bytes of JSON at the start of the body.
 *
 * @returns null when absent: the whole body is JSON.
 */
export function readHeaderLength(value: string | undefined, bodyLength: number): number | null {
  if (value === undefined) return null;
  const length = /^\d{1,15}$/.test(value.trim()) ? Number(value) : Number.NaN;
  if (!(length <= bodyLength))
    throw invalid(
      `header Inference-Header-Content-Length must be a whole number in [0, ${bodyLength}], the length of the body, got '${value}'`,
    );
  return length;
}

/** Decodes JSON and binary parts. `headerLength` null: the whole body is JSON. Tensors may be views of `body`. */
export function decodeInferBody(body: Uint8Array, headerLength: number | null): InferBody {
  const jsonLength = headerLength ?? body.byteLength;
  const bytes = Buffer.from(body.buffer, body.byteOffset, jsonLength);
  if (!isUtf8(bytes)) throw invalid("the JSON of the request body must be valid UTF-8");
  checkJsonBounds(bytes);
  const text = bytes.toString("utf8");
  const json = parseObject(text);

  const id = json.id ?? "";
  if (typeof id !== "string") throw invalid(`id must be a string, got ${describe(id)}`);
  checkLength(id, INFER_LIMITS.idLength, "id");
  const parameters = readParameters(json.parameters, "the request");
  const binaryOutput = parameters.binary_data_output ?? false;
  if (typeof binaryOutput !== "boolean")
    throw invalid(`parameter 'binary_data_output' of the request must be a boolean, got ${describe(binaryOutput)}`);
  const outputs = readOutputs(json.outputs, binaryOutput);
  return {
    id,
    timeoutUs: readTimeoutUs(parameters),
    parameters,
    inputs: readInputs(json.inputs, text, body, jsonLength),
    outputs: outputs.names,
    format: outputs.format,
  };
}

/** Decodes a body that is one input's bytes and nothing else (header length 0). */
export function decodeRawBody(body: Uint8Array, model: RawTarget): InferBody {
  const rule = "a raw binary request (Inference-Header-Content-Length: 0)";
  const input = model.inputs[0];
  if (input === undefined || model.inputs.length !== 1)
    throw invalid(`${rule} needs a model with one input; model '${model.name}' has ${model.inputs.length}`);
  const where = `input '${input.name}'`;
  const datatype = input.datatype as Datatype;
  const shape = input.shape.map((extent, axis) => (axis === input.batchAxis && model.batchSizeMax > 0 ? 1 : extent));
  const open = shape.filter((extent) => extent < 0).length;
  if (datatype === "BYTES") {
    const ones = shape.map((extent) => (extent < 0 ? 1 : extent));
    if (elementCount(ones) !== 1)
      throw invalid(
        `${rule} carries one BYTES element; ${where} of model '${model.name}' has shape [${input.shape.join(",")}]`,
      );
    return rawRequest({ name: input.name, datatype, shape: ones, data: packBytes([body]) });
  }
  if (open > 1)
    throw invalid(
      `${rule} needs at most one variable dimension; ${where} of model '${model.name}' has shape [${input.shape.join(",")}]`,
    );
  let known: number = DATATYPES[datatype];
  for (const extent of shape) if (extent >= 0) known *= extent;
  if (open === 1 && (known === 0 || body.byteLength % known !== 0))
    throw invalid(
      `${where} of model '${model.name}' with shape [${input.shape.join(",")}] must have a multiple of ${known} bytes in ${rule}, got ${body.byteLength}`,
    );
  const full = shape.map((extent) => (extent < 0 ? body.byteLength / known : extent));
  checkTensorBytes(where, datatype, full, elementCount(full), body);
  return rawRequest({ name: input.name, datatype, shape: full, data: body });
}

function rawRequest(input: Tensor): InferBody {
  return {
    id: "",
    timeoutUs: null,
    parameters: {},
    inputs: [input],
    outputs: [],
    format: { isBinaryByDefault: true, isBinary: null },
  };
}

function parseObject(text: string): Record<string, unknown> {
  const value = parseJson(text, JSON.parse);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(`the request body must be a JSON object, got ${describe(value)}`);
  return value as Record<string, unknown>;
}

function parseJson(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw invalid(`the request body must be JSON: ${(error as Error).message}`);
  }
}

function readInputs(value: unknown, text: string, body: Uint8Array, jsonLength: number): Tensor[] {
  // None may do, where the model takes each as optional.
  if (!Array.isArray(value)) throw invalid(`inputs must be an array of tensors, got ${describe(value)}`);
  if (value.length > INFER_LIMITS.inputs) throw tooMany("inputs", INFER_LIMITS.inputs, "tensors", value.length);
  const inputs: Tensor[] = [];
  const strings = new BytesElements();
  let offset = jsonLength;
  let lossless: unknown;
  for (let index = 0; index < value.length; index++) {
    const item: unknown = value[index];
    if (typeof item !== "object" || item === null || Array.isArray(item))
      throw invalid(`inputs[${index}] must be an object, got ${describe(item)}`);
    const entry = item as Record<string, unknown>;
    const name = readName(entry.name, `inputs[${index}]`);
    const where = `input '${name}'`;
    const datatype = readDatatype(entry.datatype, where);
    const shape = readShape(entry.shape, where);
    strings.add(datatype, elementCount(shape));
    const parameters = readParameters(entry.parameters, where);
    refuseSharedMemory(parameters, where);
    const size = parameters.binary_data_size;
    if (size !== undefined) {
      if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
        throw invalid(`parameter 'binary_data_size' of ${where} must be a whole number >= 0, got ${describe(size)}`);
      if (entry.data !== undefined)
        throw invalid(`${where} must have either data or parameter 'binary_data_size', got both`);
      const left = body.byteLength - offset;
      if (size > left)
        throw invalid(
          `${where} says binary_data_size ${size}, but only ${left} bytes of binary data are left in the body`,
        );
      const data = body.subarray(offset, offset + size);
      offset += size;
      checkTensorBytes(where, datatype, shape, elementCount(shape), data);
      inputs.push({ name, datatype, shape, data });
      continue;
    }
    if (entry.data === undefined) throw invalid(`${where} must have data or parameter 'binary_data_size', got neither`);
    let data: unknown = entry.data;
    if ((datatype === "INT64" || datatype === "UINT64") && mayHaveLostDigits(data)) {
      lossless ??= (parseJson(text, parseLossless) as { inputs: unknown }).inputs;
      data = (lossless as Record<string, unknown>[])[index]?.data;
    }
    inputs.push({ name, datatype, shape, data: bytesFromJson(where, datatype, shape, data) });
  }
  if (offset !== body.byteLength)
    throw invalid(
      `the sizes of the binary inputs must add up to the ${body.byteLength - jsonLength} bytes after the JSON, got ${offset - jsonLength}`,
    );
  return inputs;
}

function readName(value: unknown, where: string): string {
  if (typeof value !== "string" || value === "")
    throw invalid(`name of ${where} must be a non-empty string, got ${describe(value)}`);
  checkLength(value, INFER_LIMITS.nameLength, `name of ${where}`);
  return value;
}

/** Shared memory and classification change what a tensor means, so they are refused rather than ignored. */
export function refuseSharedMemory(parameters: Parameters, where: string): void {
  if (parameters.shared_memory_region !== undefined)
    throw new ServingError(
      "unimplemented",
      `${where} asks for shared memory region ${describe(parameters.shared_memory_region)}: shared memory is not supported; send the bytes`,
    );
}

/** As `refuseSharedMemory`, for a requested output. */
export function refuseOutputExtensions(parameters: Parameters, where: string): void {
  refuseSharedMemory(parameters, where);
  const classes = parameters.classification;
  if (classes !== undefined && classes !== 0)
    throw new ServingError(
      "unimplemented",
      `${where} asks for classification ${describe(classes)}: classification is not supported; ask for the tensor itself`,
    );
}

function readOutputs(value: unknown, isBinaryByDefault: boolean): { names: readonly string[]; format: OutputFormat } {
  if (value === undefined || value === null) return { names: [], format: { isBinaryByDefault, isBinary: null } };
  if (!Array.isArray(value)) throw invalid(`outputs must be an array of tensors, got ${describe(value)}`);
  if (value.length > INFER_LIMITS.outputs) throw tooMany("outputs", INFER_LIMITS.outputs, "tensors", value.length);
  const names = new Set<string>();
  const isBinary = new Map<string, boolean>();
  for (let index = 0; index < value.length; index++) {
    const item: unknown = value[index];
    if (typeof item !== "object" || item === null || Array.isArray(item))
      throw invalid(`outputs[${index}] must be an object, got ${describe(item)}`);
    const entry = item as Record<string, unknown>;
    const name = readName(entry.name, `outputs[${index}]`);
    const where = `output '${name}'`;
    if (names.has(name)) throw invalid(`${where} must be asked for once, got it again at outputs[${index}]`);
    names.add(name);
    const parameters = readParameters(entry.parameters, where);
    refuseOutputExtensions(parameters, where);
    const binary = parameters.binary_data;
    if (binary === undefined) continue;
    if (typeof binary !== "boolean")
      throw invalid(`parameter 'binary_data' of ${where} must be a boolean, got ${describe(binary)}`);
    isBinary.set(name, binary);
  }
  return { names: [...names], format: { isBinaryByDefault, isBinary: isBinary.size > 0 ? isBinary : null } };
}
