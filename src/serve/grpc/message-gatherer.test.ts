import { createRequire } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MessageGatherer } from "./message-gatherer.js";

interface Decoder {
  write(data: Buffer): Buffer[];
}
const { StreamDecoder } = createRequire(import.meta.url)("@grpc/grpc-js/build/src/stream-decoder.js") as {
  StreamDecoder: new (bytesMax: number) => Decoder;
};

const BYTES_MAX = 1000;

function framed(message: Uint8Array, compressed: boolean): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed ? 1 : 0;
  prefix.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([prefix, message]);
}

/** The stream in pieces of these sizes, the last again and again. */
function read(decoder: Decoder, stream: Buffer, sizes: readonly number[]): Buffer[] {
  const whole: Buffer[] = [];
  for (let at = 0, index = 0; at < stream.byteLength; index++) {
    const size = sizes[Math.min(index, sizes.length - 1)]!;
    whole.push(...decoder.write(Buffer.from(stream.subarray(at, at + size))));
    at += size;
  }
  return whole;
}

test("gives what grpc-js's own decoder gives, however the stream is cut (seed 20261128)", () => {
  const message = fc.tuple(fc.uint8Array({ maxLength: 400 }), fc.boolean());
  const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), sizes, (messages, cuts) => {
      const stream = Buffer.concat(messages.map(([bytes, compressed]) => framed(bytes, compressed)));
      const ours = read(new MessageGatherer(BYTES_MAX), stream, cuts);
      expect(ours).toEqual(read(new StreamDecoder(BYTES_MAX), stream, cuts));
      expect(ours.length).toBe(messages.length);
    }),
    { seed: 20261128, numRuns: 300 },
  );
});

test("a message is a memory of its own: what comes next changes none of it", () => {
  const gatherer = new MessageGatherer(BYTES_MAX);
  const first = framed(new Uint8Array(20).fill(7), false);
  const [message] = gatherer.write(first);
  first.fill(0);
  gatherer.write(framed(new Uint8Array(20).fill(9), false));
  expect([...message!.subarray(5)]).toEqual(new Array(20).fill(7));
});

test("what is announced is not held before an eighth of it has come", () => {
  const gatherer = new MessageGatherer(64 * 1024 * 1024);
  const before = process.memoryUsage().arrayBuffers;
  const head = framed(new Uint8Array(0), false);
  head.writeUInt32BE(64 * 1024 * 1024, 1);
  gatherer.write(Buffer.concat([head, Buffer.alloc(1000)]));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
});

test("too large a message is refused in grpc-js's words", () => {
  const large = framed(new Uint8Array(BYTES_MAX + 1), false);
  expect(() => new MessageGatherer(BYTES_MAX).write(large)).toThrow(
    `Received message larger than max (${BYTES_MAX + 1} vs ${BYTES_MAX})`,
  );
});
