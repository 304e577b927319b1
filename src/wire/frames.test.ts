import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeFrame, type Frame, FrameReader, PREFIX_BYTES } from "./frames.js";

const bytes = (max: number) => fc.uint8Array({ maxLength: max });
const frameSource = fc.record({
  type: fc.integer({ min: 0, max: 255 }),
  header: bytes(200),
  parts: fc.array(bytes(5000), { maxLength: 4 }),
});

interface Source {
  readonly type: number;
  readonly header: Uint8Array;
  readonly parts: readonly Uint8Array[];
}
const flat = (source: Source) => Buffer.concat(encodeFrame(source.type, source.header, source.parts));

/** Cuts the stream at the given fractions, in order. */
function cut(stream: Buffer, at: readonly number[]): Buffer[] {
  const marks = [0, ...at.map((x) => Math.floor(x * stream.length)).sort((a, b) => a - b), stream.length];
  return marks.slice(1).map((mark, i) => stream.subarray(marks[i]!, mark));
}
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });

function expectSame(frames: readonly Frame[], sources: readonly Source[]): void {
  expect(frames.length).toBe(sources.length);
  sources.forEach((source, i) => {
    expect(frames[i]!.type).toBe(source.type);
    expect(Buffer.compare(frames[i]!.header, Buffer.from(source.header))).toBe(0);
    expect(Buffer.compare(frames[i]!.payload, Buffer.concat(source.parts))).toBe(0);
  });
}

describe("frames", () => {
  test("survive any splitting and merging of the stream, and that its memory is used again", () => {
    fc.assert(
      fc.property(fc.array(frameSource, { maxLength: 6 }), cuts, (sources, at) => {
        const frames: Frame[] = [];
        const reader = new FrameReader((frame) => frames.push(frame));
        for (const chunk of cut(Buffer.concat(sources.map(flat)), at)) {
          const reused = Buffer.from(chunk);
          reader.push(reused);
          reused.fill(0xee);
        }
        expectSame(frames, sources);
        expect(reader.idle).toBe(true);
      }),
    );
  });

  test("read direct into the memory of a large payload", () => {
    const payload = Buffer.alloc(300_000, 7);
    const stream = flat({ type: 3, header: Buffer.from("h"), parts: [payload] });
    const frames: Frame[] = [];
    const reader = new FrameReader((frame) => frames.push(frame));
    let at = 0;
    let direct = 0;
    while (at < stream.length) {
      const space = reader.space();
      const count = Math.min(space?.length ?? 65_536, 50_000, stream.length - at);
      if (space === null) reader.push(Buffer.from(stream.subarray(at, at + count)));
      else {
        stream.copy(space, 0, at, at + count);
        reader.filled(count);
        direct += count;
      }
      at += count;
    }
    expect(frames[0]!.payload.equals(payload)).toBe(true);
    expect(direct).toBeGreaterThan(200_000);
  });

  test("large parts are sent by reference", () => {
    const part = Buffer.alloc(10_000);
    expect(encodeFrame(1, new Uint8Array(), [part])).toContain(part);
  });

  test("a flipped bit in any prefix is noticed", () => {
    fc.assert(
      fc.property(
        frameSource,
        fc.nat({ max: PREFIX_BYTES - 1 }),
        fc.integer({ min: 0, max: 7 }),
        (source, byte, bit) => {
          const stream = Buffer.from(flat(source));
          stream[byte]! ^= 1 << bit;
          const reader = new FrameReader(() => {});
          expect(() => reader.push(stream)).toThrow(/corrupt/);
        },
      ),
    );
  });

  test("a truncated stream leaves the reader inside a frame and delivers nothing of it", () => {
    fc.assert(
      fc.property(frameSource, fc.double({ min: 0, max: 1, noNaN: true }), (source, share) => {
        const stream = flat(source);
        const length = Math.floor(share * (stream.length - 1));
        let seen = 0;
        const reader = new FrameReader(() => seen++);
        reader.push(stream.subarray(0, length));
        expect(seen).toBe(0);
        expect(reader.idle).toBe(length === 0);
      }),
    );
  });

  test("sizes beyond the limits are refused by both ends, naming limit and size", () => {
    const limits = { headerBytesMax: 10, payloadBytesMax: 20 };
    expect(() => encodeFrame(1, new Uint8Array(11), [], limits)).toThrow(
      "frame header must be at most 10 bytes; was 11",
    );
    expect(() => encodeFrame(1, new Uint8Array(), [new Uint8Array(21)], limits)).toThrow(
      "frame payload must be at most 20 bytes; was 21",
    );
    const reader = new FrameReader(() => {}, limits);
    expect(() => reader.push(flat({ type: 1, header: new Uint8Array(), parts: [new Uint8Array(21)] }))).toThrow(
      "frame payload must be at most 20 bytes; was 21",
    );
  });
});
