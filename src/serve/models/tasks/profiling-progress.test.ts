import { expect, test } from "vitest";
import { ProfilingProgress } from "./profiling-progress.js";

test("what is left is forecast from what was done in the time so far, in whole seconds from 1 to 300", () => {
  let now = 5_000_000;
  const progress = new ProfilingProgress({ now: () => now } as never, 1000);
  expect([progress.done, progress.leftS, progress.retryAfterS]).toEqual([0, null, 1]);
  progress.begin();
  now += 2_000_000;
  expect(progress.retryAfterS).toBe(1);
  progress.ran(100);
  expect([progress.done, progress.leftS, progress.retryAfterS]).toEqual([100, 18, 18]);
  now += 100_000;
  expect(progress.retryAfterS).toBe(19);
  now += 3_600_000_000;
  expect(progress.retryAfterS).toBe(300);
  progress.ran(900);
  expect([progress.leftS, progress.retryAfterS]).toEqual([0, 1]);
  progress.begin();
  expect([progress.done, progress.leftS]).toEqual([0, null]);
});
