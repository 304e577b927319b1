/** The least a server can do: answers with what it reads. What a client measures against it is client and transport. */
import http from "node:http";
import type { AddressInfo } from "node:net";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { INFER_METHOD } from "./probe.js";

/** @returns the port. */
export function createEcho(protocol: "http" | "grpc"): Promise<number> {
  return protocol === "http" ? httpEcho() : grpcEcho();
}

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
