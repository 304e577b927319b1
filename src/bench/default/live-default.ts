/**
 * Does the live default ever lose? Against eager and the best of some timeouts, over HTTP, in pairs of runs on the same arrivals.
 *
 * Real models run alone, one contender after the other; emulated settings several at once, and all contenders of a pair at the
 * same moments, for their accelerators compute nothing and their rates are low. Every finished case is kept. Not for: what the
 * accelerators of a data centre gain; a machine that is busy.
 */
import { availableParallelism } from "node:os";
import path from "node:path";
import { writeFigure } from "../../reproduce/write-figure.js";
import { stream } from "../../sim/random.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { BenchResult } from "../bench-result.js";
import { type CaseEvidence, compare } from "./comparison.js";
import { type CasePlan, digestOf, KeptCases, type MeasuredCase } from "./kept-cases.js";
import { type LiveCase, type LiveSetting, liveCases, mostInTime } from "./live-cases.js";
import { caseResult, comparedFigure, summaryResults } from "./live-results.js";
import { inTurn, type Runs, runPairs, TIMEOUT_FRACTIONS } from "./paired-runs.js";
import {
  DEFAULT_POLICY,
  type RunLength,
  type ServedSetting,
  type ServeOptions,
  serveSetting,
} from "./served-setting.js";
import { SharedMachine } from "./shared-machine.js";

export interface LiveDefaultOptions {
  readonly size: number;
  readonly dataDir?: string | null;
  readonly figuresDir?: string | null;
  /** Where finished cases are kept; null: nowhere. */
  readonly outDir?: string | null;
  readonly onProgress: (text: string) => void;
}

const PAIRS = 7;
const SWEEP_PAIRS = 2;
/** Of real models; of emulated ones as many again as are wanted, for a moment in which the generator is late costs one pair alone. */
const SPARE_PAIRS = 2;
const REPEATS_MAX = 2;
const REQUESTS = 300;
/**
 * Of emulated runs at once, per core, at 0.31 ms of processor time a request for client, server and emulation together (0.5 beside
 * other work): where it begins is 50 % of a core, and more than 70 % is never tried.
 * A machine whose processes wake up slowly carries a tenth of that.
 */
const LEAST_RPS = 100;
const FIRST_RPS = 1600;
const MOST_RPS = 2250;
const CORES = availableParallelism();
/** p99 of actual less intended send time up to which a run was on time; runs with the shortest SLOs are void from 5 ms on. */
const ON_TIME_LAG_MS = 4;
/** A server that starts takes a core for a second. */
const START_RPS = FIRST_RPS;
/** Servers at once, of 0.25 GB each. */
const LANES = 7 * CORES;
const SHORTEST_S = 2;
const LONGEST_S = 8;
/** Of real models, which run alone. */
const REAL_SHORTEST_S = 1;
const REAL_LONGEST_S = 3;
/** A queue that overflows is as long as it gets after a few SLOs. */
const COUNTED_SLOS = 5;
const WARMUP_SLOS = 2;
/** Rates are averaged over a second. */
const WARMUP_S = 1;
const PROFILE_S = 20;
const CAPACITY_S = 5;
/** Of a run, beside its length: connections, the last answers. */
const BETWEEN_S = 0.3;
/** Guess for cases whose capacity is not known yet. */
const REAL_RUN_S = 4;
/** Part of the machine that is full while runs wait for room. */
const PACKED = 0.85;
/** Of the work, after which the time left is told from the time that it took. */
const MEASURED_PART = 0.1;
/** The control runs at this load only. */
const CONTROL_LOAD = 1;

export interface LiveCaseReport {
  readonly plan: CasePlan;
  readonly measured: MeasuredCase;
}

export async function benchLiveDefault(options: LiveDefaultOptions): Promise<BenchResult[]> {
  const { size, onProgress, outDir } = options;
  const kept = new KeptCases(outDir == null ? null : path.join(outDir, "default-live"));
  const planned = liveCases(size).map((each) => ({ case: each, plan: planOf(each, size) }));
  const reports = new Map<string, LiveCaseReport>();
  const missing: PlannedCase[] = [];
  for (const each of planned) {
    const measured = kept.get(each.plan);
    if (measured === null) missing.push(each);
    else reports.set(digestOf(each.plan), { plan: each.plan, measured });
  }
  const progress = new ProgressOfCases(planned.length, missing, onProgress);
  const onMeasured = (plan: CasePlan, measured: MeasuredCase): void => {
    kept.put(plan, measured);
    reports.set(digestOf(plan), { plan, measured });
    progress.done(plan, measured);
  };
  const serve: Omit<ServeOptions, "timeouts"> = {
    dataDir: options.dataDir ?? null,
    profileS: Math.max(3, PROFILE_S * Math.min(1, size)),
    capacityS: CAPACITY_S,
    note: onProgress,
  };
  const machine = new SharedMachine({
    leastRps: LEAST_RPS * CORES,
    firstRps: FIRST_RPS * CORES,
    mostRps: MOST_RPS * CORES,
  });
  const settings = [...new Map(missing.map((each) => [each.case.setting.name, each.case.setting])).values()];
  const measureOne = (setting: LiveSetting): Promise<void> =>
    measureSetting(
      setting,
      missing.filter((each) => each.case.setting.name === setting.name),
      serve,
      machine,
      onMeasured,
    );
  for (const setting of settings.filter(({ kind }) => kind === "real")) await measureOne(setting);
  // The longest first, or one of them is what all wait for in the end.
  const secondsOfAll = (name: string) =>
    missing.reduce((sum, each) => sum + (each.case.setting.name === name ? secondsOf(each) : 0), 0);
  const emulated = settings
    .filter(({ kind }) => kind === "emulated")
    .map((setting) => ({ setting, seconds: secondsOfAll(setting.name) }))
    .sort((a, b) => b.seconds - a.seconds)
    .map(({ setting }) => setting);
  const lane = async (): Promise<void> => {
    for (let next = emulated.shift(); next !== undefined; next = emulated.shift()) await measureOne(next);
  };
  await allOrFirstError(Array.from({ length: LANES }, lane), () => emulated.splice(0));
  const all = planned.map((each) => ({ setting: each.case.setting, ...reports.get(digestOf(each.plan))! }));
  const compared = all.map((each) => ({ ...each, comparison: compare(evidenceOf(each)) }));
  await writeFigure(options.figuresDir, comparedFigure(compared));
  return [...compared.map(caseResult), ...summaryResults(compared)];
}

interface PlannedCase {
  readonly case: LiveCase;
  readonly plan: CasePlan;
}

function planOf({ setting, load }: LiveCase, size: number): CasePlan {
  const isTiny = size < 0.05;
  const isReal = setting.kind === "real";
  return {
    setting: setting.name,
    load,
    policy: DEFAULT_POLICY ?? "default",
    requests: Math.round(REQUESTS * Math.min(1, Math.max(0.25, size))),
    pairs: isTiny ? 3 : PAIRS,
    sparePairs: isReal ? SPARE_PAIRS : PAIRS,
    pairsPerRun: isReal ? 1 : PAIRS,
    sweepPairs: isTiny ? 1 : SWEEP_PAIRS,
    timeouts: TIMEOUT_FRACTIONS,
    hasControl: load === CONTROL_LOAD,
    repeatsMax: REPEATS_MAX,
    shortestS: isTiny || isReal ? REAL_SHORTEST_S : SHORTEST_S,
    longestS: isReal ? REAL_LONGEST_S : LONGEST_S,
  };
}

const evidenceOf = ({ plan, measured }: LiveCaseReport): CaseEvidence => ({
  runs: measured.runs,
  timeouts: plan.timeouts,
  load: plan.load,
  betaOverAlpha: measured.beta_over_alpha,
  mostInTime: measured.most_in_time,
});

/** All cases of one setting on one server, which is started for them. @param machine where emulated runs find their turn. */
export async function measureSetting(
  setting: LiveSetting,
  cases: readonly PlannedCase[],
  options: Omit<ServeOptions, "timeouts">,
  machine: SharedMachine,
  onMeasured: (plan: CasePlan, measured: MeasuredCase) => void,
): Promise<void> {
  const timeouts = [...new Set(cases.flatMap(({ plan }) => plan.timeouts))];
  const served = await machine.run(START_RPS, () => serveSetting(setting, { ...options, timeouts }));
  try {
    for (const { plan } of cases) onMeasured(plan, await measureCase(setting, served, plan, machine));
  } finally {
    await served.stop();
  }
}

async function measureCase(
  setting: LiveSetting,
  served: ServedSetting,
  plan: CasePlan,
  machine: SharedMachine,
): Promise<MeasuredCase> {
  const fromUs = monotonicNow();
  const rps = plan.load * served.capacityRps;
  const length = lengthOf(plan, rps, Math.max(...Object.values(served.sloMs)));
  const run: Runs = (contenders, pairs) => served.run(contenders, rps, seedOf(plan, pairs[0]!), length, pairs.length);
  const shared: Runs = async (contenders, pairs) => {
    const counts = await machine.run(contenders.length * rps, () => run(contenders, pairs));
    for (const pair of counts) machine.learn(pair.every(({ lag_ms }) => (lag_ms ?? 0) <= ON_TIME_LAG_MS));
    return counts;
  };
  const isReal = setting.kind === "real";
  const runs = await runPairs(plan, isReal ? inTurn(plan, run) : shared);
  const most = isReal ? null : mostInTime(setting, rps, length.countedS) / (rps * length.countedS);
  return {
    capacity_rps: served.capacityRps,
    offered_rps: rps,
    slo_ms: served.sloMs,
    beta_over_alpha: served.betaOverAlpha,
    most_in_time: most,
    warmup_s: length.warmupS,
    counted_s: length.countedS,
    runs,
    wall_s: Math.round((monotonicNow() - fromUs) / 1e5) / 10,
  };
}

/** Each pair of each case has its own arrivals. @param pair the first of a run. */
export const seedOf = ({ setting, load }: Pick<CasePlan, "setting" | "load">, pair: number): number =>
  Math.floor(stream(pair, `default/${setting}/${load}`)() * 2 ** 32);

function lengthOf({ requests, shortestS, longestS }: CasePlan, rps: number, sloMs: number): RunLength {
  const sloS = sloMs / 1000;
  const least = Math.max(shortestS, COUNTED_SLOS * sloS);
  return {
    warmupS: Math.max(Math.min(WARMUP_S, shortestS), WARMUP_SLOS * sloS),
    countedS: Math.max(least, Math.min(requests / rps, longestS)),
  };
}

const runsOf = ({ pairs, sweepPairs, timeouts, hasControl }: CasePlan): number =>
  pairs * (3 + Number(hasControl)) + sweepPairs * (timeouts.length - 1);

/** Seconds that a case takes by itself, about: real models' runs one after the other, the pairs of emulated ones. */
export function secondsOf({ case: { setting, load }, plan }: PlannedCase): number {
  if (setting.kind === "real") return runsOf(plan) * REAL_RUN_S;
  const sloMs = Math.max(...setting.models.map((model) => model.sloMs));
  const { warmupS, countedS } = lengthOf(plan, load * setting.capacityRps, sloMs);
  const runs = 1 + Math.ceil((plan.pairs - plan.sweepPairs) / plan.pairsPerRun);
  return plan.pairs * countedS + runs * (warmupS + sloMs / 1000 + BETWEEN_S);
}

/** Of the machine's seconds. */
function shareOf(each: PlannedCase): number {
  const { case: one, plan } = each;
  if (one.setting.kind === "real") return secondsOf(each);
  const rps = (runsOf(plan) / plan.pairs) * one.load * one.setting.capacityRps;
  return (secondsOf(each) * Math.max(rps / (MOST_RPS * CORES), 1 / LANES)) / PACKED;
}

class ProgressOfCases {
  private readonly startedUs = monotonicNow();
  private readonly expected: Map<string, number>;
  private readonly kept: number;
  private allS = 0;
  private doneS = 0;

  constructor(
    private readonly total: number,
    missing: readonly PlannedCase[],
    private readonly note: (text: string) => void,
  ) {
    this.expected = new Map(missing.map((each) => [digestOf(each.plan), shareOf(each)]));
    this.kept = total - missing.length;
    for (const seconds of this.expected.values()) this.allS += seconds;
    note(`${total} cases${this.kept > 0 ? `, ${this.kept} kept` : ""}; about ${minutes(this.allS)}`);
  }

  done(plan: CasePlan, measured: MeasuredCase): void {
    const digest = digestOf(plan);
    this.doneS += this.expected.get(digest)!;
    this.expected.delete(digest);
    const elapsedS = (monotonicNow() - this.startedUs) / 1e6;
    // Until all lanes have ended something, the plan knows better than the clock.
    const pace = this.doneS > MEASURED_PART * this.allS ? elapsedS / this.doneS : 1;
    const leftS = (this.allS - this.doneS) * pace;
    const { ratio, best, least, pairs } = compare(evidenceOf({ plan, measured }));
    this.note(
      `${this.total - this.expected.size} of ${this.total} cases, ${minutes(leftS)} left; ${plan.setting} at ${plan.load}: ` +
        (pairs === 0 ? least : `${ratio.median.toFixed(3)} of ${best} over ${pairs} pairs, ${least}`),
    );
  }
}

const minutes = (seconds: number): string =>
  seconds < 90
    ? `${Math.ceil(seconds)} s`
    : seconds < 5400
      ? `${Math.round(seconds / 60)} min`
      : `${(seconds / 3600).toFixed(1)} h`;

/** @param cancel so that lanes take nothing new once one failed. */
async function allOrFirstError(work: readonly Promise<void>[], cancel: () => void): Promise<void> {
  for (const each of work) each.catch(cancel);
  for (const ended of await Promise.allSettled(work)) if (ended.status === "rejected") throw ended.reason;
}
