import { expect, test } from "vitest";
import { lotResult } from "./lot-bench.js";

const OPTIONS = {
  models: 1,
  sloMs: 25,
  ratePerAccelerator: 400,
  lotUs: 50,
  controlUs: 850,
  decisionUs: 2700,
  rankWithin: true,
};
const report = (cpuUs: number | null) => ({ log: null, turns: 10, grants: 100, cpuUs });
const result = (finished: number) => ({
  arrived: 1000,
  finished,
  batches: 100,
  cpuS: 0.5,
  wallS: 1,
  rank: report(null),
  threads: [report(1)],
  record: null,
});

test("counts what finished, and says so when less than 99 % did", () => {
  const half = lotResult("lots", OPTIONS, result(500));
  expect(half.value).toBe(1000);
  expect(half.detail).toContain("50.00 % in time (NOT HELD)");
  expect(half.figures!.finished_share).toBe(0.5);
  const most = lotResult("lots", OPTIONS, result(990));
  expect(most.value).toBe(1980);
  expect(most.detail).toContain("99.00 % in time of");
});

test("says beside the figure what it was measured with", () => {
  const { detail } = lotResult("lots", OPTIONS, result(1000));
  expect(detail).toContain(
    "SLO 25 ms, lots of 0.05 ms, plans with 0.85 + 2.7 ms, front, queue thread with its rank on 0.50 cores",
  );
  const apart = { ...result(1000), rank: report(250) };
  expect(lotResult("lots", { ...OPTIONS, rankWithin: false }, apart).detail).toMatch(
    /rank on 0.50 cores.*rank 2.50 us\/grant$/,
  );
});
