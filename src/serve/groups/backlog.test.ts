import { describe, expect, test } from "vitest";
import { RunRatio } from "../models/run-ratio.js";
import { left, waitOf } from "./backlog.js";

const NOW = 1_000_000;
const run = (execAt: number, predictedUs: number) => ({ execAt, predictedUs });

test.each([
  ["nothing", [], 0, 0],
  ["one that runs", [run(NOW - 3000, 10_000)], 7000, 0],
  ["one that is about to", [run(NOW + 500, 10_000)], 10_500, 0],
  ["one behind another", [run(NOW - 3000, 10_000), run(NOW + 7000, 5000)], 12_000, 0],
  ["one behind another, planned for later", [run(NOW - 3000, 10_000), run(NOW + 9000, 5000)], 14_000, 0],
  ["one that is overdue: as long again", [run(NOW - 30_000, 10_000)], 20_000, 20_000],
  ["one behind one that is overdue", [run(NOW - 30_000, 10_000), run(NOW - 20_000, 5000)], 25_000, 20_000],
])("left on an accelerator that holds %s", (_what, runs, leftUs, guessUs) => {
  expect(left(runs, NOW)).toEqual({ leftUs, guessUs });
});

describe("what waits goes to those that are free first", () => {
  const of = (...lefts: [number, number][]) => lefts.map(([leftUs, guessUs]) => ({ leftUs, guessUs }));
  test.each([
    ["an idle one", of([0, 0], [900, 0]), 0, 0, 0],
    ["the first of two", of([900, 0], [300, 0]), 0, 300, 0],
    ["the first until the second is free", of([900, 0], [300, 0]), 500, 800, 0],
    ["both, from then on", of([900, 0], [300, 0]), 1000, 1100, 0],
    ["one that is overdue, with its guess", of([900, 400], [3000, 50]), 100, 1000, 400],
    ["none, as if one were", of(), 700, 700, 0],
  ])("%s", (_what, lefts, workUs, waitUs, guessUs) => {
    expect(waitOf(lefts, workUs)).toEqual({ waitUs, guessUs });
  });
});

test("a ratio follows its batches, and its spread how far they lie apart", () => {
  const steady = new RunRatio();
  for (let n = 0; n < 60; n++) steady.measured(2000, 1000);
  expect(steady.mean).toBeCloseTo(2, 2);
  expect(steady.spread).toBeLessThan(0.01);
  const wild = new RunRatio();
  for (let n = 0; n < 60; n++) wild.measured(n % 2 === 0 ? 1000 : 3000, 1000);
  expect(wild.mean).toBeGreaterThan(1.7);
  expect(wild.spread).toBeGreaterThan(0.35);
});
