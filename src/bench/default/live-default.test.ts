import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { type CasePlan, KeptCases, type MeasuredCase } from "./kept-cases.js";
import { emulatedSetting } from "./live-cases.js";
import { measureSetting } from "./live-default.js";
import { SharedMachine } from "./shared-machine.js";

// SLOs of 0.2 and 0.3 s, so that somebody is in time on a machine that stalls.
const setting = emulatedSetting(2, [0.8, 1.25], 2, 10);
const plan: CasePlan = {
  setting: setting.name,
  load: 1,
  policy: "default",
  requests: 20,
  shortestS: 0.5,
  longestS: 2,
  pairs: 2,
  sweepPairs: 1,
  timeouts: [0.25],
  hasControl: false,
  sparePairs: 0,
  pairsPerRun: 1,
  repeatsMax: 0,
};

test("a real server, tiny: all of a pair see the same arrivals, each pair its own", { retry: 2 }, async () => {
  const made: MeasuredCase[] = [];
  const options = { dataDir: null, profileS: 1, capacityS: 1, note: () => {} };
  const cases = [{ case: { setting, load: 1 }, plan }];
  const machine = new SharedMachine({ leastRps: 1000, firstRps: 1000, mostRps: 1000 });
  await measureSetting(setting, cases, options, machine, (_, measured) => made.push(measured));
  const { runs, slo_ms, most_in_time, offered_rps, counted_s } = made[0]!;
  for (const pair of [0, 1]) {
    const made = runs.filter((run) => run.pair === pair);
    expect(made.map(({ contender }) => contender).sort()).toEqual(["default", "eager", "timeout-0.25"]);
  }
  const arrived = [0, 1].map((pair) => [...new Set(runs.filter((run) => run.pair === pair).map((run) => run.arrived))]);
  expect(arrived.map(({ length }) => length)).toEqual([1, 1]);
  expect(arrived[0]).not.toEqual(arrived[1]);
  // Within four deviations of the rate, and somebody in time.
  for (const [count] of arrived)
    expect(Math.abs(count! - offered_rps * counted_s)).toBeLessThan(4 * Math.sqrt(offered_rps * counted_s));
  expect(runs.some((run) => run.in_time > 0)).toBe(true);
  expect(Object.keys(slo_ms)).toEqual(["m1", "m2"]);
  expect(most_in_time).toBeGreaterThan(0.9);
});

test("finished cases are found again, whole, under the plan that they were made by", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-kept-"));
  try {
    const kept = new KeptCases(folder);
    const measured = { wall_s: 1, runs: [] } as unknown as MeasuredCase;
    expect(kept.get(plan)).toBeNull();
    kept.put(plan, measured);
    expect(new KeptCases(folder).get({ ...plan })).toEqual(measured);
    expect(new KeptCases(folder, "other code").get(plan)).toBeNull();
    for (const other of [
      { load: 2 },
      { policy: "eager" },
      { requests: 21 },
      { pairs: 3 },
      { timeouts: [0.3] },
      { longestS: 3 },
    ])
      expect(kept.get({ ...plan, ...other }), JSON.stringify(other)).toBeNull();
    writeFileSync(path.join(folder, readdirSync(folder)[0]!), '{"measured": {');
    expect(kept.get(plan)).toBeNull();
    expect(() => new KeptCases(path.join(folder, readdirSync(folder)[0]!))).toThrow(
      "must be a folder that can be written",
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
