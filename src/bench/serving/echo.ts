/**
 * The least a server can do: answers with what it reads. What a client measures against it is client and transport.
 * The doors' echoes put one of our doors between: what they take more is the door.
 */
import http from "node:http";
import type { AddressInfo } from "node:net";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { ModelSpec } from "../../config/model.js";
import type { Gateway } from "../../serve/gateway.js";
import { createGrpcDoor } from "../../serve/grpc/door.js";
import { createHttpDoor } from "../../serve/http/door.js";
import { INFER_METHOD } from "../scheduling/probe.js";

export type EchoKind = "http" | "grpc" | "http-door" | "grpc-door";

/** @returns the port. */
export async function createEcho(kind: EchoKind): Promise<number> {
  switch (kind) {
    case "http":
      return httpEcho();
    case "grpc":
      return grpcEcho();
    case "http-door":
      return (await createHttpDoor(echoGateway, { port: 0, version: "0" })).port;
    case "grpc-door":
      return (await createGrpcDoor(echoGateway, { port: 0, version: "0" })).port;
  }
}

const tensor = { datatype: "FP32", shape: [-1, -1], batchAxis: 0, variable: null, optional: false } as const;
const model: Partial<ModelSpec> = {
  name: "echo",
  version: "1",
  versions: ["1"],
  platform: "onnx_onnxv1",
  inputs: [{ name: "x", ...tensor }],
  outputs: [{ name: "y", ...tensor }],
  batchSizeMax: 1,
};

/** Answers an inference with its input at once. A door that only infers asks for nothing else. */
const echoGateway = {
  live: true,
  ready: true,
  model: () => model,
  infer(call, handler) {
    handler.onReply({ model: "echo", version: "1", parameters: {}, outputs: [{ ...call.inputs[0]!, name: "y" }] });
    return () => {};
  },
} as Pick<Gateway, "infer"> as Gateway;

async function httpEcho(): Promise<number> {
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const body = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
      response.writeHead(200, { "content-length": body.length });
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function grpcEcho(): Promise<number> {
  const server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
  const same = (bytes: Buffer): Buffer => bytes;
  const infer = {
    path: INFER_METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  server.addService(
    { infer },
    {
      infer: (call: { request: Buffer }, callback: (error: null, reply: Buffer) => void) =>
        callback(null, call.request),
    },
  );
  return new Promise((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    ),
  );
}
