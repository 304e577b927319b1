/** Triton's rule for forming a batch, step by step. Source: GetDynamicBatch of dynamic_batch_scheduler.cc. */
import { describe, expect, test } from "vitest";
import { TritonBatcher } from "./triton-batcher.js";

const DELAY = 100;
/** 4 and 6 preferred, 8 the largest. */
const look = (base: number, waiting: number, delayUs: number, waitedUs: number) => {
  const { size, isSaturated, waitUntil } = new TritonBatcher([4, 6], 8, delayUs).look(base, waiting, 0, waitedUs);
  return { size, isSaturated, waitUntil };
};
const send = (size: number, isSaturated: boolean) => ({ size, isSaturated, waitUntil: Number.POSITIVE_INFINITY });

describe("triton: forming a batch", () => {
  test("step 3 and 4: the largest preferred size that is reached goes at once, the rest stays", () => {
    expect(look(0, 4, DELAY, 0)).toEqual(send(4, false));
    expect(look(0, 5, DELAY, 0)).toEqual(send(4, false));
    expect(look(0, 7, DELAY, 99)).toEqual(send(6, false));
    expect(look(0, 20, DELAY, 99)).toEqual(send(6, false));
  });

  test("step 5: once the oldest has waited the delay, all that fits goes, preferred or not", () => {
    expect(look(0, 7, DELAY, 100)).toEqual(send(7, true));
    expect(look(0, 20, DELAY, 100)).toEqual(send(8, true));
  });

  test("step 6: below the preferred sizes, all goes when the oldest has waited the delay, or when it is 0", () => {
    expect(look(0, 3, DELAY, 100)).toEqual(send(3, false));
    expect(look(0, 3, 0, 0)).toEqual(send(3, false));
  });

  test("step 7: otherwise the rest of the delay is waited, counted from the oldest", () => {
    expect(new TritonBatcher([4], 8, DELAY).look(0, 3, 40, 70)).toMatchObject({ size: 0, waitUntil: 140 });
  });

  test("delay 0 takes a preferred size and lets it grow no more", () => {
    expect(look(0, 5, 0, 0)).toEqual(send(4, true));
  });

  test("step 1: a formed batch at the largest preferred size takes what comes once more, then no more", () => {
    expect(look(6, 1, DELAY, 0)).toEqual(send(1, true));
  });

  test("step 1: past the largest preferred size the first total that is more than nothing is the best", () => {
    expect(look(6, 5, DELAY, 0)).toEqual(send(1, true));
    // Not once the delay is over: then all that fits.
    expect(look(6, 5, DELAY, 100)).toEqual(send(2, true));
  });

  test("step 2: a batch at the model's largest size takes nothing", () => {
    expect(look(8, 3, DELAY, 0)).toMatchObject({ size: 0, isSaturated: true });
  });

  test("a formed batch of a preferred size waits for more like a new one; any other takes what comes at once", () => {
    expect(look(4, 1, DELAY, 0)).toEqual({ size: 0, isSaturated: false, waitUntil: 100 });
    expect(look(3, 2, DELAY, 0)).toEqual(send(1, false));
    expect(look(1, 1, DELAY, 0)).toEqual(send(1, false));
  });

  test("without a preferred size within reach the largest batch is the preferred one", () => {
    for (const sizes of [null, [16, 32]]) {
      const batcher = new TritonBatcher(sizes, 8, DELAY);
      expect(batcher.look(0, 7, 0, 0)).toMatchObject({ size: 0 });
      expect(batcher.look(0, 9, 0, 0)).toMatchObject({ size: 8 });
    }
  });
});
