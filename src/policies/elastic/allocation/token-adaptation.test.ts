import { expect, test } from "vitest";
import { problemOf } from "../../../../test/support/allocation-problems.js";
import { type AllocationProblem, NOT_EXECUTED, plannedUtility } from "./allocation.js";
import { Exhaustive } from "./exhaustive.js";
import { TokenAdaptation } from "./token-adaptation.js";

function planOf(problem: AllocationProblem, now = 0): [number, ...number[]] {
  const chosen = new Int32Array(problem.count);
  const utility = new TokenAdaptation(10, 9).allocate(problem, now, chosen);
  expect(plannedUtility(problem, now, chosen)).toBe(utility);
  return [utility, ...chosen];
}

test("Algorithm 2: with time enough every batch has the gamma that earns the most", () => {
  const batch = (dueAt: number): [number, ...[number, number][]] => [dueAt, [10, 1], [20, 2], [40, 3]];
  expect(planOf(problemOf([batch(100), batch(100), batch(120)]))).toEqual([9, 2, 2, 2]);
});

test("Algorithm 2: tokens are removed from the first where both are in time only so", () => {
  const problem = problemOf([
    [50, [10, 4], [40, 5]],
    [60, [20, 4], [50, 6]],
  ]);
  expect(planOf(problem)).toEqual([10, 0, 1]);
});

test("Algorithm 2: ending at the due moment is in time, a microsecond later is not", () => {
  const problem = problemOf([[50, [50, 1]]]);
  expect(planOf(problem)).toEqual([1, 0]);
  expect(planOf(problem, 1)).toEqual([0, NOT_EXECUTED]);
});

test("Algorithm 2: a batch that cannot be in time is not executed although nothing earns before (S starts at 1 in the listing)", () => {
  const problem = problemOf([
    [5, [10, 1], [20, 2]],
    [5, [10, 1], [20, 2]],
  ]);
  expect(planOf(problem)).toEqual([0, NOT_EXECUTED, NOT_EXECUTED]);
});

test("Algorithm 2: one clock a state loses what the second best way would have had time for", () => {
  // Of the ways into "the second runs with 10 us" the one that has earned 21 stays, at 55; only the one at 20, with 20, lets the third be in time.
  const problem = problemOf([
    [100, [10, 10], [45, 11]],
    [100, [10, 10], [45, 1]],
    [101, [80, 30], [81, 29]],
  ]);
  const chosen = new Int32Array(3);
  expect(new Exhaustive().allocate(problem, 0, chosen)).toBe(50);
  expect([...chosen]).toEqual([0, 0, 0]);
  const [utility] = planOf(problem);
  expect(utility).toBe(21);
});

test("Algorithm 2: refuses more batches than it has rows for", () => {
  const problem = { ...problemOf([[50, [50, 1]]]), count: 11 };
  expect(() => planOf(problem)).toThrow("batches must be at most 10; were 11");
});
