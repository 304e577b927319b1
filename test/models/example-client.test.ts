/** The examples' HTTP client against a hand-written server that checks every byte of the request. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { example, type InputTensor } from "./direct-client.js";

interface Client {
  infer(
    model: string,
    inputs: readonly InputTensor[],
    options?: { timeoutMs?: number; parameters?: Record<string, unknown>; outputs?: string[] },
  ): Promise<{ outputs: Record<string, { shape: number[]; datatype: string; data: ArrayLike<number | bigint> }> }>;
}
interface ClientModule {
  connectHttp(base: string): Client;
  tensor(name: string, datatype: string, shape: number[], data: unknown): InputTensor;
}
const { connectHttp, tensor } = await example<ClientModule>("client.mjs");

type Handler = (request: IncomingMessage, body: Buffer, response: ServerResponse) => void;
let handler: Handler;
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  try {
    handler(request, Buffer.concat(chunks), response);
  } catch (error) {
    response.statusCode = 500;
    response.end(JSON.stringify({ error: String(error) }));
  }
});
let client: Client;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  client = connectHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterAll(() => server.close());

const ids = tensor("ids", "INT64", [1, 2], BigInt64Array.of(7n, 2n ** 60n));
const mark = tensor("mark", "FP32", [1], Float32Array.of(0.5));

describe("example client", () => {
  it("sends tensors as binary in the order of inputs, and the deadline in whole microseconds", async () => {
    handler = (request, body, response) => {
      const length = Number(request.headers["inference-header-content-length"]);
      const header = JSON.parse(body.subarray(0, length).toString());
      expect(request.method).toBe("POST");
      expect(request.url).toBe("/v2/models/a%20model/infer");
      expect(header).toEqual({
        parameters: { app: "test", timeout: 12_500, binary_data_output: true },
        inputs: [
          { name: "ids", datatype: "INT64", shape: [1, 2], parameters: { binary_data_size: 16 } },
          { name: "mark", datatype: "FP32", shape: [1], parameters: { binary_data_size: 4 } },
        ],
        outputs: [{ name: "y" }],
      });
      expect(body.length).toBe(length + 20);
      expect(body.readBigInt64LE(length + 8)).toBe(2n ** 60n);
      expect(body.readFloatLE(length + 16)).toBe(0.5);
      const json = JSON.stringify({
        model_name: "a model",
        outputs: [
          { name: "y", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: 8 } },
          { name: "label", datatype: "INT32", shape: [2], data: [[3], [4]] },
        ],
      });
      const data = Buffer.alloc(8);
      data.writeFloatLE(1.5, 0);
      data.writeFloatLE(-2, 4);
      response.setHeader("inference-header-content-length", Buffer.byteLength(json));
      response.end(Buffer.concat([Buffer.from(json), data]));
    };
    const { outputs } = await client.infer("a model", [ids, mark], {
      timeoutMs: 12.5,
      parameters: { app: "test" },
      outputs: ["y"],
    });
    expect(outputs.y).toEqual({ datatype: "FP32", shape: [1, 2], data: Float32Array.of(1.5, -2) });
    expect(outputs.label!.data).toEqual(Int32Array.of(3, 4));
  });

  it("sends no timeout when none is asked for: the model's own SLO holds", async () => {
    handler = (request, body, response) => {
      const header = JSON.parse(
        body.subarray(0, Number(request.headers["inference-header-content-length"])).toString(),
      );
      expect(header.parameters).toEqual({ binary_data_output: true });
      expect(header.outputs).toBeUndefined();
      response.end(JSON.stringify({ model_name: "m", outputs: [] }));
    };
    expect((await client.infer("m", [mark])).outputs).toEqual({});
  });

  it("a refusal is thrown with status, reason, estimate, deadline and when to come back", async () => {
    handler = (_request, _body, response) => {
      response.writeHead(429, { "retry-after": "2" });
      response.end(
        JSON.stringify({ error: "queue is full", reason: "queue-full", estimate_us: 9000, deadline_us: 5000 }),
      );
    };
    await expect(client.infer("m", [mark], { timeoutMs: 5 })).rejects.toMatchObject({
      name: "Refused",
      status: "429",
      message: "queue is full",
      reason: "queue-full",
      estimateUs: 9000,
      deadlineUs: 5000,
      retryAfterS: 2,
    });
  });

  it("a refusal that is not JSON keeps its status and text", async () => {
    handler = (_request, _body, response) => {
      response.statusCode = 502;
      response.end("bad gateway");
    };
    await expect(client.infer("m", [mark])).rejects.toMatchObject({ status: "502", message: "bad gateway" });
  });

  it("a tensor whose data do not fit its shape or datatype is refused before it is sent", () => {
    expect(() => tensor("x", "FP32", [2, 2], new Float32Array(3))).toThrow(/\[2,2\] holds 4 elements, data has 3/);
    expect(() => tensor("x", "INT64", [1], new Float32Array(1))).toThrow(/INT64 needs a BigInt64Array/);
    expect(() => tensor("x", "FP16", [1], new Uint16Array(1))).toThrow(/FP16/);
  });
});

it("where nobody listens it says so, and what to do", async () => {
  const gone = createServer();
  await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
  const { port } = gone.address() as AddressInfo;
  await new Promise((resolve) => gone.close(resolve));
  await expect(connectHttp(`http://127.0.0.1:${port}`).infer("m", [])).rejects.toThrow(
    `no such server at http://127.0.0.1:${port} (\`npm start\` starts one`,
  );
});
