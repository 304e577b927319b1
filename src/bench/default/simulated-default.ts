/**
 * Does the default ever lose? Settings drawn by seed, each at five loads; `auto` beside what could have been chosen for that very
 * setting and load by hindsight: eager with either drop rule, `deferred`, and timeouts. All see the same arrivals.
 *
 * Judged by the work that ends in time: a request counts as much as it needs of an accelerator at the least. Where models are alike
 * that is the share of requests in time; where they are not, who starves the dearest model would win by number.
 */
import { createHash } from "node:crypto";
import { staggeredCapacityRps } from "../../capacity/scenario-goodput.js";
import { expandApps } from "../../config/scenario/apps/expand-apps.js";
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import { normalQuantile } from "../../core/latency/latency.js";
import { durationUs } from "../../core/time.js";
import { mean } from "../../measure/statistics.js";
import { staggeredCostUs } from "../../policies/deferred/target-size.js";
import { simulateBadRates } from "../../sim/simulate.js";
import type { BenchResult } from "../bench-result.js";
import type { BenchOptions } from "../benches.js";
import { BATCH_SIZE_MAX, type DefaultSetting, drawSetting } from "./default-settings.js";

/** Of the capacity at which the largest batches that staggered execution sustains are all full. */
const LOADS = [0.5, 0.8, 1, 1.5, 2] as const;
const SETTINGS = 100;
/** Fresh: no rule or constant was chosen on what it draws (those of seed 1 were). */
const SETTINGS_SEED = 7;
const SEEDS = [1, 2] as const;
/** Requests counted of a run, and its least length. */
const REQUESTS = 10_000;
const SECONDS_MIN = 2;
/** Where batches take up to twice what the profile says, that is learnt first. */
const LEARNT_US = 30e6;

interface Choice {
  readonly name: string;
  readonly policy: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** Loads at which it is tried: who drops only what cannot finish alone serves batches of one past capacity, slowly. */
  readonly loadMax: number;
}

const CHOICES: readonly Choice[] = [
  { name: "eager", policy: "eager", options: {}, loadMax: 1 },
  { name: "eager, window", policy: "eager", options: { drop: "window" }, loadMax: 2 },
  ...[0.1, 0.3].map((fraction) => ({
    name: `timeout ${fraction}, window`,
    policy: "timeout",
    options: { timeout_fraction: fraction, drop: "window" },
    loadMax: 2,
  })),
  { name: "deferred", policy: "deferred", options: {}, loadMax: 2 },
];

/**
 * @param size part of the settings. @param casesSeed which settings are drawn.
 * @param spread standard deviation of requests' times, relative to the mean; 0: batches take what the profile says.
 */
export async function benchSimulatedDefault({
  size = 1,
  casesSeed = SETTINGS_SEED,
  spread = 0,
  onProgress,
}: Pick<BenchOptions, "size" | "casesSeed" | "spread" | "onProgress">): Promise<BenchResult[]> {
  const count = Math.max(2, Math.round(SETTINGS * size));
  const cases: Case[] = [];
  for (let index = 0; index < count; index++) {
    const drawn = drawSetting(casesSeed, index);
    const setting = spread > 0 ? spreadOut(drawn, spread) : drawn;
    const found = LOADS.map((load) => caseOf(setting, load));
    cases.push(...found);
    onProgress(`${index + 1}/${count} ${setting.scenario.name}: ${found.map(textOf).join("; ")}\n`);
    // Lets the process draw and be stopped between settings.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return resultsOf(cases);
}

/**
 * A request alone takes what the profile says in the mean only, and a batch what its longest does; plans learn from what batches took.
 * Capacity, from which loads are reckoned, is that of batches as long as such a batch is in the mean.
 */
export function spreadOut({ scenario, capacityRps }: DefaultSetting, spread: number): DefaultSetting {
  const longest = Array.from({ length: BATCH_SIZE_MAX + 1 }, (_, size) => longestOf(size, spread));
  const inMean = scenario.models.map((model) => ({
    ...model,
    execUs: model.execUs.map((us, size) => us * (longest[size] ?? 1)),
  }));
  const capacity = staggeredCapacityRps({ ...scenario, models: inMean });
  const models = scenario.models.map((model) => {
    const meanMs = model.execUs[1]! / 1000;
    const time = { lognormal: { mean_ms: meanMs, sd_ms: spread * meanMs } };
    const rateRps = (model.rateRps * capacity) / capacityRps;
    return { ...model, rateRps, apps: expandApps([{ name: "all", share: 1, time }], () => []) };
  });
  return { scenario: { ...scenario, models, learn: true }, capacityRps: capacity };
}

/** Mean of the longest of so many lognormal times of mean 1. */
function longestOf(size: number, spread: number): number {
  const variance = Math.log1p(spread * spread);
  const quantiles = Array.from({ length: 200 }, (_, place) => ((place + 0.5) / 200) ** (1 / Math.max(1, size)));
  return mean(quantiles.map((q) => Math.exp(Math.sqrt(variance) * normalQuantile(q) - variance / 2)));
}

interface Case {
  readonly setting: string;
  readonly load: number;
  readonly auto: number;
  readonly best: number;
  readonly bestName: string;
}

function caseOf({ scenario, capacityRps }: DefaultSetting, load: number): Case {
  const costs = costsOf(scenario);
  const leastUs = scenario.learn === true ? LEARNT_US : 1e6;
  const warmupUs = Math.max(leastUs, 10 * Math.max(...scenario.models.map(({ sloUs }) => sloUs)));
  const countedUs = Math.max(SECONDS_MIN * 1e6, 2 * warmupUs, (REQUESTS * 1e6) / (capacityRps * load));
  const run: ExpandedScenario = {
    ...scenario,
    warmupUs: durationUs(Math.round(warmupUs)),
    durationUs: durationUs(Math.round(warmupUs + countedUs)),
    models: scenario.models.map((model) => ({ ...model, rateRps: model.rateRps * load })),
  };
  const workOf = (policy: string, policyOptions: Choice["options"]): number => {
    let offered = 0;
    let inTime = 0;
    for (const seed of SEEDS) {
      const { badRates, arrived } = simulateBadRates(run, { policy, policyOptions, seed });
      for (const [model, arrivals] of arrived.entries()) {
        if (arrivals === 0) continue;
        offered += arrivals * costs[model]!;
        inTime += arrivals * costs[model]! * (1 - badRates[model]!);
      }
    }
    return inTime / offered;
  };
  const tried = CHOICES.filter(({ loadMax }) => load <= loadMax).map(({ name, policy, options }) => ({
    name,
    work: workOf(policy, options),
  }));
  const best = tried.reduce((a, b) => (b.work > a.work ? b : a));
  return { setting: scenario.name, load, auto: workOf("auto", {}), best: best.work, bestName: best.name };
}

/** Accelerator time per request of each model in the largest batch that staggered execution sustains. */
function costsOf({ models, accelerators }: ExpandedScenario): number[] {
  const count = accelerators.reduce((sum, { scale }) => sum + 1 / scale, 0);
  return models.map(({ execUs, sloUs, batchSizeMax }) => staggeredCostUs(execUs, batchSizeMax, sloUs, count));
}

const ratioOf = ({ auto, best }: Case): number => (best === 0 ? 1 : auto / best);

const textOf = (each: Case): string =>
  `${each.load}: ${each.auto.toFixed(3)} of ${each.best.toFixed(3)} (${each.bestName})`;

function resultsOf(cases: readonly Case[]): BenchResult[] {
  const settings = new Map<string, number>();
  for (const each of cases) settings.set(each.setting, Math.min(settings.get(each.setting) ?? 1, ratioOf(each)));
  const least = [...settings].sort((a, b) => a[1] - b[1]);
  const ratios = cases.map(ratioOf);
  const part = (values: readonly number[], from: number): number =>
    values.filter((value) => value >= from).length / values.length;
  const minima = least.map(([, ratio]) => ratio);
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const byLoad = LOADS.map((load) => {
    const of = cases.filter((each) => each.load === load).map(ratioOf);
    return `${load}: mean ${(of.reduce((a, b) => a + b, 0) / of.length).toFixed(3)}, least ${Math.min(...of).toFixed(3)}`;
  });
  return [
    {
      name: "default-simulated",
      value: part(ratios, 0.99),
      unit: "of cases at least 0.99 of the best by hindsight",
      detail:
        `${settings.size} settings x ${LOADS.length} loads; at least 0.97: ${percent(part(ratios, 0.97))}; least ` +
        `${Math.min(...ratios).toFixed(3)}, mean ${(ratios.reduce((a, b) => a + b, 0) / ratios.length).toFixed(4)}. ` +
        `Settings with no load below 0.99: ${percent(part(minima, 0.99))}, below 0.97: ${percent(part(minima, 0.97))}. ` +
        `By load ${byLoad.join("; ")}. Least in ${least
          .slice(0, 5)
          .map(([name, ratio]) => `[${name}] ${ratio.toFixed(3)}`)
          .join(", ")}`,
      digest: createHash("sha256").update(JSON.stringify(ratios)).digest("hex").slice(0, 12),
      figures: { least: Math.min(...ratios), at_least_097: part(ratios, 0.97) },
    },
  ];
}
