/** Peak goodput of scenarios: the search of goodput.ts over simulated runs, and the policies it is compared with. */

import { type ExpandedGroup, type ExpandedScenario, groupsOf, withRate } from "../config/scenario/scenario.js";
import type { DurationUs } from "../core/time.js";
import { combineReports, type Report } from "../measure/report.js";
import type { GoodputBounds } from "./bounds.js";
import { type GoodputRun, type PeakGoodput, peakGoodputAsync } from "./goodput.js";
import { modelLoads } from "./model-loads.js";
import type { SimulationPool } from "./simulation-pool.js";

export interface PolicyChoice {
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
}

export interface ScenarioGoodputOptions {
  /** In all groups. Absent: the scenario's, of each group its own. */
  readonly choice?: PolicyChoice;
  readonly seeds: readonly number[];
  readonly onProgress?: (step: {
    readonly policy: string;
    readonly rateRps: number;
    readonly badRate: number;
    readonly seeds: number;
  }) => void;
}

/** The report of the runs at the peak, and the peak. */
export interface GoodputReport extends Report, PeakGoodput {
  readonly policy_options: Readonly<Record<string, unknown>>;
  /** Other policies on the same scenario and seeds; only their peaks and settings. */
  readonly beside?: readonly GoodputReport[];
  /** What no policy exceeds, where asked for. */
  readonly bounds?: GoodputBounds;
}

/**
 * A first guess of the peak, requests per second: what the accelerators do if each model runs the batches of staggered
 * execution (Symphony §3.3, Eq. 1), shared in proportion to the models' rates; of several groups, what the one does that is
 * short. Not a bound: head dropping beats it. Text that is generated is taken to come a request at a time, far below what a group does.
 */
export function staggeredCapacityRps(scenario: ExpandedScenario): number {
  let totalRps = 0;
  for (const { rateRps } of [...scenario.models, ...(scenario.pipelines ?? [])]) totalRps += rateRps;
  const loads = modelLoads(scenario);
  return Math.min(
    ...groupsOf(scenario).map((group, index) => groupCapacityRps(scenario, group, index, loads, totalRps)),
  );
}

function groupCapacityRps(
  { models, accelerators: all }: ExpandedScenario,
  { first, count, network }: ExpandedGroup,
  index: number,
  loads: Float64Array,
  totalRps: number,
): number {
  const own = all.slice(first, first + count);
  const fastest = Math.min(...own.map((accelerator) => accelerator.scale));
  let accelerators = 0;
  for (const accelerator of own) accelerators += fastest / accelerator.scale;
  let acceleratorUsPerRequest = 0;
  for (const [at, model] of models.entries()) {
    if ((model.group ?? 0) !== index) continue;
    const budgetUs = model.sloUs - network.controlUs - network.responseUs;
    const fits = (b: number) =>
      model.execUs[b]! * fastest * (1 + 1 / accelerators) + b * network.dataUsPerRequest <= budgetUs;
    let b = 1;
    while (b < model.execUs.length - 2 && fits(b + 1)) b++;
    acceleratorUsPerRequest += (loads[at]! / totalRps) * ((model.execUs[b]! * fastest) / b);
  }
  return (accelerators * 1e6) / acceleratorUsPerRequest;
}

export async function scenarioGoodput(
  scenario: ExpandedScenario,
  pool: SimulationPool,
  options: ScenarioGoodputOptions,
): Promise<GoodputReport> {
  const { choice, seeds } = options;
  const policy = choice?.policy ?? policiesOf(scenario);
  const run = async (rateRps: number, seed: number): Promise<GoodputRun> => {
    const result = await pool.badRates(scenario, rateRps, { ...choice, seed });
    options.onProgress?.({
      policy,
      rateRps,
      badRate: Math.max(...result.badRates),
      seeds: seeds.length,
    });
    return result;
  };
  const peak = await peakGoodputAsync(run, { seeds, startRps: 0.85 * staggeredCapacityRps(scenario) });
  const rateRps = peak.peak_goodput_rps > 0 ? peak.peak_goodput_rps : staggeredCapacityRps(scenario) / 1024;
  const reports = await Promise.all(
    seeds.map((seed) => pool.report(withRate(scenario, rateRps), null, { ...choice, seed })),
  );
  return { ...combineReports(reports), ...peak, policy_options: (choice ?? scenario).policyOptions };
}

/** For people. */
export const policiesOf = (scenario: ExpandedScenario): string =>
  [...new Set(groupsOf(scenario).map(({ policy }) => policy))].join(", ");

/** Timeouts that a tuned timeout policy is chosen from, as fractions of the SLO. */
const TIMEOUT_FRACTIONS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
/** Seeds that the sweep uses before all seeds measure its winner. */
const SWEEP_SEEDS = 2;
/** Counted seconds of a run in the sweep. */
const SWEEP_US = 15e6;

/**
 * The policies every comparison stands beside: eager, with the better of its drop rules, and the best timeout of a sweep,
 * likewise. The sweep sees fewer seeds; its winner is then measured as all others are.
 */
export async function baselineGoodputs(
  scenario: ExpandedScenario,
  pool: SimulationPool,
  options: Omit<ScenarioGoodputOptions, "choice">,
): Promise<GoodputReport[]> {
  const tuned = async (choices: readonly PolicyChoice[]): Promise<GoodputReport> => {
    const seeds = options.seeds.slice(0, Math.max(2, SWEEP_SEEDS));
    const durationUs = Math.min(scenario.durationUs, scenario.warmupUs + SWEEP_US) as DurationUs;
    const short = { ...scenario, durationUs };
    let best = choices[0]!;
    let bestRps = -1;
    for (const choice of choices) {
      const { peak_goodput_rps: rps } = await scenarioGoodput(short, pool, { ...options, choice, seeds });
      if (rps > bestRps) {
        best = choice;
        bestRps = rps;
      }
    }
    return scenarioGoodput(scenario, pool, { ...options, choice: best });
  };
  const drops = ["infeasible", "window"];
  const eager = await tuned(drops.map((drop) => ({ policy: "eager", policyOptions: { drop } })));
  const timeout = await tuned(
    TIMEOUT_FRACTIONS.flatMap((timeout_fraction) =>
      drops.map((drop) => ({ policy: "timeout", policyOptions: { timeout_fraction, drop } })),
    ),
  );
  return [eager, timeout];
}
