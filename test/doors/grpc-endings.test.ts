/**
 * Whatever is sent over gRPC and however it ends, the door holds nothing afterwards: no place, no byte, no request at the
 * gateway. Sequences are drawn at random and replay from the seed in the title.
 */
import type { ClientHttp2Session } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Doors, fp32, grpcInfer, openDoors, until } from "./harness.js";
import { connect, cut, framed, INFER, inferMessage, open, STREAM_INFER } from "./raw-grpc.js";

const SEED = 20_261_128;
const KIB = 1024;

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors({
    inFlightRequestsMax: 12,
    inFlightBytesMax: 2048 * KIB,
    bodyBytesMax: 256 * KIB,
    connectionInFlightMax: 8,
    connectionBytesMax: 1024 * KIB,
    requestTimeoutMs: 250,
    writeTimeoutMs: 250,
  } as object);
});
afterAll(() => doors.close());

const LARGE = Buffer.alloc(200 * KIB);
const MESSAGES: Readonly<Record<string, Buffer>> = {
  quick: framed(inferMessage("identity_FP32", fp32(1))),
  slow: framed(inferMessage("slow", fp32(1), 1200)),
  soon: framed(inferMessage("slow", fp32(1), 20)),
  unknown: framed(inferMessage("nobody", fp32(1))),
  large: framed(inferMessage("identity_FP32", LARGE)),
  half: framed(LARGE.subarray(0, 100 * KIB), 200 * KIB),
  prefix: Buffer.from([0, 0, 0]),
  "too large": framed(Buffer.alloc(10), 1024 * KIB),
  garbage: framed(Buffer.from([0x0a, 0xff, 0xff, 0xff])),
  empty: framed(Buffer.alloc(0)),
  "not gzip": framed(Buffer.alloc(100, 7), 100, 1),
};

const step = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...Object.keys(MESSAGES)).map((send) => ({ send })) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 40 }).map((waitMs) => ({ waitMs })) },
);
const call = fc.record({
  path: fc.constantFrom(
    INFER,
    INFER,
    STREAM_INFER,
    STREAM_INFER,
    "/inference.GRPCInferenceService/ServerLive",
    "/no/no",
  ),
  timeout: fc.option(fc.constantFrom("1m", "30m", "0m"), { freq: 4 }),
  isGzip: fc.boolean(),
  isRead: fc.boolean(),
  steps: fc.array(step, { maxLength: 5 }),
  end: fc.constantFrom("half-close", "half-close", "reset", "refuse", "cancel", "nothing"),
});
const connection = fc.record({
  window: fc.constantFrom(0, 1000, 65_535),
  calls: fc.array(call, { minLength: 1, maxLength: 6 }),
  end: fc.constantFrom("close", "destroy", "goaway", "cut", "stay"),
});

type Call = typeof call extends fc.Arbitrary<infer T> ? T : never;
type Connection = typeof connection extends fc.Arbitrary<infer T> ? T : never;
const RESETS = { reset: 2, refuse: 7, cancel: 8 } as const;

async function play(session: ClientHttp2Session, { path, timeout, isGzip, isRead, steps, end }: Call): Promise<void> {
  if (session.destroyed || session.closed) return;
  const headers = {
    ...(timeout === null ? {} : { "grpc-timeout": timeout }),
    ...(isGzip ? { "grpc-encoding": "gzip" } : {}),
  };
  const { stream } = open(session, path, headers);
  if (isRead) stream.resume();
  for (const one of steps)
    if ("waitMs" in one) await pause(one.waitMs);
    else if (!stream.closed && !stream.destroyed) stream.write(MESSAGES[one.send]!);
  if (stream.destroyed) return;
  if (end === "half-close") stream.end();
  else if (end !== "nothing") stream.close(RESETS[end]);
}

/** @returns the session, where it stays. */
async function run({ window, calls, end }: Connection): Promise<ClientHttp2Session | null> {
  const session = connect(doors.grpc.port, { initialWindowSize: window });
  await Promise.all(calls.map((one) => play(session, one)));
  if (end === "stay") return session;
  if (session.destroyed) return null;
  if (end === "close") session.close();
  else if (end === "goaway") session.goaway(2);
  else if (end === "cut") cut(session);
  if (end !== "close") session.destroy();
  return session;
}

test(`grpc: whatever is sent and however it ends, nothing is held afterwards (seed ${SEED})`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(connection, { minLength: 1, maxLength: 3 }), async (connections) => {
      const sessions = await Promise.all(connections.map(run));
      try {
        await until(
          () => doors.grpc.inFlight === 0 && doors.grpc.inFlightBytes === 0 && doors.gateway.inFlight === 0,
          "nothing held",
        );
        const { error } = await grpcInfer(doors, {
          modelName: "identity_FP32",
          inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
          rawInputContents: [fp32(1)],
        });
        expect(error).toBe(null);
      } finally {
        for (const session of sessions) session?.destroy();
      }
    }),
    { seed: SEED, numRuns: 40, endOnFailure: true },
  );
}, 120_000);
