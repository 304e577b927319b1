/** Whatever a client sends and however it ends: all that was taken for its requests is given back. */
import net from "node:net";
import zlib from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Doors, openDoors, until } from "./harness.js";

const BODY_BYTES_MAX = 2 * 1024 * 1024;
let doors: Doors;
beforeAll(async () => {
  doors = await openDoors({
    bodyBytesMax: BODY_BYTES_MAX,
    inFlightBytesMax: 12 * 1024 * 1024,
    connectionInFlightMax: 5,
    headersTimeoutMs: 100,
    requestTimeoutMs: 150,
    writeTimeoutMs: 200,
  });
});
afterAll(() => doors.close());

function post(path: string, body: string | Buffer, headers = ""): Buffer {
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}
const infer = (data: number[], parameters: object = {}, more: object = {}): string =>
  JSON.stringify({ parameters, ...more, inputs: [{ name: "x", datatype: "FP32", shape: [data.length], data }] });
const chunked = (path: string, ...chunks: string[]): Buffer =>
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunks
      .map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
      .join("")}`,
  );
const raw = (model: string, size: number): Buffer =>
  post(`/v2/models/${model}/infer`, Buffer.alloc(size), "Inference-Header-Content-Length: 0\r\n");

const SLOW = "/v2/models/slow/infer";
const FAST = "/v2/models/identity_FP32/infer";
const INDEX = "/v2/repository/index";
/** What may stand on a connection, whole or cut off anywhere. */
const MESSAGES: Readonly<Record<string, Buffer>> = {
  metrics: Buffer.from("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
  fast: post(FAST, infer([1])),
  slow: post(SLOW, infer([1], { delay_ms: 60 })),
  "slow for ever": post(SLOW, infer([1], { delay_ms: 60_000 })),
  "chunked, whole": chunked(FAST, infer([1]), ""),
  "chunked, open": chunked(FAST, infer([1])),
  "announced and not sent": Buffer.from(`POST ${FAST} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{`),
  "too long": Buffer.from(`POST ${FAST} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{`),
  "for the thread": post(FAST, infer(new Array(80_000).fill(0.5))),
  "for the thread, too complex": post(FAST, `{"inputs":[${"{},".repeat(60_000)}1]}`),
  "for the thread, expires": post(SLOW, infer([1], { timeout: 1 }, { pad: "x".repeat(200_000) })),
  "no JSON": post(FAST, "no JSON"),
  "unknown model": post("/v2/models/nobody/infer", "{}"),
  "an answer of 2 MB": raw("identity_UINT8", BODY_BYTES_MAX - 1),
  gzip: post(FAST, zlib.gzipSync(infer([1])), "Content-Encoding: gzip\r\n"),
  "gzip that grows": post(FAST, zlib.gzipSync(Buffer.alloc(8 * BODY_BYTES_MAX)), "Content-Encoding: gzip\r\n"),
  "gzip that grows to the limit": post(FAST, zlib.gzipSync(Buffer.alloc(BODY_BYTES_MAX)), "Content-Encoding: gzip\r\n"),
  "no gzip": post(FAST, "no gzip", "Content-Encoding: gzip\r\n"),
  index: post(INDEX, "{}"),
  "index, announced and not sent": Buffer.from(`POST ${INDEX} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{`),
  "index, deep": post(INDEX, "[".repeat(1000)),
  "no HTTP": Buffer.from("\0\0\0 nothing\r\n\r\n"),
};

interface Visit {
  readonly messages: readonly string[];
  /** Part of the last message that is sent. */
  readonly part: number;
  /** Where the bytes are parted in two sends. */
  readonly split: number;
  readonly reads: boolean;
  readonly ending: "close" | "reset" | "half-close" | "wait";
  readonly afterMs: number;
}

const visit = fc.record<Visit>({
  messages: fc.array(fc.constantFrom(...Object.keys(MESSAGES)), { minLength: 1, maxLength: 7 }),
  part: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  split: fc.double({ min: 0, max: 1, noNaN: true }),
  reads: fc.boolean(),
  ending: fc.constantFrom("close", "reset", "half-close", "wait"),
  afterMs: fc.integer({ min: 0, max: 40 }),
});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function make({ messages, part, split, reads, ending, afterMs }: Visit): Promise<void> {
  const socket = net.connect({ port: doors.http.port, host: "127.0.0.1", allowHalfOpen: true });
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  socket.on("error", () => {});
  if (reads) socket.resume();
  else socket.pause();
  const all = messages.map((message) => MESSAGES[message]!);
  const last = all.pop()!;
  const bytes = Buffer.concat([...all, last.subarray(0, Math.ceil(part * last.byteLength))]);
  const at = Math.floor(split * bytes.byteLength);
  socket.write(bytes.subarray(0, at));
  await pause(afterMs / 4);
  if (!socket.destroyed) socket.write(bytes.subarray(at));
  await pause(afterMs);
  if (ending === "reset") socket.resetAndDestroy();
  else if (ending === "close") socket.destroy();
  else {
    if (ending === "half-close") socket.end();
    // Of a connection on which all is well the server waits for more: then it is the client that goes.
    await Promise.race([closed, pause(400)]);
    socket.destroy();
  }
  await closed;
}

test("http: any bytes and endings leave places, bytes and threads at 0 (seed 4)", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(visit, { minLength: 1, maxLength: 24 }), async (visits) => {
      await Promise.all(visits.map(make));
      const held = (): object => ({
        places: doors.http.inFlight,
        bytes: doors.http.inFlightBytes,
        parsing: doors.http.parsing,
        gateway: doors.gateway.inFlight,
      });
      const none = { places: 0, bytes: 0, parsing: 0, gateway: 0 };
      await until(() => JSON.stringify(held()) === JSON.stringify(none), "nothing held").catch(() => {});
      expect(held()).toEqual(none);
    }),
    { seed: 4, numRuns: 16, endOnFailure: true },
  );
  expect((await doors.call("POST", FAST, infer([1]))).status).toBe(200);
}, 60_000);

test("http: requests pipelined behind another are given back when the connection goes", async () => {
  const socket = net.connect(doors.http.port, "127.0.0.1");
  socket.write(Buffer.concat([MESSAGES["slow for ever"]!, MESSAGES.fast!, MESSAGES.slow!, MESSAGES["chunked, open"]!]));
  await until(() => doors.http.inFlight === 4, "all of them are in");
  socket.destroy();
  await until(() => doors.http.inFlight === 0 && doors.http.inFlightBytes === 0, "given back");
  expect(doors.gateway.inFlight).toBe(0);
});

test("http: a request that does not come in time is given back though the client stays", async () => {
  const socket = net.connect({ port: doors.http.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.write(MESSAGES["announced and not sent"]!);
  await until(() => doors.http.inFlight === 1, "in");
  const answer = await new Promise((resolve) => socket.once("data", (piece) => resolve(String(piece))));
  // It was told, and has not gone.
  expect(answer).toContain("408 Request Timeout");
  expect([doors.http.inFlight, doors.http.inFlightBytes]).toEqual([0, 0]);
  socket.destroy();
});
