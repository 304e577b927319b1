/** One inference with one binary FP32 tensor, encoded for each protocol. */
import { ModelInferRequest } from "../../wire/proto/inference.js";

export interface ProbeRequest {
  readonly protocol: "http" | "grpc";
  readonly model: string;
  /** Of the tensor, a multiple of 4. */
  readonly bytes: number;
}

export function encodeProbe({ protocol, model, bytes }: ProbeRequest): Buffer {
  const tensor = Buffer.alloc(bytes, 7);
  return protocol === "http" ? httpMessage(model, tensor) : grpcMessage(model, tensor);
}

function httpMessage(model: string, tensor: Buffer): Buffer {
  const json = JSON.stringify({
    inputs: [
      {
        name: "x",
        datatype: "FP32",
        shape: [1, tensor.length / 4],
        parameters: { binary_data_size: tensor.length },
      },
    ],
    outputs: [{ name: "y", parameters: { binary_data: true } }],
  });
  const head = [
    `POST /v2/models/${model}/infer HTTP/1.1`,
    "Host: bench",
    "Content-Type: application/octet-stream",
    `Inference-Header-Content-Length: ${json.length}`,
    `Content-Length: ${json.length + tensor.length}`,
  ].join("\r\n");
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n${json}`), tensor]);
}

function grpcMessage(model: string, tensor: Buffer): Buffer {
  const message = ModelInferRequest.fromPartial({
    modelName: model,
    inputs: [{ name: "x", datatype: "FP32", shape: [1n, BigInt(tensor.length / 4)] }],
    rawInputContents: [tensor],
  });
  return Buffer.from(ModelInferRequest.encode(message).finish());
}
