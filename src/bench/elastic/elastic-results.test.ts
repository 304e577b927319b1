import { expect, test } from "vitest";
import { ceilingFigure, type ElasticCase, type ElasticRun, gainResults, loadResults } from "./elastic-results.js";

const run = (pair: number, contender: string, earned: number, changes: Partial<ElasticRun> = {}): ElasticRun => ({
  pair,
  contender,
  arrived: 100,
  in_time: 80,
  right: 70,
  late: 5,
  dropped: 15,
  offered: 50,
  earned,
  ceiling: 40,
  gammas: { "-8": 60, "0": 20 },
  types: [],
  lag_ms: 0.5,
  void_reason: null,
  ...changes,
});

const plan = {
  setting: "elastic vit",
  load: 1.3,
  policy: "default,otas",
  requests: 0,
  pairs: 2,
  sparePairs: 0,
  pairsPerRun: 1,
  sweepPairs: 1,
  timeouts: [],
  hasControl: false,
  repeatsMax: 0,
  shortestS: 1,
  longestS: 1,
};

const caseOf = (runs: readonly ElasticRun[]): ElasticCase => ({
  capacity_rps: 400,
  offered_rps: 520,
  slo_ms: {},
  beta_over_alpha: 0,
  most_in_time: null,
  warmup_s: 1,
  counted_s: 10,
  runs,
  accuracy: {},
  types: [],
  wall_s: 1,
});

const RUNS = [
  ...[0, 1].flatMap((pair) => [
    run(pair, "default", 24),
    run(pair, "otas", 30 + pair),
    run(pair, "otas-exact", 29),
    run(pair, "queue-gamma", 26),
    run(pair, "gamma 0", 20),
    run(pair, "fixed -8", 25),
  ]),
  // Best in its sweep, but not in every pair.
  run(0, "fixed -10", 26),
];
const report = { plan, measured: caseOf(RUNS) };

test("a row shows the part of the ceiling, how queries ended, and the gammas", () => {
  const rows = new Map(loadResults([report]).map((row) => [row.name, row]));
  expect([...rows.keys()]).toEqual(
    ["default", "otas", "otas-exact", "gamma 0", "queue-gamma", "best fixed gamma"].map(
      (name) => `elastic at 1.3, ${name}`,
    ),
  );
  const otas = rows.get("elastic at 1.3, otas")!;
  expect(otas.value).toBeCloseTo(76.25, 9);
  expect(otas.detail).toContain("in time and right 70.0 %, in time 80.0 %, dropped 15.0 %, late 5.0 %");
  expect(otas.detail).toContain("by gamma -8: 75.0 %, 0: 25.0 %");
  expect(rows.get("elastic at 1.3, best fixed gamma")!.detail).toContain("fixed -8: in time and right");
});

test("gains are those of pairs, over the fixed gamma that earned most in all of them, and held against 15 %", () => {
  const rows = gainResults([report]);
  expect(rows.map(({ name, value }) => [name, Math.round(100 * value) / 100])).toEqual([
    ["elastic gain at 1.3, default over the best fixed gamma", -4],
    ["elastic gain at 1.3, default over gamma 0 with dropping", 20],
    ["elastic gain at 1.3, otas over the best fixed gamma", 22],
    ["elastic gain at 1.3, otas over gamma 0 with dropping", 52.5],
    ["elastic gain at 1.3, otas-exact over the best fixed gamma", 16],
    ["elastic gain at 1.3, otas-exact over gamma 0 with dropping", 45],
  ]);
  expect(rows[0]!.detail).toMatch(/^MISSED 15 %: over 'fixed -8' in 2 pairs \[/);
  expect(rows[2]!.detail).toMatch(/^MET 15 %/);
});

test("a pair with a void run, or with other arrivals, is left out; where none is left there is nothing to say", () => {
  const runs = RUNS.map((each) => (each.pair === 1 && each.contender === "default" ? { ...each, arrived: 99 } : each));
  expect(gainResults([{ plan, measured: caseOf(runs) }])[2]!.detail).toBe("MET 15 %: over 'fixed -10' in 1 pairs");
  const voided = RUNS.map((each) => ({ ...each, void_reason: "late" }));
  const empty = { plan, measured: caseOf(voided) };
  expect(gainResults([empty])[0]).toMatchObject({ value: Number.NaN, detail: expect.stringMatching(/^VOID/) });
  expect(loadResults([empty])[0]!.detail).toContain("void: late");
  expect(ceilingFigure([empty]).kind).toBe("lines");
});

test("gamma 0 is one of the fixed ones", () => {
  const runs = RUNS.map((each) => (each.contender === "gamma 0" ? { ...each, earned: 28 } : each));
  expect(gainResults([{ plan, measured: caseOf(runs) }])[2]!.detail).toContain("over 'gamma 0'");
});
