/**
 * An elastic model under bursts, live: real images with true labels at 0.7 to 1.6 of what it carries at gamma 0. The default and OTAS against every
 * fixed gamma, gamma 0 with dropping and gamma by the queue; one after the other on the same arrivals, pair by pair. Every finished
 * case is kept. Not for: machines that do anything else meanwhile.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { writeFigure } from "../../reproduce/write-figure.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { BenchResult } from "../bench-result.js";
import { type CasePlan, digestOf, KeptCases } from "../default/kept-cases.js";
import { seedOf } from "../default/live-default.js";
import { runInDrawnOrder } from "../default/paired-runs.js";
import { shippedFolder, sourceOf } from "../serving/policy-models.js";
import { COMMON, DEFAULT, type ElasticContender, fixedContenders, OTAS, PLAIN } from "./elastic-contenders.js";
import {
  byEarned,
  ceilingFigure,
  type ElasticCase,
  type ElasticReport,
  type ElasticRun,
  gainResults,
  loadResults,
  validPairs,
} from "./elastic-results.js";
import type { ElasticRunLength } from "./elastic-workload.js";
import { type ElasticMachine, gammasOf, type ServedElastic, serveElastic } from "./served-elastic.js";
import { writeTiny } from "./tiny-elastic.js";

export interface ElasticBenchOptions {
  readonly size: number;
  /** Relative to the capacity at gamma 0. Default: LOADS. */
  readonly loads?: readonly number[] | undefined;
  /** That are fixed in comparison. Default: all of the model's. */
  readonly gammas?: readonly number[] | undefined;
  /** With the trace's file; null: its rates are generated. */
  readonly dataDir: string | null;
  readonly figuresDir?: string | null;
  /** Where finished cases are kept; null: nowhere. */
  readonly outDir?: string | null;
  readonly onProgress: (text: string) => void;
}

const LOADS = [0.7, 1, 1.3, 1.6] as const;
const MODEL = "elastic-vit";
const PAIRS = 5;
const SPARE_PAIRS = 2;
const REPEATS_MAX = 1;
/** Pairs in which every fixed gamma runs; in the others those that earned most in these do. */
const SWEEP_PAIRS = 1;
const FIXED_KEPT = 3;
/** Of the paper's seconds. */
const LENGTH: ElasticRunLength = { warmupS: 2, countedS: 15 };
const PROFILE_S = 20;
const TINY = 0.05;
/** Of the tiny run, whose model carries more than a client can send. */
const TINY_RUN = { load: 1, capacityRps: 250, length: { warmupS: 0, countedS: 0.4 }, profileS: 0.3 } as const;

export async function benchElastic(options: ElasticBenchOptions): Promise<BenchResult[]> {
  if (options.size >= TINY) return benchModel(options, shippedFolder(MODEL));
  const { folder, remove } = writeTiny();
  try {
    return await benchModel(options, folder);
  } finally {
    remove();
  }
}

async function benchModel(options: ElasticBenchOptions, model: string): Promise<BenchResult[]> {
  const { size, outDir, onProgress } = options;
  const isTiny = size < TINY;
  const fixed = fixedContenders(options.gammas ?? gammasOf(sourceOf(model)));
  const contenders = isTiny ? [DEFAULT, OTAS, PLAIN, fixed[0]!] : [...COMMON, ...fixed];
  const kept = new KeptCases<ElasticCase>(outDir == null ? null : path.join(outDir, "elastic"));
  const loads = isTiny ? [TINY_RUN.load] : (options.loads ?? LOADS);
  const plans = loads.map((load) => planOf(model, contenders, load, options));
  const measured = new Map(plans.map((plan) => [plan, kept.get(plan)]));
  const missing = plans.filter((plan) => measured.get(plan) === null);
  if (missing.length > 0) {
    // Loads of one run are relative to one capacity.
    const earlier = [...measured.values()].find((each) => each !== null);
    const known: Partial<ElasticMachine> =
      earlier != null
        ? { capacityRps: earlier.capacity_rps, accuracy: earlier.accuracy }
        : isTiny
          ? { capacityRps: TINY_RUN.capacityRps }
          : {};
    const served = await serveElastic({
      model,
      contenders,
      profileS: isTiny ? TINY_RUN.profileS : Math.max(8, PROFILE_S * Math.min(1, size)),
      dataDir: options.dataDir,
      known,
      note: onProgress,
    });
    try {
      for (const plan of missing) {
        const made = await measureCase(served, contenders, plan, isTiny ? TINY_RUN.length : LENGTH, onProgress);
        kept.put(plan, made);
        measured.set(plan, made);
        for (const { name, value, detail } of gainResults([{ plan, measured: made }]))
          onProgress(`${name}: ${value.toFixed(1)} %, ${detail}`);
      }
    } finally {
      await served.stop();
    }
  }
  const reports = plans.map((plan): ElasticReport => ({ plan, measured: measured.get(plan)! }));
  await writeFigure(options.figuresDir, ceilingFigure(reports));
  return [...loadResults(reports), ...gainResults(reports)];
}

function planOf(
  model: string,
  contenders: readonly ElasticContender[],
  load: number,
  { size, dataDir }: ElasticBenchOptions,
): CasePlan {
  const isTiny = size < TINY;
  const pairs = isTiny ? 1 : Math.max(1, Math.round(PAIRS * Math.min(1, size)));
  return {
    // Other weights, or another trace, are another case.
    setting: `elastic ${path.basename(model)} ${digestOfModel(model)}${dataDir === null ? "" : " trace"}`,
    load,
    policy: contenders.map(({ name }) => name).join(),
    // Runs are as long as they are, however many queries come.
    requests: 0,
    pairs,
    sparePairs: isTiny ? 0 : Math.min(SPARE_PAIRS, pairs),
    pairsPerRun: 1,
    sweepPairs: SWEEP_PAIRS,
    timeouts: [],
    hasControl: false,
    repeatsMax: isTiny ? 0 : REPEATS_MAX,
    shortestS: isTiny ? TINY_RUN.length.countedS : LENGTH.countedS,
    longestS: isTiny ? TINY_RUN.length.countedS : LENGTH.countedS,
  };
}

function digestOfModel(model: string): string {
  const hash = createHash("sha256");
  for (const file of [path.join("1", "model.onnx"), "rubato.yaml"].map((name) => path.join(model, name)))
    if (existsSync(file)) hash.update(readFileSync(file));
  return hash.digest("hex").slice(0, 8);
}

async function measureCase(
  served: ServedElastic,
  contenders: readonly ElasticContender[],
  plan: CasePlan,
  length: ElasticRunLength,
  onProgress: (text: string) => void,
): Promise<ElasticCase> {
  const fromUs = monotonicNow();
  const rps = plan.load * served.capacityRps;
  const fixed = contenders.filter(({ name, gamma }) => gamma !== null && name !== PLAIN.name);
  const common = contenders.filter((each) => !fixed.includes(each));
  const runs: ElasticRun[] = [];
  for (let pair = 0; validPairs(runs).length < plan.pairs && pair < plan.pairs + plan.sparePairs; pair++) {
    const isSweep = validPairs(runs).length < plan.sweepPairs;
    const turn = [...common, ...(isSweep ? fixed : byEarned(fixed, runs).slice(0, FIXED_KEPT))];
    onProgress(
      `${plan.load} of capacity, ${rps.toFixed(0)} queries/s: pair ${pair + 1} of ${plan.pairs}, ${turn.length} runs`,
    );
    const drawn = { pair, order: `bench/elastic/order/${digestOf(plan)}`, repeatsMax: plan.repeatsMax };
    const run = { ...length, rps, seed: seedOf(plan, pair) };
    runs.push(...(await runInDrawnOrder(turn, drawn, (contender) => served.run(contender, run))));
  }
  return {
    capacity_rps: served.capacityRps,
    offered_rps: rps,
    slo_ms: Object.fromEntries(served.types.map(({ task, sloMs }) => [`${task} ${sloMs}`, sloMs])),
    beta_over_alpha: Number.NaN,
    most_in_time: null,
    warmup_s: length.warmupS * served.stretch,
    counted_s: length.countedS * served.stretch,
    runs,
    accuracy: served.accuracy,
    types: served.types,
    wall_s: Math.round((monotonicNow() - fromUs) / 1e5) / 10,
  };
}
