import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { DurationUs, TimeUs } from "../core/time.js";
import type { Datatype, Tensor } from "./tensors/tensor.js";
import {
  decodeFailed,
  decodeFinished,
  decodeRoute,
  decodeRun,
  encodeFailed,
  encodeFinished,
  encodeRun,
} from "./worker-protocol.js";

const name = fc.string({ maxLength: 30, unit: "grapheme" });
const tensor: fc.Arbitrary<Tensor> = fc.record({
  name,
  datatype: fc.constantFrom<Datatype>("FP32", "INT64", "BYTES", "BOOL"),
  shape: fc.array(fc.nat({ max: 4_000_000_000 }), { maxLength: 6 }),
  data: fc.uint8Array({ maxLength: 300 }),
});
const members = fc.array(fc.array(tensor, { maxLength: 4 }), { maxLength: 5 });
const moment = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }) as unknown as fc.Arbitrary<TimeUs>;
const span = fc.nat() as unknown as fc.Arbitrary<DurationUs>;

const plain = (list: readonly (readonly Tensor[])[]) =>
  list.map((tensors) => tensors.map((t) => ({ ...t, data: [...t.data] })));

describe("worker protocol", () => {
  test("a run record reads back as written, every tensor aligned to 8 bytes", () => {
    fc.assert(
      fc.property(
        fc.record({
          slot: fc.nat({ max: 63 }),
          handle: fc.nat({ max: 2 ** 32 - 1 }),
          batch: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
          earliestStartAt: moment,
          variant: fc.nat({ max: 2 ** 32 - 1 }),
          kinds: fc.array(fc.nat({ max: 65_535 }), { maxLength: 5 }),
          outputs: fc.array(name, { maxLength: 4 }),
          members,
        }),
        (run) => {
          const record = encodeRun(run);
          const payload = Buffer.concat(record.parts);
          const read = decodeRun(record.header, payload);
          expect({ ...read, members: plain(read.members) }).toEqual({ ...run, members: plain(run.members) });
          expect(decodeRoute(record.header)).toEqual({ slot: run.slot, handle: run.handle, batch: run.batch });
          for (const t of read.members.flat()) expect((t.data.byteOffset - payload.byteOffset) % 8).toBe(0);
        },
      ),
    );
  });

  test("a finished record reads back as written", () => {
    fc.assert(
      fc.property(
        fc.record({
          slot: fc.nat({ max: 63 }),
          batch: fc.nat(),
          startedAt: moment,
          finishedAt: moment,
          inputUs: span,
          outputUs: span,
          outputs: members,
        }),
        (finished) => {
          const record = encodeFinished(finished);
          const read = decodeFinished(record.header, Buffer.concat(record.parts));
          expect({ ...read, outputs: plain(read.outputs) }).toEqual({ ...finished, outputs: plain(finished.outputs) });
        },
      ),
    );
  });

  test("a record cut short anywhere is refused, never misread", () => {
    const tensors: Tensor[] = [{ name: "x", datatype: "FP32", shape: [1, 2], data: new Uint8Array(8) }];
    const record = encodeRun({
      slot: 1,
      handle: 2,
      batch: 3,
      earliestStartAt: 4 as TimeUs,
      variant: 5,
      kinds: [6],
      outputs: ["y"],
      members: [tensors],
    });
    const payload = Buffer.concat(record.parts);
    for (let length = 0; length < record.header.length; length++)
      expect(() => decodeRun(record.header.subarray(0, length), payload)).toThrow(/ends early/);
    expect(() => decodeRun(record.header, payload.subarray(0, 7))).toThrow("tensor 'x' ends at byte 8; payload has 7");
    expect(() => decodeRun(Buffer.concat([record.header, Buffer.from([0])]), payload)).toThrow("1 bytes too many");
  });

  test("an extent beyond 32 bits is refused, not an accident", () => {
    const tensors: Tensor[] = [{ name: "x", datatype: "FP32", shape: [0, 2 ** 40], data: new Uint8Array() }];
    const run = {
      slot: 0,
      handle: 0,
      batch: 0,
      earliestStartAt: 0 as TimeUs,
      variant: 0,
      kinds: [],
      outputs: [],
      members: [tensors],
    };
    expect(() => encodeRun(run)).toThrow("must be an integer in [0, 4294967295]; was 1099511627776");
  });

  test("a failure carries cause, whose fault it is, and text; a text beyond the record is cut", () => {
    const failed = { slot: 3, batch: 9, cause: "model-error", code: "invalid-argument" } as const;
    const read = decodeFailed(encodeFailed({ ...failed, message: "x".repeat(100_000) }));
    expect(read).toEqual({ ...failed, message: "x".repeat(8000) });
  });
});
