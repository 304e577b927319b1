import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Distribution } from "./distribution.js";

const TWO_MODES = Distribution.of([10, 20, 80, 100], [0.5, 0, 0.5]);

/** Bins of any widths, some empty. */
const anyDistribution = fc
  .array(fc.tuple(fc.double({ min: 0.01, max: 50, noNaN: true }), fc.nat(5)), { minLength: 1, maxLength: 30 })
  .filter((bins) => bins.some(([, weight]) => weight > 0))
  .map((bins) => {
    const edges = [3];
    for (const [width] of bins) edges.push(edges.at(-1)! + width);
    return Distribution.of(
      edges,
      bins.map(([, weight]) => weight),
    );
  });

describe("Distribution", () => {
  test("mean, CDF and quantile of two modes with a gap between", () => {
    expect(TWO_MODES.mean).toBeCloseTo(52.5, 12);
    expect([5, 10, 15, 20, 50, 80, 90, 100, 101].map((us) => TWO_MODES.cdf(us))).toEqual([
      0, 0, 0.25, 0.5, 0.5, 0.5, 0.75, 1, 1,
    ]);
    expect([0, 0.25, 0.5, 0.75, 1].map((q) => TWO_MODES.quantile(q))).toEqual([10, 15, 20, 90, 100]);
    expect([TWO_MODES.min, TWO_MODES.max]).toEqual([10, 100]);
  });

  test("empty bins at the ends are not part of it", () => {
    const trimmed = Distribution.of([0, 10, 20, 30], [0, 2, 0]);
    expect([...trimmed.edges, ...trimmed.probabilities]).toEqual([10, 20, 1]);
  });

  test("quantile is the inverse of the CDF where that rises", () => {
    fc.assert(
      fc.property(anyDistribution, fc.double({ min: 0, max: 1, noNaN: true }), (times, q) => {
        expect(times.cdf(times.quantile(q))).toBeCloseTo(q, 9);
        expect(times.quantile(q)).toBeGreaterThanOrEqual(times.min);
        expect(times.quantile(q)).toBeLessThanOrEqual(times.max);
      }),
    );
  });

  test("a mixture has the mixed CDF and mean", () => {
    const share = fc.double({ min: 0.01, max: 5, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anyDistribution, share), { minLength: 1, maxLength: 5 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (drawn, where) => {
          const parts = drawn.map(([part]) => part);
          const shares = drawn.map(([, part]) => part);
          const total = shares.reduce((sum, each) => sum + each, 0);
          const mixed = (of: (part: Distribution) => number) =>
            parts.reduce((sum, part, index) => sum + (shares[index]! / total) * of(part), 0);
          const mixture = Distribution.mixture(parts, shares);
          const us = mixture.min + where * (mixture.max - mixture.min);
          expect(mixture.cdf(us)).toBeCloseTo(
            mixed((part) => part.cdf(us)),
            9,
          );
          expect(mixture.mean).toBeCloseTo(
            mixed((part) => part.mean),
            7,
          );
        },
      ),
    );
  });

  test("scaled is plus + factor * time, exactly in mean and quantiles", () => {
    const scaled = TWO_MODES.scaled(2, 5);
    expect(scaled.mean).toBeCloseTo(110, 12);
    expect([0, 0.25, 0.75, 1].map((q) => scaled.quantile(q))).toEqual([25, 35, 185, 205]);
  });

  test("a sample: to the width of a bin anywhere from 1 ms to 10 s, exact at the extremes", () => {
    for (const scaleUs of [1e3, 1e5, 1e7]) {
      const sample = Float64Array.from({ length: 1000 }, (_, index) => scaleUs * (1 + index / 1000));
      const times = Distribution.ofSample(sample);
      expect(times.mean / (scaleUs * 1.4995)).toBeCloseTo(1, 3);
      expect([times.min, times.max]).toEqual([sample[0], sample[999]]);
      for (const q of [0.01, 0.5, 0.99])
        expect(Math.abs(times.quantile(q) / (scaleUs * (1 + q)) - 1)).toBeLessThan(0.013);
    }
  });

  test("a constant time is as good as a point, and what is beyond the bins counts as their ends", () => {
    const constant = Distribution.ofSample([24_300, 24_300, 24_300]);
    expect(constant.mean / 24_300).toBeCloseTo(1, 5);
    expect(constant.quantile(0.99) / 24_300).toBeCloseTo(1, 5);
    const beyond = Distribution.ofSample([0, 1, 2e9]);
    expect([beyond.min, beyond.max]).toEqual([10, 600e6]);
    expect(beyond.cdf(11)).toBeCloseTo(2 / 3, 12);
  });

  test("coarsened: at most so many bins, modes and gaps stay, the mean hardly moves", () => {
    const sample = Float64Array.from({ length: 4000 }, (_, index) =>
      index < 2000 ? 10_000 + index : 80_000 + 5 * (index - 2000),
    );
    const fine = Distribution.ofSample(sample);
    const coarse = fine.coarsened(6);
    expect(coarse.probabilities.length).toBe(6);
    expect(Math.abs(coarse.mean / fine.mean - 1)).toBeLessThan(0.005);
    expect(coarse.cdf(70_000) - coarse.cdf(15_000)).toBeLessThan(0.02);
    expect(fine.coarsened(1000)).toBe(fine);
    const one = fine.coarsened(1);
    expect([...one.edges]).toEqual([fine.min, fine.max]);
  });

  test("refuses what is no distribution", () => {
    expect(() => Distribution.of([1, 2], [1, 1])).toThrow("edges of a distribution must be 3 for 2 bins; were 2");
    expect(() => Distribution.of([1, 1], [1])).toThrow(
      "edges must be >= 0, ascending and finite; were 1, 1 around bin 0",
    );
    expect(() => Distribution.of([1, 2], [-1])).toThrow("weight 0 must be >= 0 and finite; was -1");
    expect(() => Distribution.of([1, 2], [0])).toThrow("must add up to more than 0");
    expect(() => Distribution.ofSample([2, 1])).toThrow("a sample must be ascending and >= 0; was 1 after 2");
    expect(() => Distribution.ofSample([])).toThrow("at least one time; held 0");
    expect(() => TWO_MODES.quantile(1.5)).toThrow("quantile must be in [0, 1]; was 1.5");
    expect(() => TWO_MODES.scaled(0)).toThrow("factor of a distribution must be > 0 and finite; was 0");
    expect(() => TWO_MODES.scaled(1, -11)).toThrow("times must be >= 0 µs");
    expect(() => Distribution.mixture([TWO_MODES], [1, 2])).toThrow("shares must be 1, one for each part; were 2");
  });
});
