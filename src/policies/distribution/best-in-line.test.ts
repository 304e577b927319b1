import fc from "fast-check";
import { expect, test } from "vitest";
import { DeadlineQueue } from "../../core/deadline-queue.js";
import { Distribution } from "../../core/times/distribution.js";
import { Longest } from "../../core/times/longest.js";
import { bestInLine } from "./best-in-line.js";
import { Score } from "./score.js";

const TWO_MODES = Distribution.of([10_000, 20_000, 80_000, 100_000], [0.5, 0, 0.5]);
const MANY_BINS = new Longest([
  { times: Distribution.ofSample(Float64Array.from({ length: 500 }, (_, i) => 5000 * 40 ** (i / 500))), count: 3 },
  { times: TWO_MODES, count: 1 },
]).distribution();
const STEPS = [
  { afterUs: 0, cost: 1 },
  { afterUs: 150_000, cost: 3 },
];
const SCORES = [1e-7, 1e-5, 1e-3].flatMap((rate) => [
  new Score(TWO_MODES, rate),
  new Score(MANY_BINS, rate),
  new Score(MANY_BINS, rate, STEPS),
]);

/** Below are numbers with fewer digits. */
const LEAST_NORMAL = 2 ** -1022;

test("is the request of the highest score of the line, or of the rest of it, as a scan of all finds it", () => {
  const score = fc.constantFrom(...SCORES);
  // Crowds near the edges and far from them, before the moment and after it.
  const slack = fc.oneof(
    fc.integer({ min: -50_000, max: 400_000 }),
    fc.constantFrom(10_000, 20_000, 80_000, 100_000),
    fc.integer({ min: 79_995, max: 80_005 }),
    fc.integer({ min: 1e6, max: 1e8 }),
  );
  let found = 0;
  fc.assert(
    fc.property(
      score,
      fc.array(slack, { maxLength: 200 }),
      fc.nat(1e9),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.oneof(fc.constant(0), fc.nat(250)),
      (of, slacks, at, part, from) => {
        const pending = new DeadlineQueue();
        for (const [handle, each] of slacks.entries()) pending.push(handle, at + each);
        const asked = slacks.toSorted((a, b) => a - b).slice(from);
        const highest = asked.reduce((most, each) => Math.max(most, of.valueAt(each)), 0);
        const best = bestInLine(pending, of, at, 0, from);
        // A part of a number with next to no digits left is that number: nothing can be said of it.
        if (highest > 0 && highest < LEAST_NORMAL) return;
        if (highest === 0) expect(best).toBe(-1);
        else {
          found++;
          expect(best).toBeGreaterThanOrEqual(from);
          // A stage's values rise or fall but for their last digits.
          expect(of.valueAt(pending.deadlineAt(best) - at) / highest).toBeGreaterThan(1 - 1e-12);
          expect(bestInLine(pending, of, at, highest, from)).toBe(-1);
          expect(bestInLine(pending, of, at, part * 0.999 * highest, from)).not.toBe(-1);
        }
      },
    ),
    { numRuns: 5000 },
  );
  expect(found).toBeGreaterThan(2000);
});
