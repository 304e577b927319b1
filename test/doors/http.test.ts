/** The HTTP door against the protocol's conformance list, and what a server must do when clients misbehave. */

import http from "node:http";
import net from "node:net";
import { Worker } from "node:worker_threads";
import zlib from "node:zlib";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { binaryBody, type Doors, fp32, openDoors, until } from "./harness.js";

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors();
});
afterAll(() => doors.close());

const x = (data: unknown, shape: number[] = [1, 4], more: object = {}) => ({
  inputs: [{ name: "x", datatype: "FP32", shape, data }],
  ...more,
});

test("http: models called like a path are reached; what has that path is there as well", async () => {
  const stats = (await doors.call("GET", "/v2/models/stats")).json;
  expect(stats).toMatchObject({ name: "stats", inputs: [{ name: "x" }] });
  expect(stats.model_stats.length).toBeGreaterThan(5);
  expect((await doors.call("GET", "/v2/models/group/ready")).json).toMatchObject({ name: "group/ready", inputs: [{}] });
  expect((await doors.call("GET", "/v2/models/group/ready/ready")).json).toEqual({ name: "group/ready", ready: true });
  expect((await doors.call("GET", "/v2/models/absent/ready")).status).toBe(404);
});

test("http: server, model metadata, config, stats, ready, index, metrics", async () => {
  expect((await doors.call("GET", "/v2")).json).toEqual({
    name: "rubato",
    version: "9.9.9",
    extensions: expect.arrayContaining(["binary_tensor_data", "model_configuration", "statistics"]),
  });
  expect((await doors.call("GET", "/v2/health/live/")).json).toEqual({ live: true });
  expect((await doors.call("GET", "/v2/models/echo/ready")).json).toEqual({ name: "echo", ready: true });
  expect((await doors.call("GET", "/v2/models")).json.models).toContain("echo");
  const metadata = (await doors.call("GET", "/v2/models/echo/versions/2")).json;
  expect(metadata).toMatchObject({
    name: "echo",
    versions: ["1", "2"],
    platform: "onnx_onnxv1",
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, 4] }],
  });
  const config = (await doors.call("GET", "/v2/models/echo/versions/2/config")).json;
  expect(config).toMatchObject({
    name: "echo",
    max_batch_size: 8,
    input: [{ name: "x", data_type: "TYPE_FP32", dims: [4] }],
    output: [{ name: "y", data_type: "TYPE_FP32", dims: [4] }],
    instance_group: [{ kind: "KIND_CPU", count: 1 }],
    dynamic_batching: { default_queue_policy: { default_timeout_microseconds: 50_000 } },
    parameters: { owner: { string_value: "tests" } },
  });
  expect((await doors.call("GET", "/v2/models/word/config")).json).not.toHaveProperty("dynamic_batching");
  const stats = (await doors.call("GET", "/v2/models/echo/stats")).json.model_stats;
  expect(stats[0].inference_stats.cache_hit).toEqual({ count: 0, ns: 0 });
  expect((await doors.call("GET", "/v2/models/stats")).json.model_stats.length).toBeGreaterThan(5);
  const index = (await doors.call("POST", "/v2/repository/index", '{"ready":true}')).json;
  expect(index).toContainEqual({ name: "echo", version: "2", state: "READY", reason: "" });
  const metrics = await doors.call("GET", "/metrics");
  expect([metrics.headers["content-type"], metrics.body.toString()]).toEqual([
    "text/plain; version=0.0.4; charset=utf-8",
    expect.stringContaining("rubato_up 1"),
  ]);
  expect((await doors.call("POST", "/v2/repository/models/echo/load", '{"parameters":{"config":"{}"}}')).json).toEqual({
    name: "echo",
    load: true,
  });
  expect(doors.gateway.loads.at(-1)!.parameters).toEqual({ config: "{}" });
});

test("http: flat and nested data, id, absent and given outputs, parameters", async () => {
  const flat = await doors.infer(
    "echo",
    x([1, 2, 3, 4.5], [1, 4], { id: "ä-1", parameters: { gamma: 2 }, extra: [{}] }),
  );
  expect(flat.json).toEqual({
    model_name: "echo",
    model_version: "2",
    id: "ä-1",
    parameters: { gamma: 2 },
    outputs: [{ name: "y", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4.5] }],
  });
  const nested = await doors.infer("echo", x([[1, 2, 3, 4.5]]));
  expect(nested.json).not.toHaveProperty("id");
  expect(nested.json.outputs).toEqual(flat.json.outputs);
  const inputs = ["a", "b"].map((name) => ({ name, datatype: "FP32", shape: [1, 2], data: [3, 1] }));
  const all = await doors.infer("sum", { inputs });
  expect(all.json.outputs.map((output: { name: string }) => output.name)).toEqual(["sum", "difference"]);
  const one = await doors.infer("sum", { inputs, outputs: [{ name: "difference" }] });
  expect(one.json.outputs).toEqual([{ name: "difference", datatype: "FP32", shape: [1, 2], data: [0, 0] }]);
});

test("http: integers beyond 2^53 survive JSON in and out", async () => {
  const body =
    '{"inputs":[{"name":"x","datatype":"INT64","shape":[3],"data":[9223372036854775807,-9223372036854775808,9007199254740993]}]}';
  const reply = await doors.infer("identity_INT64", body);
  expect(reply.body.toString()).toContain("[9223372036854775807,-9223372036854775808,9007199254740993]");
  const unsigned = '{"inputs":[{"name":"x","datatype":"UINT64","shape":[2],"data":[18446744073709551615,"7"]}]}';
  expect((await doors.infer("identity_UINT64", unsigned)).body.toString()).toContain("[18446744073709551615,7]");
});

test("http: JSON and binary inputs mixed, binary_data over binary_data_output", async () => {
  const { body, headers } = binaryBody(
    {
      parameters: { binary_data_output: true },
      inputs: [
        { name: "a", datatype: "FP32", shape: [1, 2], data: [5, 6] },
        { name: "b", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: 8 } },
      ],
      outputs: [{ name: "sum", parameters: { binary_data: false } }, { name: "difference" }],
    },
    fp32(1, 2),
  );
  const reply = await doors.infer("sum", body, headers);
  expect(reply.headers["content-type"]).toBe("application/octet-stream");
  const length = Number(reply.headers["inference-header-content-length"]);
  const json = JSON.parse(reply.body.toString("utf8", 0, length));
  expect(json.outputs).toEqual([
    { name: "sum", datatype: "FP32", shape: [1, 2], data: [6, 8] },
    { name: "difference", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: 8 } },
  ]);
  expect(reply.body.subarray(length)).toEqual(fp32(4, 4));
});

test("http: a raw binary request is the one input's bytes", async () => {
  const raw = { "Inference-Header-Content-Length": 0 };
  const numbers = await doors.infer("echo", fp32(1, 2, 3, 4), raw);
  const length = Number(numbers.headers["inference-header-content-length"]);
  expect(JSON.parse(numbers.body.toString("utf8", 0, length)).outputs[0].shape).toEqual([1, 4]);
  expect(numbers.body.subarray(length)).toEqual(fp32(1, 2, 3, 4));
  const open = await doors.infer("identity_FP32", fp32(1, 2, 3), raw);
  expect(open.status).toBe(200);
  expect(doors.gateway.calls.at(-1)!.inputs[0]!.shape).toEqual([3]);
  const word = await doors.infer("word", "427", raw);
  const start = Number(word.headers["inference-header-content-length"]);
  expect(word.body.subarray(start + 4).toString()).toBe("427");
});

test.each(["gzip", "deflate"] as const)("http: %s both ways", async (kind) => {
  const values = Array.from({ length: 4000 }, (_, index) => index);
  const { body, headers } = binaryBody(
    {
      parameters: { binary_data_output: true },
      inputs: [{ name: "x", datatype: "FP32", shape: [4000], parameters: { binary_data_size: 16_000 } }],
    },
    fp32(...values),
  );
  const compressed = kind === "gzip" ? zlib.gzipSync(body) : zlib.deflateSync(body);
  const reply = await doors.infer("identity_FP32", compressed, {
    ...headers,
    "content-encoding": kind,
    "accept-encoding": kind,
  });
  expect([reply.status, reply.headers["content-encoding"]]).toEqual([200, kind]);
  const plain = zlib.unzipSync(reply.body);
  expect(plain.subarray(Number(reply.headers["inference-header-content-length"]))).toEqual(fp32(...values));
});

test("http: percent-encoded names, names with slashes, versions that are no numbers", async () => {
  for (const path of ["/v2/models/group/echo/infer", "/v2/models/group%2Fecho/versions/1/infer"]) {
    const reply = await doors.call("POST", path, JSON.stringify(x([1], [1])));
    expect(reply.json.model_name).toBe("group/echo");
  }
  expect((await doors.infer("späß & co", x([1], [1]))).json.model_name).toBe("späß & co");
  const version = await doors.call("POST", "/v2/models/echo/versions/newest/infer", JSON.stringify(x([1, 2, 3, 4])));
  expect([version.status, version.json.error]).toEqual([404, expect.stringContaining("version newest")]);
});

test.each([64 * 1024, 5 * 1024 * 1024, 64 * 1024 * 1024 - 1024])("http: %i bytes of tensor come back", async (size) => {
  const tensor = Buffer.alloc(size, 3);
  const { body, headers } = binaryBody(
    {
      parameters: { binary_data_output: true },
      inputs: [{ name: "x", datatype: "UINT8", shape: [size], parameters: { binary_data_size: size } }],
    },
    tensor,
  );
  const reply = await doors.infer("identity_UINT8", body, headers);
  expect(reply.status).toBe(200);
  const length = Number(reply.headers["inference-header-content-length"]);
  expect(reply.body.subarray(length).equals(tensor)).toBe(true);
});

test("http: large JSON is parsed and written off the main thread, with the same answers and errors", async () => {
  const posted = vi.spyOn(Worker.prototype, "postMessage");
  const data = Array.from({ length: 100_000 }, (_, index) => index + 0.5);
  const reply = await doors.infer("identity_FP32", {
    id: "big",
    parameters: { timeout: 9_000_000 },
    ...x(data, [100_000]),
  });
  expect(reply.json.outputs[0].data).toEqual(data);
  expect(reply.json.id).toBe("big");
  data[99_999] = "no" as never;
  const wrong = await doors.infer("identity_FP32", { parameters: { timeout: 9_000_000 }, ...x(data, [100_000]) });
  expect([wrong.status, wrong.json.error]).toEqual([400, expect.stringContaining("element 99999 of input 'x'")]);
  const kinds = posted.mock.calls.map(([job]) => (job as { kind: string }).kind);
  posted.mockRestore();
  expect(kinds).toEqual(["decode", "encode", "decode"]);
});

test("http: 405 with Allow on known paths, 404 on others, 501 on extensions not offered", async () => {
  for (const [method, path, allow] of [
    ["GET", "/v2/models/echo/infer", "POST"],
    ["DELETE", "/v2/models/echo/infer", "POST"],
    ["POST", "/v2/health/ready", "GET, HEAD"],
    ["PUT", "/v2", "GET, HEAD"],
    ["POST", "/v2/models/echo", "GET, HEAD"],
    ["GET", "/v2/repository/index", "POST"],
    ["PATCH", "/metrics", "GET, HEAD"],
  ]) {
    const reply = await doors.call(method!, path!);
    expect([path, reply.status, reply.headers.allow]).toEqual([path, 405, allow]);
  }
  for (const path of ["/", "/v1/models/echo:predict", "/v2/models//infer", "/v2/repository/models/echo/reload"])
    expect([path, (await doors.call("POST", path, "{}")).status]).toEqual([path, 404]);
  for (const path of [
    "/v2/logging",
    "/v2/trace/setting",
    "/v2/models/echo/trace/setting",
    "/v2/cudasharedmemory/status",
  ])
    expect([path, (await doors.call("GET", path)).status]).toEqual([path, 501]);
});

test("http: what a call carries: receipt, timeout, traceparent, bytes", async () => {
  const body = JSON.stringify(x([1, 2, 3, 4], [1, 4], { parameters: { timeout: 30_000, app: "web" } }));
  await doors.infer("echo", body, { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
  expect(doors.gateway.calls.at(-1)).toMatchObject({
    timeoutUs: 30_000,
    transportDeadlineAt: null,
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    byteLength: Buffer.byteLength(body),
    parameters: { app: "web" },
  });
});

test("http: a client that goes away cancels its request and frees its place", async () => {
  const body = JSON.stringify(x([1], [1], { parameters: { delay_ms: 30_000 } }));
  const before = doors.gateway.cancelled.length;
  const request = http.request({ port: doors.http.port, method: "POST", path: "/v2/models/slow/infer" });
  request.on("error", () => {});
  request.end(body);
  await until(() => doors.gateway.inFlight === 1, "in flight");
  request.destroy();
  await until(() => doors.gateway.cancelled.length === before + 1, "cancelled");
  await until(() => doors.http.inFlight === 0, "place given back");
  expect(doors.gateway.inFlight).toBe(0);
  expect(doors.answers.at(-1)).toBe("http cancelled cancelled");
});

test("http: a client that goes away in the middle of its body leaves nothing behind", async () => {
  const socket = net.connect(doors.http.port, "127.0.0.1");
  socket.write('POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"inputs"');
  await until(() => doors.http.inFlightBytes === 9, "bytes counted as they come");
  socket.destroy();
  await until(() => doors.http.inFlight === 0 && doors.http.inFlightBytes === 0, "given back");
});

test("http: pipelined requests are answered in order", async () => {
  const socket = net.connect(doors.http.port, "127.0.0.1");
  const requests = [0, 1, 2].map((index) => {
    const body = JSON.stringify(x([index], [1], { id: `p${index}`, parameters: { delay_ms: 40 - 20 * index } }));
    return `POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  });
  let text = "";
  socket.on("data", (piece) => {
    text += piece;
  });
  socket.write(requests.join(""));
  await until(() => (text.match(/"data":\[\d\]/g)?.length ?? 0) === 3, "three answers");
  expect([...text.matchAll(/"id":"(p\d)"/g)].map((match) => match[1])).toEqual(["p0", "p1", "p2"]);
  socket.destroy();
});

test("http: limits of the door refuse before anything is parsed", async () => {
  const small = await openDoors({ inFlightRequestsMax: 1, inFlightBytesMax: 1000, bodyBytesMax: 2000 });
  try {
    const slow = JSON.stringify(x([1], [1], { parameters: { delay_ms: 300 } }));
    const first = small.infer("slow", slow);
    await until(() => small.http.inFlight === 1, "in flight");
    const second = await small.infer("echo", "not even JSON");
    expect([second.status, second.json.reason, second.headers["retry-after"]]).toEqual([429, "in-flight-full", "1"]);
    expect(second.json.error).toBe("requests in flight must be at most 1, got 2");
    expect((await first).status).toBe(200);
    const large = await small.infer("echo", Buffer.alloc(3000));
    expect([large.status, large.json.error]).toEqual([413, "the request body must have at most 2000 bytes, got 3000"]);
    const chunked = await small.call("POST", "/v2/models/echo/infer", Buffer.alloc(3000), {
      "transfer-encoding": "chunked",
    });
    expect([chunked.status, chunked.json.reason]).toEqual([413, "body-too-large"]);
    const bomb = await small.infer("echo", zlib.gzipSync(Buffer.alloc(100_000)), { "content-encoding": "gzip" });
    expect([bomb.status, bomb.json.reason]).toEqual([413, "body-too-large"]);
    expect(small.http.inFlight).toBe(0);
  } finally {
    await small.close();
  }
  const bytes = await openDoors({ inFlightBytesMax: 1000 });
  try {
    const first = bytes.infer("slow", JSON.stringify(x([1], [1], { parameters: { delay_ms: 200 } })));
    await until(() => bytes.http.inFlight === 1, "in flight");
    const second = await bytes.infer("echo", Buffer.alloc(990));
    expect([second.status, second.json.reason]).toEqual([429, "in-flight-bytes-full"]);
    expect((await first).status).toBe(200);
  } finally {
    await bytes.close();
  }
});

test("http: slow headers and slow bodies are cut off, others are served", async () => {
  const strict = await openDoors({ headersTimeoutMs: 300, requestTimeoutMs: 600 });
  try {
    const texts = [
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost",
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ];
    const slow = texts.map((text) => {
      const socket = net.connect(strict.http.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.write(text);
      return new Promise<string>((resolve) => {
        let got = "";
        socket.on("data", (piece) => {
          got += piece;
        });
        socket.on("close", () => resolve(got));
      });
    });
    expect((await strict.infer("echo", x([1, 2, 3, 4]))).status).toBe(200);
    for (const answer of await Promise.all(slow)) expect(answer).toContain("HTTP/1.1 408");
    await until(() => strict.http.inFlight === 0, "places given back");
  } finally {
    await strict.close();
  }
});

test("http: a client that never reads its answer holds its bytes, then is cut off", async () => {
  const strict = await openDoors({ writeTimeoutMs: 300, inFlightBytesMax: 24 * 1024 * 1024 });
  try {
    const size = 16 * 1024 * 1024;
    const { body, headers } = binaryBody(
      {
        parameters: { binary_data_output: true },
        inputs: [{ name: "x", datatype: "UINT8", shape: [size], parameters: { binary_data_size: size } }],
      },
      Buffer.alloc(size),
    );
    const socket = net.connect(strict.http.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.pause();
    const head = `POST /v2/models/identity_UINT8/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.byteLength}\r\nInference-Header-Content-Length: ${headers["Inference-Header-Content-Length"]}\r\n\r\n`;
    socket.write(Buffer.concat([Buffer.from(head), body]));
    await until(() => strict.http.inFlightBytes > 2 * size, "the answer's bytes are counted");
    const refused = await strict.infer("echo", x([1, 2, 3, 4]));
    expect([refused.status, refused.json.reason]).toEqual([429, "in-flight-bytes-full"]);
    await until(() => strict.http.inFlight === 0 && strict.http.inFlightBytes === 0, "cut off");
    expect((await strict.infer("echo", x([1, 2, 3, 4]))).status).toBe(200);
    socket.destroy();
  } finally {
    await strict.close();
  }
});

test("http: draining: not ready is 503, in-flight work is finished, new connections are refused", async () => {
  const last = await openDoors();
  const slow = last.infer("slow", x([1], [1], { parameters: { delay_ms: 200 } }));
  await until(() => last.gateway.inFlight === 1, "in flight");
  last.gateway.ready = false;
  expect((await last.call("GET", "/v2/health/ready")).status).toBe(503);
  const ready = await last.call("GET", "/v2/models/echo/ready");
  expect([ready.status, ready.json.error]).toEqual([503, "model 'echo' is not ready: the server is shutting down"]);
  expect((await last.call("GET", "/v2/health/live")).status).toBe(200);
  const refused = await last.infer("echo", x([1, 2, 3, 4]));
  expect([refused.status, refused.json.reason, refused.headers["retry-after"]]).toEqual([503, "draining", "2"]);
  const closed = last.http.close(5000);
  await expect(
    new Promise((resolve, reject) =>
      net.connect(last.http.port, "127.0.0.1", () => resolve("open")).on("error", reject),
    ),
  ).rejects.toThrow("ECONNREFUSED");
  const answer = await slow;
  expect([answer.status, answer.headers.connection]).toEqual([200, "close"]);
  await closed;
  await last.close();
});

test("http: what outlives the grace is cut", async () => {
  const last = await openDoors();
  const slow = last.infer("slow", x([1], [1], { parameters: { delay_ms: 60_000 } })).catch((error) => error.code);
  await until(() => last.gateway.inFlight === 1, "in flight");
  await last.http.close(50);
  expect(await slow).toBe("ECONNRESET");
  await until(() => last.gateway.inFlight === 0, "cancelled");
  await last.close();
});
