/** Both doors over one fake gateway, and clients as plain as can be. */
import http from "node:http";
import { type Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import type { Door } from "../../src/serve/door.js";
import { createGrpcDoor } from "../../src/serve/grpc/door.js";
import { createHttpDoor, type HttpDoorOptions } from "../../src/serve/http/door.js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "../../src/wire/proto/inference.js";
import { FakeGateway } from "../fakes/fake-gateway.js";

export interface HttpReply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted member by member
  readonly json: any;
}

export interface Doors {
  readonly gateway: FakeGateway;
  readonly http: Door;
  readonly grpc: Door;
  readonly client: GRPCInferenceServiceClient;
  readonly answers: string[];
  call(method: string, path: string, body?: string | Buffer, headers?: http.OutgoingHttpHeaders): Promise<HttpReply>;
  infer(model: string, body: unknown, headers?: http.OutgoingHttpHeaders): Promise<HttpReply>;
  close(): Promise<void>;
}

export async function openDoors(options: Partial<HttpDoorOptions> = {}): Promise<Doors> {
  const gateway = new FakeGateway();
  const answers: string[] = [];
  const all: HttpDoorOptions = {
    port: 0,
    version: "9.9.9",
    onAnswer: (protocol, code, reason) => answers.push(`${protocol} ${code} ${reason}`),
    ...options,
  };
  const httpDoor = await createHttpDoor(gateway, all);
  const grpcDoor = await createGrpcDoor(gateway, all);
  const client = new GRPCInferenceServiceClient(`127.0.0.1:${grpcDoor.port}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const agent = new http.Agent({ keepAlive: true });
  const call: Doors["call"] = (method, path, body, headers = {}) =>
    new Promise((resolve, reject) => {
      const isChunked = headers["transfer-encoding"] !== undefined;
      const length = body === undefined || isChunked ? {} : { "content-length": Buffer.byteLength(body) };
      const request = http.request(
        { host: "127.0.0.1", port: httpDoor.port, method, path, agent, headers: { ...length, ...headers } },
        (response) => {
          const pieces: Buffer[] = [];
          response.on("data", (piece) => pieces.push(piece));
          response.on("error", reject);
          response.on("end", () => {
            const whole = Buffer.concat(pieces);
            let json: unknown = null;
            try {
              json = JSON.parse(whole.toString("utf8"));
            } catch {
              // Binary or text: `body` has it.
            }
            resolve({ status: response.statusCode!, headers: response.headers, body: whole, json });
          });
        },
      );
      request.on("error", reject);
      request.end(body);
    });
  return {
    gateway,
    http: httpDoor,
    grpc: grpcDoor,
    client,
    answers,
    call,
    infer: (model, body, headers) =>
      call(
        "POST",
        `/v2/models/${encodeURIComponent(model)}/infer`,
        typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        headers,
      ),
    async close() {
      agent.destroy();
      client.close();
      await Promise.all([httpDoor.close(500), grpcDoor.close(500)]);
    },
  };
}

/** A binary body: JSON and the tensors after it, with the header that says where it ends. */
export function binaryBody(
  json: unknown,
  ...tensors: Uint8Array[]
): { body: Buffer; headers: http.OutgoingHttpHeaders } {
  const text = Buffer.from(JSON.stringify(json));
  return { body: Buffer.concat([text, ...tensors]), headers: { "Inference-Header-Content-Length": text.byteLength } };
}

export const fp32 = (...values: number[]): Buffer => Buffer.from(new Float32Array(values).buffer);

export type Outcome = { error: ServiceError; response: null } | { error: null; response: ModelInferResponse };

/** Any unary method as a promise that never rejects: the error is the point of most tests. */
export function unary<Request, Response>(
  // biome-ignore lint/suspicious/noExplicitAny: the generated client overloads every method
  method: any,
  client: Client,
  request: Request,
  options: object = {},
): Promise<{ error: ServiceError | null; response: Response }> {
  return new Promise((resolve) => {
    method.call(client, request, new Metadata(), options, (error: ServiceError | null, response: Response) =>
      resolve({ error, response }),
    );
  });
}

export function grpcInfer(doors: Doors, request: object, options: object = {}) {
  return unary<ModelInferRequest, ModelInferResponse>(
    doors.client.modelInfer,
    doors.client,
    ModelInferRequest.fromPartial(request),
    options,
  );
}

export async function until(condition: () => boolean, what: string): Promise<void> {
  for (let i = 0; i < 2000; i++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  throw new Error(`never: ${what}`);
}
