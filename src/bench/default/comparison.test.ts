import { expect, test } from "vitest";
import { type CaseEvidence, compare, noiseOf } from "./comparison.js";
import type { PairedRun } from "./paired-runs.js";

/** In time of default, eager, timeout-0.1, timeout-0.5 in each pair; null: did not run. */
function runsOf(...pairs: readonly (readonly (number | null)[])[]): PairedRun[] {
  const names = ["default", "eager", "timeout-0.1", "timeout-0.5", "eager-again"];
  return pairs.flatMap((counts, pair) =>
    counts.flatMap((in_time, index) =>
      in_time === null
        ? []
        : [{ pair, contender: names[index]!, arrived: 1000, in_time, late: 0, lag_ms: 1, void_reason: null }],
    ),
  );
}
const evidence = (runs: readonly PairedRun[], changed: Partial<CaseEvidence> = {}): CaseEvidence => ({
  runs,
  timeouts: [0.1, 0.5],
  load: 1,
  betaOverAlpha: 8,
  mostInTime: 1,
  ...changed,
});

test("the best timeout is that of the sweep, the best of all is the better of it and eager, the ratio is paired", () => {
  // Over all pairs timeout-0.1 would have more; the sweep, in which both ran, says 0.5.
  const runs = runsOf([600, 400, 300, 500], [660, 500, 300, 550], [600, 400, null, 500]);
  const { timeout, best, ratio, inTime, pairs } = compare(evidence(runs));
  expect({ timeout, best, pairs }).toEqual({ timeout: "timeout-0.5", best: "timeout-0.5", pairs: 3 });
  expect(ratio.median).toBeCloseTo(1.2, 12);
  expect([ratio.low, ratio.high]).toEqual([expect.closeTo(1.2, 12), expect.closeTo(1.2, 12)]);
  expect(inTime.own).toBeCloseTo(0.62, 12);
  expect(inTime.eager).toBeCloseTo(1300 / 3000, 12);
  expect(inTime.timeout).toBeCloseTo(1550 / 3000, 12);
});

test("eager is the best where it has more than the best timeout", () => {
  const { best, ratio } = compare(
    evidence(runsOf([900, 1000, 800, 700], [900, 1000, 800, 700], [900, 1000, 800, 700])),
  );
  expect([best, ratio.median]).toEqual(["eager", 0.9]);
});

test("verdicts: held by the median, noise while the interval reaches the goal, missed, bounded by what any schedule has", () => {
  const at = (own: readonly number[], changed: Partial<CaseEvidence> = {}) =>
    compare(evidence(runsOf(...own.map((count) => [count, 800, 700, 600])), changed));
  expect(at([784, 784, 784]).least).toBe("held");
  expect(at([783, 783, 783]).least).toBe("missed");
  expect(at([700, 780, 900]).least).toBe("noise");
  expect(at([960, 960, 960]).gain).toBe("held");
  expect(at([959, 959, 959], { mostInTime: 0.97 }).gain).toBe("missed");
  expect(at([959, 959, 959], { mostInTime: 0.95 }).gain).toBe("bounded");
  expect(at([959, 959, 959], { mostInTime: null }).gain).toBe("missed");
  expect(at([800, 800]).least).toBe("void");
});

test("1.2 is asked for where batching pays, at capacity and past it", () => {
  const runs = runsOf([800, 800, 700, 600]);
  expect(compare(evidence(runs, { load: 0.8 })).gain).toBeNull();
  expect(compare(evidence(runs, { betaOverAlpha: 1.9 })).gain).toBeNull();
  expect(compare(evidence(runs, { load: 1, betaOverAlpha: 2 })).gain).not.toBeNull();
});

test("a pair with a void run, or with other arrivals in one of its runs, is not compared", () => {
  const runs = runsOf([800, 800, 700, 600], [800, 800, 700, 600], [10, 800, 700, 600], [10, 800, 700, 600]);
  const spoilt = runs.map((run) => {
    if (run.pair === 2 && run.contender === "eager") return { ...run, void_reason: "the generator could not keep up" };
    return run.pair === 3 && run.contender === "default" ? { ...run, arrived: 999 } : run;
  });
  const { pairs, ratio, voids } = compare(evidence(spoilt));
  expect([pairs, ratio.median, voids]).toEqual([2, 1, ["the generator could not keep up"]]);
});

test("nothing in time on both sides is no difference; the noise is eager against itself", () => {
  const { ratio, control } = compare(evidence(runsOf([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0])));
  expect([ratio.median, control]).toEqual([1, [1, 1, 1]]);
  const own = compare(evidence(runsOf([500, 500, 1, 1, 400], [500, 500, 1, 1, 600])));
  expect(own.control).toEqual([0.8, 1.2]);
  expect(noiseOf([own])).toEqual({ pairs: 2, mean: 1, sd: expect.closeTo(0.2828, 4) });
  expect(noiseOf([])).toBeNull();
});
