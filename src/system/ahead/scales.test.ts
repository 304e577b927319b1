import fc from "fast-check";
import { expect, test } from "vitest";
import { BinCounts } from "./bin-counts.js";
import { PARTS, TIMES_US } from "./scales.js";

test("numbers of parts up to 16 are exact, those up to 1000 known to an eighth of a doubling; more count as the most", () => {
  for (let parts = 0; parts <= 16; parts++) expect(PARTS.valueAt(PARTS.placeOf(parts), 0.5)).toBe(parts);
  fc.assert(
    fc.property(fc.integer({ min: 17, max: 1000 }), (parts) => {
      const least = PARTS.valueAt(PARTS.placeOf(parts), 0);
      expect(least).toBeLessThanOrEqual(parts);
      expect(parts / least).toBeLessThan(1.13);
    }),
    { seed: 3 },
  );
  expect(PARTS.placeOf(1e6)).toBe(PARTS.places - 1);
});

test("times are known to 4.4 %; what is beyond 10 µs or 10 minutes counts as that", () => {
  fc.assert(
    fc.property(fc.double({ min: 10, max: 599e6, noNaN: true }), (us) => {
      const place = TIMES_US.placeOf(us);
      expect(TIMES_US.valueAt(place, 0)).toBeLessThanOrEqual(us * (1 + 1e-9));
      expect(TIMES_US.valueAt(place, 1)).toBeGreaterThan(us * (1 - 1e-9));
    }),
    { seed: 3 },
  );
  expect([TIMES_US.placeOf(0), TIMES_US.placeOf(1e12)]).toEqual([0, TIMES_US.places - 1]);
  expect(TIMES_US.valueAt(16, 0)).toBe(20);
});

test("quantiles over rows by weights, evenly spread in a bin: 1 of 3 requests in the first octave", () => {
  const counts = new BinCounts(2, TIMES_US);
  counts.add(0, 10);
  counts.add(1, 1000);
  counts.begin();
  counts.include(0, 1);
  counts.include(1, 2);
  expect(counts.all).toBe(3);
  expect(counts.quantile(1 / 6)).toBeCloseTo(10 * 2 ** (0.5 / 16), 6);
  const thousand = TIMES_US.placeOf(1000);
  expect(counts.quantile(2 / 3)).toBeCloseTo(TIMES_US.valueAt(thousand, 0.5), 6);
  counts.clear(1, 2);
  counts.begin();
  expect([counts.all, counts.quantile(0.5)]).toEqual([0, 10]);
});
