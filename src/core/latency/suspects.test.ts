import { describe, expect, test } from "vitest";
import { linearTable } from "./latency.js";
import { BadShares, partSize } from "./suspects.js";

describe("suspects", () => {
  test.each([
    {
      what: "a run costs the same whatever its size: parts of half, and half again",
      alpha: 0,
      beta: 100,
      size: 32,
      share: 0,
      part: 8,
    },
    { what: "batching saves nothing: alone", alpha: 100, beta: 0, size: 32, share: 0, part: 1 },
    { what: "half of all are bad: alone", alpha: 10, beta: 90, size: 8, share: 0.5, part: 1 },
    { what: "two have no smaller parts", alpha: 0, beta: 100, size: 2, share: 0, part: 1 },
  ])("$what", ({ alpha, beta, size, share, part }) => {
    expect(partSize(linearTable(alpha, beta, size), 0, size, share)).toBe(part);
  });

  test("what every run costs beside its time makes larger parts better", () => {
    const table = linearTable(100, 0, 16);
    expect([partSize(table, 0, 16, 0), partSize(table, 1000, 16, 0)]).toEqual([1, 4]);
  });

  test("the share of bad ones rises with those refused alone, falls with those that end well, and goes to nothing", () => {
    const shares = new BadShares();
    shares.ended(0, 8);
    expect(shares.of(0)).toBe(0);
    for (let i = 0; i < 200; i++) shares.refused(0);
    expect(shares.of(0)).toBeGreaterThan(0.99);
    expect(shares.of(1)).toBe(0);
    shares.ended(0, 32);
    expect(shares.of(0)).toBeCloseTo((1 - 1 / 32) ** 32, 2);
    for (let i = 0; i < 10; i++) shares.ended(0, 32);
    expect(shares.of(0)).toBe(0);
    shares.refused(0);
    shares.forget(0);
    expect(shares.of(0)).toBe(0);
  });
});
