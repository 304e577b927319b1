/**
 * One server to a setting, with a group of accelerators for each contender: all see the same doors, the same event loop and the
 * same machine, and none sees another's queue. Emulated accelerators compute nothing, so theirs have work at the same moments;
 * real ones have cores in common, and take turns. Idle groups cost nothing.
 */
import path from "node:path";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions } from "../../load/load-options.js";
import { runLoad } from "../../load/run-load.js";
import { runTogether } from "../../load/run-together.js";
import { CPU_WORKERS, measureProfile, timesOf } from "../serving/measured-profile.js";
import { type ModelSource, type PolicyModel, writePolicyModels } from "../serving/policy-models.js";
import { type Stoppable, serveFolder } from "../serving/served-folder.js";
import type { EmulatedModel, EmulatedSetting, LiveSetting, RealSetting } from "./live-cases.js";
import { CONTROL, type Contender, DEFAULT, EAGER, type RunCounts, timeoutsOf } from "./paired-runs.js";
import { realModel } from "./real-models.js";

/** What the default is measured as. null: no policy is named, so the server's own. */
export const DEFAULT_POLICY: string | null = null;

export interface RunLength {
  readonly warmupS: number;
  /** Of a pair. */
  readonly countedS: number;
}

export interface ServedSetting extends Stoppable {
  readonly capacityRps: number;
  readonly betaOverAlpha: number;
  readonly sloMs: Readonly<Record<string, number>>;
  /**
   * Poisson arrivals at a rate, sent to each contender, for so many pairs one behind the other. The same seed, the same arrivals and
   * bodies, whoever serves them.
   * @returns counts by pair, of the contenders in their order.
   */
  run(
    contenders: readonly Contender[],
    rps: number,
    seed: number,
    length: RunLength,
    pairs: number,
  ): Promise<RunCounts[][]>;
}

export interface ServeOptions {
  readonly timeouts: readonly number[];
  readonly dataDir: string | null;
  /** Of the measurement of a real model. */
  readonly profileS: number;
  /** Of the closed loop that finds a real model's capacity. */
  readonly capacityS: number;
  readonly note: (text: string) => void;
}

export function serveSetting(setting: LiveSetting, options: ServeOptions): Promise<ServedSetting> {
  return setting.kind === "emulated" ? serveEmulated(setting, options) : serveReal(setting, options);
}

const groupOf = ({ name }: Contender): string => name.replace(".", "-");
const contendersOf = (timeouts: readonly number[]): Contender[] => [DEFAULT, EAGER, CONTROL, ...timeoutsOf(timeouts)];

export function policyModel(contender: Contender, model: string): PolicyModel {
  const group = groupOf(contender);
  const { timeoutFraction } = contender;
  const policy = timeoutFraction !== null ? "timeout" : contender.name === DEFAULT.name ? DEFAULT_POLICY : EAGER.name;
  const policyOptions = timeoutFraction === null ? {} : { timeout_fraction: timeoutFraction };
  return { name: `${group}-${model}`, group, policy, policyOptions };
}

function serveEmulated(setting: EmulatedSetting, options: ServeOptions): Promise<ServedSetting> {
  return serveFolder("default", async (folder, serve) => {
    const contenders = contendersOf(options.timeouts);
    const repository = path.join(folder, "models");
    for (const model of setting.models) {
      const models = contenders.map((contender) => policyModel(contender, model.name));
      writePolicyModels(repository, emulatedSource(model), models, model.sloMs, null);
    }
    const group = { kind: "emulated", count: setting.accelerators };
    const groups = Object.fromEntries(contenders.map((contender) => [groupOf(contender), group]));
    const { httpPort } = await serve({ models: repository, groups });
    const sloMs = Object.fromEntries(setting.models.map((model) => [model.name, model.sloMs]));
    const run: ServedSetting["run"] = (contenders, rps, seed, length, pairs) =>
      open(httpPort, contenders, sloMs, rps, seed, length, pairs, {});
    return { capacityRps: setting.capacityRps, betaOverAlpha: setting.betaOverAlpha, sloMs, run };
  });
}

function emulatedSource({ alphaMs, betaMs, batchMax }: EmulatedModel): ModelSource {
  const tensor = { datatype: "FP32", shape: [-1, 16], batch_axis: 0 };
  const settings = {
    platform: "rubato_emulated",
    batch_max: batchMax,
    emulated: { alpha_ms: alphaMs, beta_ms: betaMs },
    queue: { requests_max: 100_000 },
    inputs: { x: tensor },
    outputs: { y: tensor },
  };
  return { settings, file: null };
}

function serveReal({ name }: RealSetting, options: ServeOptions): Promise<ServedSetting> {
  return serveFolder("default", async (folder, serve) => {
    const { source, longest, sloMs: sloOf, load } = realModel(name, folder, options.dataDir);
    options.note(`${name}: profiling for ${options.profileS} s`);
    const profile = await measureProfile(folder, source, options.profileS);
    const { aloneMs, betaOverAlpha } = timesOf(profile, longest);
    const sloMs = sloOf(aloneMs);
    const contenders = contendersOf(options.timeouts);
    const repository = path.join(folder, "models");
    const models = contenders.map((contender) => policyModel(contender, name));
    writePolicyModels(repository, source, models, sloMs, profile);
    const groups = Object.fromEntries(contenders.map((contender) => [groupOf(contender), CPU_WORKERS]));
    const { httpPort } = await serve({ models: repository, groups });
    options.note(`${name}: capacity; a request alone takes ${aloneMs.toFixed(2)} ms, SLO ${sloMs} ms`);
    const capacityRps = await closedLoopRps(httpPort, name, sloMs, options.capacityS, load);
    const slos = { [name]: sloMs };
    const run: ServedSetting["run"] = (contenders, rps, seed, length, pairs) =>
      open(httpPort, contenders, slos, rps, seed, length, pairs, load);
    return { capacityRps, betaOverAlpha, sloMs: slos, run };
  });
}

function targetsOf(port: number, contender: Contender, sloMs: Readonly<Record<string, number>>): string[] {
  return Object.entries(sloMs).map(
    ([model, ms]) => `http://127.0.0.1:${port}/v2/models/${groupOf(contender)}-${model}#slo=${ms}`,
  );
}

async function open(
  port: number,
  contenders: readonly Contender[],
  sloMs: Readonly<Record<string, number>>,
  rps: number,
  seed: number,
  { warmupS, countedS }: RunLength,
  pairs: number,
  load: Partial<LoadOptions>,
): Promise<RunCounts[][]> {
  const loads = contenders.map(
    (contender): LoadOptions => ({
      ...LOAD_DEFAULTS,
      targets: targetsOf(port, contender, sloMs),
      mode: { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps }] },
      durationS: warmupS + pairs * countedS,
      warmupS,
      partS: countedS,
      seed,
      encoding: "binary",
      clientTimeoutMs: defaultClientTimeoutMs(Math.max(...Object.values(sloMs))),
      // Server, workers and the other settings need the cores.
      isSpinning: false,
      ...load,
    }),
  );
  const results = await runTogether(loads);
  return Array.from({ length: pairs }, (_, pair) =>
    results.map(({ parts }): RunCounts => {
      const { arrived, finished, late, lagMs, voidReason } = parts[pair]!;
      return { arrived, in_time: finished, late, lag_ms: lagMs, void_reason: voidReason };
    }),
  );
}

/** As many at a time, each with a deadline that nobody misses: what is dropped is not capacity. */
const CLOSED_LOOP = 16;
const SLACK = 50;

async function closedLoopRps(
  port: number,
  model: string,
  sloMs: number,
  seconds: number,
  load: Partial<LoadOptions>,
): Promise<number> {
  const judgedMs = SLACK * sloMs;
  const { report } = await runLoad({
    ...LOAD_DEFAULTS,
    targets: targetsOf(port, EAGER, { [model]: judgedMs }),
    mode: { kind: "closed", concurrency: CLOSED_LOOP },
    durationS: seconds,
    warmupS: seconds / 4,
    encoding: "binary",
    clientTimeoutMs: defaultClientTimeoutMs(judgedMs),
    isSpinning: false,
    ...load,
  });
  return Math.max(1, report.goodput_rps);
}
