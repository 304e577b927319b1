import { expect, test } from "vitest";
import type { CasePlan } from "../default/kept-cases.js";
import type { PipelineAccounts } from "./pipeline-accounts.js";
import {
  findingResults,
  goodputFigure,
  loadResults,
  type PipelineReport,
  type PipelineRun,
} from "./pipeline-results.js";

const NOTHING: PipelineAccounts = { ended: {}, drops: {}, seconds: { finished: 9 } };

/** In time of default and pard in each pair, of runs of ten seconds. */
function reportOf(
  load: number,
  pairs: readonly (readonly [own: number, other: number])[],
  accounts: PipelineAccounts = NOTHING,
  changed: Partial<PipelineRun> = {},
): PipelineReport {
  const runs = pairs.flatMap((counts, pair) =>
    ["default", "pard"].map(
      (contender, index): PipelineRun => ({
        pair,
        contender,
        arrived: 100,
        in_time: counts[index]!,
        late: 0,
        lag_ms: 1,
        void_reason: null,
        p99_ms: 400,
        accounts,
        ...changed,
      }),
    ),
  );
  const plan = { setting: "pipelines ocr", load, policy: "default,pard" } as CasePlan;
  const measured = {
    capacity_rps: 8,
    offered_rps: 8 * load,
    slo_ms: { ocr: 900 },
    beta_over_alpha: 0,
    most_in_time: null,
    warmup_s: 1,
    counted_s: 10,
    runs,
    wall_s: 1,
  };
  return { plan, measured };
}
const accountsOf = (early: number, atRead: number, vain: number): PipelineAccounts => ({
  ended: { dropped: early + atRead },
  drops: { detect: early, read: atRead },
  seconds: { finished: 10 - vain, dropped: vain },
});
const verdicts = (reports: readonly PipelineReport[], name: string) =>
  findingResults(reports)
    .filter((each) => each.name.endsWith(`, ${name}`))
    .map(({ value, detail }) => [Number(value.toFixed(6)), detail.split(":")[0]]);

test("goodput is relative to each one's own peak over the loads, drops and vain time are of all runs past capacity", () => {
  const reports = [
    reportOf(0.5, [[40, 40]]),
    reportOf(1, [[80, 60]], accountsOf(0, 100, 9)),
    reportOf(1.5, [[76, 54]], accountsOf(30, 10, 0.2)),
    reportOf(2, [[72, 53]], accountsOf(50, 10, 0.6)),
  ];
  expect(verdicts(reports, "default")).toEqual([
    [0.9, "held"],
    [0.8, "held"],
    [0.04, "held"],
  ]);
  expect(verdicts(reports, "pard")[0]).toEqual([0.883333, "missed"]);
  const [, , , , own, other] = loadResults(reports);
  expect([own!.value, own!.figures!.of_peak, own!.figures!.dropped_early]).toEqual([7.6, 0.95, 0.75]);
  expect([other!.name, other!.value]).toEqual(["pipelines ocr at 1.5, pard", 5.4]);
  expect(own!.detail).toContain("dropped detect 30, read 10 (75.0 % before recognition)");
});

test("just past a goal is missed, and what nobody dropped is no finding", () => {
  const reports = [reportOf(1, [[80, 80]]), reportOf(2, [[71, 80]], accountsOf(79, 21, 0.5))];
  expect(verdicts(reports, "default").map(([, verdict]) => verdict)).toEqual(["missed", "missed", "missed"]);
  const calm = [reportOf(1, [[80, 80]]), reportOf(2, [[80, 80]])];
  expect(verdicts(calm, "default").map(([, verdict]) => verdict)).toEqual(["held", "void", "held"]);
});

test("pairs are compared on the same arrivals; one with a void run says nothing", () => {
  const valid = reportOf(2, [
    [70, 60],
    [74, 62],
  ]);
  const [, pard] = loadResults([valid]);
  expect(pard!.detail).toContain("(to default -1.10 [");
  const spoilt = reportOf(2, [[70, 60]], NOTHING, { void_reason: "the generator could not keep up" });
  expect(loadResults([spoilt]).map(({ value }) => value)).toEqual([Number.NaN, Number.NaN]);
  expect(loadResults([spoilt])[0]!.detail).toContain("void: the generator could not keep up");
  expect(verdicts([spoilt], "pard").map(([, verdict]) => verdict)).toEqual(["void", "void", "void"]);
  expect(goodputFigure([valid, spoilt])).toMatchObject({ kind: "lines", rows: [{ y: 7.2 }, { y: 6.1 }] });
});
