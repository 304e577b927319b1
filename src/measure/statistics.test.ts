import { describe, expect, it } from "vitest";
import { mean, median, standardDeviation, studentT975, tInterval95 } from "./statistics.js";

describe("statistics", () => {
  it("mean and sample standard deviation of a worked example", () => {
    const values = [2, 4, 4, 4, 5, 5, 7, 9];
    expect(mean(values)).toBe(5);
    expect(standardDeviation(values)).toBeCloseTo(Math.sqrt(32 / 7), 12);
    expect(standardDeviation([3])).toBe(0);
  });

  it("median of an odd and of an even number", () => {
    expect([median([9, 1, 4]), median([9, 1, 4, 5]), median([7])]).toEqual([4, 4.5, 7]);
    expect(() => median([])).toThrow("the median of no values is undefined");
  });

  it("does not lose a small spread around a large mean", () => {
    expect(standardDeviation([1e9 + 1, 1e9 + 2, 1e9 + 3])).toBeCloseTo(1, 6);
  });

  it("Student's t joins its expansion smoothly and tends to the normal quantile", () => {
    expect(studentT975(9)).toBe(2.2622);
    // Published values beyond the table.
    expect(studentT975(40)).toBeCloseTo(2.0211, 3);
    expect(studentT975(120)).toBeCloseTo(1.9799, 3);
    expect(studentT975(1_000_000)).toBeCloseTo(1.96, 3);
    for (let degrees = 2; degrees < 100; degrees++) {
      expect(studentT975(degrees)).toBeLessThan(studentT975(degrees - 1));
    }
  });

  it("gives the textbook interval, and an infinite one for a single value", () => {
    const interval = tInterval95([9, 10, 11]);
    expect(interval.mean).toBe(10);
    expect(interval.high - 10).toBeCloseTo(4.3027 / Math.sqrt(3), 4);
    expect(10 - interval.low).toBeCloseTo(4.3027 / Math.sqrt(3), 4);
    expect(tInterval95([5])).toEqual({ mean: 5, low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY });
  });

  it("refuses the mean of nothing", () => {
    expect(() => mean([])).toThrow("no values");
    expect(() => studentT975(0)).toThrow("was 0");
  });
});
