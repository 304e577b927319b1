/** What do OTAS, its parts and what is put in their place earn? Simulated, on the paper's machine and load and at 1.5 times as many requests. */

import type { Report } from "../../measure/report.js";
import { mean, tInterval95 } from "../../measure/statistics.js";
import { ceilingPart } from "../../reproduce/otas/query-types.js";
import { type RateSource, sourcesOf } from "../../reproduce/otas/rates.js";
import { scenarioOf } from "../../reproduce/otas/scenario.js";
import { FIXED, QUEUE } from "../../reproduce/otas/systems.js";
import type { Choice } from "../../reproduce/point.js";
import { scenarioOf as expanded } from "../../reproduce/run-point.js";
import { simulate } from "../../sim/simulate.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";

const SEEDS = [1, 2, 3, 4, 5];
const SECONDS = 60;
const SCALES = [1, 1.5];

const otas = (options: Choice["options"] = {}): Choice => ({ policy: "otas", options });
const plus = (options: Choice["options"] = {}): Choice => ({ policy: "otas+", options });
const ALWAYS = { beta: 0, initial_s: 0 };
const FRONTIER = { ...ALWAYS, allocator: "frontier" };
const PRICED = { price: "demand" };
const ALIKE = { mu: 0.25 };

/** The first is compared with. Where there are several settings the best by hindsight counts. */
const CONTENDERS: readonly [name: string, settings: readonly Choice[]][] = [
  ["otas", [otas()]],
  ["otas, f as in Table I", [otas({ rate_rule: "table" })]],
  ["best fixed gamma", FIXED.settings.map(({ choice }) => choice)],
  ["best gamma by queue", QUEUE.settings.map(({ choice }) => choice)],
  ["Algorithm 2 alone", [otas(ALWAYS)]],
  ["frontier alone", [otas(FRONTIER)]],
  ["Algorithm 2 alone, priced", [otas({ ...ALWAYS, ...PRICED })]],
  ["frontier alone, priced", [otas({ ...FRONTIER, ...PRICED })]],
  ["frontier alone, mu 0.25", [otas({ ...FRONTIER, ...ALIKE })]],
  ["frontier alone, mu 0.25, priced", [otas({ ...FRONTIER, ...ALIKE, ...PRICED })]],
  ["otas+, all together", [plus({ wanted_share: 1 })]],
  ["otas+, not priced", [plus({ price: "none" })]],
  ["otas+, Algorithm 2", [plus({ allocator: "token-adaptation" })]],
  ["otas+, deferred", [plus({ dispatch: "deferred" })]],
  ["otas+, recent accuracy", [plus({ accuracy: "recent" })]],
  ["otas+", [plus()]],
];

/** @param size Relative to 60 s by five seeds. */
export function earnings(size: number, onProgress: (text: string) => void): BenchResult[] {
  const seconds = Math.max(3, Math.round(SECONDS * size));
  return sourcesOf(undefined).flatMap((source) =>
    SCALES.flatMap((scale) => {
      const called = `otas ${source.name} x ${scale}`;
      const results = ofLoad(called, source, seconds, scale);
      onProgress(`${called}\n`);
      return results;
    }),
  );
}

function ofLoad(called: string, source: RateSource, seconds: number, scale: number): BenchResult[] {
  const rates = source.rates(seconds).map((rate) => rate * scale);
  const scenario = expanded(scenarioOf(source.name, rates));
  const run = ({ policy, options: policyOptions = {} }: Choice): Report[] =>
    SEEDS.map((seed) => simulate(scenario, { policy, policyOptions, seed }));
  const base = run(CONTENDERS[0]![1][0]!);
  return CONTENDERS.map(([name, settings]) => {
    const runs = settings.map((choice) => ({ choice, reports: run(choice) }));
    const best = runs.reduce((most, each) => (earnedOf(each.reports) > earnedOf(most.reports) ? each : most));
    const note = settings.length === 1 ? "" : `${JSON.stringify(best.choice.options)}; `;
    return resultOf(`${called}, ${name}`, best.reports, base, note);
  });
}

/** Of the ceiling: every request in time by the gamma that is best for it. */
const shareOf = ({ utility }: Report): number => utility!.earned / (ceilingPart() * utility!.offered);
const earnedOf = (reports: readonly Report[]): number => mean(reports.map(shareOf));

function resultOf(name: string, reports: readonly Report[], base: readonly Report[], note: string): BenchResult {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const over = reports.map((report, seed) => shareOf(report) / shareOf(base[seed]!) - 1);
  const gain = tInterval95(over);
  const right = mean(reports.map(({ answers, arrived }) => answers!.right / arrived));
  const inTime = mean(reports.map(({ answers, arrived }) => (answers!.right + answers!.wrong) / arrived));
  return {
    name,
    value: 100 * earnedOf(reports),
    unit: "% of the ceiling",
    detail:
      `${note}over otas ${percent(gain.mean)} [${percent(gain.low)}, ${percent(gain.high)}], least ${percent(Math.min(...over))}; in time ` +
      `${percent(inTime)}, and right ${percent(right)}; batches of ${mean(reports.map(({ batch_size }) => batch_size.mean ?? 0)).toFixed(1)}`,
    digest: digestOf(reports.map((report) => shareOf(report).toFixed(9))),
    figures: { over_otas: gain.mean, over_otas_low: gain.low, in_time: inTime, right },
  };
}
