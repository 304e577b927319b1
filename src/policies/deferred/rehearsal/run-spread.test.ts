import { expect, it } from "vitest";
import { RunSpread } from "./run-spread.js";

it("batches take what was planned until enough have run", () => {
  const spread = new RunSpread();
  for (let batch = 0; batch < 15; batch++) spread.ran(1, 1000, 1500);
  expect(spread.ratioOf(1, 0)).toBe(1);
  spread.ran(1, 1000, 1500);
  expect(spread.ratioOf(1, 0)).toBe(1.5);
});

it("then what the last 64 took, in their order, over and over; a batch that hung at most four times the plan", () => {
  const spread = new RunSpread();
  for (let batch = 0; batch < 64; batch++) spread.ran(1, 1000, 1000 + batch);
  spread.ran(1, 1000, 1_000_000);
  spread.ran(1, 0, 1000);
  expect([0, 1, 63, 64, 65].map((number) => spread.ratioOf(1, number))).toEqual([4, 1.001, 1.063, 4, 1.001]);
});

it("is of batches of the size, or of the nearest size that was seen often enough", () => {
  const spread = new RunSpread();
  for (let batch = 0; batch < 16; batch++) {
    spread.ran(2, 1000, 1200);
    spread.ran(16, 1000, 1700);
    if (batch < 15) spread.ran(1, 1000, 3000);
  }
  expect([1, 2, 3, 4, 8, 16, 31, 64].map((size) => spread.ratioOf(size, 5))).toEqual([
    1.2, 1.2, 1.2, 1.2, 1.7, 1.7, 1.7, 1.7,
  ]);
});
