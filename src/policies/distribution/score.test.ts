import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Distribution } from "../../core/times/distribution.js";
import { Longest } from "../../core/times/longest.js";
import { Score } from "./score.js";

/** Golden's unit is ms: the formulas know no unit. */
const TWO_MODES = Distribution.of([10, 20, 80, 100], [0.5, 0, 0.5]);
const DEADLINE = 120;

/**
 * (E[C_delay] - E[C_now]) / E[L] of a deadline `slack` ahead and cost 1, by the definitions: C_now costs where L > slack, C_delay
 * where L + tau > slack. The delay is integrated over each piece on which P(L <= slack - tau) = a + m tau.
 */
function costSaved(times: Distribution, rate: number, slack: number): number {
  const now = 1 - times.cdf(slack);
  const pieces = [slack, ...[...times.edges].reverse().filter((edge) => edge < slack), 0].map((l) => slack - l);
  let inTime = 0;
  for (let piece = 1; piece < pieces.length; piece++) {
    const [from, to] = [pieces[piece - 1]!, pieces[piece]!];
    if (to === from) continue;
    const [atFrom, atTo] = [times.cdf(slack - from), times.cdf(slack - to)];
    const slope = (atTo - atFrom) / (to - from);
    const antiderivative = (tau: number) => -Math.exp(-rate * tau) * (atFrom + slope * (tau - from) + slope / rate);
    inTime += antiderivative(to) - antiderivative(from);
  }
  return (1 - inTime - now) / times.mean;
}

describe("Score", () => {
  test("Eq. 2 with the densities of two modes (golden)", () => {
    const score = new Score(TWO_MODES, 0.01);
    const golden = { 0: 0.0104013, 10: 0.0114952, 85: 0.0078007, 95: 0.0086211, 105: 0.0046448, 110: 0 };
    for (const [at, value] of Object.entries(golden))
      expect(score.valueAt(DEADLINE - Number(at))).toBeCloseTo(value, 7);
  });

  test("is the expected cost saved by the expected time, to 1e-6 in each regime of a bin, and exactly 0 in the third", () => {
    // Much further out the difference of the two expected costs is lost in their rounding; the score is not.
    for (const rate of [1e-5, 1e-3, 0.01, 0.05]) {
      const bin = Distribution.of([40, 60], [1]);
      const score = new Score(bin, rate);
      for (const slack of [60.001, 75, 200, 41, 50, 59.999])
        expect(Math.abs(score.valueAt(slack) / costSaved(bin, rate, slack) - 1)).toBeLessThan(1e-6);
      for (const slack of [40, 39.9, 0, -1e9]) expect(score.valueAt(slack)).toBe(0);
    }
  });

  test("the same over whole distributions, those of batches of unlike members too", () => {
    const skewed = Distribution.of([5, 30, 60, 90], [0.6, 0.1, 0.3]);
    const batch = new Longest([
      { times: skewed, count: 3 },
      { times: TWO_MODES, count: 1 },
    ]);
    for (const times of [TWO_MODES, skewed, batch.distribution().scaled(2, 7)])
      for (const rate of [1e-4, 0.01, 0.1])
        for (let slack = 1; slack < 300; slack += 3.7) {
          const expected = costSaved(times, rate, slack);
          const value = new Score(times, rate).valueAt(slack);
          if (times.cdf(slack) === 0) expect(value).toBe(0);
          else expect(Math.abs(value / expected - 1)).toBeLessThan(1e-6);
        }
  });

  test("never overflows: any slack, narrow bins, rates from 1e-9 to 1 per µs", () => {
    const narrow = Distribution.of([10_000, 10_000.01, 5e8, 5e8 + 1], [0.5, 0, 0.5]);
    for (const rate of [1e-9, 1e-4, 1]) {
      const score = new Score(narrow, rate);
      for (const slack of [-1e15, 0, 10_000.005, 1e6, 5e8 + 0.5, 1e12, 1e300]) {
        const value = score.valueAt(slack);
        expect(value >= 0 && value <= 1 / narrow.mean).toBe(true);
      }
    }
  });

  test("a stage's line has the same value until its milestone, and the next one is another", () => {
    const score = new Score(TWO_MODES.scaled(1000), 1e-5);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400_000 }), fc.nat(2e9), fc.nat(1e6), (slack, now, since) => {
        const deadline = now + slack;
        const base = now - since;
        const stage = score.stageOf(slack);
        const alpha = score.alphaOf(stage, deadline - base);
        const beta = score.betaOf(stage);
        const milestone = score.milestoneOf(stage, deadline);
        expect(milestone).toBeGreaterThan(now);
        for (const at of [now, Math.min(now + 500, milestone - 1), Math.min(now + 1e5, milestone - 1)]) {
          const line = alpha * Math.exp(1e-5 * (at - base)) + beta;
          // The milestone is the first whole µs after the change: within it the line goes on for less than 1 µs.
          expect(Math.abs(line - score.valueAt(deadline - at))).toBeLessThan(1e-10);
        }
        if (milestone < Number.POSITIVE_INFINITY) expect(score.stageOf(deadline - milestone)).toBeLessThan(stage);
        else expect([stage, alpha, beta]).toEqual([-1, 0, 0]);
      }),
    );
  });

  test("several deadlines are the sum of single ones with what each adds to the cost (Appendix B)", () => {
    const steps = [
      { afterUs: 0, cost: 1 },
      { afterUs: 35, cost: 1.5 },
      { afterUs: 300, cost: 5 },
    ];
    const score = new Score(TWO_MODES, 0.01, steps);
    const single = new Score(TWO_MODES, 0.01);
    for (let slack = -400; slack < 300; slack += 2.3) {
      const sum = single.valueAt(slack) + 0.5 * single.valueAt(slack + 35) + 3.5 * single.valueAt(slack + 300);
      expect(Math.abs(score.valueAt(slack) - sum)).toBeLessThan(1e-12);
    }
    expect(score.valueAt(-291)).toBe(0);
    expect(score.valueAt(-280)).toBeGreaterThan(0);
  });

  test("peaks bound their stages, and stages rise or fall throughout", () => {
    const score = new Score(TWO_MODES, 0.01);
    expect([...score.byPeak].map((stage) => score.peakOf(stage))).toEqual(
      [...score.byPeak].map((stage) => score.peakOf(stage)).sort((a, b) => b - a),
    );
    for (let stage = 0; stage < score.edges.length; stage++) {
      const end = score.edges[stage + 1] ?? 500;
      let before = score.valueAt(score.edges[stage]! + 1e-9);
      for (let slack = score.edges[stage]! + 0.5; slack < end; slack += 0.5) {
        const value = score.valueAt(slack);
        expect(score.isRising(stage) ? value > before : value <= before).toBe(true);
        expect(value).toBeLessThanOrEqual(score.peakOf(stage) * (1 + 1e-12));
        before = value;
      }
    }
  });

  test("refuses what is no rate and no cost function", () => {
    expect(() => new Score(TWO_MODES, 0)).toThrow("delayRate must be > 0 and finite; was 0");
    expect(() => new Score(TWO_MODES, 1, [])).toThrow("at least one step; had 0");
    const costs = (...given: number[]) => given.map((cost, afterUs) => ({ afterUs, cost }));
    expect(() => new Score(TWO_MODES, 1, costs(2, 1))).toThrow("non-decreasing and finite; was 1 after 2");
    const same = { afterUs: 3, cost: 1 };
    expect(() => new Score(TWO_MODES, 1, [same, same])).toThrow("ascending and finite; was 3 after 3");
  });
});
