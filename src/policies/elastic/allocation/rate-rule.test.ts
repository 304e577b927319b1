import { expect, test } from "vitest";
import { NOT_EXECUTED } from "./allocation.js";
import { allocateByRate, gammaForRate } from "./rate-rule.js";

const GAMMAS = [-20, -15, -10, -5, 0, 2, 4, 8];
const TABLE_1 = Float64Array.of(Number.POSITIVE_INFINITY, 1000, 520, 450, 380, 350, 320, 280);

test("f(q): every row of Table I at both of its ends", () => {
  const rows: [number, number, number][] = [
    [1, 279, 8],
    [280, 319, 4],
    [320, 348, 2],
    [350, 379, 0],
    [380, 449, -5],
    [450, 519, -10],
    [520, 999, -15],
    [1001, 1e9, -20],
  ];
  for (const [from, to, gamma] of rows)
    for (const rate of [from, to]) expect(GAMMAS[gammaForRate(TABLE_1, rate)], `at ${rate}/s`).toBe(gamma);
});

/** Three gammas of 10, 20 and 40 us that earn 1, 2 and 3. */
function allocated(dueAt: readonly number[], meanUtility: readonly number[], gamma: number): [number, ...number[]] {
  const count = dueAt.length;
  const problem = {
    count,
    gammas: 3,
    dueAt: Float64Array.from(dueAt),
    timeUs: Float64Array.from(Array.from({ length: count }, () => [10, 20, 40]).flat()),
    utility: Float64Array.from(Array.from({ length: count }, () => [1, 2, 3]).flat()),
  };
  const chosen = new Int32Array(count);
  const rule = { gamma, criticalUtility: 0.8 };
  return [allocateByRate(problem, Float64Array.from(meanUtility), 0, rule, chosen), ...chosen];
}

test("Algorithm 3: f(q) in general, the last gamma for critical batches, the first for those otherwise late", () => {
  expect(allocated([100, 100, 100], [0.3, 0.9, 0.3], 1)).toEqual([7, 1, 2, 1]);
  expect(allocated([100, 35, 100], [0.3, 0.9, 0.3], 1)).toEqual([5, 1, 0, 1]);
});

test("Algorithm 3: a utility of kappa is not yet critical", () => {
  expect(allocated([100], [0.8], 1)).toEqual([2, 1]);
});

test("Algorithm 3: what is late even with the first gamma is not executed and takes no time", () => {
  expect(allocated([9, 20], [0.3, 0.3], 1)).toEqual([2, NOT_EXECUTED, 1]);
});

test("Algorithm 3: a critical batch in time at f(q) gets the last gamma even where it is late then (lines 4 to 7)", () => {
  expect(allocated([30], [0.9], 1)).toEqual([0, 2]);
});
