import fc from "fast-check";
import { expect, test } from "vitest";
import { mean } from "../../measure/statistics.js";
import { seededUniform } from "../seeded-uniform.js";
import { evenDraws } from "./even-draws.js";
import { SAMPLES, Samples, Slowest } from "./samples.js";
import { select } from "./select.js";

/** One millisecond, evenly spread, of which half is fixed. */
function even(): Samples {
  const samples = new Samples();
  samples.totalUs.set(evenDraws(SAMPLES, 1, 0).map((draw) => 1_000_000 * draw));
  samples.fixedUs.set(samples.totalUs.map((us) => us / 2));
  return samples;
}
const UNIFORMS = evenDraws(SAMPLES, 1, 1);

/** The slowest of so many by sample. */
function slowestOf(of: Samples, count: (sample: number) => number): Samples {
  const slowest = new Slowest();
  slowest.of(of);
  const at = UNIFORMS.map((draw, sample) => (count(sample) === 0 ? -1 : draw ** (1 / count(sample))));
  const into = new Samples();
  slowest.take(at, into);
  return into;
}

test("even draws: one of each equal part, in random order, by the seed", () => {
  const draws = evenDraws(1000, 7, 3);
  expect([...draws].sort((a, b) => a - b).map((draw) => Math.floor(draw * 1000))).toEqual([...Array(1000).keys()]);
  expect(evenDraws(1000, 7, 3)).toEqual(draws);
  const pairs = evenDraws(1000, 7, 4).map((other, index) => (other - 0.5) * (draws[index]! - 0.5));
  expect(Math.abs(12 * mean([...pairs]))).toBeLessThan(0.1);
});

test("the slowest of n evenly spread times takes n / (n + 1) of the most in the mean, and its lambda-quantile is lambda^(1/n)", () => {
  for (const parts of [1, 2, 5, 20]) {
    const into = slowestOf(even(), () => parts);
    expect(mean([...into.totalUs]) / 1e6).toBeCloseTo(parts / (parts + 1), 2);
    expect(select(into.totalUs.slice(), Math.floor(0.1 * SAMPLES)) / 1e6).toBeCloseTo(0.1 ** (1 / parts), 2);
    for (const [sample, us] of into.totalUs.entries()) expect(into.fixedUs[sample]).toBe(us / 2);
  }
});

test("with no part no time passes; how many there are may differ by sample", () => {
  const into = slowestOf(even(), (sample) => (sample % 2 === 0 ? 0 : 3));
  expect(mean([...into.totalUs]) / 1e6).toBeCloseTo(3 / 4 / 2, 2);
  expect([into.totalUs[0], into.fixedUs[0]]).toEqual([0, 0]);
});

test("the slowest is that of trials, whatever the times and the number of parts", () => {
  const times = fc.array(fc.integer({ min: 0, max: 50_000 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 30 }), fc.nat(1000), (values, parts, seed) => {
      const one = new Samples();
      one.totalUs.set(evenDraws(SAMPLES, seed, 0).map((draw) => values[Math.floor(draw * values.length)]!));
      const samples = slowestOf(one, () => parts);
      const uniform = seededUniform(seed, 1);
      const trials = Array.from({ length: 4000 }, () =>
        Math.max(...Array.from({ length: parts }, () => values[Math.floor(uniform() * values.length)]!)),
      );
      for (const value of values) {
        const below = samples.totalUs.filter((us) => us <= value).length / SAMPLES;
        expect(Math.abs(below - trials.filter((us) => us <= value).length / trials.length)).toBeLessThan(0.045);
      }
    }),
    { numRuns: 25, seed: 11 },
  );
});

test("of two that begin at once the longer one counts, with what is fixed of it", () => {
  const one = new Samples();
  const other = new Samples();
  one.totalUs.set([5, 9]);
  one.fixedUs.set([5, 1]);
  other.totalUs.set([7, 8]);
  other.fixedUs.set([2, 8]);
  one.longer(other);
  expect([...one.totalUs.slice(0, 2), ...one.fixedUs.slice(0, 2)]).toEqual([7, 9, 2, 1]);
});
