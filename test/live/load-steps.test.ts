/** Load steps 1x -> 4x -> 0.5x on a live server: its workers follow within their bounds and no request is lost. */
import { expect, it } from "vitest";
import { runLoadSteps } from "../../src/bench/load-steps.js";
import { DROP_REASONS } from "../../src/core/outcome.js";

const STEP_MS = 6500;
/** From a step until the workers it needs are there: decisions every 0.5 s, a process starts in a fraction of a second. */
const SETTLE_MS = 3000;

it("workers follow 1x -> 4x -> 0.5x between 1 and 6, no request is lost", { retry: 2 }, async () => {
  const run = await runLoadSteps({
    ratesRps: [60, 240, 30],
    stepMs: STEP_MS,
    min: 1,
    max: 6,
    start: 2,
    intervalMs: 500,
    downCooldownMs: 1500,
    keepWarmMs: 1000,
    seed: 1,
    sampleMs: 50,
  });
  // Every request ended once; none failed.
  expect(run.ends.length).toBe(run.sent);
  expect(run.sent).toBeGreaterThan(1500);
  expect(run.extraAnswers).toBe(0);
  const ends = new Set(run.ends.map(({ end }) => end));
  expect(
    [...ends].filter((end) => end !== "finished" && end !== "late" && !DROP_REASONS.includes(end as never)),
  ).toEqual([]);
  expect(run.workerExits).toBe(0);
  // Outside the steps at most 1 % is lost or late.
  const outside = run.ends.filter(({ atMs, step }) => step === 0 || atMs - step * STEP_MS >= SETTLE_MS);
  const bad = outside.filter(({ end }) => end !== "finished");
  expect(bad.length / outside.length).toBeLessThanOrEqual(0.01);
  // The workers followed, up and down, within the bounds.
  for (const { workers, advice } of run.samples) {
    expect(workers).toBeGreaterThanOrEqual(1);
    expect(workers).toBeLessThanOrEqual(6);
    expect(advice).toBeGreaterThanOrEqual(1);
    expect(advice).toBeLessThanOrEqual(6);
  }
  const atEnd = [1, 2, 3].map((step) => run.samples.filter(({ atMs }) => atMs < step * STEP_MS).at(-1)!);
  expect(atEnd[0]!.workers).toBeLessThanOrEqual(3);
  expect(atEnd[1]!.workers).toBeGreaterThanOrEqual(4);
  expect(atEnd[2]!.workers).toBeLessThanOrEqual(2);
  // And their processes: those that left have ended.
  expect(atEnd[1]!.processes).toBeGreaterThanOrEqual(atEnd[1]!.workers);
  expect(atEnd[2]!.processes).toBeLessThan(atEnd[1]!.processes);
  expect(run.processesLeft).toBe(0);
});
