import { describe, expect, it } from "vitest";
import { arrivalTimes, meanRate, type Process, parseRateTrace } from "./arrivals.js";

const all = (process: Process, rps: number, durationS: number, seed = 1, shape = 1) => {
  const next = arrivalTimes({ process, shape, steps: [{ fromS: 0, rps }], durationS, seed });
  const times: number[] = [];
  for (let at = next(); at !== Number.POSITIVE_INFINITY; at = next()) times.push(at);
  return times;
};
const gapsOf = (times: readonly number[]) => times.slice(1).map((at, index) => at - times[index]!);
/** Variance of the gaps over the square of their mean: 1 for Poisson, 1/shape for gamma. */
const dispersion = (gaps: readonly number[]) => {
  const center = gaps.reduce((a, b) => a + b, 0) / gaps.length;
  return gaps.reduce((a, gap) => a + (gap - center) ** 2, 0) / gaps.length / center ** 2;
};

describe("arrivals", () => {
  it("uniform: evenly spaced, none at or past the end", () => {
    expect(all("uniform", 4, 1)).toEqual([250_000, 500_000, 750_000]);
  });

  it.each([
    ["poisson", 1, 1],
    ["gamma", 4, 0.25],
    ["gamma", 0.5, 2],
  ] as const)("%s, shape %d: the rate asked for and gaps with dispersion %d", (process, shape, expected) => {
    const times = all(process, 1000, 100, 7, shape);
    expect(times.length).toBeGreaterThan(100_000 * 0.98);
    expect(times.length).toBeLessThan(100_000 * 1.02);
    expect(dispersion(gapsOf(times)) / expected).toBeGreaterThan(0.95);
    expect(dispersion(gapsOf(times)) / expected).toBeLessThan(1.05);
  });

  it("same seed, same moments; double rate, half the moments (common random numbers)", () => {
    expect(all("poisson", 100, 10, 3)).toEqual(all("poisson", 100, 10, 3));
    expect(all("poisson", 100, 10, 4)).not.toEqual(all("poisson", 100, 10, 3));
    const slow = all("poisson", 100, 10, 3);
    const fast = all("poisson", 200, 10, 3);
    for (let i = 0; i < 100; i++) expect(Math.abs(fast[i]! - slow[i]! / 2)).toBeLessThanOrEqual(1);
  });

  it("a trace: each second has its rate, a rate of 0 has none", () => {
    const { steps, durationS } = parseRateTrace("t.csv", "second,requests_per_second\n10,1000\n11,0\n12,500\n");
    expect(durationS).toBe(3);
    expect(meanRate(steps, durationS)).toBe(500);
    const next = arrivalTimes({ process: "uniform", shape: 1, steps, durationS, seed: 1 });
    const counts = [0, 0, 0];
    for (let at = next(); at !== Number.POSITIVE_INFINITY; at = next()) counts[Math.floor(at / 1e6)]! += 1;
    expect(counts[1]).toBe(0);
    expect(Math.abs(counts[0]! - 1000)).toBeLessThanOrEqual(1);
    expect(Math.abs(counts[2]! - 500)).toBeLessThanOrEqual(1);
  });

  it.each([
    ["", "t.csv: a trace needs at least one row"],
    ["0,1\n0,2", "t.csv: line 2: seconds must increase; was '0,2'"],
    ["0,-1", "t.csv: line 1: the second column must be a rate in r/s, >= 0; was '0,-1'"],
    ["second,rate\nx,1", "t.csv: line 2: the first column must be a number of seconds; was 'x,1'"],
    ["0", "t.csv: line 1: the second column must be a rate"],
  ])("refuses the trace %j, naming the line", (text, message) => {
    expect(() => parseRateTrace("t.csv", text)).toThrow(message);
  });
});
