import { expect, test } from "vitest";
import { burstyRates, drawQueries, queryTypes, stretchOf } from "./elastic-workload.js";

const OPTIONS = {
  rates: burstyRates(null),
  rps: 400,
  stretch: stretchOf(400),
  seed: 3,
  warmupS: 2,
  countedS: 15,
  images: [50, 50, 10, 10, 20, 20],
};

test("a second of the paper takes as long as what it serves in one; SLOs with it", () => {
  expect(stretchOf(290)).toBe(2);
  const types = queryTypes(["hard", "middling", "easy"], 2);
  expect(types.map(({ task, sloMs, utility }) => [task, sloMs, utility])).toEqual([
    ["middling", 1200, 0.3],
    ["middling", 2000, 0.01],
    ["hard", 1200, 1],
    ["hard", 2000, 0.2],
    ["easy", 1200, 0.3],
    ["easy", 2000, 0.01],
  ]);
  expect(new Set(queryTypes(["one"], 1).map(({ task }) => task))).toEqual(new Set(["one"]));
});

test("a seed draws the same queries again, of every type and within its images; another draws others", () => {
  const queries = drawQueries(OPTIONS);
  expect(drawQueries(OPTIONS)).toEqual(queries);
  expect(drawQueries({ ...OPTIONS, seed: 4 })).not.toEqual(queries);
  for (const [type, count] of OPTIONS.images.entries()) {
    const own = queries.filter((query) => query.type === type);
    expect(own.length / queries.length).toBeCloseTo(1 / 6, 1);
    expect(Math.max(...own.map(({ image }) => image))).toBe(count - 1);
  }
  expect(queries.every(({ atUs }, at) => at === 0 || atUs >= queries[at - 1]!.atUs)).toBe(true);
});

test("bursts are scaled so that what counts comes at the load's mean rate", () => {
  const { stretch, rps, warmupS, countedS } = OPTIONS;
  for (let seed = 0; seed < 5; seed++) {
    const counted = drawQueries({ ...OPTIONS, seed }).filter(({ atUs }) => atUs >= warmupS * stretch * 1e6);
    const expected = rps * countedS * stretch;
    // Poisson: within five deviations.
    expect(Math.abs(counted.length - expected)).toBeLessThan(5 * Math.sqrt(expected));
    const bySecond = new Map<number, number>();
    for (const { atUs } of counted) {
      const second = Math.floor(atUs / (stretch * 1e6));
      bySecond.set(second, (bySecond.get(second) ?? 0) + 1);
    }
    expect(Math.max(...bySecond.values()) / (rps * stretch)).toBeGreaterThan(1.3);
  }
});
