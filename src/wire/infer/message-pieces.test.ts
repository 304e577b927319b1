import fc from "fast-check";
import { expect, test } from "vitest";
import { ModelInferResponse, ModelStreamInferResponse } from "../proto/inference.js";
import { writeAnswer } from "./infer-proto.js";
import { encodeProto, MessagePieces, wrapInStream } from "./message-pieces.js";

/** An answer with raw outputs of these sizes, no byte of which is like the next. */
const answerOf = (sizes: readonly number[]): ModelInferResponse => {
  const outputs = sizes.map((size, index) => ({
    name: `y${index}`,
    datatype: "UINT8" as const,
    shape: [size],
    data: Uint8Array.from({ length: size }, (_, at) => (at * 7 + (at >> 8) + index) & 0xff),
  }));
  return writeAnswer({ model: "m", version: "2", parameters: { gamma: 3, ok: true }, outputs }, "i", true);
};
const sizes = fc.array(fc.oneof(fc.constantFrom(0, 1, 127, 128, 16_383, 16_384), fc.nat(40_000)), { maxLength: 6 });

test("message-pieces: joined, an answer is what the generated encoder makes of it, alone and in a stream", () => {
  fc.assert(
    fc.property(sizes, (of) => {
      const response = answerOf(of);
      const pieces = encodeProto(response);
      expect(pieces.join().equals(ModelInferResponse.encode(response).finish())).toBe(true);
      const streamed = ModelStreamInferResponse.encode({ errorMessage: "", inferResponse: response }).finish();
      const wrapped = wrapInStream(pieces);
      expect(wrapped.join().equals(streamed)).toBe(true);
      expect([pieces.length, wrapped.length]).toEqual([pieces.join().byteLength, streamed.byteLength]);
    }),
    { numRuns: 50 },
  );
});

test("message-pieces: portions are all of the message in order, none empty, none too long, no two that fit in one", () => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 20_000 }), (of, bytesMax) => {
      const message = encodeProto(answerOf(of));
      const portions = [...message.portions(bytesMax)];
      expect(Buffer.concat(portions).equals(message.join())).toBe(true);
      const lengths = portions.map(({ byteLength }) => byteLength);
      expect(lengths.every((length) => length > 0 && length <= bytesMax)).toBe(true);
      expect(lengths.every((length, at) => at === 0 || lengths[at - 1]! + length > bytesMax)).toBe(true);
    }),
    { numRuns: 50 },
  );
});

test("message-pieces: a large tensor is cut where it lies", () => {
  const response = answerOf([10, 1050, 10]);
  const tensor = response.rawOutputContents[1]!;
  const inPlace = [...encodeProto(response).portions(100)].filter(({ buffer }) => buffer === tensor.buffer);
  expect(inPlace.map(({ byteOffset, byteLength }) => [byteOffset, byteLength])).toEqual(
    Array.from({ length: 10 }, (_, index) => [index * 100, 100]),
  );
});

test("message-pieces: an answer that is less than half of the memory it lies in is copied out of it", () => {
  const batch = Uint8Array.from({ length: 1000 }, (_, at) => at & 0xff);
  const sharing = (tensors: Uint8Array[]): number => {
    const response = ModelInferResponse.fromPartial({ modelName: "m", rawOutputContents: tensors });
    const message = encodeProto(response);
    expect(message.join().equals(ModelInferResponse.encode(response).finish())).toBe(true);
    return message.pieces.filter(({ buffer }) => buffer === batch.buffer).length;
  };
  expect(sharing([batch.subarray(100, 600)])).toBe(1);
  expect(sharing([batch.subarray(100, 599)])).toBe(0);
  // Two outputs of one answer hold it together.
  expect(sharing([batch.subarray(0, 300), batch.subarray(300, 600)])).toBe(2);
  expect(sharing([batch.subarray(0, 300), new Uint8Array(100)])).toBe(0);
});

test("message-pieces: what is short leaves as one, even if it is nothing", () => {
  expect([...encodeProto(answerOf([1, 2, 3, 0])).portions(1000)]).toHaveLength(1);
  expect([...new MessagePieces([new Uint8Array()]).portions(10)].map(({ byteLength }) => byteLength)).toEqual([0]);
});
