import { describe, expect, test } from "vitest";
import type { DurationUs, TimeUs } from "../core/time.js";
import { CrashBreaker } from "./crash-breaker.js";

const at = (us: number) => us as TimeUs;
const us = (value: number) => value as DurationUs;
const breaker = (togetherUs = 0) =>
  new CrashBreaker({ killsMax: 3, windowUs: us(1000), togetherUs: us(togetherUs), openUs: us(500) });

describe("crash breaker", () => {
  test("opens at the third death inside the window, for this model only", () => {
    const b = breaker();
    expect([b.killed("m", 0, at(0)), b.killed("m", 0, at(10)), b.killed("m", 0, at(20))]).toEqual([false, false, true]);
    expect(b.refusedUntil("m", at(30))).toBe(520);
    expect(b.refusedUntil("other", at(30))).toBeNull();
  });

  test("deaths further apart than the window do not add up", () => {
    const b = breaker();
    expect([0, 600, 1200, 1800].map((moment) => b.killed("m", 0, at(moment)))).toEqual([false, false, false, false]);
  });

  test("workers that end together count once: that was no batch of this model", () => {
    const b = breaker(50);
    expect([0, 10, 20, 30, 40].map((moment, worker) => b.killed("m", worker, at(moment)))).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
    expect([b.killed("m", 0, at(100)), b.killed("m", 0, at(200))]).toEqual([false, true]);
  });

  test("a worker whose replacement ends too is the model's doing, however soon", () => {
    const b = breaker(50);
    expect([0, 10, 20].map((moment) => b.killed("m", 0, at(moment)))).toEqual([false, false, true]);
  });

  test("lets one batch through afterwards: well ended closes it, another death opens it anew", () => {
    const b = breaker();
    for (const moment of [0, 1, 2]) b.killed("m", 0, at(moment));
    expect(b.refusedUntil("m", at(502))).toBeNull();
    expect(b.refusedUntil("m", at(503))).not.toBeNull();
    expect(b.killed("m", 0, at(510))).toBe(true);
    expect(b.refusedUntil("m", at(600))).toBe(1010);
    expect(b.refusedUntil("m", at(1010))).toBeNull();
    b.survived("m");
    expect(b.refusedUntil("m", at(1011))).toBeNull();
    expect(b.killed("m", 0, at(1012))).toBe(false);
  });

  test("a probe of which nothing is heard, such as one that waited where another model's batch ended the worker, is followed by another", () => {
    const b = breaker();
    for (const moment of [0, 1, 2]) b.killed("m", 0, at(moment));
    expect(b.refusedUntil("m", at(502))).toBeNull();
    expect(b.refusedUntil("m", at(1001))).toBe(1002);
    expect(b.refusedUntil("m", at(1002))).toBeNull();
    b.survived("m");
    expect(b.refusedUntil("m", at(1003))).toBeNull();
  });
});
