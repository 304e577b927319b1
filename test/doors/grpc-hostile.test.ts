/** Clients that send halves, read nothing, or never end: what they hold is bounded, and is given back while they stay. */
import type { ClientHttp2Session } from "node:http2";
import zlib from "node:zlib";
import { afterEach, expect, test } from "vitest";
import type { GrpcDoorOptions } from "../../src/serve/grpc/door.js";
import { type Doors, fp32, grpcInfer, openDoors, until } from "./harness.js";
import { connect, cut, framed, INFER, inferMessage, open, STREAM_INFER } from "./raw-grpc.js";

const KIB = 1024;
const MIB = 1024 * KIB;
const REFLECT = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

let doors: Doors;
const sessions: ClientHttp2Session[] = [];
const start = async (options: Partial<GrpcDoorOptions>): Promise<void> => {
  doors = await openDoors(options);
};
const session = (settings = {}): ClientHttp2Session => {
  const opened = connect(doors.grpc.port, settings);
  sessions.push(opened);
  return opened;
};
afterEach(async () => {
  // Node's client corrupts its memory when a session is destroyed with streams that were not read (nodejs/node 65093).
  for (const opened of sessions.splice(0)) cut(opened);
  await doors.close();
});

const good = async (): Promise<void> => {
  const { error } = await grpcInfer(doors, {
    modelName: "identity_FP32",
    inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
    rawInputContents: [fp32(1)],
  });
  expect(error).toBe(null);
};
const givenBack = () =>
  until(
    () => doors.grpc.inFlight === 0 && doors.grpc.inFlightBytes === 0 && doors.gateway.inFlight === 0,
    "given back",
  );

test("grpc: half a message is counted as it comes, for so long, and leaves room for other connections", async () => {
  await start({ inFlightBytesMax: 8 * MIB, bodyBytesMax: MIB, requestTimeoutMs: 500 });
  const halves = session();
  const calls = Array.from({ length: 4 }, () => open(halves, INFER));
  for (const { stream } of calls) stream.write(framed(Buffer.alloc(900 * KIB), MIB));
  // Two of the largest are what one connection may hold.
  const refused = calls.map(({ status }) => status);
  await until(() => doors.grpc.inFlightBytes > 1700 * KIB, "counted");
  expect(doors.grpc.inFlightBytes).toBeLessThanOrEqual(2 * MIB);
  await good();
  expect((await Promise.all(refused)).sort()).toEqual([
    "4 message-timeout",
    "4 message-timeout",
    "8 connection-full",
    "8 connection-full",
  ]);
  await givenBack();
  expect(halves.destroyed).toBe(false);
  expect(doors.answers.filter((answer) => answer === "grpc deadline-exceeded message-timeout").length).toBe(2);
  expect(doors.answers.filter((answer) => answer === "grpc resource-exhausted connection-full").length).toBe(2);
});

test("grpc: a call that sends nothing, or never says that it ends, is ended", async () => {
  await start({ requestTimeoutMs: 300 });
  const silent = session();
  const nothing = open(silent, INFER);
  const whole = open(silent, INFER);
  whole.stream.write(framed(inferMessage("identity_FP32", fp32(1))));
  expect([await nothing.status, await whole.status]).toEqual(["4 message-timeout", "4 message-timeout"]);
  // A stream between two messages owes nothing; in the middle of one it does.
  const stream = open(silent, STREAM_INFER);
  stream.stream.resume();
  stream.stream.write(framed(inferMessage("identity_FP32", fp32(1))));
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(stream.stream.closed).toBe(false);
  stream.stream.write(Buffer.from([0, 0]));
  expect(await stream.status).toBe("4 message-timeout");
  await givenBack();
});

test("grpc: a message that announces too much is refused at once", async () => {
  await start({ bodyBytesMax: MIB });
  const client = session();
  const call = open(client, INFER);
  call.stream.write(framed(Buffer.alloc(0), MIB + 1));
  expect(await call.status).toBe("8 body-too-large");
  const small = open(client, "/inference.GRPCInferenceService/RepositoryIndex");
  small.stream.write(framed(Buffer.alloc(0), 64 * KIB + 1));
  expect(await small.status).toBe("8 body-too-large");
  await Promise.all([call, small].map(({ stream }) => until(() => stream.closed, "closed")));
});

test("grpc: a client that reads nothing is cut off, and what it held is free again", async () => {
  await start({ writeTimeoutMs: 400 });
  const slow = session({ initialWindowSize: 0 });
  for (let index = 0; index < 3; index++)
    open(slow, INFER).stream.end(framed(inferMessage("identity_FP32", Buffer.alloc(100 * KIB))));
  await until(() => doors.grpc.inFlightBytes > 600 * KIB, "requests and answers held");
  await good();
  await until(() => slow.destroyed, "connection closed");
  await givenBack();
});

test("grpc: of a connection that moves, only the call that is not read ends", async () => {
  await start({ writeTimeoutMs: 400 });
  const client = session();
  const stuck = open(client, INFER);
  stuck.stream.pause();
  stuck.stream.end(framed(inferMessage("identity_FP32", Buffer.alloc(4 * MIB))));
  const reads = setInterval(() => {
    const call = open(client, INFER);
    call.stream.resume();
    call.stream.end(framed(inferMessage("identity_FP32", fp32(1))));
  }, 50);
  await until(() => doors.grpc.inFlightBytes > 4 * MIB, "held");
  await until(() => doors.grpc.inFlightBytes < MIB, "given back");
  clearInterval(reads);
  expect(client.destroyed).toBe(false);
});

test("grpc: unread answers of a connection are bounded: the next is refused, and others go on", async () => {
  await start({ inFlightBytesMax: 16 * MIB, bodyBytesMax: MIB });
  const slow = session({ initialWindowSize: 0 });
  const calls = Array.from({ length: 12 }, () => open(slow, INFER));
  for (const { stream } of calls) stream.end(framed(inferMessage("identity_FP32", Buffer.alloc(500 * KIB))));
  const refused = await Promise.race(calls.map(({ status }) => status));
  expect(refused).toBe("8 connection-full");
  expect(doors.grpc.inFlightBytes).toBeLessThanOrEqual(4 * MIB);
  await good();
});

test("grpc: an answer is refused, not held, where its connection has not read what it was sent", async () => {
  await start({ inFlightBytesMax: 16 * MIB, bodyBytesMax: MIB });
  const slow = session({ initialWindowSize: 0 });
  const calls = Array.from({ length: 12 }, () => open(slow, INFER));
  for (const { stream } of calls) stream.end(framed(inferMessage("slow", Buffer.alloc(300 * KIB), 500)));
  await until(() => doors.gateway.inFlight === 12, "all let in");
  expect(await Promise.race(calls.map(({ status }) => status))).toBe("8 connection-full");
  await until(() => doors.gateway.inFlight === 0, "all answered");
  expect(doors.grpc.inFlightBytes).toBeLessThanOrEqual(4 * MIB);
});

test("grpc: a stream that goes on gives back what its answered requests held", async () => {
  await start({});
  const { stream } = open(session(), STREAM_INFER);
  stream.resume();
  for (let index = 0; index < 20; index++) stream.write(framed(inferMessage("identity_FP32", fp32(index))));
  await until(() => doors.gateway.calls.length === 20, "all arrived");
  await givenBack();
  expect(stream.closed).toBe(false);
});

test("grpc: answers of a stream are held until they have left", async () => {
  await start({ writeTimeoutMs: 400 });
  const slow = session({ initialWindowSize: 0 });
  const { stream } = open(slow, STREAM_INFER);
  for (let index = 0; index < 8; index++) stream.write(framed(inferMessage("identity_FP32", Buffer.alloc(20 * KIB))));
  await until(() => doors.grpc.inFlightBytes > 320 * KIB, "requests and answers held");
  expect(doors.grpc.inFlight).toBe(8);
  await until(() => slow.destroyed, "connection closed");
  await givenBack();
});

test("grpc: a stream of reflection is read no further than its answers are", async () => {
  await start({});
  const slow = session({ initialWindowSize: 0 });
  const { stream } = open(slow, REFLECT);
  const listServices = framed(Buffer.from([0x3a, 0]));
  const requests = 30_000;
  stream.write(Buffer.concat(Array.from({ length: requests }, () => listServices)));
  await new Promise((resolve) => setTimeout(resolve, 1500));
  // The client still holds nearly all: HTTP/2's window is closed to it.
  expect(stream.writableLength).toBeGreaterThan(requests * listServices.byteLength * 0.5);
});

test("grpc: a stream of an unknown method is closed, whatever it goes on to send", async () => {
  await start({});
  const { stream, status } = open(session(), "/nobody/Nothing");
  expect(await status).toBe("12");
  await until(() => stream.closed, "closed");
});

test("grpc: a compressed message is counted as it grows, and refused before it has outgrown its limits", async () => {
  await start({ inFlightBytesMax: 4 * MIB, bodyBytesMax: MIB });
  const client = session();
  const gzip = { "grpc-encoding": "gzip" };
  const send = (plain: Uint8Array, path = INFER): Promise<string> => {
    const bytes = zlib.gzipSync(plain);
    const { stream, status } = open(client, path, gzip);
    stream.resume();
    stream.end(framed(bytes, bytes.byteLength, 1));
    return status;
  };
  expect(await send(inferMessage("identity_FP32", Buffer.alloc(500 * KIB)))).toBe("0");
  expect(await send(Buffer.alloc(60 * MIB))).toBe("8 body-too-large");
  expect(await send(Buffer.alloc(MIB), "/inference.GRPCInferenceService/RepositoryIndex")).toBe("8 body-too-large");
  const many = await Promise.all(
    Array.from({ length: 8 }, () => send(inferMessage("slow", Buffer.alloc(900 * KIB), 300))),
  );
  expect(many).toContain("8 connection-full");
  for (const one of many) expect(["0", "8 connection-full"]).toContain(one);
  const { stream, status } = open(client, INFER, gzip);
  stream.end(framed(Buffer.alloc(10), 10, 1));
  expect(await status).toBe("3 invalid-argument");
  await givenBack();
});

test("grpc: what is refused before the gateway sees it is counted there", async () => {
  await start({ bodyBytesMax: MIB });
  const before = doors.gateway.refusals.length;
  const call = open(session(), INFER);
  call.stream.write(framed(Buffer.alloc(0), MIB + 1));
  await call.status;
  await grpcInfer(doors, { modelName: "identity_FP32", inputs: [{ name: "x", datatype: "FLOAT", shape: [1n] }] });
  await grpcInfer(doors, {
    modelName: "nobody",
    inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
    rawInputContents: [fp32(1)],
  });
  const reasons = doors.gateway.refusals.slice(before).map(({ error }) => error.details.reason ?? error.code);
  expect(reasons).toEqual(["body-too-large", "invalid-argument"]);
});

test("grpc: a deadline of weeks is as good as none, and what is no timeout is refused", async () => {
  await start({});
  const opened = session();
  const ask = async (timeout: string): Promise<string> => {
    const call = open(opened, INFER, { "grpc-timeout": timeout });
    call.stream.resume();
    call.stream.end(framed(inferMessage("identity_FP32", fp32(1))));
    return call.status;
  };
  // 24.8 days are the most that a timer takes; 49.7 are 2^32 ms and nothing.
  for (const timeout of ["99999999H", "1200H", "600H", "596H", "36000M", "2147484S", "10S", "99999999m", "99999999u"])
    expect(await ask(timeout), timeout).toBe("0");
  const remaining = doors.gateway.calls.map(({ receivedAt, transportDeadlineAt: at }) =>
    at === null ? null : Math.round((at - receivedAt) / 60e6),
  );
  expect(remaining).toEqual([null, null, null, 596 * 60, null, null, 0, 1667, 2]);
  for (const timeout of ["-1m", "1e3m", "0x10m", "123456789m", "10", "m", "1 S", "1S, 2S"])
    expect(await ask(timeout), timeout).toBe("13");
  await givenBack();
});
