import { jsonFromBytes } from "../../wire/tensors/tensor-json.js";
import type { Sample } from "../inputs/inputs.js";

export interface HttpBody {
  readonly headers: string[];
  readonly bytes: Buffer;
}

/**
 * An inference request of the Open Inference Protocol over HTTP.
 *
 * @param timeoutUs the deadline as request parameter `timeout` (Triton's name and unit), or null.
 * @param isBinary  tensors as raw bytes behind the JSON (extension binary_tensor_data), outputs asked for likewise.
 */
export function encodeHttpBody(sample: Sample, timeoutUs: number | null, isBinary: boolean): HttpBody {
  const parameters = {
    ...sample.parameters,
    ...(timeoutUs === null ? {} : { timeout: timeoutUs }),
    ...(isBinary ? { binary_data_output: true } : {}),
  };
  const head = Object.keys(parameters).length === 0 ? "" : `"parameters":${JSON.stringify(parameters)},`;
  const inputs = sample.tensors.map((tensor) => {
    const common = `"name":${JSON.stringify(tensor.name)},"shape":[${tensor.shape.join(",")}],"datatype":"${tensor.datatype}"`;
    return isBinary
      ? `{${common},"parameters":{"binary_data_size":${tensor.data.byteLength}}}`
      : `{${common},"data":${jsonFromBytes(tensor)}}`;
  });
  const json = Buffer.from(`{${head}"inputs":[${inputs.join(",")}]}`);
  if (!isBinary) return { headers: ["content-type", "application/json"], bytes: json };
  return {
    headers: ["content-type", "application/octet-stream", "inference-header-content-length", String(json.byteLength)],
    bytes: Buffer.concat([json, ...sample.tensors.map((tensor) => tensor.data)]),
  };
}
