/**
 * Hand-written servers of the Open Inference Protocol for tests of its clients. They check what they are sent: a request
 * that breaks the protocol is answered 400 (INVALID_ARGUMENT) and kept in `violations`.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type handleUnaryCall, Metadata, Server, ServerCredentials, status } from "@grpc/grpc-js";
import {
  GRPCInferenceServiceService,
  type ModelInferRequest,
  type ModelInferResponse,
  ModelMetadataResponse,
} from "../../src/wire/proto/inference.js";
import { DATATYPES, type Datatype, elementCount } from "../../src/wire/tensors/tensor.js";

export interface StubInput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
}
export interface StubRequest {
  /** Count of requests before this one. */
  readonly number: number;
  readonly path: string;
  readonly inputs: readonly StubInput[];
  /** Bytes of each input when sent binary, else null. */
  readonly binary: readonly Buffer[] | null;
  readonly parameters: Readonly<Record<string, unknown>>;
}
export interface StubReply {
  /** HTTP status, or its gRPC equivalent; default 200. */
  readonly status?: number;
  readonly body?: string | Buffer;
  readonly delayMs?: number;
  /** Break the connection instead of answering. */
  readonly isBroken?: boolean;
}
export interface OipStub {
  readonly origin: string;
  readonly requests: StubRequest[];
  readonly violations: string[];
  close(): Promise<void>;
}
export interface StubOptions {
  readonly models: Readonly<Record<string, readonly StubInput[]>>;
  readonly reply?: (request: StubRequest) => StubReply;
  /** Default: binary_tensor_data. */
  readonly extensions?: readonly string[];
}

export async function startHttpStub(options: StubOptions): Promise<OipStub> {
  const requests: StubRequest[] = [];
  const violations: string[] = [];
  const server = createServer(async (incoming, response) => {
    const send = (code: number, body: string | Buffer) => {
      response.writeHead(code, { "content-length": Buffer.byteLength(body) });
      response.end(body);
    };
    const path = incoming.url!;
    if (path === "/v2") {
      return send(
        200,
        JSON.stringify({ name: "stub", version: "1", extensions: options.extensions ?? ["binary_tensor_data"] }),
      );
    }
    const model = /^\/v2\/models\/([^/]+)/.exec(path)?.[1];
    const inputs = model === undefined ? undefined : options.models[model];
    if (inputs === undefined) return send(404, JSON.stringify({ error: `no model '${model}'` }));
    if (incoming.method === "GET")
      return send(200, JSON.stringify({ name: model, platform: "stub", inputs, outputs: [] }));
    try {
      const request = parseHttp(requests.length, path, incoming, await readAll(incoming), inputs);
      requests.push(request);
      const reply = options.reply?.(request) ?? {};
      if (reply.delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, reply.delayMs));
      if (reply.isBroken === true) return void incoming.socket.destroy();
      send(reply.status ?? 200, reply.body ?? "{}");
    } catch (error) {
      violations.push((error as Error).message);
      send(400, JSON.stringify({ error: (error as Error).message }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    violations,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readAll(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function parseHttp(
  number: number,
  path: string,
  { headers }: IncomingMessage,
  body: Buffer,
  declared: readonly StubInput[],
): StubRequest {
  const headLength = headers["inference-header-content-length"];
  const isBinary = headLength !== undefined;
  const json = JSON.parse(body.subarray(0, isBinary ? Number(headLength) : undefined).toString()) as {
    parameters?: Record<string, unknown>;
    inputs: (StubInput & { parameters?: { binary_data_size?: number }; data?: unknown[] })[];
  };
  let offset = isBinary ? Number(headLength) : body.byteLength;
  const binary: Buffer[] = [];
  for (const input of json.inputs) {
    checkInput(input, declared);
    const count = elementCount(input.shape);
    if (isBinary) {
      const size = input.parameters?.binary_data_size ?? -1;
      const expected = DATATYPES[input.datatype] * count;
      if (expected > 0 && size !== expected) throw new Error(`${input.name}: ${size} bytes, expected ${expected}`);
      binary.push(body.subarray(offset, offset + size));
      offset += size;
    } else if (input.data?.length !== count)
      throw new Error(`${input.name}: ${input.data?.length} elements of ${count}`);
  }
  if (offset !== body.byteLength) throw new Error(`body has ${body.byteLength} bytes, described are ${offset}`);
  return { number, path, inputs: json.inputs, binary: isBinary ? binary : null, parameters: json.parameters ?? {} };
}

function checkInput(input: StubInput, declared: readonly StubInput[]): void {
  const expected = declared.find((candidate) => candidate.name === input.name);
  if (expected === undefined) throw new Error(`unknown input '${input.name}'`);
  if (expected.datatype !== input.datatype) throw new Error(`${input.name}: datatype ${input.datatype}`);
  const fits = expected.shape.every((extent, axis) => extent === -1 || extent === input.shape[axis]);
  if (!fits || expected.shape.length !== input.shape.length) throw new Error(`${input.name}: shape [${input.shape}]`);
}

const GRPC_OF_HTTP: Record<number, number> = {
  400: status.INVALID_ARGUMENT,
  429: status.RESOURCE_EXHAUSTED,
  500: status.INTERNAL,
  503: status.UNAVAILABLE,
  504: status.DEADLINE_EXCEEDED,
};

export async function startGrpcStub(options: StubOptions): Promise<OipStub> {
  const requests: StubRequest[] = [];
  const violations: string[] = [];
  const server = new Server({ "grpc.max_receive_message_length": -1 });
  const modelInfer: handleUnaryCall<ModelInferRequest, ModelInferResponse> = async (call, done) => {
    try {
      const { modelName, inputs, rawInputContents, parameters } = call.request;
      const declared = options.models[modelName];
      if (declared === undefined) throw new Error(`no model '${modelName}'`);
      const plain = inputs.map(({ name, datatype, shape }) => ({
        name,
        datatype: datatype as Datatype,
        shape: shape.map(Number),
      }));
      plain.forEach((input, index) => {
        checkInput(input, declared);
        const expected = DATATYPES[input.datatype] * elementCount(input.shape);
        const size = rawInputContents[index]!.byteLength;
        if (expected > 0 && size !== expected) throw new Error(`${input.name}: ${size} bytes, expected ${expected}`);
      });
      const request: StubRequest = {
        number: requests.length,
        path: `/${modelName}`,
        inputs: plain,
        binary: rawInputContents.map((bytes) => Buffer.from(bytes)),
        parameters: Object.fromEntries(
          Object.entries(parameters).map(([key, parameter]) => [key, parameter.parameterChoice?.value]),
        ),
      };
      requests.push(request);
      const reply = options.reply?.(request) ?? {};
      if (reply.delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, reply.delayMs));
      if ((reply.status ?? 200) === 200) {
        done(null, { modelName, modelVersion: "1", id: "", parameters: {}, outputs: [], rawOutputContents: [] });
      } else {
        const metadata = new Metadata();
        const json = JSON.parse(String(reply.body ?? "{}")) as { error?: string; reason?: string };
        if (json.reason !== undefined) metadata.set("rubato-reason", json.reason);
        done({ code: GRPC_OF_HTTP[reply.status!]!, details: json.error ?? "", metadata });
      }
    } catch (error) {
      violations.push((error as Error).message);
      done({ code: status.INVALID_ARGUMENT, details: (error as Error).message });
    }
  };
  const unimplemented: handleUnaryCall<never, never> = (_, done) => done({ code: status.UNIMPLEMENTED });
  const methods = Object.fromEntries(Object.keys(GRPCInferenceServiceService).map((name) => [name, unimplemented]));
  server.addService(GRPCInferenceServiceService, {
    ...methods,
    modelInfer,
    modelMetadata: ((call, done) => {
      const inputs = options.models[call.request.name];
      if (inputs === undefined) return done({ code: status.NOT_FOUND, details: `no model '${call.request.name}'` });
      const shaped = inputs.map((input) => ({ ...input, shape: input.shape.map(BigInt) }));
      done(null, ModelMetadataResponse.fromPartial({ name: call.request.name, platform: "stub", inputs: shaped }));
    }) satisfies handleUnaryCall<{ name: string }, ModelMetadataResponse>,
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return {
    origin: `grpc://127.0.0.1:${port}`,
    requests,
    violations,
    close: async () => server.forceShutdown(),
  };
}
