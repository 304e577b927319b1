/**
 * How much better than Symphony's `deferred` is `deferred+`, and how much better could anything be?
 *
 * Peak goodput (every model at most 1 % bad, Poisson unless said, no network delay) of deferred, deferred+, the best fixed
 * target of a sweep (the "fixed window"), eager with the better of two drop rules, and the bounds of capacity/bounds.ts.
 * Nothing of deferred+ is set per case. Not a measure of speed; the figures do not depend on the machine.
 */
import { createHash } from "node:crypto";
import { clairvoyantPeakRps, fluidBoundRps } from "../capacity/bounds.js";
import { gatheringBoundRps } from "../capacity/gathering.js";
import { type PeakGoodput, peakGoodput } from "../capacity/goodput.js";
import { roughPeak } from "../capacity/rough-peak.js";
import { staggeredCapacityRps } from "../capacity/scenario-goodput.js";
import { type ExpandedScenario, expandScenario, scenarioFrom, withRate } from "../config/scenario/scenario.js";
import { sourceOf } from "../config/source.js";
import { tInterval95 } from "../measure/statistics.js";
import { fieldsOf, nameOf, sampleCases } from "../reproduce/symphony/fig7/fig7-cases.js";
import { stream } from "../sim/random.js";
import { simulateBadRates } from "../sim/simulate.js";
import type { BenchResult } from "./bench-result.js";
import type { BenchOptions } from "./benches.js";

type Options = Readonly<Record<string, unknown>>;
type Fields = Readonly<Record<string, unknown>>;

/** Parts of deferred+, each switched to what deferred does (or, where it is off by default, on). */
export const ABLATION: readonly (readonly [string, Options])[] = [
  ["target as deferred", { target: "auto" }],
  ["no early windows", { early: 0, early_per_idle: 0, early_by_gap: 0 }],
  ["not burst-aware", { burst_aware: false }],
  ["not by the gap to the next free one", { early_by_gap: 0 }],
  ["no feedback", { feedback: false }],
  ["no looking ahead", { look_ahead: false }],
  ["always waits for the window", { leave_when_enough: false }],
  ["rate over 5 s", { rate_window_s: 5 }],
];

/** 20 cases of (accelerators, SLO, beta / alpha) of one model. */
const CASES = 20;
const CASES_SEED = 1;
const CASE_ACCELERATORS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] as const;
const BETA_OVER_ALPHA = [0.5, 16] as const;
const SLO_OVER_ALONE = [2.5, 8] as const;
/** Targets that the sweep tries at most, at equal ratios, before it looks between the best one's neighbours. */
const SWEPT = 12;

interface Scale {
  /** Seconds counted of a run, relative to a full bench. */
  readonly size: number;
  readonly seeds: readonly number[];
}

function scenarioOf(name: string, durationS: number, fields: Fields): ExpandedScenario {
  const warmupS = Math.min(5, durationS / 4);
  const whole = { name, duration_s: durationS + warmupS, warmup_s: warmupS, policy: "deferred", ...fields };
  return expandScenario(scenarioFrom(sourceOf(whole, `${name}.yaml`)));
}

const poisson = (rateRps: number) => ({ process: "poisson", rate_rps: rateRps });
const oneModel = (alphaMs: number, betaMs: number, sloMs: number) => [
  { name: "model", profile: { alpha_ms: alphaMs, beta_ms: betaMs }, slo_ms: sloMs },
];
const TWENTY = [{ name: "model", count: 20, profile: { alpha_ms: 1.053, beta_ms: 5.072 }, slo_ms: 25 }];

const SINGLE = {
  resnet50: { seconds: 60, fields: { accelerators: 8, models: oneModel(1.053, 5.072, 25), arrivals: poisson(5000) } },
  inceptionresnetv2: {
    seconds: 60,
    fields: { accelerators: 8, models: oneModel(5.09, 18.368, 70), arrivals: poisson(900) },
  },
} as const;
const SHARED = {
  "a100-mixed": {
    seconds: 30,
    fields: { accelerators: 64, models_from: { zoo: "a100", select: "all" }, arrivals: poisson(16000) },
  },
  "twenty-poisson": { seconds: 20, fields: { accelerators: 32, models: TWENTY, arrivals: poisson(18000) } },
  "twenty-gamma": {
    seconds: 20,
    fields: { accelerators: 32, models: TWENTY, arrivals: { process: "gamma", shape: 0.05, rate_rps: 18000 } },
  },
  "few-accelerators": {
    seconds: 60,
    fields: {
      accelerators: 3,
      models: [
        { name: "a", profile: { alpha_ms: 1, beta_ms: 6 }, slo_ms: 50, share: 3 },
        { name: "b-1", profile: { table_ms: [4, 5, 6.5, 8] }, slo_ms: 40, share: 1 },
        { name: "b-2", profile: { table_ms: [4, 5, 6.5, 8] }, slo_ms: 40, share: 1 },
      ],
      arrivals: poisson(1500),
    },
  },
} as const;

/**
 * @param size Relative to the full bench: seconds of runs, seeds and cases.
 * @param casesSeed only the cases that it draws, without the rest.
 */
export async function benchPlus({
  size = 1,
  casesSeed,
  onProgress,
}: Pick<BenchOptions, "size" | "casesSeed" | "onProgress">): Promise<BenchResult[]> {
  const seeds = size >= 1 ? 10 : size >= 0.2 ? 4 : 2;
  const scale: Scale = { size, seeds: Array.from({ length: seeds }, (_, i) => i + 1) };
  const results: BenchResult[] = [];
  const add = async (result: BenchResult): Promise<void> => {
    results.push(result);
    onProgress(`${result.name}: ${result.value.toFixed(4)} ${result.unit}. ${result.detail}\n`);
    // Lets the process draw and be stopped between cases.
    await new Promise((resolve) => setImmediate(resolve));
  };
  if (casesSeed !== undefined) {
    for (const result of manyCases(scale, casesSeed)) await add(result);
    return results;
  }
  for (const [name, { seconds, fields }] of Object.entries(SINGLE)) await add(single(name, seconds, fields, scale));
  const gammaAndPoisson: number[] = [];
  for (const [name, { seconds, fields }] of Object.entries(SHARED)) {
    const result = shared(name, seconds, fields, scale);
    if (name.startsWith("twenty-")) gammaAndPoisson.push(result.figures!.plus_rps!);
    await add(result);
  }
  await add(
    resultOf("twenty-gamma-over-poisson", gammaAndPoisson[1]! / gammaAndPoisson[0]!, "of Poisson", "deferred+", {}),
  );
  for (const result of manyCases(scale, CASES_SEED)) await add(result);
  await add(sampleOfFigure7(scale));
  return results;
}

function single(name: string, seconds: number, fields: Fields, scale: Scale): BenchResult {
  const scenario = scenarioOf(name, Math.max(2, seconds * scale.size), fields);
  const { seeds } = scale;
  const plus = peak(scenario, "deferred+", {}, seeds);
  const deferred = peak(scenario, "deferred", {}, seeds);
  const best = bestFixed(scenario, seeds.slice(0, 2), plus.peak_goodput_rps);
  const fixed = peak(scenario, "deferred", { target: best.target }, seeds);
  const eager = bestEager(scenario, seeds);
  const bounds = boundsOf(scenario, scale, true);
  const half = (plus.peak_goodput_rps - deferred.peak_goodput_rps) / (bounds.in_order_rps - deferred.peak_goodput_rps);
  const detail =
    `deferred ${show(deferred)}, fixed target ${best.target} ${show(fixed)}, eager ${show(eager)}; bounds: ` +
    `clairvoyant in order ${bounds.in_order_rps.toFixed(0)}, any ${bounds.any_rps.toFixed(0)}, gathering ` +
    `${bounds.gathering_rps.toFixed(0)}, fluid ${bounds.fluid_rps.toFixed(0)}; ` +
    `${(100 * half).toFixed(0)} % of the gap from deferred to in order; ${ablation(scenario, plus, scale)}`;
  return resultOf(name, plus.peak_goodput_rps, `r/s deferred+ ${interval(plus)}`, detail, {
    plus_rps: plus.peak_goodput_rps,
    deferred_rps: deferred.peak_goodput_rps,
    fixed_rps: fixed.peak_goodput_rps,
    eager_rps: eager.peak_goodput_rps,
    ...bounds,
  });
}

function shared(name: string, seconds: number, fields: Fields, scale: Scale): BenchResult {
  const scenario = scenarioOf(name, Math.max(2, seconds * scale.size), fields);
  const seeds = scale.seeds.slice(0, 5);
  const plus = peak(scenario, "deferred+", {}, seeds);
  const deferred = peak(scenario, "deferred", {}, seeds);
  const eager = bestEager(scenario, seeds);
  const bounds = boundsOf(scenario, scale, false);
  const detail =
    `deferred ${show(deferred)} (ratio ${(plus.peak_goodput_rps / deferred.peak_goodput_rps).toFixed(3)}), eager ` +
    `${show(eager)}; bounds: clairvoyant in order ${bounds.in_order_rps.toFixed(0)}, gathering ` +
    `${bounds.gathering_rps.toFixed(0)}, fluid ${bounds.fluid_rps.toFixed(0)}; ${ablation(scenario, plus, scale)}`;
  return resultOf(name, plus.peak_goodput_rps, `r/s deferred+ ${interval(plus)}`, detail, {
    plus_rps: plus.peak_goodput_rps,
    deferred_rps: deferred.peak_goodput_rps,
    eager_rps: eager.peak_goodput_rps,
    ...bounds,
  });
}

/** deferred+ against the best fixed target, by case, and over all. */
function* manyCases(scale: Scale, seed: number): Generator<BenchResult> {
  const random = stream(seed, "plus/cases");
  const between = ([low, high]: readonly [number, number]) => low * (high / low) ** random();
  const count = scale.size >= 0.2 ? CASES : 2;
  const ratios: number[] = [];
  const parts: number[] = [];
  for (let index = 1; index <= count; index++) {
    const accelerators = CASE_ACCELERATORS[Math.floor(random() * CASE_ACCELERATORS.length)]!;
    const betaMs = between(BETA_OVER_ALPHA);
    const sloMs = between(SLO_OVER_ALONE) * (1 + betaMs);
    const fields = { accelerators, models: oneModel(1, betaMs, sloMs), arrivals: poisson(accelerators * 100) };
    const guess = staggeredCapacityRps(scenarioOf("guess", 1, fields));
    // As many requests in every case.
    const seconds = Math.max(1, (150_000 * Math.min(1, scale.size)) / guess);
    const scenario = scenarioOf(`case-${index}`, seconds, fields);
    const seeds = scale.seeds.slice(0, 3);
    const plus = peak(scenario, "deferred+", {}, seeds);
    const best = bestFixed(scenario, seeds.slice(0, 2), plus.peak_goodput_rps);
    const fixed = peak(scenario, "deferred", { target: best.target }, seeds);
    const inOrder = clairvoyantPeakRps(scenario, {
      over: "in-order",
      seeds: seeds.slice(0, 1),
      requests: Math.max(1000, 6000 * Math.min(1, scale.size)),
      steps: 80,
    });
    const ratio = plus.peak_goodput_rps / fixed.peak_goodput_rps;
    ratios.push(ratio);
    parts.push((plus.peak_goodput_rps - fixed.peak_goodput_rps) / (inOrder - fixed.peak_goodput_rps));
    yield resultOf(
      `case-${String(index).padStart(2, "0")}`,
      ratio,
      "of the best fixed target",
      `${accelerators} accelerators, beta/alpha ${betaMs.toFixed(2)}, SLO ${sloMs.toFixed(1)} ms: deferred+ ${show(plus)}, ` +
        `fixed target ${best.target} ${show(fixed)}, clairvoyant in order ${inOrder.toFixed(0)} (${(inOrder / fixed.peak_goodput_rps).toFixed(3)})`,
      { plus_rps: plus.peak_goodput_rps, fixed_rps: fixed.peak_goodput_rps, in_order_rps: inOrder },
    );
  }
  const { mean, low, high } = tInterval95(ratios);
  yield resultOf(
    "cases",
    mean,
    "of the best fixed target, mean",
    `[${low.toFixed(3)}, ${high.toFixed(3)}] over ${count} cases, least ${Math.min(...ratios).toFixed(3)}, most ` +
      `${Math.max(...ratios).toFixed(3)}; ${(100 * tInterval95(parts).mean).toFixed(0)} % of the gap to clairvoyant in order, mean`,
    { least: Math.min(...ratios), most: Math.max(...ratios) },
  );
}

/** deferred+ over deferred in a sample of Table 1's workloads. */
function sampleOfFigure7(scale: Scale): BenchResult {
  const cases = sampleCases(1, 1).slice(0, scale.size >= 0.2 ? undefined : 4);
  const ratios: { readonly name: string; readonly ratio: number }[] = [];
  for (const one of cases) {
    const scenario = scenarioOf(nameOf(one), 3, fieldsOf(one));
    const of = (policy: string, startRps: number) =>
      roughPeak(runsOf(scenario, policy, {}), { seeds: [1, 2], startRps, tolerance: 0.005 }).peakRps;
    const deferred = of("deferred", 0.85 * staggeredCapacityRps(scenario));
    // Where deferred cannot serve at any rate there is no ratio.
    if (deferred > 0) ratios.push({ name: nameOf(one), ratio: of("deferred+", deferred) / deferred });
  }
  ratios.sort((a, b) => a.ratio - b.ratio);
  const { mean } = tInterval95(ratios.map(({ ratio }) => ratio));
  return resultOf(
    "fig7-sample",
    ratios[0]!.ratio,
    "of deferred, least",
    `${ratios.length} cases, mean ${mean.toFixed(3)}; least in ${ratios
      .slice(0, 3)
      .map(({ name, ratio }) => `${name} ${ratio.toFixed(3)}`)
      .join(", ")}`,
    { mean },
  );
}

function runsOf(scenario: ExpandedScenario, policy: string, policyOptions: Options) {
  return (rateRps: number, seed: number) =>
    simulateBadRates(withRate(scenario, rateRps), { policy, policyOptions, seed });
}

function peak(
  scenario: ExpandedScenario,
  policy: string,
  policyOptions: Options,
  seeds: readonly number[],
): PeakGoodput {
  const startRps = 0.9 * staggeredCapacityRps(scenario);
  return peakGoodput(runsOf(scenario, policy, policyOptions), { seeds, startRps });
}

function bestEager(scenario: ExpandedScenario, seeds: readonly number[]): PeakGoodput {
  const peaks = ["infeasible", "window"].map((drop) => peak(scenario, "eager", { drop }, seeds));
  return peaks[0]!.peak_goodput_rps > peaks[1]!.peak_goodput_rps ? peaks[0]! : peaks[1]!;
}

/** The best constant target: a coarse sweep, then all between the best one's neighbours. */
function bestFixed(
  scenario: ExpandedScenario,
  seeds: readonly number[],
  startRps: number,
): { target: number; rps: number } {
  const { execUs, sloUs } = scenario.models[0]!;
  let largest = 1;
  while (largest < execUs.length - 2 && execUs[largest + 1]! <= sloUs) largest++;
  const tried = new Map<number, number>();
  const rpsOf = (target: number): number => {
    const known = tried.get(target);
    if (known !== undefined) return known;
    const { peakRps } = roughPeak(runsOf(scenario, "deferred", { target }), { seeds, startRps, tolerance: 0.002 });
    tried.set(target, peakRps);
    return peakRps;
  };
  const coarse = [...new Set(Array.from({ length: SWEPT }, (_, i) => Math.round(largest ** (i / (SWEPT - 1)))))];
  const order = (a: number, b: number) => rpsOf(b) - rpsOf(a);
  const at = coarse.indexOf([...coarse].sort(order)[0]!);
  const from = coarse[Math.max(0, at - 1)]!;
  const to = coarse[Math.min(coarse.length - 1, at + 1)]!;
  const fine = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const step = Math.max(1, Math.floor(fine.length / SWEPT));
  const target = fine.filter((_, i) => i % step === 0).sort(order)[0]!;
  const chosen = rpsOf(target) >= rpsOf(coarse[at]!) ? target : coarse[at]!;
  return { target: chosen, rps: rpsOf(chosen) };
}

/** @param isSingle one model: with more, the gathering bound is tighter than the clairvoyant one of any order, or as tight. */
function boundsOf(
  scenario: ExpandedScenario,
  scale: Scale,
  isSingle: boolean,
): { in_order_rps: number; any_rps: number; gathering_rps: number; fluid_rps: number } {
  const options = {
    seeds: scale.seeds.slice(0, isSingle ? 2 : 1),
    requests: Math.max(1000, (isSingle ? 12_000 : 20_000) * Math.min(1, scale.size)),
    steps: isSingle ? 100 : 60,
  };
  const fluid = fluidBoundRps(scenario);
  const gathering = gatheringBoundRps(scenario, fluid, { seed: scale.seeds[0]! });
  return {
    in_order_rps: clairvoyantPeakRps(scenario, { over: "in-order", ...options }),
    any_rps: isSingle ? clairvoyantPeakRps(scenario, { over: "any", ...options }) : gathering,
    gathering_rps: gathering,
    fluid_rps: fluid,
  };
}

function ablation(scenario: ExpandedScenario, plus: PeakGoodput, scale: Scale): string {
  const seeds = scale.seeds.slice(0, 3);
  const all = roughPeak(runsOf(scenario, "deferred+", {}), {
    seeds,
    startRps: plus.peak_goodput_rps,
    tolerance: 0.002,
  }).peakRps;
  const rows = ABLATION.map(([name, options]) => {
    const { peakRps } = roughPeak(runsOf(scenario, "deferred+", options), {
      seeds,
      startRps: plus.peak_goodput_rps,
      tolerance: 0.002,
    });
    const change = 100 * (peakRps / all - 1);
    return `${name} ${change >= 0 ? "+" : ""}${change.toFixed(1)} %`;
  });
  return `ablation: ${rows.join(", ")}`;
}

const interval = ({ low_rps, high_rps }: PeakGoodput): string => `[${low_rps.toFixed(0)}, ${high_rps.toFixed(0)}]`;
const show = (each: PeakGoodput): string => `${each.peak_goodput_rps.toFixed(0)} ${interval(each)}`;

function resultOf(
  name: string,
  value: number,
  unit: string,
  detail: string,
  figures: Readonly<Record<string, number>>,
): BenchResult {
  const digest = createHash("sha256")
    .update(JSON.stringify([value, figures]))
    .digest("hex")
    .slice(0, 12);
  return { name: `plus-${name}`, value, unit, detail, digest, figures };
}
