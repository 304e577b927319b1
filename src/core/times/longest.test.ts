import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stream } from "../../sim/random.js";
import { Distribution } from "./distribution.js";
import { Longest } from "./longest.js";

const TWO_MODES = Distribution.of([10, 20, 80, 100], [0.5, 0, 0.5]);
const UNIFORM = Distribution.of([0, 1], [1]);
const SKEWED = Distribution.of([5, 30, 60, 90], [0.6, 0.1, 0.3]);
const NARROW = Distribution.of([40, 45, 50], [0.3, 0.7]);

/** Density of a distribution where it has no edge. */
function density({ edges, probabilities }: Distribution, us: number): number {
  const bin = probabilities.findIndex((_, index) => edges[index]! < us && us < edges[index + 1]!);
  return bin < 0 ? 0 : probabilities[bin]! / (edges[bin + 1]! - edges[bin]!);
}

/** sum_i f_i prod_{j != i} F_j: the derivative of the product of CDFs. */
function densityOfLongest(members: readonly Distribution[], us: number): number {
  return members.reduce(
    (sum, member, i) =>
      sum + members.reduce((product, other, j) => product * (i === j ? 1 : other.cdf(us)), density(member, us)),
    0,
  );
}

/** ORLOJ Eq. 7 and 8, word for word, over all 2^k - 1 subsets. */
function densityByEq8(members: readonly Distribution[], us: number): number {
  const k = members.length;
  const factorial = Array.from({ length: k }, (_, i) => i + 1).reduce((a, b) => a * b, 1);
  let sum = 0;
  for (let subset = 1; subset < 2 ** k; subset++) {
    const chosen = members.filter((_, index) => (subset >> index) & 1);
    const kappa = chosen.length;
    const mean = (of: (member: Distribution) => number) => chosen.reduce((total, each) => total + of(each), 0) / kappa;
    const cdf = mean((each) => each.cdf(us));
    const pdf = mean((each) => density(each, us));
    sum += (-1) ** (k - kappa) * (kappa ** k / factorial) * k * cdf ** (k - 1) * pdf;
  }
  return sum;
}

describe("Longest", () => {
  test("E[max of k] of two modes and of U(0, 1), to 1e-9 (golden)", () => {
    const of = (times: Distribution, count: number) => new Longest([{ times, count }]).mean;
    // The golden values are these to four digits.
    for (const [count, exact] of [
      [1, 52.5],
      [2, 72.5],
      [4, 88.375],
      [8, 36_605 / 384],
    ] as const)
      expect(Math.abs(of(TWO_MODES, count) - exact)).toBeLessThan(1e-9);
    expect(of(TWO_MODES, 8).toFixed(4)).toBe("95.3255");
    for (const count of [1, 2, 3, 7, 16, 64, 255])
      expect(Math.abs(of(UNIFORM, count) - count / (count + 1))).toBeLessThan(1e-12);
    // Beyond the degree that the rule is exact for.
    for (const count of [256, 1024, 4096])
      expect(Math.abs(of(UNIFORM, count) - count / (count + 1))).toBeLessThan(1e-9);
  });

  test("Eq. 8 is the density of the product of CDFs, with unlike members", () => {
    const batches = [
      [TWO_MODES],
      [TWO_MODES, TWO_MODES],
      [TWO_MODES, SKEWED, NARROW],
      [SKEWED, SKEWED, NARROW, TWO_MODES, Distribution.of([1, 95], [1])],
      [NARROW, SKEWED, TWO_MODES, NARROW, SKEWED, TWO_MODES, NARROW],
    ];
    for (const batch of batches) {
      const longest = new Longest(batch.map((times) => ({ times, count: 1 })));
      let compared = 0;
      for (let us = 2.5; us < 100; us += 1) {
        const expected = densityOfLongest(batch, us);
        expect(Math.abs(densityByEq8(batch, us) - expected)).toBeLessThan(1e-9);
        expect((longest.cdf(us + 1e-4) - longest.cdf(us - 1e-4)) / 2e-4).toBeCloseTo(expected, 6);
        if (expected > 0) compared++;
      }
      expect(compared).toBeGreaterThan(10);
    }
  });

  test("counts are as many members, in any order", () => {
    const counted = new Longest([
      { times: SKEWED, count: 3 },
      { times: TWO_MODES, count: 0 },
      { times: NARROW, count: 2 },
    ]);
    const single = new Longest([NARROW, SKEWED, NARROW, SKEWED, SKEWED].map((times) => ({ times, count: 1 })));
    expect(counted.mean).toBeCloseTo(single.mean, 10);
    expect(counted.quantile(0.9)).toBeCloseTo(single.quantile(0.9), 10);
  });

  test("mean and quantiles are those of drawn batches", () => {
    const random = stream(3, "longest");
    const members = [SKEWED, SKEWED, NARROW, TWO_MODES];
    const longest = new Longest([
      { times: SKEWED, count: 2 },
      { times: NARROW, count: 1 },
      { times: TWO_MODES, count: 1 },
    ]);
    const drawn = Float64Array.from({ length: 200_000 }, () =>
      Math.max(...members.map((each) => each.quantile(random()))),
    ).sort();
    expect(drawn.reduce((a, b) => a + b, 0) / drawn.length / longest.mean).toBeCloseTo(1, 2);
    for (const q of [0.1, 0.25, 0.6, 0.9]) expect(longest.cdf(drawn[Math.floor(q * drawn.length)]!)).toBeCloseTo(q, 2);
  });

  test("quantile is the inverse of the CDF; no member can be longer, none shorter than the least", () => {
    const q = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.nat(6), fc.nat(6), fc.nat(6), q, (a, b, c, probability) => {
        fc.pre(a + b + c > 0);
        const longest = new Longest([
          { times: TWO_MODES, count: a },
          { times: SKEWED, count: b },
          { times: NARROW, count: c },
        ]);
        expect(longest.cdf(longest.quantile(probability))).toBeCloseTo(probability, 9);
        const present = [a > 0 ? TWO_MODES : null, b > 0 ? SKEWED : null, c > 0 ? NARROW : null].filter(
          (each) => each !== null,
        );
        expect(longest.quantile(0)).toBe(Math.max(...present.map(({ min }) => min)));
        expect(longest.quantile(1)).toBeLessThanOrEqual(Math.max(...present.map(({ max }) => max)));
        expect(longest.mean).toBeGreaterThanOrEqual(Math.max(...present.map(({ mean }) => mean)) - 1e-9);
      }),
    );
  });

  test("its Distribution has the same CDF at the edges, and nearly the same mean in fine bins", () => {
    const fine = Distribution.ofSample(
      Float64Array.from({ length: 5000 }, (_, index) => 10_000 * 10 ** (index / 5000)),
    );
    const longest = new Longest([{ times: fine, count: 16 }]);
    const times = longest.distribution();
    for (const edge of times.edges) expect(times.cdf(edge)).toBeCloseTo(longest.cdf(edge), 12);
    expect(times.mean / longest.mean).toBeCloseTo(1, 3);
  });

  test("refuses no members", () => {
    expect(() => new Longest([])).toThrow("the longest of no members");
    expect(() => new Longest([{ times: NARROW, count: 1.5 }])).toThrow(
      "count of members must be a whole number >= 0; was 1.5",
    );
  });
});
