/** One server to a setting, a group of workers for each contender, and a load for each app. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions } from "../../load/load-options.js";
import { runLoad } from "../../load/run-load.js";
import { runTogether } from "../../load/run-together.js";
import type { Prediction } from "../../measure/prediction.js";
import { stream } from "../../sim/random.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Contender, RunCounts } from "../default/paired-runs.js";
import { EAGER } from "../default/paired-runs.js";
import { measureProfile, timesOf } from "../serving/measured-profile.js";
import { writePolicyModels } from "../serving/policy-models.js";
import { type Stoppable, serveFolder } from "../serving/served-folder.js";
import { groupConfig, groupOf, modelOf, modelsOf, namesApps } from "./app-contenders.js";
import { type AppLoad, type AppsSetting, longestOf } from "./apps-settings.js";
import { predictionOfBuckets } from "./served-prediction.js";

export interface AppsRun {
  readonly rps: number;
  readonly seed: number;
  readonly warmupS: number;
  readonly countedS: number;
  /** Counts are told apart in parts of so many seconds. */
  readonly partS: number;
}

/** What one app's load counted. */
export type AppCounts = Awaited<ReturnType<typeof runTogether>>[number];

export interface ServedApps extends Stoppable {
  /** Its file, until stopped. */
  readonly profile: string;
  readonly betaOverAlpha: number;
  readonly sloMs: number;
  /** Of the mix, served eagerly in a closed loop. @throws ServingError unavailable when nothing finishes. */
  capacityRps(): Promise<number>;
  /** Poisson arrivals of each app, to one contender. The same seed, the same arrivals and bodies, whoever serves them. @returns by part. */
  run(contender: Contender, run: AppsRun, apps?: readonly AppLoad[]): Promise<RunCounts[]>;
  /** The same, told by app. */
  runByApp(contender: Contender, run: AppsRun, apps?: readonly AppLoad[]): Promise<AppCounts[]>;
  metrics(): Promise<string>;
  /** What batches took since the server started against what they were expected to; null: its policy knows no distributions. */
  prediction(contender: Contender): Promise<Prediction | null>;
}

export interface ServeAppsOptions {
  /** EAGER among them where capacity is asked for. */
  readonly contenders: readonly Contender[];
  /** Of the server's configuration. */
  readonly scheduler?: object;
  /** File of a profile; absent: it is measured. */
  readonly profile?: string;
  readonly profileS: number;
  readonly capacityS: number;
  readonly note: (text: string) => void;
}

/** As many at a time, each with a deadline that nobody misses: what is dropped is not capacity. */
const CLOSED_LOOP = 16;
const CAPACITY_SLO_OVER_ALONE = 150;
const MIXED_LENGTHS = 1000;

export function serveApps(setting: AppsSetting, options: ServeAppsOptions): Promise<ServedApps> {
  return serveFolder("apps", async (folder, serve) => {
    const { name, source, apps } = setting;
    const names = apps.map((app) => app.name);
    if (options.profile === undefined) options.note(`${name}: profiling for ${options.profileS} s`);
    const profile = options.profile ?? (await measureProfile(folder, source, options.profileS));
    const { aloneMs, betaOverAlpha } = timesOf(profile, longestOf(setting));
    const sloMs = Math.ceil(setting.sloOverAlone * aloneMs);
    const { contenders, scheduler = {} } = options;
    const repository = path.join(folder, "models");
    const models = contenders.flatMap((contender) => modelsOf(contender, name, names));
    const declared = { ...source, settings: { ...source.settings, apps: names } };
    writePolicyModels(repository, declared, models, sloMs, profile);
    const groups = Object.fromEntries(contenders.map((each) => [groupOf(each), groupConfig(each)]));
    const { httpPort } = await serve({ models: repository, groups, scheduler });
    const url = (contender: Contender, app: string, ms: number): string =>
      `http://127.0.0.1:${httpPort}/v2/models/${modelOf(contender, name, app)}#slo=${ms}`;
    const loadOf = (targets: readonly string[], judgedMs: number): Omit<LoadOptions, "mode"> => ({
      ...LOAD_DEFAULTS,
      targets,
      samples: setting.samples,
      encoding: "binary",
      clientTimeoutMs: defaultClientTimeoutMs(judgedMs),
      // Server and workers need the cores.
      isSpinning: false,
    });
    const capacityRps = async (): Promise<number> => {
      options.note(`${name}: capacity; its longest takes ${aloneMs.toFixed(2)} ms alone, SLO ${sloMs} ms`);
      const lengths = path.join(folder, "lengths.txt");
      writeFileSync(lengths, mixedLengths(apps).join("\n"));
      const judgedMs = Math.ceil(CAPACITY_SLO_OVER_ALONE * aloneMs);
      const { report } = await runLoad({
        ...loadOf([url(EAGER, names[0]!, judgedMs)], judgedMs),
        mode: { kind: "closed", concurrency: CLOSED_LOOP },
        durationS: options.capacityS,
        warmupS: options.capacityS / 4,
        lengths,
      });
      if (report.goodput_rps > 0) return report.goodput_rps;
      const why = JSON.stringify({ drops: report.drops_by_reason, failures: report.failures_by_cause });
      throw new ServingError("unavailable", `${name}: no capacity, nothing finished within ${judgedMs} ms: ${why}`);
    };
    const runByApp: ServedApps["runByApp"] = (contender, { rps, seed, warmupS, countedS, partS }, own = apps) => {
      const loads = own.map(
        ({ name: app, share, lengths: [low, high] }, index): LoadOptions => ({
          ...loadOf([url(contender, app, sloMs)], sloMs),
          mode: { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps: rps * share }] },
          durationS: warmupS + countedS,
          warmupS,
          partS,
          // Of each app its own.
          seed: (seed + index) % 2 ** 32,
          lengths: `uniform:${low}:${high}`,
          parameters: namesApps(contender) ? { app } : {},
        }),
      );
      return Promise.all(loads.map(async (load) => (await runTogether([load]))[0]!));
    };
    const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
    return {
      profile,
      betaOverAlpha,
      sloMs,
      capacityRps,
      run: async (contender, run, own = apps) => {
        const ofApps = (await runByApp(contender, run, own)).map(({ parts }) => parts);
        return ofApps[0]!.map((_, part) => together(ofApps.map((parts) => parts[part]!)));
      },
      runByApp,
      metrics,
      prediction: async (contender) =>
        predictionOfBuckets(await metrics(), new Set(names.map((app) => modelOf(contender, name, app)))),
    };
  });
}

type Part = AppCounts["parts"][number];

function together(parts: readonly Part[]): RunCounts {
  const sum = (of: (part: Part) => number): number => parts.reduce((all, part) => all + of(part), 0);
  const lags = parts.flatMap(({ lagMs }) => lagMs ?? []);
  return {
    arrived: sum(({ arrived }) => arrived),
    in_time: sum(({ finished }) => finished),
    late: sum(({ late }) => late),
    lag_ms: lags.length === 0 ? null : Math.max(...lags),
    void_reason: parts.find(({ voidReason }) => voidReason !== null)?.voidReason ?? null,
  };
}

/** Of all apps, each as often as its share. */
function mixedLengths(apps: readonly AppLoad[]): number[] {
  const random = stream(1, "bench/apps/lengths");
  return apps.flatMap(({ share, lengths: [low, high] }) =>
    Array.from({ length: Math.round(share * MIXED_LENGTHS) }, () => low + Math.floor(random() * (high - low + 1))),
  );
}
