import { describe, expect, test } from "vitest";
import { linearTable } from "../core/latency/latency.js";
import { WorkerCounts, type WorkerLoad, workerRps, workersFor } from "./worker-counts.js";

/** l(b) = b + 6 ms: within half of 30 ms a batch of 9, 600 requests/s a worker. */
const load = (rateRps: number): WorkerLoad => ({
  rateRps,
  execUs: linearTable(1000, 6000, 20),
  sizeMax: 20,
  sloUs: 30_000,
});
const RULE = { headroom: 0, min: 1, max: 10 };

describe("workers by rate and what one can do (PARD §5.1)", () => {
  test("a worker's rate is that of its planned batch", () => {
    expect(workerRps(load(0))).toBeCloseTo(600, 9);
    // Not even a batch of two is within half: one by one.
    expect(workerRps({ ...load(0), sloUs: 15_000 })).toBeCloseTo(1e6 / 7000, 9);
  });

  test.each([
    [0, {}, 1],
    [600, {}, 1],
    [601, {}, 2],
    [1200, {}, 2],
    [1200, { headroom: 0.1 }, 3],
    [1_000_000, {}, 10],
    [100, { min: 4 }, 4],
  ])("%d requests/s with %j: %d", (rateRps, rule, workers) => {
    expect(workersFor([load(rateRps)], { ...RULE, ...rule })).toBe(workers);
  });

  test("models that share workers add up before they are rounded", () => {
    expect(workersFor([load(300), load(300)], RULE)).toBe(1);
    expect(workersFor([load(300), load(330)], RULE)).toBe(2);
  });

  test("up at once; down after a while, to the most that was needed within it", () => {
    const counts = new WorkerCounts(RULE, 5_000_000);
    const decided = [600, 3000, 600, 1200, 600, 600, 600, 600, 600, 600].map((rate, second) =>
      counts.decide([load(rate)], second * 1_000_000),
    );
    expect(decided).toEqual([1, 5, 5, 5, 5, 5, 5, 2, 2, 1]);
  });
});
