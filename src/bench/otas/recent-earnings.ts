/** What does it earn to go by the accuracy of late, where tasks become harder (scenarios/otas/drift.yaml)? Simulated. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { expandScenario } from "../../config/scenario/expand-scenario.js";
import { scenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import type { Report } from "../../measure/report.js";
import { mean, tInterval95 } from "../../measure/statistics.js";
import { type SimulateOptions, simulate } from "../../sim/simulate.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";

const SEEDS = [1, 2, 3, 4, 5];
const FILE = path.join(import.meta.dirname, "..", "..", "..", "scenarios", "otas", "drift.yaml");

/** The first is compared with. */
const CONTENDERS: readonly [name: string, options: SimulateOptions][] = [
  ["profiled", { policyOptions: { accuracy: "profiled" } }],
  ["recent", { policyOptions: { accuracy: "recent" } }],
  ["told the truth", { policyOptions: { accuracy: "recent" }, tellsTruth: true }],
];

/** @param size Relative to 120 s by five seeds: all times of the scenario are as much shorter. */
export function recentEarnings(size: number): BenchResult[] {
  const scenario = expandScenario(scenarioFrom(sourceOf(shortened(parse(readFileSync(FILE, "utf8")), size), FILE)));
  const runs = CONTENDERS.map(([, options]) =>
    SEEDS.map((seed) => simulate(scenario, { policy: "otas+", ...options, seed })),
  );
  return CONTENDERS.map(([name], index) => {
    const shares = runs[index]!.map(shareOf);
    const gain = tInterval95(shares.map((share, seed) => share / shareOf(runs[0]![seed]!) - 1));
    const percent = (part: number): string => `${(100 * part).toFixed(2)} %`;
    return {
      name: `otas drift, ${name}`,
      value: 100 * mean(shares),
      unit: "% of the offered",
      detail: `over profiled ${percent(gain.mean)} [${percent(gain.low)}, ${percent(gain.high)}]`,
      digest: digestOf(shares.map((share) => share.toFixed(9))),
      figures: { over_profiled: gain.mean, over_profiled_low: gain.low },
    };
  });
}

const shareOf = ({ utility }: Report): number => utility!.earned / utility!.offered;

/** Every second of it is `size` seconds. */
function shortened(value: unknown, size: number): unknown {
  if (Array.isArray(value)) return value.map((each) => shortened(each, size));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key,
      key.endsWith("_s") ? (each as number) * size : shortened(each, size),
    ]),
  );
}
