/** A gRPC client by hand: bytes and endings that no library would send. */
import http2 from "node:http2";
import net from "node:net";
import { ModelInferRequest } from "../../src/wire/proto/inference.js";

export const INFER = "/inference.GRPCInferenceService/ModelInfer";
export const STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer";

const sockets = new WeakMap<http2.ClientHttp2Session, net.Socket>();

export function connect(port: number, settings: http2.Settings = {}): http2.ClientHttp2Session {
  const socket = net.connect(port, "127.0.0.1");
  const session = http2.connect(`http://127.0.0.1:${port}`, { settings, createConnection: () => socket });
  session.on("error", () => {});
  sockets.set(session, socket);
  return session;
}

/** The connection is lost, without a word of HTTP/2. */
export function cut(session: http2.ClientHttp2Session): void {
  sockets.get(session)!.destroy();
}

/** A message with its prefix; `announced` may lie. */
export function framed(message: Uint8Array, announced = message.byteLength, compressed = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed;
  prefix.writeUInt32BE(announced, 1);
  return Buffer.concat([prefix, message]);
}

export const inferMessage = (model: string, data: Uint8Array, delayMs = 0): Uint8Array =>
  ModelInferRequest.encode(
    ModelInferRequest.fromPartial({
      modelName: model,
      parameters: { delay_ms: { parameterChoice: { $case: "int64Param", value: BigInt(delayMs) } } },
      inputs: [{ name: "x", datatype: "FP32", shape: [BigInt(data.byteLength / 4)] }],
      rawInputContents: [data],
    }),
  ).finish();

export interface RawCall {
  readonly stream: http2.ClientHttp2Stream;
  /** The gRPC status, or "reset CODE" of a stream that ended without one. */
  readonly status: Promise<string>;
}

export function open(
  session: http2.ClientHttp2Session,
  path: string,
  headers: http2.OutgoingHttpHeaders = {},
): RawCall {
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  stream.on("error", () => {});
  const status = new Promise<string>((resolve) => {
    const take = (got: http2.IncomingHttpHeaders): void => {
      if (got["grpc-status"] !== undefined) resolve(`${got["grpc-status"]} ${got["rubato-reason"] ?? ""}`.trim());
    };
    stream.on("response", take);
    stream.on("trailers", take);
    stream.on("close", () => resolve(`reset ${stream.rstCode}`));
  });
  return { stream, status };
}
