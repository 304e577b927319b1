import zlib from "node:zlib";
import { expect, test } from "vitest";
import type { ServingError } from "../../wire/serving-error.js";
import { Admission, Place } from "../requests/admission.js";
import { Inflations } from "./inflation.js";

const MIB = 1024 * 1024;
const PLAIN = Buffer.alloc(MIB, 32);

interface Outcome {
  readonly error: ServingError | null;
  readonly body: Buffer | null;
}

function start(inflations: Inflations, admission: Admission, body: Buffer, kind: string, bytesMax = 2 * MIB) {
  const place = new Place([admission]);
  place.enter();
  place.grow(body.byteLength);
  let outcome: Outcome | null = null;
  const ended = new Promise<Outcome>((resolve) => {
    inflations.undo(body, kind, bytesMax, place, (error, plain) => {
      expect(outcome).toBeNull();
      outcome = { error, body: plain };
      resolve(outcome);
    });
  });
  return { place, ended, isEnded: () => outcome !== null };
}

test.each(["gzip", "deflate"])("inflation: %s is held as what it has grown to, no more and no less", async (kind) => {
  const admission = new Admission({});
  const body = kind === "gzip" ? zlib.gzipSync(PLAIN) : zlib.deflateSync(PLAIN);
  const { place, ended } = start(new Inflations(), admission, body, kind);
  const { body: plain } = await ended;
  expect([plain!.equals(PLAIN), admission.inFlightBytes]).toEqual([true, MIB]);
  place.end();
  expect([admission.inFlight, admission.inFlightBytes]).toEqual([0, 0]);
});

test("inflation: what does not fit beside the others is refused as it grows", async () => {
  const admission = new Admission({ inFlightBytesMax: 1.5 * MIB });
  const inflations = new Inflations();
  const both = [0, 1].map(() => start(inflations, admission, zlib.gzipSync(PLAIN), "gzip"));
  const outcomes = await Promise.all(both.map(({ ended }) => ended));
  expect(outcomes.filter(({ error }) => error?.details.reason === "in-flight-bytes-full").length).toBeGreaterThan(0);
  expect(admission.inFlightBytes).toBeLessThanOrEqual(1.5 * MIB);
  for (const { place } of both) place.end();
  expect(admission.inFlightBytes).toBe(0);
});

test("inflation: a length that the body lies about is believed for nothing", async () => {
  for (const said of [0, 5, 2 * MIB - 1, 0xffff_ffff]) {
    const body = zlib.gzipSync(PLAIN);
    body.writeUInt32LE(said, body.byteLength - 4);
    const { ended } = start(new Inflations(), new Admission({}), body, "gzip");
    expect((await ended).error).toMatchObject({ code: "invalid-argument" });
  }
});

test("inflation: those whose client has gone are not told and make room for those that wait", async () => {
  const admission = new Admission({});
  const inflations = new Inflations();
  const large = zlib.gzipSync(Buffer.alloc(16 * MIB));
  const gone = Array.from({ length: 6 }, () => start(inflations, admission, large, "gzip", 32 * MIB));
  const last = start(inflations, admission, zlib.gzipSync(PLAIN), "gzip");
  for (const { place } of gone) place.end();
  expect((await last.ended).body!.byteLength).toBe(MIB);
  expect([gone.some(({ isEnded }) => isEnded()), admission.inFlight, admission.inFlightBytes]).toEqual([false, 1, MIB]);
});
