/**
 * What the online profiler costs those who are served: the same arrivals of two apps, at 70 % load, to a server with it and to one
 * without, in turn. Not for: what is learnt, which is the same model's second run.
 */
import { mean, tInterval95 } from "../../measure/statistics.js";
import type { BenchResult } from "../bench-result.js";
import { EAGER } from "../default/paired-runs.js";
import { BY_APP } from "./app-contenders.js";
import type { AppsSetting } from "./apps-settings.js";
import { type ServeAppsOptions, type ServedApps, serveApps } from "./served-apps.js";

export interface ProfilerCostOptions extends Omit<ServeAppsOptions, "contenders" | "scheduler"> {
  readonly size: number;
}

const LOAD = 0.7;
/** Loose, so that there is room for runs: who is late beside a run would show in p99. */
const SLO_OVER_ALONE = 30;
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
  const { name, apps } = setting;
  const loose = { ...setting, sloOverAlone: SLO_OVER_ALONE };
  const servers: Partial<Record<Side, ServedApps>> = {};
  try {
    // The same workers on both, whether they are used or not.
    const alike = { ...options, contenders: [EAGER, BY_APP] };
    const without = await serveApps(loose, { ...alike, scheduler: { profiler: false } });
    servers.without = without;
    const rps = LOAD * (await without.capacityRps());
    servers.with = await serveApps(loose, { ...alike, profile: without.profile });
    const countedS = Math.max(SHORTEST_S, RUN_S * Math.min(1, options.size));
    const warmupS = Math.min(2, countedS / 3);
    const runs: Run[] = [];
    for (let pair = 0; pair < PAIRS; pair++)
      for (const side of pair % 2 === 0 ? SIDES : [...SIDES].reverse()) {
        options.note(`${name}: pair ${pair + 1} of ${PAIRS}, ${side} the profiler, ${rps.toFixed(0)} r/s`);
        const seed = 10 * pair + 1;
        const counts = await servers[side]!.runByApp(BY_APP, { rps, seed, warmupS, countedS, partS: countedS });
        const reports = counts.map(({ report }) => report);
        runs.push({
          side,
          pair,
          p99s: reports.map(({ latency_ms }) => latency_ms.p99),
          finishRate: mean(reports.map(({ finish_rate }) => finish_rate)),
          voidReason: reports.find(({ void_reason }) => void_reason !== null)?.void_reason ?? null,
        });
      }
    const seen = profilerLines(await servers.with!.metrics());
    return apps.map(({ name: app }, index) =>
      resultOf(`profiler ${name}, ${app}`, runs, index, `${rps.toFixed(0)} r/s; ${seen}`),
    );
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
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
