/** A run of elastic models: what was earned, how queries ended, which work was chosen. */

import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import type { Report, SeedStatistics } from "../../measure/report.js";
import { mean, standardDeviation } from "../../measure/statistics.js";
import { simulate } from "../../sim/simulate.js";
import type { ElasticPoint, ElasticResult } from "../point.js";

/** @param choice of the point, checked. */
export function runElastic(
  scenario: ExpandedScenario,
  choice: { readonly policy: string; readonly policyOptions: Readonly<Record<string, unknown>> },
  { seeds }: ElasticPoint,
): ElasticResult {
  const reports = seeds.map((seed) => simulate(scenario, { ...choice, seed }));
  const over = (value: (report: Report) => number): SeedStatistics => ({
    mean: mean(reports.map(value)),
    sd: standardDeviation(reports.map(value)),
  });
  const part = (type: "right" | "wrong" | "late" | "evicted") =>
    over(({ answers, arrived, cancelled }) => answers![type] / Math.max(1, arrived - cancelled));
  return {
    offered: over(({ utility }) => utility!.offered),
    earned: over(({ utility }) => utility!.earned),
    right: part("right"),
    wrong: part("wrong"),
    late: part("late"),
    evicted: part("evicted"),
    accuracy: over(({ answers }) => answers!.accuracy ?? 0),
    batches_by: batchesBy(reports),
  };
}

function batchesBy(reports: readonly Report[]): Record<string, number> {
  const counts: Record<string, number> = {};
  let total = 0;
  for (const { by_variant: uses = {} } of reports)
    for (const [name, { batches }] of Object.entries(uses)) {
      counts[name] = (counts[name] ?? 0) + batches;
      total += batches;
    }
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / Math.max(1, total)]));
}
