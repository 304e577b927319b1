import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { writeFigure } from "../../reproduce/write-figure.js";
import { compare } from "./comparison.js";
import type { CasePlan, MeasuredCase } from "./kept-cases.js";
import { emulatedSetting } from "./live-cases.js";
import { type ComparedCase, caseResult, comparedFigure, summaryResults } from "./live-results.js";
import type { PairedRun } from "./paired-runs.js";

const setting = emulatedSetting(2, [1], 8, 3);

/** A case of three pairs in which the default has so many of 1000 in time, eager 500, the timeout 400. */
function caseOf(load: number, own: number): ComparedCase {
  const run = (pair: number, contender: string, in_time: number): PairedRun => ({
    pair,
    contender,
    in_time,
    arrived: 1000,
    late: 0,
    lag_ms: 1,
    void_reason: null,
  });
  const runs = [0, 1, 2].flatMap((pair) => [
    run(pair, "default", own),
    run(pair, "eager", 500),
    run(pair, "eager-again", 500),
    run(pair, "timeout-0.1", 400),
  ]);
  const plan = { setting: setting.name, load, timeouts: [0.1] } as unknown as CasePlan;
  const measured = { offered_rps: 100, beta_over_alpha: 8, runs } as unknown as MeasuredCase;
  const comparison = compare({ runs, timeouts: [0.1], load, betaOverAlpha: 8, mostInTime: 0.7 });
  return { setting, plan, measured, comparison };
}
const cases = [caseOf(0.5, 450), caseOf(1, 550), caseOf(2, 700)];

test("a case is a row: the ratio, who was in time, and what was held", () => {
  const { name, value, detail } = caseResult(cases[1]!);
  expect([name, value]).toEqual([`${setting.name} at 1`, 1.1]);
  expect(detail).toBe(
    "in time 55.0 %, eager 50.0 %, timeout-0.1 40.0 %; [1.100, 1.100] of eager over 3 pairs at 100 r/s; 0.98: held; 1.2: missed",
  );
  expect(caseResult(cases[0]!).detail).toContain("; 0.98: missed");
});

test("the summary counts what was held, names the least, and says what a pair cannot tell", () => {
  const [least, gain, noise] = summaryResults(cases);
  expect(least).toMatchObject({ value: 2 / 3, figures: { held: 2, missed: 1, noise: 0, void: 0 } });
  expect(least!.detail).toBe(`held 2, missed 1 of 3; least 0.900 (${setting.name} at 0.5), median 1.100, most 1.400`);
  expect(gain).toMatchObject({ value: 0.5, figures: { held: 1, missed: 1 } });
  expect([noise!.value, noise!.detail.startsWith("eager against eager in 9 pairs: mean 1.0000")]).toEqual([0, true]);
});

test("draws a figure", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-default-figure-"));
  try {
    await writeFigure(folder, comparedFigure(cases));
    expect(readFileSync(path.join(folder, "default-live.svg"), "utf8")).toContain("offered load");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
