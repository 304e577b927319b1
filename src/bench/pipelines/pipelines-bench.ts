/**
 * A pipeline of real models under load: the OCR pipeline that ships, pages of 0 to 20 lines, from half to twice its capacity. The
 * default, the default and PARD with PARD's estimates, and drops module by module; one after the other on the same arrivals, pair by
 * pair. Every finished case is kept. Not for: machines that do anything else meanwhile.
 */
import path from "node:path";
import { writeFigure } from "../../reproduce/write-figure.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { BenchResult } from "../bench-result.js";
import { type CasePlan, digestOf, KeptCases } from "../default/kept-cases.js";
import { seedOf } from "../default/live-default.js";
import { isComparable, runInDrawnOrder } from "../default/paired-runs.js";
import { CPU_WORKERS } from "../serving/measured-profile.js";
import { DEFAULT, PARD, PIPELINE_CONTENDERS, type PipelineContender } from "./pipeline-contenders.js";
import {
  findingResults,
  goodputFigure,
  loadResults,
  type PipelineCase,
  type PipelineReport,
  type PipelineRun,
} from "./pipeline-results.js";
import { type ServedPipelines, servePipelines } from "./served-pipelines.js";

export interface PipelinesBenchOptions {
  readonly size: number;
  /** Offered, relative to the capacity; undefined: from half to twice of it. */
  readonly loads?: readonly number[] | undefined;
  readonly figuresDir?: string | null;
  /** Where finished cases are kept; null: nowhere. */
  readonly outDir?: string | null;
  readonly onProgress: (text: string) => void;
}

/** Offered, relative to the measured capacity. */
const LOADS = [0.5, 0.75, 1, 1.25, 1.5, 2] as const;
/** A page takes a second: few long runs, not many short ones. */
const PAIRS = 2;
const SPARE_PAIRS = 1;
const REPEATS_MAX = 1;
const COUNTED_S = 40;
const SHORTEST_S = 3;
/** Rates and what modules say are of the last seconds. */
const WARMUP_S = 3;
const PROFILE_S = 10;
const UNLOADED_S = 30;
const RAMP_S = 12;
const PAGES = 120;
const PAGES_AT_ONCE_MAX = 8;
const TINY = 0.05;

/** Part of the full size, bounded. */
const scaled = (size: number, full: number, least: number): number => Math.max(least, full * Math.min(1, size));

export async function benchPipelines(options: PipelinesBenchOptions): Promise<BenchResult[]> {
  const { size, onProgress, outDir } = options;
  const isTiny = size < TINY;
  const contenders = isTiny ? [DEFAULT, PARD] : PIPELINE_CONTENDERS;
  const kept = new KeptCases<PipelineCase>(outDir == null ? null : path.join(outDir, "pipelines"));
  const loads = isTiny ? LOADS.slice(-1) : (options.loads ?? LOADS);
  const plans = loads.map((load) => planOf(contenders, load, size));
  const measured = new Map(plans.map((plan) => [plan, kept.get(plan)]));
  const missing = plans.filter((plan) => measured.get(plan) === null);
  if (missing.length > 0) {
    // Loads of one run are relative to one capacity.
    const earlier = [...measured.values()].find((each) => each !== null);
    const served = await servePipelines({
      contenders,
      workers: isTiny ? 1 : CPU_WORKERS.count,
      pagesAtOnceMax: isTiny ? 2 : PAGES_AT_ONCE_MAX,
      pages: Math.round(isTiny ? 8 : scaled(size, PAGES, 30)),
      profileS: isTiny ? 0.3 : scaled(size, PROFILE_S, 2),
      unloadedS: isTiny ? 1 : scaled(size, UNLOADED_S, 6),
      rampS: isTiny ? 1 : scaled(size, RAMP_S, 5),
      known:
        earlier === undefined ? null : { capacityRps: earlier.capacity_rps, sloMs: Object.values(earlier.slo_ms)[0]! },
      note: onProgress,
    });
    try {
      for (const plan of missing) {
        const made = await measureCase(served, contenders, plan, onProgress);
        kept.put(plan, made);
        measured.set(plan, made);
      }
    } finally {
      await served.stop();
    }
  }
  const reports = plans.map((plan): PipelineReport => ({ plan, measured: measured.get(plan)! }));
  await writeFigure(options.figuresDir, goodputFigure(reports));
  return [...loadResults(reports), ...findingResults(reports)];
}

function planOf(contenders: readonly PipelineContender[], load: number, size: number): CasePlan {
  const isTiny = size < TINY;
  // Of half the size a pair is left, and then runs become shorter.
  const countedS = isTiny ? 1 : scaled(PAIRS * size, COUNTED_S, SHORTEST_S);
  return {
    setting: "pipelines ocr",
    load,
    policy: contenders.map(({ name }) => name).join(),
    // Runs are as long as they are, however many pages come.
    requests: 0,
    pairs: Math.round(scaled(size, PAIRS, 1)),
    sparePairs: isTiny ? 0 : SPARE_PAIRS,
    pairsPerRun: 1,
    sweepPairs: 0,
    timeouts: [],
    hasControl: false,
    repeatsMax: isTiny ? 0 : REPEATS_MAX,
    shortestS: countedS,
    longestS: countedS,
  };
}

async function measureCase(
  served: ServedPipelines,
  contenders: readonly PipelineContender[],
  plan: CasePlan,
  onProgress: (text: string) => void,
): Promise<PipelineCase> {
  const fromUs = monotonicNow();
  const rps = plan.load * served.capacityRps;
  const run = { rps, warmupS: Math.min(WARMUP_S, plan.longestS / 3), countedS: plan.longestS };
  const runs: PipelineRun[] = [];
  let valid = 0;
  for (let pair = 0; valid < plan.pairs && pair < plan.pairs + plan.sparePairs; pair++) {
    onProgress(`${plan.load} of capacity, ${rps.toFixed(2)} pages/s: pair ${pair + 1} of ${plan.pairs}`);
    const drawn = { pair, order: `bench/pipelines/order/${digestOf(plan)}`, repeatsMax: plan.repeatsMax };
    const seeded = { ...run, seed: seedOf(plan, pair) };
    const made = await runInDrawnOrder(contenders, drawn, (contender) => served.run(contender, seeded));
    runs.push(...made);
    if (made.length === contenders.length && isComparable(made)) valid++;
  }
  return {
    capacity_rps: served.capacityRps,
    offered_rps: rps,
    slo_ms: { ocr: served.sloMs },
    beta_over_alpha: served.betaOverAlpha,
    most_in_time: null,
    warmup_s: run.warmupS,
    counted_s: run.countedS,
    runs,
    wall_s: Math.round((monotonicNow() - fromUs) / 1e5) / 10,
  };
}
