import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRing, RING_WIDTH, RingReader, RingWriter } from "./ring.js";

const SEED = 20_260_101;

describe("ring", () => {
  it("refuses capacities that are no power of two, naming bound and value", () => {
    expect(() => createRing(48)).toThrow("ring capacity must be a power of two in [2, 2^24]; was 48");
  });

  it("shows records only after publish, and says -1 when full", () => {
    const memory = createRing(2);
    const writer = new RingWriter(memory);
    const reader = new RingReader(memory);
    writer.cells[writer.claim()] = 7;
    expect(reader.available).toBe(0);
    writer.show();
    expect(reader.available).toBe(1);
    writer.cells[writer.claim()] = 8;
    expect(writer.claim()).toBe(-1);
    reader.release(1);
    expect(writer.claim()).not.toBe(-1);
    writer.show();
    expect(reader.cells[reader.offsetAt(0)]).toBe(8);
  });

  it(`agrees with an array under any sequence of claim, publish, read (seed ${SEED})`, () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("claim" as const), value: fc.integer() }),
      fc.constant({ kind: "publish" as const }),
      fc.record({ kind: fc.constant("read" as const), count: fc.integer({ min: 0, max: 5 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.constantFrom(2, 4, 8), (steps, capacity) => {
        const memory = createRing(capacity);
        const writer = new RingWriter(memory);
        const reader = new RingReader(memory);
        const visible: number[] = [];
        const claimed: number[] = [];
        for (const action of steps) {
          if (action.kind === "claim") {
            const offset = writer.claim();
            expect(offset === -1).toBe(visible.length + claimed.length === capacity);
            if (offset < 0) continue;
            writer.cells[offset] = action.value;
            writer.cells[offset + RING_WIDTH - 1] = -action.value;
            claimed.push(action.value);
          } else if (action.kind === "publish") {
            writer.show();
            visible.push(...claimed.splice(0));
          } else {
            const count = Math.min(action.count, reader.available);
            expect(reader.available).toBe(visible.length);
            for (let index = 0; index < count; index++) {
              const offset = reader.offsetAt(index);
              expect(reader.cells[offset]).toBe(visible[index]);
              expect(reader.cells[offset + RING_WIDTH - 1]).toBe(-visible[index]!);
            }
            reader.release(count);
            visible.splice(0, count);
          }
        }
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it("loses, repeats and tears nothing between two threads, with a ring that is often full", async () => {
    const count = 50_000;
    const memory = createRing(64);
    // The reader's side in plain JavaScript: a thread cannot load TypeScript.
    const thread = new Worker(
      `const { workerData, parentPort } = require("node:worker_threads");
       const control = new Int32Array(workerData.control), cells = new Float64Array(workerData.cells);
       let head = 0, torn = 0, wrong = 0;
       while (head < ${count}) {
         Atomics.wait(control, 0, head, 1);
         const tail = Atomics.load(control, 0);
         for (; head < tail; head++) {
           const offset = (head & 63) * ${RING_WIDTH};
           if (cells[offset] !== head) wrong++;
           if (cells[offset + ${RING_WIDTH - 1}] !== head * 3) torn++;
           Atomics.store(control, 16, head + 1);
         }
       }
       parentPort.postMessage({ torn, wrong });`,
      { eval: true, workerData: memory },
    );
    const result = new Promise((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
    });
    const writer = new RingWriter(memory);
    let written = 0;
    await new Promise<void>((resolve) => {
      const more = () => {
        while (written < count) {
          const offset = writer.claim();
          if (offset < 0) break;
          writer.cells[offset] = written;
          writer.cells[offset + RING_WIDTH - 1] = written * 3;
          written++;
          if (written % 5 === 0) writer.show();
        }
        writer.show();
        if (written === count) resolve();
        else setImmediate(more);
      };
      more();
    });
    expect(await result).toEqual({ torn: 0, wrong: 0 });
    await thread.terminate();
  });
});
