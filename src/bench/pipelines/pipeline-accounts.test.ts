import { expect, test } from "vitest";
import { accountsBetween, accountsOf, accountsTogether, droppedIn, wasted } from "./pipeline-accounts.js";

const text = (dropped: number): string => `# TYPE rubato_pipeline_requests_total counter
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="finished",reason="",module=""} 6
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="dropped",reason="infeasible",module="detect"} ${dropped}
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="dropped",reason="expired",module="detect"} 1
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="dropped",reason="expired",module="read"} 1
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="dropped",reason="queue-full",module=""} 2
rubato_pipeline_requests_total{pipeline="a-ocr",outcome="late",reason="late",module="read"} 3
rubato_pipeline_requests_total{pipeline="b-ocr",outcome="dropped",reason="expired",module="read"} 9
rubato_pipeline_accelerator_seconds_total{pipeline="a-ocr",outcome="finished"} 1.5
rubato_pipeline_accelerator_seconds_total{pipeline="a-ocr",outcome="dropped"} 2.5e-1
rubato_pipeline_accelerator_seconds_total{pipeline="a-ocr",outcome="late"} 0.25
`;

test("metrics are read by pipeline, reasons together", () => {
  expect(accountsOf(text(4), "a-ocr")).toEqual({
    ended: { finished: 6, dropped: 8, late: 3 },
    drops: { detect: 5, read: 1, "": 2 },
    seconds: { finished: 1.5, dropped: 0.25, late: 0.25 },
  });
});

test("between two looks only what came; together all of it", () => {
  const [before, after] = [accountsOf(text(4), "a-ocr"), accountsOf(text(7), "a-ocr")];
  const between = accountsBetween(before, after);
  expect(between).toEqual({ ended: { dropped: 3 }, drops: { detect: 3 }, seconds: {} });
  expect(accountsTogether([before, between])).toEqual(after);
});

test("drops before a module count those at the entrance; what is late is in vain, too", () => {
  const accounts = accountsOf(text(4), "a-ocr");
  expect(droppedIn(accounts, ["detect"])).toBeCloseTo(7 / 8, 12);
  expect(wasted(accounts)).toBeCloseTo(0.25, 12);
  const nothing = accountsOf("", "a-ocr");
  expect([droppedIn(nothing, ["detect"]), wasted(nothing)]).toEqual([Number.NaN, Number.NaN]);
});
