import { expect, test } from "vitest";
import { problemOf } from "../../../../test/support/allocation-problems.js";
import { BatchOptions } from "./batch-options.js";
import { FluidBound } from "./fluid-bound.js";

function boundOf(batches: Parameters<typeof problemOf>[0]): FluidBound {
  const problem = problemOf(batches);
  const options = new BatchOptions(problem.count, problem.gammas);
  options.read(problem, 0);
  const bound = new FluidBound(problem.count, problem.gammas);
  bound.read(problem, options, 0, 0);
  return bound;
}

test("fluid bound: the later batch that earns more per µs runs in full, the earlier one in part", () => {
  const bound = boundOf([
    [10, [10, 10]],
    [15, [10, 20]],
  ]);
  expect(bound.at(0, 0)).toBe(20 + 5);
  expect(bound.at(0, 5)).toBe(20);
  expect(bound.at(0, 8)).toBe(14);
  // Nothing of the earlier one is left at its deadline.
  expect(bound.at(0, 10)).toBe(10);
  expect(bound.at(1, 10)).toBe(10);
  expect(bound.at(2, 12)).toBe(0);
});

test("fluid bound: an earlier batch cannot use the time after its deadline", () => {
  const bound = boundOf([
    [10, [10, 100]],
    [30, [10, 1]],
  ]);
  expect(bound.at(0, 0)).toBe(101);
  expect(bound.at(0, 5)).toBe(51);
});

test("fluid bound: between the gammas of a batch it goes along their hull", () => {
  const bound = boundOf([[30, [10, 10], [20, 12], [30, 16]]]);
  expect([0, 10, 20, 25].map((clock) => bound.at(0, clock))).toEqual([16, 13, 10, 5]);
});

test("fluid bound: more segments than it keeps still bound", () => {
  const batches = Array.from({ length: 40 }, (_, batch): [number, ...[number, number][]] => [
    1e6,
    ...Array.from({ length: 9 }, (_, gamma): [number, number] => [10 + gamma, (10 + batch) * Math.sqrt(10 + gamma)]),
  ]);
  const most = batches.reduce((sum, [, ...options]) => sum + options.at(-1)![1], 0);
  const all = boundOf(batches);
  expect(all.at(0, 0)).toBeGreaterThanOrEqual(most);
  // With 40 us two batches run with 18 us each, and a third in part.
  const two = batches.slice(-2).reduce((sum, [, ...options]) => sum + options.at(-1)![1], 0);
  expect(all.at(0, 1e6 - 40)).toBeGreaterThanOrEqual(two);
  expect(all.at(0, 1e6 - 40)).toBeLessThan(2 * two);
});
