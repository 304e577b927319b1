/**
 * Requests of two apps whose lengths differ, on real models: policies that know distributions against the default, eager, timeouts and
 * a model of its own for each app. Pairs of runs one after the other on the same arrivals, over five loads; every finished case is
 * kept. Not for: machines that do anything else meanwhile.
 */
import path from "node:path";
import type { Prediction } from "../../measure/prediction.js";
import { mean, tInterval95 } from "../../measure/statistics.js";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import { predictionFigure } from "../../reproduce/prediction-figure.js";
import { writeFigure } from "../../reproduce/write-figure.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { BenchResult } from "../bench-result.js";
import { type CasePlan, digestOf, KeptCases, type MeasuredCase } from "../default/kept-cases.js";
import { seedOf } from "../default/live-default.js";
import {
  bestOf,
  type Contender,
  DEFAULT,
  EAGER,
  inTurn,
  isComparable,
  type PairedRun,
  runPairs,
  TIMEOUT_FRACTIONS,
  timeoutsOf,
} from "../default/paired-runs.js";
import { appContenders, BY_APP, OF_APPS } from "./app-contenders.js";
import { APP_LOADS, type AppsSetting, appsSettings } from "./apps-settings.js";
import { benchDrift } from "./drift.js";
import { benchProfilerCost } from "./profiler-cost.js";
import { type ServedApps, serveApps } from "./served-apps.js";

export interface AppsBenchOptions {
  readonly size: number;
  /** Offered, relative to the capacity; undefined: APP_LOADS. */
  readonly loads?: readonly number[] | undefined;
  readonly figuresDir?: string | null;
  /** Where finished cases are kept; null: nowhere. */
  readonly outDir?: string | null;
  /** An app's requests become twice as long, in place of the comparison. */
  readonly drift?: boolean;
  /** What the online profiler costs those who are served, in place of the comparison. */
  readonly profiler?: boolean;
  readonly onProgress: (text: string) => void;
}

const PAIRS = 5;
const SWEEP_PAIRS = 2;
const SPARE_PAIRS = 2;
const REPEATS_MAX = 2;
const REQUESTS = 600;
const LONGEST_S = 15;
const SHORTEST_S = 4;
/** Rates are averaged over a second. */
const WARMUP_S = 2;
const PROFILE_S = 20;
const CAPACITY_S = 8;
const TINY = 0.05;

interface AppsCase extends MeasuredCase {
  /** By contender, of all runs of the case's server until then. */
  readonly predictions: Readonly<Record<string, Prediction>>;
}

interface Reported {
  readonly plan: CasePlan;
  readonly measured: AppsCase;
}

export async function benchApps(options: AppsBenchOptions): Promise<BenchResult[]> {
  const { size, onProgress, outDir } = options;
  const serving = {
    profileS: size < TINY ? 3 : Math.max(5, PROFILE_S * Math.min(1, size)),
    capacityS: size < TINY ? 1 : CAPACITY_S,
    note: onProgress,
  };
  const settings = size < TINY ? appsSettings().slice(0, 1) : appsSettings();
  if (options.drift === true) return benchDrift(settings, { ...serving, size, figuresDir: options.figuresDir ?? null });
  if (options.profiler === true) return benchProfilerCost(settings[0]!, { ...serving, size });
  const kept = new KeptCases<AppsCase>(outDir == null ? null : path.join(outDir, "apps"));
  const loads = size < TINY ? APP_LOADS.slice(2, 3) : (options.loads ?? APP_LOADS);
  const reports: Reported[] = [];
  for (const setting of settings) {
    const plans = loads.map((load) => planOf(setting, load, size));
    if (plans.some((plan) => kept.get(plan) === null)) {
      const timeouts = plans[0]!.timeouts;
      const served = await serveApps(setting, { ...serving, contenders: appContenders(timeouts) });
      try {
        const capacityRps = await served.capacityRps();
        for (const plan of plans) {
          if (kept.get(plan) !== null) continue;
          const measured = await measureCase(served, capacityRps, plan);
          kept.put(plan, measured);
          reports.push({ plan, measured });
          const { detail } = resultOf({ plan, measured });
          onProgress(`${plan.setting} at ${plan.load}: ${detail}`);
        }
      } finally {
        await served.stop();
      }
    }
    const made = new Set(reports.map(({ plan }) => digestOf(plan)));
    for (const plan of plans) if (!made.has(digestOf(plan))) reports.push({ plan, measured: kept.get(plan)! });
  }
  const results = reports.map(resultOf);
  await writeFigure(options.figuresDir, finishFigure(reports));
  const predictions = predictionsOf(reports);
  if (Object.keys(predictions).length > 0)
    await writeFigure(options.figuresDir, predictionFigure("Expected and taken, live", predictions));
  return [...results, ...Object.entries(predictions).map(([name, prediction]) => predictionResult(name, prediction))];
}

function planOf({ name }: AppsSetting, load: number, size: number): CasePlan {
  const isTiny = size < TINY;
  return {
    setting: `apps ${name}`,
    load,
    policy: OF_APPS.map((each) => each.name).join(),
    requests: Math.round(REQUESTS * Math.min(1, Math.max(0.1, size))),
    pairs: isTiny ? 1 : PAIRS,
    sparePairs: isTiny ? 0 : SPARE_PAIRS,
    pairsPerRun: 1,
    sweepPairs: isTiny ? 1 : SWEEP_PAIRS,
    timeouts: isTiny ? TIMEOUT_FRACTIONS.slice(0, 1) : TIMEOUT_FRACTIONS,
    hasControl: false,
    repeatsMax: isTiny ? 0 : REPEATS_MAX,
    shortestS: isTiny ? 1 : SHORTEST_S,
    longestS: isTiny ? 1 : LONGEST_S,
  };
}

async function measureCase(served: ServedApps, capacityRps: number, plan: CasePlan): Promise<AppsCase> {
  const fromUs = monotonicNow();
  const rps = plan.load * capacityRps;
  const countedS = Math.max(plan.shortestS, Math.min(plan.requests / rps, plan.longestS));
  const warmupS = Math.min(WARMUP_S, plan.shortestS / 2);
  const one = (contender: Contender, pair: number) =>
    served.run(contender, { rps, seed: seedOf(plan, pair), warmupS, countedS, partS: countedS });
  const runs = await runPairs(
    plan,
    inTurn(plan, async (contenders, pairs) => [[(await one(contenders[0]!, pairs[0]!))[0]!]]),
    OF_APPS,
  );
  const predictions: Record<string, Prediction> = {};
  for (const contender of [DEFAULT, ...OF_APPS]) {
    const prediction = await served.prediction(contender);
    if (prediction !== null) predictions[contender.name] = prediction;
  }
  return {
    capacity_rps: capacityRps,
    offered_rps: rps,
    slo_ms: { [plan.setting]: served.sloMs },
    beta_over_alpha: served.betaOverAlpha,
    most_in_time: null,
    warmup_s: warmupS,
    counted_s: countedS,
    runs,
    predictions,
    wall_s: Math.round((monotonicNow() - fromUs) / 1e5) / 10,
  };
}

/** Finish rates of one contender over comparable pairs. */
function ratesOf(runs: readonly PairedRun[], name: string): number[] {
  return pairsOf(runs).flatMap((pair) => {
    const own = pair.find(({ contender }) => contender === name);
    return own === undefined || own.arrived === 0 ? [] : [own.in_time / own.arrived];
  });
}

const pairsOf = (runs: readonly PairedRun[]): PairedRun[][] =>
  [...new Set(runs.map(({ pair }) => pair))]
    .map((pair) => runs.filter((run) => run.pair === pair))
    .filter(isComparable);

/** Of one's finish rate less the other's, over pairs in which both ran. */
function differencesOf(runs: readonly PairedRun[], one: string, other: string): number[] {
  return pairsOf(runs).flatMap((pair) => {
    const [own, against] = [one, other].map((name) => pair.find(({ contender }) => contender === name));
    if (own === undefined || against === undefined || own.arrived === 0) return [];
    return [(own.in_time - against.in_time) / own.arrived];
  });
}

const comparedOf = ({ plan, measured }: Reported): string[] => [
  ...OF_APPS.map(({ name }) => name),
  DEFAULT.name,
  EAGER.name,
  bestOf(timeoutsOf(plan.timeouts), measured.runs).name,
];

function resultOf(reported: Reported): BenchResult {
  const { plan, measured } = reported;
  const { runs } = measured;
  const figures: Record<string, number> = { load: plan.load, offered_rps: measured.offered_rps };
  const voids = [...new Set(runs.flatMap(({ void_reason }) => void_reason ?? []))].map((reason) => `void: ${reason}`);
  const name = `${plan.setting} at ${plan.load}`;
  if (pairsOf(runs).length === 0)
    return { name, value: Number.NaN, unit: "in time", detail: voids.join("; "), digest: digestOf(plan), figures };
  const texts = comparedOf(reported).map((name) => {
    const rates = ratesOf(runs, name);
    figures[`${name}_finish`] = mean(rates);
    const rate = `${name} ${percent(mean(rates))}`;
    if (name === BY_APP.name) return rate;
    const differences = differencesOf(runs, BY_APP.name, name);
    if (differences.length < 2) return rate;
    const { low, high } = tInterval95(differences);
    return `${rate} (${BY_APP.name} ${points(mean(differences))} [${points(low)}, ${points(high)}])`;
  });
  return {
    name,
    value: figures[`${BY_APP.name}_finish`]!,
    unit: "in time",
    detail: [
      texts.join(", "),
      `${pairsOf(runs).length} pairs at ${measured.offered_rps.toFixed(0)} r/s`,
      ...voids,
    ].join("; "),
    digest: digestOf(plan),
    figures,
  };
}

const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;
const points = (part: number): string => `${part < 0 ? "" : "+"}${(100 * part).toFixed(1)}`;

/** Of the last case of each setting: its server had served all before. */
function predictionsOf(reports: readonly Reported[]): Record<string, Prediction> {
  const last = new Map(reports.map(({ plan, measured }) => [plan.setting, measured]));
  return Object.fromEntries(
    [...last].flatMap(([setting, { predictions }]) =>
      Object.entries(predictions).map(([name, prediction]) => [`${setting}, ${name}`, prediction]),
    ),
  );
}

export const predictionResult = (name: string, prediction: Prediction): BenchResult => ({
  name: `prediction ${name}`,
  value: prediction.within_90,
  unit: "within 90 %",
  detail:
    `of ${prediction.batches} batches; below ${percent(prediction.below_90)}, above ${percent(prediction.above_90)}; ` +
    `at most the 90 % quantile ${percent(prediction.at_most["0.9"]!)}; mean ${prediction.mean_ratio.toFixed(3)} of planned`,
  digest: "-",
});

function finishFigure(reports: readonly Reported[]): Figure {
  const panels = [...new Set(reports.map(({ plan }) => plan.setting))];
  const names = [...OF_APPS.map(({ name }) => name), DEFAULT.name, EAGER.name, "timeout"];
  const rows = reports.flatMap((reported) =>
    comparedOf(reported).flatMap((name): LineRow[] => {
      const rates = ratesOf(reported.measured.runs, name);
      if (rates.length === 0) return [];
      const { low, high } = rates.length < 2 ? { low: null, high: null } : tInterval95(rates);
      const series = names.includes(name) ? name : "timeout";
      return [{ x: reported.plan.load, y: mean(rates), low, high, series, panel: reported.plan.setting }];
    }),
  );
  return {
    id: "apps-live",
    title: "Two apps of unlike lengths, live",
    caption:
      "Requests in time over offered load; bars: 95 % intervals of the mean over pairs. timeout: the best of some.",
    kind: "lines",
    panels,
    x: { title: "offered load", unit: "of the capacity" },
    y: { title: "in time", percent: true },
    series: names.map((name) => ({ name })),
    rows,
  };
}
