/** Runs one point: a function of the point alone, except for what is measured by the clock (plan, core). */

import { fluidBoundRps } from "../capacity/bounds.js";
import { timeCoreRun } from "../capacity/core-throughput.js";
import { gatheringBoundRps, leastBusy, leastUtilization } from "../capacity/gathering.js";
import { type PeakGoodput, peakGoodput } from "../capacity/goodput.js";
import { finishBound } from "../capacity/in-time/in-time.js";
import { pipelineBounds } from "../capacity/in-time/pipeline-in-time.js";
import { finishBoundPriced } from "../capacity/priced/in-time-priced.js";
import { type RoughPeak, roughPeak } from "../capacity/rough-peak.js";
import { staggeredCapacityRps } from "../capacity/scenario-goodput.js";
import { knowingTimes, runKnowing } from "../capacity/times-known.js";
import { mergePolicyOptions, resolvePolicy } from "../config/policy-options.js";
import {
  type ExpandedScenario,
  expandScenario,
  scenarioFrom,
  totalRate,
  withRate,
} from "../config/scenario/scenario.js";
import { sourceOf } from "../config/source.js";
import type { CollectorSnapshot } from "../measure/collector.js";
import { Histogram } from "../measure/histogram.js";
import { combineReports, type Report, type SeedStatistics } from "../measure/report.js";
import { mean, standardDeviation, tInterval95 } from "../measure/statistics.js";
import { comparePlans } from "../planning/comparison/compare-plans.js";
import type { PlanMeasure } from "../planning/measure.js";
import { stream } from "../sim/random.js";
import { simulate, simulateBadRates, simulateOutcomes } from "../sim/simulate.js";
import { Series, Timeline } from "./observed-simulation.js";
import { runElastic } from "./otas/elastic-run.js";
import { PipelineRun } from "./pipeline-run.js";
import type {
  AcceleratorsPoint,
  AcceleratorsResult,
  BoundPoint,
  BoundResult,
  Choice,
  Estimate,
  InTimePoint,
  InTimeResult,
  LoadResult,
  PeakPoint,
  PeakResult,
  PipelinePoint,
  PipelineResult,
  PlanImbalance,
  PlanPoint,
  PlanResult,
  Point,
  PointResult,
  ScenarioFields,
  SeriesPoint,
  SeriesResult,
  SweepPoint,
  SweepResult,
  TimelinePoint,
  TimelineResult,
  TimesKnownPoint,
} from "./point.js";

/** Of the capacity that staggered execution would have: where a search begins. */
const START = 0.85;
/** Highest bad rate of any model that still counts as served. */
const BAD_RATE_MAX = 0.01;

/** @throws ConfigError if the scenario or the choice is not valid. */
export async function runPoint(point: Point): Promise<PointResult> {
  switch (point.kind) {
    case "peak":
      return runPeak(point);
    case "sweep":
      return runSweep(point);
    case "bound":
      return runBound(point);
    case "in-time":
      return runInTime(point);
    case "times-known":
      return runTimesKnown(point);
    case "accelerators":
      return runAccelerators(point);
    case "timeline":
      return runTimeline(point);
    case "series":
      return runSeries(point);
    case "pipeline":
      return runPipeline(point);
    case "elastic":
      return runElastic(scenarioOf(point.scenario), choiceOf(point.choice), point);
    case "plan":
      return runPlan(point);
    case "core":
      return {
        arrivals_per_cpu_s: point.requests / timeCoreRun(point.models, point.accelerators, point.requests).cpuS,
      };
  }
}

export function scenarioOf(fields: ScenarioFields): ExpandedScenario {
  const source = sourceOf(fields, String(fields.name ?? "experiment"));
  return expandScenario(scenarioFrom(source), {}, source);
}

function choiceOf(choice: Choice): { policy: string; policyOptions: Readonly<Record<string, unknown>> } {
  return resolvePolicy(choice.policy, mergePolicyOptions({}, choice.options), "experiment");
}

function runPeak(point: PeakPoint): PeakResult {
  const scenario = scenarioOf(point.scenario);
  if (point.is_rough === true) return runRoughPeak(scenario, point);
  const peak = searchPeak(scenario, point);
  const rateRps = Math.max(peak.peak_goodput_rps, staggeredCapacityRps(scenario) / 1024);
  const choice = choiceOf(point.choice);
  const runs = point.seeds.map((seed) => simulateOutcomes(withRate(scenario, rateRps), { ...choice, seed }));
  return {
    peak_rps: peakEstimate(peak),
    found: peak.found,
    worst_model: scenario.models[peak.worst_model]!.name,
    runs: peak.runs + runs.length,
    at_peak: loadOf(
      rateRps,
      runs.map(({ report }) => report),
    ),
    requests_by_batch: point.details ? requestsByBatch(runs.map(({ outcomes }) => outcomes)) : null,
    queue_delay_ms: point.details ? queueDelays(runs.map(({ outcomes }) => outcomes)) : null,
  };
}

function searchRoughly(scenario: ExpandedScenario, point: PeakPoint | SweepPoint): RoughPeak {
  const choice = choiceOf(point.choice);
  return roughPeak((rateRps, seed) => simulateBadRates(withRate(scenario, rateRps), { ...choice, seed }), {
    seeds: point.seeds,
    startRps: START * staggeredCapacityRps(scenario),
    tolerance: point.tolerance,
    badRateMax: BAD_RATE_MAX,
  });
}

function runRoughPeak(scenario: ExpandedScenario, point: PeakPoint): PeakResult {
  const { peakRps, worstModel, runs, found } = searchRoughly(scenario, point);
  return {
    peak_rps: { mean: peakRps, low: null, high: null },
    found,
    worst_model: scenario.models[worstModel]!.name,
    runs,
    at_peak: null,
    requests_by_batch: null,
    queue_delay_ms: null,
  };
}

function searchPeak(scenario: ExpandedScenario, point: PeakPoint | SweepPoint): PeakGoodput {
  const choice = choiceOf(point.choice);
  return peakGoodput((rateRps, seed) => simulateBadRates(withRate(scenario, rateRps), { ...choice, seed }), {
    seeds: point.seeds,
    startRps: START * staggeredCapacityRps(scenario),
    tolerance: point.tolerance,
    badRateMax: BAD_RATE_MAX,
  });
}

const peakEstimate = (peak: PeakGoodput): Estimate => ({
  mean: peak.peak_goodput_rps,
  low: peak.low_rps,
  high: peak.high_rps,
});

function loadOf(offeredRps: number, reports: readonly Report[]): LoadResult {
  const combined = combineReports(reports);
  const models = Object.values(combined.per_model);
  return {
    offered_rps: offeredRps,
    goodput_rps: estimate(reports.map(({ goodput_rps }) => goodput_rps)),
    finish_rate: combined.stats?.finish_rate ?? { mean: combined.finish_rate, sd: 0 },
    bad_rate: combined.bad_rate,
    worst_bad_rate: Math.max(...models.map(({ bad_rate }) => bad_rate)),
    utilization: combined.utilization,
    batch_mean: combined.batch_size.mean,
  };
}

function estimate(values: readonly number[]): Estimate {
  if (values.length === 1) return { mean: values[0]!, low: null, high: null };
  return tInterval95(values);
}

function requestsByBatch(outcomes: readonly CollectorSnapshot[]): number[] {
  const sizes = merged(outcomes.flatMap(({ batchSize }) => batchSize));
  const requests: number[] = [0];
  let total = 0;
  for (let size = 1; size <= (sizes.max ?? 0); size++) {
    const batches = sizes.countAtMost(size) - sizes.countAtMost(size - 1);
    requests.push(batches * size);
    total += batches * size;
  }
  return requests.map((count) => (total === 0 ? 0 : count / total));
}

function queueDelays(outcomes: readonly CollectorSnapshot[]): number[] | null {
  const delays = merged(outcomes.flatMap(({ queueDelay }) => queueDelay));
  if (delays.count === 0) return null;
  return Array.from({ length: 101 }, (_, percent) => (delays.quantile(percent / 100) ?? 0) / 1000);
}

function merged(parts: CollectorSnapshot["batchSize"]): Histogram {
  const all = new Histogram();
  for (const part of parts) all.merge(Histogram.fromJSON(part));
  return all;
}

function runSweep(point: SweepPoint): SweepResult {
  const scenario = scenarioOf(point.scenario);
  const choice = choiceOf(point.choice);
  const peak = point.of_peak === undefined ? null : sweepPeak(scenario, point);
  const rates = [...(point.rates_rps ?? []), ...(peak === null ? [] : point.of_peak!.map((part) => part * peak.mean))];
  return {
    peak_rps: peak,
    loads: rates.map((rateRps) => {
      const atRate = withRate(scenario, rateRps);
      const load = loadOf(
        rateRps,
        point.seeds.map((seed) => simulate(atRate, { ...choice, seed })),
      );
      if (point.with_least !== true) return load;
      return { ...load, least_utilization: leastUtilization(atRate, { seed: point.seeds[0]! }) };
    }),
  };
}

function runBound({ scenario: fields, seed }: BoundPoint): BoundResult {
  const scenario = scenarioOf(fields);
  const fluid = fluidBoundRps(scenario);
  return {
    fluid_rps: fluid,
    gathering_rps: gatheringBoundRps(scenario, fluid, { seed }),
    least_busy: leastBusy(scenario, { seed }),
  };
}

function runInTime({ scenario: fields, batches, seeds, rates_rps: ratesRps }: InTimePoint): InTimeResult {
  const scenario = scenarioOf(fields);
  const boundOf = batches === "whole" ? finishBoundPriced : finishBound;
  return finishRates(ratesRps, seeds, (rateRps, seed) => boundOf(scenario, rateRps, seed));
}

function runTimesKnown({ scenario: fields, choice, seeds, rates_rps: ratesRps }: TimesKnownPoint): InTimeResult {
  const scenario = scenarioOf(fields);
  const { policy: name, policyOptions } = choiceOf(choice);
  const known = knowingTimes({ name, options: policyOptions });
  return finishRates(ratesRps, seeds, (rateRps, seed) => runKnowing(scenario, rateRps, seed, known).finish_rate);
}

function finishRates(
  ratesRps: readonly number[],
  seeds: readonly number[],
  finishRate: (rateRps: number, seed: number) => number,
): InTimeResult {
  return {
    finish_rates: ratesRps.map((rateRps) => overSeeds(seeds.map((seed) => finishRate(rateRps, seed)))),
  };
}

const overSeeds = (values: readonly number[]): SeedStatistics => ({
  mean: mean(values),
  sd: standardDeviation(values),
});

function sweepPeak(scenario: ExpandedScenario, point: SweepPoint): Estimate {
  if (point.is_rough === true) {
    // Some rate must stand for the peak, also where none is low enough.
    const { peakRps } = searchRoughly(scenario, point);
    return { mean: Math.max(peakRps, staggeredCapacityRps(scenario) / 1024), low: null, high: null };
  }
  return peakEstimate(searchPeak(scenario, point));
}

/** Doubles, then bisects: more accelerators are taken to serve no less. */
function runAccelerators(point: AcceleratorsPoint): AcceleratorsResult {
  const choice = choiceOf(point.choice);
  const tried = new Map<number, number>();
  const serves = (accelerators: number): boolean => {
    let worst = tried.get(accelerators);
    if (worst === undefined) {
      const scenario = withRate(scenarioOf({ ...point.scenario, accelerators }), point.rate_rps);
      worst = loadOf(
        point.rate_rps,
        point.seeds.map((seed) => simulate(scenario, { ...choice, seed })),
      ).worst_bad_rate;
      tried.set(accelerators, worst);
    }
    return worst <= BAD_RATE_MAX;
  };
  let high = 1;
  while (high < point.accelerators_max && !serves(high)) high = Math.min(high * 2, point.accelerators_max);
  const isServed = serves(high);
  if (isServed) {
    let low = 0;
    for (const [accelerators, worst] of tried) if (worst > BAD_RATE_MAX) low = Math.max(low, accelerators);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (serves(middle)) high = middle;
      else low = middle;
    }
  }
  return {
    accelerators: isServed ? high : null,
    tried: [...tried]
      .sort(([a], [b]) => a - b)
      .map(([accelerators, worst]) => ({ accelerators, worst_bad_rate: worst })),
  };
}

function runTimeline(point: TimelinePoint): TimelineResult {
  const timeline = new Timeline(scenarioOf(point.scenario), choiceChecked(point.choice), point.seeds[0]!);
  timeline.run();
  return timeline.result();
}

function runSeries(point: SeriesPoint): SeriesResult {
  const scenario = scenarioOf(point.scenario);
  const seed = point.seeds[0]!;
  const series = new Series(scenario, choiceChecked(point.choice), seed, point.every_s);
  series.run();
  const report = series.report(seed);
  return {
    ...series.series(),
    advice: (report.autoscale?.decisions ?? []).map(({ at_s, needed, advice }) => ({ at_s, needed, advice })),
    changes_of_direction: report.autoscale?.changes_of_direction ?? 0,
    load: loadOf(totalRate(scenario), [report]),
  };
}

function choiceChecked(choice: Choice): Choice {
  const { policy, policyOptions } = choiceOf(choice);
  return { policy, options: policyOptions };
}

function runPipeline(point: PipelinePoint): PipelineResult {
  const scenario = scenarioOf(point.scenario);
  const { policy, options: policyOptions } = choiceChecked(point.choice);
  const reports: Report[] = [];
  // Events slow a run down: only the first seed's are listened to, and only where a figure needs them.
  const first = point.details.some((detail) => detail !== "bound") ? new PipelineRun(scenario) : null;
  for (const [index, seed] of point.seeds.entries()) {
    const listens = index === 0 && first !== null ? { onEvent: first.tell } : {};
    reports.push(simulate(scenario, { policy, policyOptions, seed, ...listens }));
  }
  const statistics = (value: (report: Report) => number) => overSeeds(reports.map(value));
  const bounds = point.details.includes("bound") ? point.seeds.map((seed) => pipelineBounds(scenario, seed)) : [];
  return {
    ...(bounds.length > 0
      ? {
          bound: overSeeds(bounds.map(({ any }) => 1 - any)),
          keep_up_bound: overSeeds(bounds.map(({ keepUp }) => 1 - keepUp)),
        }
      : {}),
    drop_rate: statistics(({ bad_rate }) => bad_rate),
    invalid_rate: statistics((report) => invalidRate(scenario, report, point.spent_in)),
    goodput_rps: statistics(({ goodput_rps }) => goodput_rps),
    lost_in: lostIn(scenario, combineReports(reports)),
    ...first?.details(point.details),
  };
}

/** @param modules whose accelerator time counts; undefined: all. */
function invalidRate({ pipelines }: ExpandedScenario, report: Report, modules: PipelinePoint["spent_in"]): number {
  if (modules === undefined) return report.invalid_rate;
  const rows = modules.map((module) => report.per_module[`${pipelines![0]!.name}/${module}`]!);
  const spent = rows.reduce((sum, { utilization }) => sum + utilization, 0);
  const invalid = rows.reduce((sum, { invalid_rate: rate, utilization }) => sum + rate * utilization, 0);
  return spent === 0 ? 0 : invalid / spent;
}

/** Who was called off because of another is lost where that one was. */
function lostIn({ pipelines }: ExpandedScenario, { per_module: rows }: Report): PipelineResult["lost_in"] {
  const { name, modules } = pipelines![0]!;
  const lost = modules.map((module) => {
    const { dropped, cancelled, late, failed } = rows[`${name}/${module.name}`]!;
    return dropped - cancelled + late + failed;
  });
  const all = lost.reduce((sum, count) => sum + count, 0);
  return modules.map((module, index) => ({ module: module.name, share: all === 0 ? 0 : lost[index]! / all }));
}

async function runPlan(point: PlanPoint): Promise<PlanResult> {
  const { plan, greedy, random, randomDrawn } = await comparePlans(point.seed, point.time_limit_ms, stream);
  return {
    plan: imbalance(plan),
    greedy: imbalance(greedy),
    random: random === null ? null : imbalance(random),
    random_drawn: randomDrawn,
  };
}

const imbalance = ({ loadImbalance, memoryImbalance, objective }: PlanMeasure): PlanImbalance => ({
  load: loadImbalance,
  memory: memoryImbalance,
  objective,
});
