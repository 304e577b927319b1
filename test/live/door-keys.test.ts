/** A running server: what its configuration says of the doors holds there, and a request may leave out all inputs. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunningServer } from "../../src/serve/running-server.js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "../../src/wire/proto/inference.js";
import { unary } from "../doors/harness.js";
import { connect, framed, INFER, open } from "../doors/raw-grpc.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { serveIn } from "../support/running-server.js";

let folder: string;
let running: RunningServer;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-doors-"));
  const tensor = (name: string) => ({ name, type: 1, dims: ["batch", 3] });
  const nodes = [{ op: "Identity", inputs: ["x"], outputs: ["y"] }];
  mkdirSync(path.join(folder, "models/free/1"), { recursive: true });
  writeFileSync(
    path.join(folder, "models/free/1/model.onnx"),
    buildOnnx({ inputs: [tensor("x")], outputs: [tensor("y")], nodes }),
  );
  writeFileSync(
    path.join(folder, "models/free/config.pbtxt"),
    'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [3] optional: true }',
  );
  const text = `
http: { port: 0, request_timeout_s: 0.25025 }
grpc: { port: 1, request_timeout_s: 0.3, connection_in_flight_max: 2, connection_streams_max: 3 }
groups: { cpu: { kind: onnx, count: 1, threads: 1 } }
workers: { warm_up_ms: 0 }
profile: { budget_s: 0.2 }
log: { level: silent }
`;
  running = await serveIn(folder, text);
}, 60_000);
afterAll(async () => {
  await running.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

test("door keys: a request without any input is served where the model takes each as optional", async () => {
  const url = `${running.httpUrl}/v2/models/free/infer`;
  const replies = await Promise.all([1, 2, 3].map(() => fetch(url, { method: "POST", body: '{"inputs":[]}' })));
  for (const reply of replies)
    expect(await reply.json()).toMatchObject({ outputs: [{ name: "y", shape: [1, 3], data: [0, 0, 0] }] });
  const client = new GRPCInferenceServiceClient(running.grpcTarget!, credentials.createInsecure());
  const request = ModelInferRequest.fromPartial({ modelName: "free" });
  const { error, response } = await unary<ModelInferRequest, ModelInferResponse>(client.modelInfer, client, request);
  expect([error, response?.outputs[0]?.shape]).toEqual([null, [1n, 3n]]);
  client.close();
});

test("door keys: gRPC's time and shares, and HTTP's time, are those of the configuration", async () => {
  const session = connect(Number(running.grpcTarget!.split(":").at(-1)));
  await new Promise((resolve) => session.once("remoteSettings", resolve));
  expect(session.remoteSettings.maxConcurrentStreams).toBe(3);
  const calls = [1, 2, 3].map(() => open(session, INFER));
  for (const { stream } of calls) stream.write(framed(Buffer.alloc(1), 10));
  const statuses = await Promise.all(calls.map(({ status }) => status));
  expect(statuses.sort()).toEqual(["4 message-timeout", "4 message-timeout", "8 connection-full"]);
  session.destroy();

  const socket = net.connect(Number(new URL(running.httpUrl).port), "127.0.0.1");
  socket.write("POST /v2/models/free/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{");
  const answer = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(String(data))));
  expect(answer).toMatch(/^HTTP\/1.1 408 /);
  socket.destroy();
});
