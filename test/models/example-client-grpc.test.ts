/**
 * The examples' gRPC client against a hand-written service that checks the request. The service is made from the .proto
 * file at run time by a loader that others wrote; the client uses the code that the build generates from it.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { example, type InputTensor, root } from "./direct-client.js";

interface Client {
  infer(
    model: string,
    inputs: readonly InputTensor[],
    options?: { timeoutMs?: number; parameters?: Record<string, unknown>; outputs?: string[] },
  ): Promise<{ outputs: Record<string, unknown>; parameters: Record<string, unknown> }>;
  close(): void;
}
interface ClientModule {
  readonly Refused: new () => Error;
  connectGrpc(address: string): Promise<Client>;
  tensor(name: string, datatype: string, shape: number[], data: unknown): InputTensor;
}
const { connectGrpc, Refused, tensor } = await example<ClientModule>("client.mjs");

const loaded = grpc.loadPackageDefinition(
  loadSync(path.join(root, "src", "wire", "proto", "inference.proto"), { keepCase: true, longs: String, arrays: true }),
) as unknown as { inference: { GRPCInferenceService: { service: grpc.ServiceDefinition } } };

interface Request {
  readonly model_name: string;
  readonly parameters: Record<string, Record<string, unknown>>;
  readonly inputs: { name: string; datatype: string; shape: string[] }[];
  readonly outputs: { name: string }[];
  readonly raw_input_contents: Buffer[];
}
let handler: (request: Request, callback: grpc.sendUnaryData<unknown>) => void;
const server = new grpc.Server();
let client: Client;

beforeAll(async () => {
  server.addService(loaded.inference.GRPCInferenceService.service, {
    ModelInfer: (call: { request: Request }, callback: grpc.sendUnaryData<unknown>) => {
      try {
        handler(call.request, callback);
      } catch (error) {
        callback({ code: grpc.status.INTERNAL, details: String(error) });
      }
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  client = await connectGrpc(`127.0.0.1:${port}`);
});
afterAll(() => {
  client.close();
  server.forceShutdown();
});

const x = tensor("x", "FP32", [1, 2], Float32Array.of(0.5, -1));
const sr = tensor("sr", "INT64", [], BigInt64Array.of(16_000n));

describe("example client over gRPC", () => {
  it("sends raw contents in the order of inputs, and the deadline as an integer parameter", async () => {
    handler = (request, callback) => {
      expect(request.model_name).toBe("m");
      expect(request.inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }))).toEqual([
        { name: "x", datatype: "FP32", shape: ["1", "2"] },
        { name: "sr", datatype: "INT64", shape: [] },
      ]);
      expect(request.raw_input_contents.map((bytes) => bytes.length)).toEqual([8, 8]);
      expect(request.raw_input_contents[0]!.readFloatLE(4)).toBe(-1);
      expect(request.raw_input_contents[1]!.readBigInt64LE(0)).toBe(16_000n);
      expect(request.parameters.timeout).toMatchObject({ int64_param: "12500" });
      expect(request.parameters.app).toMatchObject({ string_param: "test" });
      expect(request.outputs.map((output) => output.name)).toEqual(["y"]);
      const data = Buffer.alloc(8);
      data.writeFloatLE(1.5, 0);
      data.writeFloatLE(-2, 4);
      callback(null, {
        model_name: "m",
        parameters: { gamma: { int64_param: 3 } },
        outputs: [{ name: "y", datatype: "FP32", shape: [2] }],
        raw_output_contents: [data],
      });
    };
    const answer = await client.infer("m", [x, sr], { timeoutMs: 12.5, parameters: { app: "test" }, outputs: ["y"] });
    expect(answer.outputs).toEqual({ y: { datatype: "FP32", shape: [2], data: Float32Array.of(1.5, -2) } });
    expect(answer.parameters).toEqual({ gamma: 3n });
  });

  it("a refusal is thrown with the status's name, and reason, estimate and deadline from the trailing metadata", async () => {
    handler = (_request, callback) => {
      const metadata = new grpc.Metadata();
      metadata.set("rubato-reason", "infeasible");
      metadata.set("rubato-estimate-us", "51000");
      metadata.set("rubato-deadline-us", "1000");
      callback({ code: grpc.status.DEADLINE_EXCEEDED, details: "cannot be done in time", metadata });
    };
    await expect(client.infer("m", [x], { timeoutMs: 1 })).rejects.toMatchObject({
      name: "Refused",
      status: "DEADLINE_EXCEEDED",
      message: "cannot be done in time",
      reason: "infeasible",
      estimateUs: 51_000,
      deadlineUs: 1000,
      retryAfterS: undefined,
    });
  });
});

it("an address at which nobody, or something else, listens is no refusal: it is said once, and what to do", async () => {
  const other = createServer((_request, response) => response.writeHead(404).end());
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  const toOther = await connectGrpc(`127.0.0.1:${port}`);
  await expect(toOther.infer("m", [])).rejects.toThrow(`no such server at 127.0.0.1:${port}`);
  toOther.close();
  await new Promise((resolve) => other.close(resolve));
  const toNobody = await connectGrpc(`127.0.0.1:${port}`);
  const refused = toNobody.infer("m", []);
  await expect(refused).rejects.toThrow(`no such server at 127.0.0.1:${port} (\`npm start\` starts one`);
  await expect(refused).rejects.not.toBeInstanceOf(Refused);
  toNobody.close();
});

it("UNAVAILABLE and UNIMPLEMENTED are refusals where the server gives its reason, else no server of this kind", async () => {
  for (const code of [grpc.status.UNAVAILABLE, grpc.status.UNIMPLEMENTED]) {
    const metadata = new grpc.Metadata();
    handler = (_request, callback) => callback({ code, details: "said", metadata });
    await expect(client.infer("m", [])).rejects.toThrow(/^no such server at /);
    metadata.set("rubato-reason", "draining");
    await expect(client.infer("m", [])).rejects.toBeInstanceOf(Refused);
  }
});
