import { describe, expect, test } from "vitest";
import type { DurationUs, TimeUs } from "../../core/time.js";
import { CrashBreaker } from "./crash-breaker.js";

const at = (us: number) => us as TimeUs;
const us = (value: number) => value as DurationUs;
const breaker = () => new CrashBreaker({ killsMax: 2, memoryUs: us(1000), openUs: us(100), trustBatches: 3 });

describe("crash breaker", () => {
  test("opens at the second death, however much harmless work lies between, for this model only", () => {
    const b = breaker();
    expect(b.killed("m", at(0))).toBeNull();
    expect(b.refusedUntil("m", at(1))).toBeNull();
    for (let i = 0; i < 50; i++) b.survived("m");
    expect(b.killed("m", at(900))).toBe(100);
    expect(b.refusedUntil("m", at(910))).toBe(1000);
    expect(b.refusedUntil("other", at(910))).toBeNull();
  });

  test("a death is forgotten after a while", () => {
    const b = breaker();
    expect([0, 1000, 2000].map((moment) => b.killed("m", at(moment)))).toEqual([null, null, null]);
  });

  test("confines a model from its first death until enough batches did no harm", () => {
    const b = breaker();
    expect(b.isConfined("m")).toBe(false);
    b.killed("m", at(0));
    for (const isConfined of [true, true, false]) {
      expect(b.isConfined("m")).toBe(true);
      b.survived("m");
      expect(b.isConfined("m")).toBe(isConfined);
    }
    b.killed("m", at(500));
    expect(b.isConfined("m")).toBe(true);
    b.forget("m");
    expect(b.isConfined("m")).toBe(false);
  });

  test("lets one batch through afterwards: well ended, the model runs; the next death opens at once, for twice as long", () => {
    const b = breaker();
    for (const moment of [0, 1]) b.killed("m", at(moment));
    expect(b.refusedUntil("m", at(101))).toBeNull();
    expect(b.refusedUntil("m", at(102))).not.toBeNull();
    expect(b.killed("m", at(110))).toBe(200);
    expect(b.refusedUntil("m", at(309))).toBe(310);
    expect(b.refusedUntil("m", at(310))).toBeNull();
    b.survived("m");
    expect(b.refusedUntil("m", at(311))).toBeNull();
    expect(b.killed("m", at(312))).toBe(400);
  });

  test("a batch of before that ends well does not close it", () => {
    const b = breaker();
    for (const moment of [0, 1]) b.killed("m", at(moment));
    b.survived("m");
    expect(b.refusedUntil("m", at(50))).toBe(101);
  });

  test("a probe of which nothing is heard, such as one that waited where another model's batch ended the worker, is followed by another", () => {
    const b = breaker();
    for (const moment of [0, 1]) b.killed("m", at(moment));
    expect(b.refusedUntil("m", at(101))).toBeNull();
    expect(b.refusedUntil("m", at(200))).toBe(201);
    expect(b.refusedUntil("m", at(201))).toBeNull();
    b.survived("m");
    expect(b.refusedUntil("m", at(202))).toBeNull();
  });
});
