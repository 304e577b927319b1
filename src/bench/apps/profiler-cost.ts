/**
 * What the online profiler costs those who are served: the same arrivals of two apps, at 70 % load, to a server with it and to one
 * without, in turn. Not for: what is learnt, which is the same model's second run.
 */
import path from "node:path";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions } from "../../load/load-options.js";
import { runLoad } from "../../load/run-load.js";
import { runTogether } from "../../load/run-together.js";
import { mean, tInterval95 } from "../../measure/statistics.js";
import type { BenchResult } from "../bench-result.js";
import { temporaryFolder } from "../serving/identity-repository.js";
import { measureProfile, timesOf } from "../serving/measured-profile.js";
import { writePolicyModels } from "../serving/policy-models.js";
import { type ServedProcess, serveProcess } from "../serving/served-process.js";
import { BY_APP, groupConfig, groupOf, modelOf, modelsOf } from "./app-contenders.js";
import { type AppsSetting, longestOf } from "./apps-settings.js";

export interface ProfilerCostOptions {
  readonly size: number;
  readonly profileS: number;
  readonly capacityS: number;
  readonly note: (text: string) => void;
}

const LOAD = 0.7;
/** Loose, so that there is room for runs: who is late beside a run would show in p99. */
const SLO_OVER_ALONE = 30;
const CLOSED_LOOP = 16;
const PAIRS = 5;
const RUN_S = 60;
const SHORTEST_S = 2;
const SIDES = ["without", "with"] as const;
type Side = (typeof SIDES)[number];

interface Run {
  readonly side: Side;
  readonly pair: number;
  /** By app, ms; null: nobody finished. */
  readonly p99s: readonly (number | null)[];
  readonly finishRate: number;
  readonly voidReason: string | null;
}

export async function benchProfilerCost(setting: AppsSetting, options: ProfilerCostOptions): Promise<BenchResult[]> {
  const { folder, remove } = temporaryFolder("profiler");
  const servers: Partial<Record<Side, ServedProcess>> = {};
  try {
    const { source, apps, name } = setting;
    const names = apps.map((app) => app.name);
    options.note(`${name}: profiling for ${options.profileS} s`);
    const profile = await measureProfile(folder, source, options.profileS);
    const sloMs = Math.ceil(SLO_OVER_ALONE * timesOf(profile, longestOf(setting)).aloneMs);
    const models = path.join(folder, "models");
    const declared = { ...source, settings: { ...source.settings, apps: names } };
    writePolicyModels(models, declared, modelsOf(BY_APP, name, names), sloMs, profile);
    const config = { models, groups: { [groupOf(BY_APP)]: groupConfig(BY_APP) } };
    for (const side of SIDES)
      servers[side] = await serveProcess(
        folder,
        { ...config, scheduler: side === "with" ? {} : { profiler: false } },
        true,
      );
    const loads = (side: Side, rps: number, seed: number, durationS: number): LoadOptions[] =>
      apps.map(({ name: app, share, lengths: [low, high] }, index) => ({
        ...LOAD_DEFAULTS,
        targets: [`http://127.0.0.1:${servers[side]!.httpPort}/v2/models/${modelOf(BY_APP, name, app)}#slo=${sloMs}`],
        samples: setting.samples,
        encoding: "binary",
        clientTimeoutMs: defaultClientTimeoutMs(sloMs),
        isSpinning: false,
        mode: { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps: rps * share }] },
        durationS,
        warmupS: Math.min(2, durationS / 4),
        seed: seed + index,
        lengths: `uniform:${low}:${high}`,
        app,
      }));
    const capacities = await Promise.all(
      loads("without", 1, 1, options.capacityS).map((load, index) =>
        runLoad({ ...load, mode: { kind: "closed", concurrency: Math.ceil(CLOSED_LOOP * apps[index]!.share) } }),
      ),
    );
    // Of the mix: as much of it as the shares allow.
    const rps = LOAD * Math.min(...capacities.map(({ report }, index) => report.goodput_rps / apps[index]!.share));
    const durationS = Math.max(SHORTEST_S, RUN_S * Math.min(1, options.size));
    const runs: Run[] = [];
    for (let pair = 0; pair < PAIRS; pair++)
      for (const side of pair % 2 === 0 ? SIDES : [...SIDES].reverse()) {
        options.note(`${name}: pair ${pair + 1} of ${PAIRS}, ${side} the profiler, ${rps.toFixed(0)} r/s`);
        const all = await Promise.all(
          loads(side, rps, 10 * pair + 1, durationS).map(async (load) => (await runTogether([load]))[0]!),
        );
        const reports = all.map(({ report }) => report);
        runs.push({
          side,
          pair,
          p99s: reports.map(({ latency_ms }) => latency_ms.p99),
          finishRate: mean(reports.map(({ finish_rate }) => finish_rate)),
          voidReason: reports.find(({ void_reason }) => void_reason !== null)?.void_reason ?? null,
        });
      }
    const answer = await fetch(`http://127.0.0.1:${servers.with!.httpPort}/metrics`);
    const seen = profilerLines(await answer.text());
    return names.map((app, index) =>
      resultOf(`profiler ${name}, ${app}`, runs, index, `${rps.toFixed(0)} r/s; ${seen}`),
    );
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
    remove();
  }
}

function resultOf(name: string, runs: readonly Run[], app: number, detail: string): BenchResult {
  const valid = runs.filter(({ voidReason }) => voidReason === null);
  const of = (side: Side, pair: number): Run | undefined => valid.find((run) => run.side === side && run.pair === pair);
  const ratios: number[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    const own = of("with", pair)?.p99s[app] ?? null;
    const other = of("without", pair)?.p99s[app] ?? null;
    if (own !== null && other !== null) ratios.push(own / other);
  }
  const sides = SIDES.map((side) => {
    const own = valid.filter((run) => run.side === side);
    const p99s = own.flatMap(({ p99s }) => p99s[app] ?? []);
    return `${side} ${mean(p99s).toFixed(2)} ms, ${(100 * mean(own.map(({ finishRate }) => finishRate))).toFixed(2)} % in time`;
  });
  const interval = ratios.length < 2 ? "" : intervalText(tInterval95(ratios));
  const voids = [...new Set(runs.flatMap(({ voidReason }) => voidReason ?? []))].map((reason) => `void: ${reason}`);
  return {
    name,
    value: ratios.length === 0 ? Number.NaN : mean(ratios),
    unit: "of p99 without",
    detail: [`${ratios.length} pairs${interval}: ${sides.join("; ")}`, detail, ...voids].join("; "),
    digest: "-",
  };
}

const intervalText = ({ low, high }: { readonly low: number; readonly high: number }): string =>
  ` [${low.toFixed(3)}, ${high.toFixed(3)}]`;

/** What the server with the profiler says that it did. */
const profilerLines = (metrics: string): string =>
  metrics
    .split("\n")
    .filter((line) => line.startsWith("rubato_profiler_"))
    .map((line) => line.replace(/^rubato_profiler_/, "").replaceAll('"', ""))
    .join(", ");
