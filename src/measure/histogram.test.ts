import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HISTOGRAM_VALUE_MAX, Histogram } from "./histogram.js";

/** Durations of every magnitude, most of them small. */
const duration = fc
  .tuple(fc.integer({ min: 0, max: 39 }), fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }))
  .map(([bits, part]) => Math.floor(2 ** bits * (1 + part)));
const durations = fc.array(duration, { minLength: 1, maxLength: 300 });

function filled(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.record(value);
  return histogram;
}
const nearestRank = (sorted: readonly number[], q: number) => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)]!;

describe("histogram", () => {
  it("agrees with a sorted array: quantiles to 1/512 (exact below 512), count, sum, min and max exactly", () => {
    fc.assert(
      fc.property(durations, fc.integer({ min: 0, max: 64 }), (values, part) => {
        const histogram = filled(values);
        const sorted = [...values].sort((a, b) => a - b);
        const q = part / 64; // binary fractions, so that the twin's q * n has no rounding of its own
        const exact = nearestRank(sorted, q);
        const error = Math.abs(histogram.quantile(q)! - exact);
        expect(error).toBeLessThanOrEqual(exact < 512 ? 0 : exact / 512);
        expect(histogram.count).toBe(values.length);
        expect(histogram.sum).toBe(values.reduce((a, b) => a + b, 0));
        expect([histogram.min, histogram.max]).toEqual([sorted[0], sorted.at(-1)]);
        expect(histogram.mean).toBeCloseTo(histogram.sum / values.length, 6);
      }),
      { seed: 11, numRuns: 1000 },
    );
  });

  it("merging two is recording both", () => {
    fc.assert(
      fc.property(durations, durations, (a, b) => {
        const merged = filled(a);
        merged.merge(filled(b));
        expect(merged.toJSON()).toEqual(filled([...a, ...b]).toJSON());
      }),
      { seed: 12, numRuns: 300 },
    );
  });

  it("survives JSON", () => {
    fc.assert(
      fc.property(durations, (values) => {
        const histogram = filled(values);
        const copy = Histogram.fromJSON(JSON.parse(JSON.stringify(histogram)));
        expect(copy.toJSON()).toEqual(histogram.toJSON());
        copy.record(7);
        expect(copy.count).toBe(values.length + 1);
      }),
      { seed: 13, numRuns: 300 },
    );
  });

  it("counts what ends at or below a value, with at most the last bucket missing", () => {
    fc.assert(
      fc.property(durations, duration, (values, limit) => {
        const counted = filled(values).countAtMost(limit);
        expect(counted).toBeLessThanOrEqual(values.filter((value) => value <= limit).length);
        expect(counted).toBeGreaterThanOrEqual(values.filter((value) => value <= limit - limit / 256).length);
      }),
      { seed: 14, numRuns: 300 },
    );
  });

  it("keeps every power of two and its neighbours in order", () => {
    const values: number[] = [];
    for (let bits = 0; bits < 40; bits++) values.push(2 ** bits - 1, 2 ** bits, 2 ** bits + 1);
    const histogram = filled(values);
    let before = -1;
    for (let rank = 1; rank <= values.length; rank++) {
      const value = histogram.quantile(rank / values.length)!;
      expect(value).toBeGreaterThanOrEqual(before);
      before = value;
    }
  });

  it("clamps values beyond its range but keeps their maximum", () => {
    const histogram = filled([HISTOGRAM_VALUE_MAX * 4, 1, 2]);
    expect(histogram.max).toBe(HISTOGRAM_VALUE_MAX * 4);
    expect(histogram.quantile(0.5)).toBe(2);
    expect(histogram.toJSON().buckets.length).toBe(6);
  });

  it("has no quantiles when empty, and is empty again after a reset", () => {
    const histogram = new Histogram();
    expect([histogram.quantile(0.5), histogram.mean, histogram.min, histogram.max]).toEqual([null, null, null, null]);
    histogram.record(5_000_000);
    histogram.reset();
    expect(histogram.toJSON()).toEqual(new Histogram().toJSON());
  });

  it("refuses what is not a duration, naming it", () => {
    const histogram = new Histogram();
    expect(() => histogram.record(-1)).toThrow("must be >= 0; was -1");
    expect(() => histogram.record(Number.NaN)).toThrow("was NaN");
    expect(() => histogram.quantile(1.5)).toThrow("[0, 1]; was 1.5");
    expect(() => Histogram.fromJSON({ count: 2, sum: 3, min: 1, max: 2, buckets: [1, 1] })).toThrow("was 2");
    expect(histogram.count).toBe(0);
  });
});
