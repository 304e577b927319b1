/**
 * The body of an HTTP inference response: JSON, then the bytes of the outputs that go back as binary.
 */

import type { Parameters } from "../infer-parameters.js";
import type { ErrorDetails, ServingError } from "../serving-error.js";
import type { Tensor } from "../tensors/tensor.js";
import { jsonFromBytes } from "../tensors/tensor-json.js";
import type { OutputFormat } from "./infer-body.js";

/** What a model answered (serve's InferReply is one). */
export interface InferAnswer {
  readonly model: string;
  readonly version: string;
  readonly outputs: readonly Tensor[];
  readonly parameters: Parameters;
}

export interface EncodedAnswer {
  /** Bytes of JSON, for the header Inference-Header-Content-Length; null: nothing is binary. */
  readonly headerLength: number | null;
  /** The body in pieces, written one after the other: large tensors are not copied into one buffer. */
  readonly pieces: readonly Uint8Array[];
  readonly byteLength: number;
}

/** Up to this many bytes a body is joined: one small copy is cheaper than another piece to write. */
const JOIN_BYTES_MAX = 8192;

const isBinary = (format: OutputFormat, name: string): boolean =>
  format.isBinary?.get(name) ?? format.isBinaryByDefault;

/** Bytes of output data that would go back as JSON: what decides whether encoding is done on another thread. */
export function jsonOutputBytes(outputs: readonly Tensor[], format: OutputFormat): number {
  let bytes = 0;
  for (const output of outputs) if (!isBinary(format, output.name)) bytes += output.data.byteLength;
  return bytes;
}

/** @throws ServingError invalid-argument when an output that should be JSON has no JSON form. */
export function encodeAnswer(answer: InferAnswer, id: string, format: OutputFormat): EncodedAnswer {
  let json = `{"model_name":${JSON.stringify(answer.model)},"model_version":${JSON.stringify(answer.version)}`;
  if (id !== "") json += `,"id":${JSON.stringify(id)}`;
  for (const _ in answer.parameters) {
    json += `,"parameters":${JSON.stringify(answer.parameters)}`;
    break;
  }
  json += ',"outputs":[';
  let binaryBytes = 0;
  let isAnyBinary = false;
  for (let i = 0; i < answer.outputs.length; i++) {
    const output = answer.outputs[i]!;
    json += `${i === 0 ? "" : ","}{"name":${JSON.stringify(output.name)},"datatype":"${output.datatype}","shape":[${output.shape.join(",")}],`;
    if (isBinary(format, output.name)) {
      isAnyBinary = true;
      binaryBytes += output.data.byteLength;
      json += `"parameters":{"binary_data_size":${output.data.byteLength}}}`;
    } else {
      json += `"data":${jsonFromBytes(output)}}`;
    }
  }
  json += "]}";
  if (!isAnyBinary) {
    const body = Buffer.from(json, "utf8");
    return { headerLength: null, pieces: [body], byteLength: body.byteLength };
  }
  const headerLength = Buffer.byteLength(json, "utf8");
  const byteLength = headerLength + binaryBytes;
  if (byteLength <= JOIN_BYTES_MAX) {
    const body = Buffer.allocUnsafe(byteLength);
    let offset = body.write(json, 0, "utf8");
    for (const output of answer.outputs) {
      if (!isBinary(format, output.name)) continue;
      body.set(output.data, offset);
      offset += output.data.byteLength;
    }
    return { headerLength, pieces: [body], byteLength };
  }
  const pieces: Uint8Array[] = [Buffer.from(json, "utf8")];
  for (const output of answer.outputs) if (isBinary(format, output.name)) pieces.push(output.data);
  return { headerLength, pieces, byteLength };
}

/** The JSON of an error answer; `cause` stays home. */
export function encodeError(error: ServingError): string {
  const details: ErrorDetails = error.details;
  return JSON.stringify({
    error: error.message,
    reason: details.reason ?? error.code,
    estimate_us: details.estimateUs,
    estimate_spread_us: details.estimateSpreadUs,
    deadline_us: details.deadlineUs,
    module: details.module,
  });
}
