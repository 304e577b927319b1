/** A run of elastic models: what was earned, how queries ended, which work was chosen. */

import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import type { Report, SeedStatistics } from "../../measure/report.js";
import { mean, standardDeviation } from "../../measure/statistics.js";
import type { ElasticPoint, ElasticResult } from "../point.js";
import { ElasticSimulation } from "./elastic-simulation.js";

/** @param choice of the point, checked. */
export function runElastic(
  scenario: ExpandedScenario,
  choice: { readonly policy: string; readonly policyOptions: Readonly<Record<string, unknown>> },
  { seeds, steps }: ElasticPoint,
): ElasticResult {
  const byRight = new Float64Array(steps + 1);
  const reports = seeds.map((seed) => {
    const { policy, policyOptions: options } = choice;
    const simulation = new ElasticSimulation(scenario, { policy, options }, seed, steps);
    simulation.run();
    for (let step = 0; step <= steps; step++) byRight[step]! += simulation.batchesByRight[step]!;
    return simulation.report(seed);
  });
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
    batches_up_to: cumulated(byRight),
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

function cumulated(counts: Float64Array): number[] {
  let sum = 0;
  const total = Math.max(
    1,
    counts.reduce((all, count) => all + count, 0),
  );
  return Array.from(counts, (count) => {
    sum += count;
    return sum / total;
  });
}
