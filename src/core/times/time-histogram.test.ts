import { describe, expect, test } from "vitest";
import { stream } from "../../sim/random.js";
import { TimeHistogram } from "./time-histogram.js";

const WINDOW_US = 60e6;
const GAP_US = 10_000;

/** Times uniform in [1, 2] units, one every GAP_US. @returns when it ended. */
function feed(histogram: TimeHistogram, unitUs: number, from: number, until: number, seed = 1): number {
  const random = stream(seed, `times/${from}`);
  let at = from;
  for (; at < until; at += GAP_US) histogram.observe(unitUs * (1 + random()), at);
  return at;
}

describe("TimeHistogram", () => {
  test("what is observed, to the width of a bin, from 1 ms to 10 s", () => {
    for (const unitUs of [1e3, 1e4, 1e5, 1e6, 5e6]) {
      const histogram = new TimeHistogram({ windowUs: WINDOW_US });
      const at = feed(histogram, unitUs, 0, 20e6);
      const times = histogram.distribution(at)!;
      expect(Math.abs(times.mean / (1.5 * unitUs) - 1)).toBeLessThan(0.02);
      for (const q of [0.1, 0.5, 0.9]) expect(Math.abs(times.quantile(q) / ((1 + q) * unitUs) - 1)).toBeLessThan(0.04);
    }
  });

  test("a doubled distribution is followed within a window, wherever it falls, and never by a jump", () => {
    for (const changeAt of [150e6, 158e6, 171e6, 179.99e6]) {
      const histogram = new TimeHistogram({ windowUs: WINDOW_US });
      let at = feed(histogram, 10_000, 0, changeAt);
      const before = histogram.distribution(at)!.mean;
      let last = before;
      let largest = 0;
      while (at < changeAt + WINDOW_US) {
        at = feed(histogram, 20_000, at, at + 500_000);
        const { mean } = histogram.distribution(at)!;
        largest = Math.max(largest, Math.abs(mean - last));
        last = mean;
      }
      expect(Math.abs(before / 15_000 - 1)).toBeLessThan(0.02);
      expect(Math.abs(last / 30_000 - 1)).toBeLessThan(0.02);
      // A cliff would be half of the change or more; a window in even steps is 1/120 each.
      expect(largest).toBeLessThan(0.06 * 15_000);
    }
  });

  test("about half of a window's observations count, at any time", () => {
    const histogram = new TimeHistogram({ windowUs: WINDOW_US });
    let at = feed(histogram, 10_000, 0, 60e6);
    for (let step = 0; step < 40; step++) {
      at = feed(histogram, 10_000, at, at + 2.3e6);
      expect(histogram.weight(at) / (WINDOW_US / 2 / GAP_US)).toBeCloseTo(1, 2);
    }
  });

  test("a prior stays while nothing is observed, and fades with the first half of a window", () => {
    const histogram = new TimeHistogram({ windowUs: WINDOW_US });
    expect(histogram.distribution(0)).toBeNull();
    histogram.believe([50_000, 60_000], 200);
    expect(histogram.weight(1e12)).toBeCloseTo(200, 9);
    expect(histogram.distribution(1e12)!.mean / 55_000).toBeCloseTo(1, 1);
    let at = feed(histogram, 10_000, 1e12, 1e12 + 15e6);
    expect(histogram.weight(at)).toBeCloseTo(1500 + 100, 0);
    at = feed(histogram, 10_000, at, 1e12 + 31e6);
    expect(histogram.distribution(at)!.max).toBeLessThanOrEqual(20_000);
  });

  test("what is seldom observed is not forgotten before enough is known that is newer", () => {
    const histogram = new TimeHistogram({ windowUs: WINDOW_US, countMin: 50 });
    let at = 0;
    const observe = (us: number, count: number): void => {
      for (let index = 0; index < count; index++) {
        at += 1e6;
        histogram.observe(us, at);
      }
    };
    observe(30_000, 100);
    // An hour of silence, then ten: the older ones still tell most.
    at += 3600e6;
    observe(90_000, 10);
    expect(histogram.distribution(at)!.cdf(40_000)).toBeGreaterThan(0.5);
    observe(90_000, 100);
    expect(histogram.distribution(at)!.min).toBeCloseTo(90_000, 0);
  });

  test("the same object as long as nothing changed", () => {
    const histogram = new TimeHistogram({ windowUs: WINDOW_US });
    const at = feed(histogram, 10_000, 0, 70e6);
    const first = histogram.distribution(at);
    expect(histogram.distribution(at + 1000)).toBe(first);
    expect(histogram.distribution(at + 5e6)).not.toBe(first);
    const second = histogram.distribution(at + 5e6);
    histogram.observe(10_000, at + 5e6);
    expect(histogram.distribution(at + 5e6)).not.toBe(second);
  });

  test("merged, it knows what both know at this moment", () => {
    const one = new TimeHistogram({ windowUs: WINDOW_US });
    const other = new TimeHistogram({ windowUs: WINDOW_US });
    feed(one, 10_000, 0, 40e6);
    const at = feed(other, 20_000, 0, 40e6, 2);
    const weight = one.weight(at) + other.weight(at);
    one.merge(other, at);
    expect(one.weight(at)).toBeCloseTo(weight, 6);
    expect(one.distribution(at)!.mean / 22_500).toBeCloseTo(1, 2);
  });

  test("what is beyond the bins is counted and clamped, what is no time is refused", () => {
    const histogram = new TimeHistogram({ windowUs: WINDOW_US });
    histogram.observe(3, 0);
    histogram.observe(700e6, 0);
    histogram.observe(Number.POSITIVE_INFINITY, 0);
    expect([histogram.under, histogram.over]).toEqual([1, 2]);
    expect([histogram.distribution(0)!.min, histogram.distribution(0)!.max]).toEqual([10, 600e6]);
    expect(() => histogram.observe(-1, 0)).toThrow("an observed time must be >= 0 µs; was -1");
    expect(() => histogram.observe(Number.NaN, 0)).toThrow("was NaN");
    expect(() => histogram.believe([1, Number.NaN], 1)).toThrow("time 1 of a prior must be >= 0 µs; was NaN");
    expect(() => new TimeHistogram({ windowUs: 0 })).toThrow("windowUs must be > 0; was 0");
  });
});
