/** What hostile use of the HTTP door found, in short: bounded before it is believed. */
import net from "node:net";
import zlib from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { acceptedCompression } from "../../src/serve/http/answer.js";
import { clientOf } from "../../src/serve/http/connections.js";
import { type Doors, openDoors, until } from "./harness.js";

const BODY_BYTES_MAX = 4 * 1024 * 1024;
let doors: Doors;
beforeAll(async () => {
  doors = await openDoors({ bodyBytesMax: BODY_BYTES_MAX, writeTimeoutMs: 300 });
});
afterAll(() => doors.close());

const ECHO = "/v2/models/identity_FP32/infer";
const GOOD = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}';
const good = async (): Promise<number> => (await doors.call("POST", ECHO, GOOD)).status;

/** Sends bytes and resolves with all that comes back until the server ends the connection or `enough` has come. */
function talk(bytes: string | Buffer, enough: RegExp = /$^/, port = doors.http.port): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    let got = "";
    socket.on("error", () => {});
    socket.on("close", () => resolve(got));
    socket.on("data", (piece) => {
      got += piece;
      if (enough.test(got)) socket.destroy();
    });
    socket.write(bytes);
  });
}

test("http: idle bodies that are only announced hold nothing, and deny nobody", async () => {
  const small = await openDoors({ bodyBytesMax: BODY_BYTES_MAX, inFlightBytesMax: BODY_BYTES_MAX });
  const head = `POST ${ECHO} HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY_BYTES_MAX}\r\n\r\n{`;
  const sockets = Array.from({ length: 17 }, () => {
    const socket = net.connect(small.http.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(head);
    return socket;
  });
  try {
    await until(() => small.http.inFlight === 17, "all are in");
    expect(small.http.inFlightBytes).toBe(17);
    expect((await small.call("POST", ECHO, GOOD)).status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
    await small.close();
  }
});

test("http: compressed bodies are counted as they grow, and refused at a limit, not after", async () => {
  // One request is always let in, and what its parsing may need is counted with it.
  const bytesMax = 6 * BODY_BYTES_MAX;
  const small = await openDoors({ bodyBytesMax: BODY_BYTES_MAX, inFlightBytesMax: bytesMax });
  try {
    const bomb = zlib.gzipSync(Buffer.alloc(BODY_BYTES_MAX - 1, 32), { level: 9 });
    const over = zlib.gzipSync(Buffer.alloc(50 * BODY_BYTES_MAX, 32), { level: 9 });
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, small.http.inFlightBytes);
    }, 1);
    const bodies = Array.from({ length: 40 }, (_, index) => (index % 4 === 0 ? over : bomb));
    const encoding = { "content-encoding": "gzip" };
    const replies = await Promise.all(bodies.map((body) => small.call("POST", ECHO, body, encoding)));
    clearInterval(watch);
    expect(most).toBeLessThanOrEqual(bytesMax);
    // 413: past the body's limit; 429: past the door's; 400: it is no JSON.
    expect(replies.filter(({ status }) => ![400, 413, 429].includes(status))).toEqual([]);
    await until(() => small.http.inFlight === 0 && small.http.inFlightBytes === 0, "given back");
    expect((await small.call("POST", ECHO, zlib.gzipSync(GOOD), encoding)).status).toBe(200);
  } finally {
    await small.close();
  }
});

test.each([
  ["POST", "/v2/repository/index", 413, "body-too-large"],
  ["POST", "/v2/repository/models/echo/load", 413, "body-too-large"],
  ["POST", "/v2/repository/models/echo/reload", 404, "unknown-path"],
  ["POST", "/v2/nothing", 404, "unknown-path"],
  ["POST", "/v2/health/live", 405, "method-not-allowed"],
  ["POST", "/v2/models/echo/stats", 405, "method-not-allowed"],
  ["POST", "/v2/models/echo/generate", 501, "unimplemented"],
  ["POST", "/v2/logging", 501, "unimplemented"],
  ["POST", "/v2/models/nobody/infer", 404, "unknown-model"],
  ["POST", ECHO, 413, "body-too-large"],
])("http: %s %s is refused by its head: %i %s", async (method, path, status, reason) => {
  // One byte of the body comes: an answer tells that nobody waits for the rest.
  const text = await talk(
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n{`,
    /"reason":"[^"]*"/,
  );
  expect(text.slice(0, 12)).toBe(`HTTP/1.1 ${status}`);
  expect(text).toContain(`"reason":"${reason}"`);
  expect(doors.http.inFlight).toBe(0);
});

test("http: load and unload are refused by their heads where models are not controlled by request", async () => {
  doors.gateway.hasControl = false;
  try {
    const head = "POST /v2/repository/models/echo/unload HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    expect(await talk(head, /"reason":"[^"]*"/)).toContain('"reason":"model-control"');
  } finally {
    doors.gateway.hasControl = true;
  }
});

test("http: a web page of another origin loads and unloads nothing; clients of Triton do", async () => {
  const path = "/v2/repository/models/echo/unload";
  for (const origin of ["http://evil.example", "null", `http://127.0.0.1:${doors.http.port}`]) {
    const reply = await doors.call("POST", path, "{}", { origin, "content-type": "text/plain" });
    expect([reply.status, reply.json.reason]).toEqual([403, "origin"]);
  }
  expect(doors.gateway.unloaded.size).toBe(0);
  // As tritonclient sends them: no content type, and parameters of unload.
  expect((await doors.call("POST", path, '{"parameters":{"unload_dependents":false}}')).status).toBe(200);
  expect((await doors.call("POST", "/v2/repository/models/echo/load")).status).toBe(200);
  expect(doors.gateway.unloaded.size).toBe(0);
});

test("http: bodies that are no inference are bounded in bytes, chunked too, and in depth", async () => {
  const index = "/v2/repository/index";
  const chunked = await doors.call("POST", index, Buffer.alloc(70_000, 32), { "transfer-encoding": "chunked" });
  expect([chunked.status, chunked.json.reason ?? chunked.json.error]).toEqual([413, expect.anything()]);
  const deep = await doors.call("POST", index, "[".repeat(1000));
  expect([deep.status, deep.json.reason]).toEqual([400, "json-too-complex"]);
  expect((await doors.call("POST", index, `${" ".repeat(60_000)}{}`)).status).toBe(200);
  await until(() => doors.http.inFlight === 0 && doors.http.inFlightBytes === 0, "given back");
});

test("http: Content-Length after a thousand headers is read", async () => {
  const padding = "a:\r\n".repeat(2500);
  const text = await talk(
    `POST ${ECHO} HTTP/1.1\r\nHost: x\r\n${padding}Content-Length: ${GOOD.length}\r\n\r\n${GOOD}`,
    /"data":\[1\]/,
  );
  expect(text).toContain("HTTP/1.1 200");
});

test.each(["gzip, chunked", "identity, chunked", "x, chunked"])(
  "http: Transfer-Encoding: %s is refused",
  async (coding) => {
    for (const path of [ECHO, "/v2/repository/index"]) {
      const text = await talk(`POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`);
      expect(text).toMatch(/^HTTP\/1.1 501[\s\S]*connection: close/i);
    }
    expect(await good()).toBe(200);
  },
);

test("http: Accept-Encoding is read in linear time, and as RFC 9110 says", () => {
  const cases: [string, string | null][] = [
    ["gzip", "gzip"],
    ["deflate , gzip;q=0.5", "gzip"],
    ["GZIP ; q=1", "gzip"],
    ["gzip;q=0, deflate", "deflate"],
    ["gzip; q=0.0", null],
    ["gzipx, xdeflate, identity", null],
    [`gzip${" ".repeat(15_000)}x`, null],
    [", ".repeat(8000), null],
  ];
  for (const [header, want] of cases)
    expect([header.slice(0, 20), acceptedCompression(header)]).toEqual([header.slice(0, 20), want]);
  // 3 MB: hours where each blank is tried against each.
  expect(acceptedCompression(`gzip${" ".repeat(3_000_000)}x`)).toBe(null);
});

test("http: pipelined inferences of one connection are bounded; others are let in", async () => {
  const one = await openDoors({ connectionInFlightMax: 3 });
  try {
    const body = '{"parameters":{"delay_ms":60000},"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}';
    const request = `POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const socket = net.connect(one.http.port, "127.0.0.1");
    socket.write(request.repeat(10));
    await until(() => one.gateway.refusals.length === 7, "seven are refused");
    expect(new Set(one.gateway.refusals.map(({ error }) => error.details.reason))).toEqual(
      new Set(["connection-full"]),
    );
    expect([one.http.inFlight, (await one.call("POST", ECHO, GOOD)).status]).toEqual([3, 200]);
    socket.destroy();
    await until(() => one.http.inFlight === 0, "given back");
  } finally {
    await one.close();
  }
});

test("http: one address may hold its part of the door, a proxy all of it", async () => {
  const limits = { inFlightRequestsMax: 4, connectionsMax: 20, addressShareMax: 0.5 };
  const head = `POST ${ECHO} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{`;
  for (const [proxies, held, connections] of [
    [[], 2, 10],
    [["127.0.0.0/8"], 4, 20],
  ] as const) {
    const some = await openDoors({ ...limits, proxies });
    const sockets: net.Socket[] = [];
    let closed = 0;
    const connect = (text: string): void => {
      const socket = net.connect(some.http.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.on("close", () => closed++);
      socket.write(text);
      sockets.push(socket);
    };
    try {
      for (let count = 0; count < 5; count++) connect(head);
      await until(() => some.gateway.refusals.length === 5 - held, "the rest is refused");
      expect(some.http.inFlight).toBe(held);
      for (let count = 5; count < 25; count++) connect("");
      await until(() => closed === 25 - connections, "the rest is closed");
    } finally {
      for (const socket of sockets) socket.destroy();
      await until(() => some.http.inFlight === 0, "given back");
      await some.close();
    }
  }
});

test("http: who a client is, by its address", () => {
  expect(clientOf("203.0.113.7")).toBe("203.0.113.7");
  expect(clientOf("::ffff:203.0.113.7")).toBe("203.0.113.7");
  expect(clientOf("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
  expect(clientOf("2001:db8::5")).toBe("2001:db8:0:0::/64");
  expect(clientOf("::1")).toBe("0:0:0:0::/64");
});

test("http: a client that takes nothing of its answer is reset, and with it what the kernel held", async () => {
  // More than a kernel takes for a client that reads nothing (tcp_wmem: up to 4 MiB, as Linux comes): the rest waits here.
  const size = 16 * 1024 * 1024;
  const large = await openDoors({ bodyBytesMax: size, writeTimeoutMs: 300 });
  const head = `POST /v2/models/identity_UINT8/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 0\r\nContent-Length: ${size}\r\n\r\n`;
  const sockets = Array.from({ length: 4 }, () => {
    const socket = net.connect(large.http.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.pause();
    socket.write(Buffer.concat([Buffer.from(head), Buffer.alloc(size)]));
    return socket;
  });
  await until(() => large.gateway.calls.filter(({ model }) => model === "identity_UINT8").length === 4, "answered");
  await until(() => large.http.inFlight === 0 && large.http.inFlightBytes === 0, "cut off");
  for (const socket of sockets) {
    let bytes = 0;
    socket.on("data", (piece) => {
      bytes += piece.byteLength;
    });
    await new Promise((resolve) => socket.once("close", resolve).resume());
    expect(bytes).toBeLessThan(size);
  }
  expect((await large.call("POST", ECHO, GOOD)).status).toBe(200);
  await large.close();
});

test("http: what parsing may need is held while a body is parsed, and no longer", async () => {
  const pad = "x".repeat(200_000);
  const body = JSON.stringify({ parameters: { delay_ms: 300 }, ...JSON.parse(GOOD), pad });
  const reply = doors.call("POST", "/v2/models/slow/infer", body);
  await until(() => doors.gateway.inFlight === 1, "parsed");
  expect(doors.http.inFlightBytes).toBe(body.length);
  expect((await reply).status).toBe(200);
});

test("http: what is refused at the door is told to the gateway, with what is known of it", async () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const seen = doors.gateway.refusals.length;
  await doors.call("POST", "/v2/models/nobody/versions/7/infer", GOOD, { traceparent });
  await doors.call("POST", ECHO, "no JSON");
  // What the gateway refuses itself, it knows.
  await doors.call("POST", ECHO, GOOD.replace('"x"', '"other"'));
  await good();
  expect(
    doors.gateway.refusals
      .slice(seen)
      .map(({ call, error }) => [call.model, call.version, call.traceparent, error.code]),
  ).toEqual([
    ["nobody", "7", traceparent, "not-found"],
    ["identity_FP32", "", null, "invalid-argument"],
  ]);
});

test("http: metrics in OpenMetrics where asked for; metrics and statistics compressed", async () => {
  const open = await doors.call("GET", "/metrics", undefined, {
    accept: "application/openmetrics-text; version=1.0.0",
  });
  expect(open.headers["content-type"]).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
  expect(open.body.toString()).toMatch(/# EOF\n$/);
  const plain = await doors.call("GET", "/v2/models/stats");
  for (const [coding, undo] of [
    ["gzip", zlib.gunzipSync],
    ["deflate", zlib.inflateSync],
  ] as const) {
    const reply = await doors.call("GET", "/v2/models/stats", undefined, { "accept-encoding": coding });
    expect([reply.headers["content-encoding"], reply.headers["content-type"]]).toEqual([
      coding,
      plain.headers["content-type"],
    ]);
    expect(JSON.parse(undo(reply.body).toString()).model_stats).toHaveLength(plain.json.model_stats.length);
  }
});
