/**
 * ModelInferRequest and ModelInferResponse to and from tensors.
 *
 * Inputs come either all in raw_input_contents (views of the message, no copy) or each in its typed contents; a reply
 * mirrors the request, unless the request parameter `binary_data_output` says raw (true) or typed (false).
 */
import type { DurationUs } from "../../core/time.js";
import { BytesElements, checkLength, INFER_LIMITS } from "../infer-limits.js";
import {
  checkParameterLength,
  NO_PARAMETERS,
  type Parameters,
  type ParameterValue,
  readTimeoutUs,
} from "../infer-parameters.js";
import {
  type InferParameter,
  InferTensorContents,
  ModelInferRequest,
  type ModelInferResponse,
  type ModelInferResponse_InferOutputTensor,
} from "../proto/inference.js";
import { ServingError } from "../serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "../tensors/tensor.js";
import { checkTensorBytes, packBytes, readDatatype, readShape, unpackBytes } from "../tensors/tensor-bytes.js";
import { typedView } from "../tensors/tensor-json.js";
import type { InferAnswer } from "./infer-answer.js";
import { refuseOutputExtensions, refuseSharedMemory } from "./infer-body.js";

export interface InferMessage {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  readonly timeoutUs: DurationUs | null;
  readonly parameters: Parameters;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  /** The reply carries raw_output_contents. */
  readonly isRaw: boolean;
}

const invalid = (message: string): ServingError => new ServingError("invalid-argument", message);

/** Bytes that passed `scanInferRequest` to a protobuf message; what cannot be decoded is the client's error. */
export function decodeProto(bytes: Uint8Array): ModelInferRequest {
  try {
    return ModelInferRequest.decode(bytes);
  } catch (error) {
    throw invalid(`the message must be an inference.ModelInferRequest: ${(error as Error).message}`);
  }
}

/** @throws ServingError invalid-argument naming the tensor, what was expected and what was got. */
export function readInferMessage(request: ModelInferRequest): InferMessage {
  const parameters = readProtoParameters(request.parameters, "the request");
  checkLength(request.modelName, INFER_LIMITS.nameLength, "model_name");
  checkLength(request.modelVersion, INFER_LIMITS.nameLength, "model_version");
  checkLength(request.id, INFER_LIMITS.idLength, "id");
  const outputs = new Set<string>();
  for (const [index, output] of request.outputs.entries()) {
    checkLength(output.name, INFER_LIMITS.nameLength, `name of outputs[${index}]`);
    const where = `output '${output.name}'`;
    if (outputs.has(output.name)) throw invalid(`${where} must be asked for once, got it again`);
    refuseOutputExtensions(readProtoParameters(output.parameters, where), where);
    outputs.add(output.name);
  }
  const isRawRequest = request.rawInputContents.length > 0;
  const forced = parameters.binary_data_output;
  if (forced !== undefined && typeof forced !== "boolean")
    throw invalid(`parameter 'binary_data_output' of the request must be a boolean, got ${JSON.stringify(forced)}`);
  return {
    model: request.modelName,
    version: request.modelVersion,
    id: request.id,
    timeoutUs: readTimeoutUs(parameters),
    parameters,
    inputs: readInputs(request, isRawRequest),
    outputs: [...outputs],
    isRaw: forced ?? isRawRequest,
  };
}

function readInputs(request: ModelInferRequest, isRaw: boolean): Tensor[] {
  const raw = request.rawInputContents;
  if (isRaw && raw.length !== request.inputs.length)
    throw invalid(
      `raw_input_contents must have one entry per input, expected ${request.inputs.length}, got ${raw.length}`,
    );
  const strings = new BytesElements();
  return request.inputs.map((input, index) => {
    if (input.name === "") throw invalid(`name of inputs[${index}] must be a non-empty string, got the empty string`);
    checkLength(input.name, INFER_LIMITS.nameLength, `name of inputs[${index}]`);
    const where = `input '${input.name}'`;
    const datatype = readDatatype(input.datatype, where);
    const shape = readShape(input.shape.map(Number), where);
    refuseSharedMemory(readProtoParameters(input.parameters, where), where);
    const elements = elementCount(shape);
    strings.add(datatype, elements);
    if (!isRaw) {
      const data = bytesFromContents(where, datatype, shape, input.contents);
      return { name: input.name, datatype, shape, data };
    }
    const data = raw[index]!;
    checkTensorBytes(where, datatype, shape, elements, data);
    return { name: input.name, datatype, shape, data };
  });
}

/** Parameter choices as plain values: 64-bit integers that a number cannot hold become decimal strings. */
export function readProtoParameters(parameters: Readonly<Record<string, InferParameter>>, where: string): Parameters {
  const keys = Object.keys(parameters);
  if (keys.length === 0) return NO_PARAMETERS;
  const plain: Record<string, ParameterValue> = Object.create(null);
  for (const key of keys) {
    const choice = parameters[key]!.parameterChoice;
    if (choice === undefined)
      throw invalid(`parameter '${key}' of ${where} must have a value, got an InferParameter without one`);
    const { value } = choice;
    checkParameterLength(key, value, where);
    plain[key] = typeof value !== "bigint" ? value : isSafe(value) ? Number(value) : value.toString();
  }
  return plain;
}

const isSafe = (value: bigint): boolean =>
  value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);

/** Plain values as parameter choices: whole numbers travel as int64, others as double. */
export function writeProtoParameters(parameters: Parameters): Record<string, InferParameter> {
  const choices: Record<string, InferParameter> = {};
  for (const [key, value] of Object.entries(parameters))
    choices[key] = {
      parameterChoice:
        typeof value === "boolean"
          ? { $case: "boolParam", value }
          : typeof value === "string"
            ? { $case: "stringParam", value }
            : Number.isSafeInteger(value)
              ? { $case: "int64Param", value: BigInt(value) }
              : { $case: "doubleParam", value },
    };
  return choices;
}

type ContentsField = keyof InferTensorContents;
const CONTENTS: Record<Datatype, ContentsField | null> = {
  BOOL: "boolContents",
  INT8: "intContents",
  INT16: "intContents",
  INT32: "intContents",
  INT64: "int64Contents",
  UINT8: "uintContents",
  UINT16: "uintContents",
  UINT32: "uintContents",
  UINT64: "uint64Contents",
  FP32: "fp32Contents",
  FP64: "fp64Contents",
  BYTES: "bytesContents",
  FP16: null,
  BF16: null,
};
const FIELDS = [...new Set(Object.values(CONTENTS))].filter((field) => field !== null);
/** The protocol's spelling, for error texts. */
const protoName = (field: ContentsField): string => field.replace("Contents", "_contents");

function bytesFromContents(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  contents: InferTensorContents | undefined,
): Uint8Array {
  const field = CONTENTS[datatype];
  if (field === null) throw invalid(`${where}: ${datatype} data in contents is not supported; use raw_input_contents`);
  const elements = elementCount(shape);
  const values = contents?.[field] ?? [];
  if (values.length !== elements) {
    const other = FIELDS.find((name) => name !== field && (contents?.[name].length ?? 0) > 0);
    throw invalid(
      `${where} of datatype ${datatype} and shape [${shape.join(",")}] must have ${elements} elements in ${protoName(field)}, got ${values.length}${other === undefined ? "" : ` there and ${contents![other].length} in ${protoName(other)}`}`,
    );
  }
  switch (datatype) {
    case "BYTES":
      return packBytes(values as Uint8Array[]);
    case "BOOL":
      return Uint8Array.from(values as boolean[], Number);
    case "INT64":
      return new Uint8Array(BigInt64Array.from(values as bigint[]).buffer);
    case "UINT64":
      return new Uint8Array(BigUint64Array.from(values as bigint[]).buffer);
    case "FP32":
      return new Uint8Array(Float32Array.from(values as number[]).buffer);
    case "FP64":
      return new Uint8Array(Float64Array.from(values as number[]).buffer);
    case "INT32":
      return new Uint8Array(Int32Array.from(values as number[]).buffer);
    case "UINT32":
      return new Uint8Array(Uint32Array.from(values as number[]).buffer);
    default:
      return packSmall(where, datatype, values as number[]);
  }
}

const SMALL = { INT8: Int8Array, INT16: Int16Array, UINT8: Uint8Array, UINT16: Uint16Array } as const;

function packSmall(where: string, datatype: Datatype, values: readonly number[]): Uint8Array {
  const typed = new SMALL[datatype as keyof typeof SMALL](values.length);
  for (let i = 0; i < values.length; i++) {
    typed[i] = values[i]!;
    if (typed[i] !== values[i])
      throw invalid(
        `element ${i} of ${where} must fit datatype ${datatype} (${DATATYPES[datatype]} bytes), got ${values[i]}`,
      );
  }
  return new Uint8Array(typed.buffer);
}

/** A reply as a message; typed contents unless raw, and raw where a datatype has no typed form. */
export function writeAnswer(answer: InferAnswer, id: string, isRaw: boolean): ModelInferResponse {
  const raw = isRaw || answer.outputs.some((output) => CONTENTS[output.datatype] === null);
  return {
    modelName: answer.model,
    modelVersion: answer.version,
    id,
    parameters: writeProtoParameters(answer.parameters),
    outputs: answer.outputs.map(
      (output): ModelInferResponse_InferOutputTensor => ({
        name: output.name,
        datatype: output.datatype,
        shape: output.shape.map(BigInt),
        parameters: {},
        contents: raw ? undefined : contentsFromBytes(output),
      }),
    ),
    rawOutputContents: raw ? answer.outputs.map((output) => output.data) : [],
  };
}

function contentsFromBytes(tensor: Tensor): InferTensorContents {
  const contents = InferTensorContents.fromPartial({});
  const field = CONTENTS[tensor.datatype]!;
  const values =
    tensor.datatype === "BYTES"
      ? unpackBytes(tensor.data)
      : tensor.datatype === "BOOL"
        ? Array.from(tensor.data, (byte) => byte !== 0)
        : Array.from(typedView(tensor) as Iterable<number | bigint>);
  (contents as unknown as Record<string, unknown>)[field] = values;
  return contents;
}
