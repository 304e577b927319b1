/** The gRPC door against the protocol's conformance list, with grpc-js as the client. */

import http2 from "node:http2";
import { Worker } from "node:worker_threads";
import {
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  Metadata,
  makeGenericClientConstructor,
} from "@grpc/grpc-js";
import { service as healthService } from "grpc-health-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import {
  type GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelStreamInferResponse,
  RepositoryModelLoadRequest,
} from "../../src/wire/proto/inference.js";
import { type Doors, fp32, grpcInfer, openDoors, unary, until } from "./harness.js";

let doors: Doors;
let client: GRPCInferenceServiceClient;
beforeAll(async () => {
  doors = await openDoors();
  client = doors.client;
});
afterAll(() => doors.close());

const raw = (modelName: string, data: Uint8Array, more: object = {}) => ({
  modelName,
  inputs: [{ name: "x", datatype: "FP32", shape: [BigInt(data.byteLength / 4)] }],
  rawInputContents: [data],
  ...more,
});
const delay = (ms: number) => ({ delay_ms: { parameterChoice: { $case: "int64Param", value: BigInt(ms) } } });

test("grpc: live, ready, metadata, config, statistics, index", async () => {
  expect((await unary(client.serverLive, client, {})).response).toEqual({ live: true });
  expect((await unary(client.serverReady, client, {})).response).toEqual({ ready: true });
  expect((await unary(client.modelReady, client, { name: "echo", version: "" })).response).toEqual({ ready: true });
  expect((await unary(client.modelReady, client, { name: "nobody", version: "" })).response).toEqual({ ready: false });
  expect((await unary(client.modelReady, client, { name: "echo", version: "7" })).response).toEqual({ ready: false });
  expect((await unary(client.serverMetadata, client, {})).response).toMatchObject({ name: "rubato", version: "9.9.9" });
  expect((await unary(client.modelMetadata, client, { name: "sum", version: "2" })).response).toMatchObject({
    name: "sum",
    versions: ["1", "2"],
    inputs: [
      { name: "a", datatype: "FP32", shape: [-1n, 2n] },
      { name: "b", datatype: "FP32", shape: [-1n, 2n] },
    ],
    properties: { slo_us: "50000" },
  });
  const { response } = await unary<object, { config: unknown }>(client.modelConfig, client, {
    name: "echo",
    version: "",
  });
  expect(response.config).toMatchObject({
    name: "echo",
    maxBatchSize: 8,
    input: [{ name: "x", dataType: 11, dims: [4n] }],
    schedulingChoice: { $case: "dynamicBatching" },
  });
  const stats = await unary<object, { modelStats: { name: string }[] }>(client.modelStatistics, client, {
    name: "",
    version: "",
  });
  expect(stats.response.modelStats.length).toBeGreaterThan(5);
  const index = await unary<object, { models: unknown[] }>(client.repositoryIndex, client, {
    repositoryName: "",
    ready: true,
  });
  expect(index.response.models).toContainEqual({ name: "echo", version: "2", state: "READY", reason: "" });
});

test("grpc: the reply mirrors raw or typed, unless told", async () => {
  const data = fp32(1, 2.5);
  const mirrored = await grpcInfer(doors, raw("identity_FP32", data, { id: "r-7", modelVersion: "1" }));
  expect(mirrored.response).toMatchObject({ id: "r-7", modelName: "identity_FP32", modelVersion: "2" });
  expect(Buffer.from(mirrored.response.rawOutputContents[0]!)).toEqual(data);
  expect(mirrored.response.outputs[0]).toMatchObject({ name: "y", datatype: "FP32", shape: [2n], contents: undefined });
  const typed = await grpcInfer(doors, {
    modelName: "identity_FP32",
    inputs: [{ name: "x", datatype: "FP32", shape: [2n], contents: { fp32Contents: [1, 2.5] } }],
  });
  expect(typed.response.rawOutputContents).toEqual([]);
  expect(typed.response.outputs[0]!.contents!.fp32Contents).toEqual([1, 2.5]);
  expect(Object.keys(typed.response.parameters)).toEqual([]);
  const forced = await grpcInfer(
    doors,
    raw("identity_FP32", data, {
      parameters: { binary_data_output: { parameterChoice: { $case: "boolParam", value: false } } },
    }),
  );
  expect(forced.response.outputs[0]!.contents!.fp32Contents).toEqual([1, 2.5]);
});

test("grpc: BYTES, INT64 beyond 2^53, one output of two", async () => {
  const words = ["grüße", "", "z"].map((word) => Buffer.from(word));
  const bytes = await grpcInfer(doors, {
    modelName: "identity_BYTES",
    inputs: [{ name: "x", datatype: "BYTES", shape: [3n], contents: { bytesContents: words } }],
  });
  expect(bytes.response.outputs[0]!.contents!.bytesContents.map((word) => Buffer.from(word))).toEqual(words);
  const big = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n];
  const longs = await grpcInfer(doors, {
    modelName: "identity_INT64",
    inputs: [{ name: "x", datatype: "INT64", shape: [3n], contents: { int64Contents: big } }],
  });
  expect(longs.response.outputs[0]!.contents!.int64Contents).toEqual(big);
  const one = await grpcInfer(doors, {
    modelName: "sum",
    inputs: ["a", "b"].map((name) => ({ name, datatype: "FP32", shape: [1n, 2n] })),
    rawInputContents: [fp32(5, 6), fp32(1, 2)],
    outputs: [{ name: "difference" }],
  });
  expect(one.response.outputs.map((output) => output.name)).toEqual(["difference"]);
  expect(Buffer.from(one.response.rawOutputContents[0]!)).toEqual(fp32(4, 4));
});

test.each([64 * 1024, 5 * 1024 * 1024, 64 * 1024 * 1024 - 1024])("grpc: %i bytes of tensor come back", async (size) => {
  const data = Buffer.alloc(size, 3);
  const { error, response } = await grpcInfer(doors, raw("identity_FP32", data));
  expect(error).toBe(null);
  expect(Buffer.from(response.rawOutputContents[0]!).equals(data)).toBe(true);
});

test("grpc: large typed contents are decoded and encoded off the main thread, with the same answers and errors", async () => {
  const posted = vi.spyOn(Worker.prototype, "postMessage");
  const values = Array.from({ length: 200_000 }, (_, index) => index + 0.5);
  const typed = (datatype: string) => ({
    modelName: "identity_FP32",
    id: "big",
    inputs: [{ name: "x", datatype, shape: [200_000n], contents: { fp32Contents: values } }],
  });
  const { error, response } = await grpcInfer(doors, typed("FP32"));
  expect([error, response.id]).toEqual([null, "big"]);
  expect(response.outputs[0]!.contents!.fp32Contents).toEqual(values);
  const wrong = await grpcInfer(doors, typed("FP64"));
  expect([wrong.error!.code, wrong.error!.details]).toEqual([
    3,
    "input 'x' of datatype FP64 and shape [200000] must have 200000 elements in fp64_contents, got 0 there and 200000 in fp32_contents",
  ]);
  const kinds = posted.mock.calls.map(([job]) => (job as { kind: string }).kind);
  posted.mockRestore();
  expect(kinds).toEqual(["decode-proto", "encode-proto", "decode-proto"]);
});

test("grpc: the deadline becomes a monotonic moment, timeout a length, both counted from receipt", async () => {
  const before = monotonicNow();
  const { error } = await grpcInfer(
    doors,
    raw("echo", fp32(1, 2, 3, 4), {
      inputs: [{ name: "x", datatype: "FP32", shape: [1n, 4n] }],
      parameters: { timeout: { parameterChoice: { $case: "uint64Param", value: 30_000n } } },
    }),
    { deadline: Date.now() + 5000 },
  );
  const after = monotonicNow();
  expect(error).toBe(null);
  const call = doors.gateway.calls.at(-1)!;
  expect(call.timeoutUs).toBe(30_000);
  expect(call.receivedAt).toBeGreaterThanOrEqual(before);
  expect(call.receivedAt).toBeLessThanOrEqual(after);
  const remaining = call.transportDeadlineAt! - call.receivedAt;
  expect(remaining).toBeGreaterThan(3_000_000);
  expect(remaining).toBeLessThanOrEqual(5_001_000);
  await grpcInfer(doors, raw("identity_FP32", fp32(1)));
  expect(doors.gateway.calls.at(-1)!.transportDeadlineAt).toBe(null);
});

test("grpc: a client's cancel reaches the gateway", async () => {
  const cancelled = doors.gateway.cancelled.length;
  const call = client.modelInfer(
    ModelInferRequest.fromPartial(raw("slow", fp32(1), { parameters: delay(30_000) })),
    () => {},
  );
  await until(() => doors.gateway.inFlight === 1, "in flight");
  call.cancel();
  await until(() => doors.gateway.cancelled.length === cancelled + 1, "cancelled");
  await until(() => doors.grpc.inFlight === 0, "place given back");
  expect(doors.gateway.inFlight).toBe(0);
  expect(doors.answers.at(-1)).toBe("grpc cancelled cancelled");
});

test("grpc: a deadline that passes is left to the gateway, which counts it as expired", async () => {
  const cancelled = doors.gateway.cancelled.length;
  // By hand, since a client with a timer of its own would cancel, and on a busy machine noticeably early.
  const session = http2.connect(`http://127.0.0.1:${doors.grpc.port}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/inference.GRPCInferenceService/ModelInfer",
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-timeout": "60m",
  });
  const message = ModelInferRequest.encode(
    ModelInferRequest.fromPartial(raw("slow", fp32(1), { parameters: delay(30_000) })),
  ).finish();
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.byteLength, 1);
  stream.end(Buffer.concat([prefix, message]));
  const status = await new Promise((resolve) => {
    // Without a message before it, the status comes in the only headers there are.
    stream.on("response", (headers) => headers["grpc-status"] !== undefined && resolve(headers["grpc-status"]));
    stream.on("trailers", (headers) => resolve(headers["grpc-status"]));
    stream.resume();
  });
  expect(status).toBe("4");
  await until(() => doors.answers.at(-1) === "grpc deadline-exceeded expired", "answered by the gateway");
  expect(doors.gateway.cancelled.length).toBe(cancelled);
  expect(doors.gateway.inFlight).toBe(0);
  session.close();
});

test("grpc: KServe's messages load and unload; Triton's too", async () => {
  const kserve = await unary(client.repositoryModelUnload, client, {
    repositoryName: "grid",
    modelName: "",
    parameters: {},
  });
  expect(kserve.response).toEqual({ modelName: "grid", isUnloaded: true });
  const triton = await unary(
    client.repositoryModelLoad,
    client,
    RepositoryModelLoadRequest.fromPartial({
      modelName: "grid",
      parameters: { "file:1/model.onnx": { parameterChoice: { $case: "bytesParam", value: Buffer.from("abc") } } },
    }),
  );
  expect(triton.response).toEqual({ modelName: "grid", isLoaded: true });
  expect({ ...doors.gateway.loads.at(-1)!.parameters }).toEqual({ "file:1/model.onnx": "YWJj" });
  const unknown = await unary(client.repositoryModelLoad, client, {
    repositoryName: "nobody",
    modelName: "",
    parameters: {},
  });
  expect(unknown.error!.code).toBe(5);
});

test("grpc: extensions not offered answer UNIMPLEMENTED", async () => {
  for (const method of [
    client.systemSharedMemoryStatus,
    client.systemSharedMemoryRegister,
    client.cudaSharedMemoryUnregister,
    client.traceSetting,
    client.logSettings,
  ]) {
    const { error } = await unary(method, client, { settings: {}, modelName: "" });
    expect([error!.code, error!.details]).toEqual([12, expect.stringContaining("not supported")]);
  }
});

function openStream(headers: Record<string, string> = {}) {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  const stream: ClientDuplexStream<ModelInferRequest, ModelStreamInferResponse> = client.modelStreamInfer(metadata);
  const answers: ModelStreamInferResponse[] = [];
  const end = new Promise<number>((resolve) => {
    stream.on("data", (answer) => answers.push(answer));
    stream.on("error", (error) => resolve((error as unknown as { code: number }).code));
    stream.on("end", () => resolve(0));
  });
  return { stream, answers, end };
}

test("grpc: a stream answers in order, errors in error_message, and goes on", async () => {
  const { stream, answers, end } = openStream();
  stream.write(ModelInferRequest.fromPartial(raw("slow", fp32(0), { id: "0", parameters: delay(50) })));
  stream.write(ModelInferRequest.fromPartial(raw("nobody", fp32(1), { id: "1" })));
  stream.write(ModelInferRequest.fromPartial(raw("identity_FP32", fp32(2), { id: "2" })));
  stream.end();
  expect(await end).toBe(0);
  expect(answers.map((answer) => [answer.errorMessage === "", answer.inferResponse!.id])).toEqual([
    [true, "0"],
    [false, "1"],
    [true, "2"],
  ]);
  expect(answers[1]!.errorMessage).toContain("nobody");
  for (const { inferResponse } of answers)
    expect(inferResponse!.parameters.triton_final_response).toEqual({
      parameterChoice: { $case: "boolParam", value: true },
    });
  expect(answers[1]!.inferResponse!.parameters.rubato_reason).toEqual({
    parameterChoice: { $case: "stringParam", value: "unknown-model" },
  });
});

test("grpc: answers larger than one write arrive whole, alone and between small ones of a stream", async () => {
  const data = Buffer.allocUnsafe(8 * 1024 ** 2 + 4);
  for (let at = 0; at < data.byteLength; at += 4) data.writeUInt32LE(at, at);
  const alone = await grpcInfer(doors, raw("identity_FP32", data));
  expect(data.equals(alone.response.rawOutputContents[0]!)).toBe(true);
  const { stream, answers, end } = openStream();
  const sent = [data, fp32(1), data, fp32(2)];
  for (const bytes of sent) stream.write(ModelInferRequest.fromPartial(raw("identity_FP32", bytes)));
  stream.end();
  expect(await end).toBe(0);
  expect(answers.map(({ inferResponse }, index) => sent[index]!.equals(inferResponse!.rawOutputContents[0]!))).toEqual(
    sent.map(() => true),
  );
  // Nobody reads any more, and nothing is held.
  await until(() => doors.grpc.inFlight === 0 && doors.grpc.inFlightBytes === 0, "given back");
});

test("grpc: with triton_grpc_error the first error ends the stream", async () => {
  const { stream, answers, end } = openStream({ triton_grpc_error: "true" });
  stream.write(ModelInferRequest.fromPartial(raw("nobody", fp32(1))));
  expect(await end).toBe(5);
  expect(answers).toEqual([]);
});

test("grpc: a thousand requests on one stream, and a cancelled stream frees them all", async () => {
  const { stream, answers, end } = openStream();
  for (let index = 0; index < 1000; index++)
    stream.write(ModelInferRequest.fromPartial(raw("identity_FP32", fp32(index), { id: String(index) })));
  stream.end();
  expect(await end).toBe(0);
  expect(answers.map((answer) => answer.inferResponse!.id)).toEqual(
    Array.from({ length: 1000 }, (_, index) => String(index)),
  );
  const other = openStream();
  for (let index = 0; index < 10; index++)
    other.stream.write(ModelInferRequest.fromPartial(raw("slow", fp32(index), { parameters: delay(30_000) })));
  await until(() => doors.gateway.inFlight === 10, "in flight");
  other.stream.cancel();
  expect(await other.end).toBe(1);
  await until(() => doors.gateway.inFlight === 0 && doors.grpc.inFlight === 0, "all cancelled");
});

test("grpc: limits of the door and of the message", async () => {
  const small = await openDoors({ inFlightRequestsMax: 1, bodyBytesMax: 4096 });
  try {
    const first = grpcInfer(small, raw("slow", fp32(1), { parameters: delay(300) }));
    await until(() => small.grpc.inFlight === 1, "in flight");
    const second = await grpcInfer(small, raw("identity_FP32", fp32(1)));
    expect([second.error!.code, second.error!.details, second.error!.metadata.get("rubato-reason")]).toEqual([
      8,
      "requests in flight must be at most 1, got 2",
      ["in-flight-full"],
    ]);
    expect((await first).error).toBe(null);
    const large = await grpcInfer(small, raw("identity_FP32", Buffer.alloc(8192)));
    expect(large.error!.code).toBe(8);
    expect((await grpcInfer(small, raw("identity_FP32", fp32(1)))).error).toBe(null);
  } finally {
    await small.close();
  }
});

test("grpc: health checks and watches follow readiness", async () => {
  const Health = makeGenericClientConstructor(healthService as never, "Health");
  const last = await openDoors();
  const health = new Health(`127.0.0.1:${last.grpc.port}`, credentials.createInsecure());
  type Status = { status: string };
  const check = (service: string) => unary<object, Status>(health.check, health, { service });
  expect((await check("")).response).toEqual({ status: "SERVING" });
  expect((await check("inference.GRPCInferenceService")).response).toEqual({ status: "SERVING" });
  expect((await check("nobody")).error!.code).toBe(5);
  const seen: string[] = [];
  const watch = (health.watch as (request: object) => ClientReadableStream<Status>).call(health, { service: "" });
  watch.on("data", ({ status }: Status) => seen.push(status));
  watch.on("error", () => {});
  await until(() => seen.length === 1, "first status");
  last.gateway.ready = false;
  expect((await check("")).response).toEqual({ status: "NOT_SERVING" });
  await until(() => seen.length === 2, "second status");
  last.gateway.ready = true;
  await until(() => seen.length === 3, "third status");
  await last.grpc.close(5000);
  await until(() => seen.length === 4, "last status");
  expect(seen).toEqual(["SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]);
  health.close();
  await last.close();
});

test("grpc: draining finishes what is in flight and refuses the rest", async () => {
  const last = await openDoors();
  const slow = grpcInfer(last, raw("slow", fp32(1), { parameters: delay(150) }));
  await until(() => last.gateway.inFlight === 1, "in flight");
  last.gateway.ready = false;
  const refused = await grpcInfer(last, raw("identity_FP32", fp32(1)));
  expect([refused.error!.code, refused.error!.metadata.get("retry-after")]).toEqual([14, ["2"]]);
  const closed = last.grpc.close(5000);
  expect((await slow).error).toBe(null);
  await closed;
  expect((await grpcInfer(last, raw("identity_FP32", fp32(1)), { deadline: Date.now() + 2000 })).error!.code).toBe(14);
  await last.close();
});

test("grpc: reflection lists and describes the service", async () => {
  const Reflection = makeGenericClientConstructor(
    {
      info: {
        path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        requestStream: true,
        responseStream: true,
        requestSerialize: (value: Buffer) => value,
        requestDeserialize: (value: Buffer) => value,
        responseSerialize: (value: Buffer) => value,
        responseDeserialize: (value: Buffer) => value,
      },
    },
    "Reflection",
  );
  const reflection = new Reflection(`127.0.0.1:${doors.grpc.port}`, credentials.createInsecure());
  const stream = (reflection.info as () => ClientDuplexStream<Buffer, Buffer>).call(reflection);
  const answers: string[] = [];
  stream.on("data", (bytes: Buffer) => answers.push(bytes.toString("latin1")));
  const symbol = "inference.GRPCInferenceService";
  stream.write(Buffer.from([0x3a, 0])); // list_services = ""
  stream.write(Buffer.concat([Buffer.from([0x22, symbol.length]), Buffer.from(symbol)])); // file_containing_symbol
  await until(() => answers.length === 2, "two answers");
  expect(answers[0]).toContain(symbol);
  expect(answers[0]).toContain("grpc.health.v1.Health");
  expect(answers[1]).toContain("raw_input_contents");
  expect(answers[1]).toContain("model_config.proto");
  stream.end();
  reflection.close();
});
