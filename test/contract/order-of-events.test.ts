/** Simultaneous events are taken as finished, arrival, timer (design §2). One model l(b) = b + 5 ms, SLO 12 ms. */
import { expect, test } from "vitest";
import { Recording } from "../support/recording.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../support/scenario.js";

function batches(atMs: readonly number[], count = 1): string[] {
  const scenario = scenarioOf({
    models: [linearModel("m", 1, 5, 12, 1, 16)],
    accelerators: accelerators(count),
    arrivals: arrivalsAt(atMs),
  });
  const run = Recording.run(scenario, "deferred", { head_drop: false }, 1);
  return run.batches.map(({ startAt, size, accelerator }) => `${startAt / 1000}:${size}@${accelerator}`);
}

test("an arrival at the moment the window opens joins the batch", () => {
  // R1 alone would leave at 12 - l(2) = 5; R2 comes at 5 exactly.
  expect(batches([0])).toEqual(["5:1@0"]);
  expect(batches([0, 5])).toEqual(["5:2@0"]);
  expect(batches([0, 5.001])).toEqual(["5:1@0", "11:1@0"]);
});

test("an accelerator that ends at the moment the window opens takes the batch, and lower ids go first", () => {
  // The first batch runs from 5 to 11; the window of the second request, of 6, opens at 6 + 12 - 7 = 11.
  expect(batches([0, 6])).toEqual(["5:1@0", "11:1@0"]);
  expect(batches([0, 6], 2)).toEqual(["5:1@0", "11:1@0"]);
  expect(batches([0, 5.9], 2)).toEqual(["5:1@0", "10.9:1@1"]);
});

test("an arrival and an end at one moment: the end first, so that the arrival finds a free accelerator", () => {
  // R2 arrives at 11 as the first batch ends; it waits for its window, not for the accelerator.
  expect(batches([0, 11])).toEqual(["5:1@0", "16:1@0"]);
});
