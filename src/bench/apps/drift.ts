/** The requests of one app become twice as long at once: how soon are as many in time as if they had always been so? */
import type { Figure, LineRow } from "../../reproduce/figure.js";
import { writeFigure } from "../../reproduce/write-figure.js";
import type { BenchResult } from "../bench-result.js";
import { type Contender, DEFAULT, EAGER, type RunCounts } from "../default/paired-runs.js";
import { BY_APP } from "./app-contenders.js";
import type { AppLoad, AppsSetting } from "./apps-settings.js";
import { type ServeAppsOptions, type ServedApps, serveApps } from "./served-apps.js";

export interface DriftOptions extends Omit<ServeAppsOptions, "contenders"> {
  readonly size: number;
  readonly figuresDir: string | null;
}

const LOAD = 0.8;
const BEFORE_S = 60;
/** Window of what policies remember (window_s), and as much again as steady state. */
const WINDOW_S = 60;
const BIN_S = 5;
const SHORTEST_BIN_S = 1;
/** Back is within so much of steady. */
const WITHIN = 0.03;
const SEED = 1;

interface Measured {
  readonly contender: string;
  /** Finish rate by bin from the change on; the steady one; seconds until the first bin from which on two are back. */
  readonly rates: readonly number[];
  readonly steady: number;
  readonly backS: number | null;
}

export async function benchDrift(settings: readonly AppsSetting[], options: DriftOptions): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  const rows: LineRow[] = [];
  const scale = Math.min(1, options.size);
  const binS = Math.max(SHORTEST_BIN_S, BIN_S * scale);
  for (const setting of settings) {
    const served = await serveApps(setting, { ...options, contenders: [EAGER, BY_APP, DEFAULT] });
    try {
      const rps = LOAD * (await served.capacityRps());
      for (const contender of [BY_APP, DEFAULT]) {
        options.note(`${setting.name}: drift under ${contender.name}`);
        const measured = await measure(served.run, contender, setting, {
          // Measured on the mix after the change.
          rps,
          binS,
          beforeBins: Math.max(2, Math.round((BEFORE_S * scale) / binS)),
          windowBins: Math.max(2, Math.round((WINDOW_S * scale) / binS)),
        });
        results.push(resultOf(setting, measured, binS));
        for (const [bin, y] of measured.rates.entries())
          rows.push({ x: bin * binS, y, series: contender.name, panel: setting.name });
      }
    } finally {
      await served.stop();
    }
  }
  await writeFigure(options.figuresDir, figureOf(settings, rows));
  return results;
}

/** The last app, the longer one, of half its length before. */
const half = (app: AppLoad): AppLoad => ({
  ...app,
  lengths: [Math.ceil(app.lengths[0] / 2), Math.ceil(app.lengths[1] / 2)],
});
const before = ({ apps }: AppsSetting): AppLoad[] => [...apps.slice(0, -1), half(apps.at(-1)!)];

async function measure(
  run: ServedApps["run"],
  contender: Contender,
  setting: AppsSetting,
  { rps, binS, beforeBins, windowBins }: { rps: number; binS: number; beforeBins: number; windowBins: number },
): Promise<Measured> {
  await run(contender, { rps, seed: SEED, warmupS: 0, countedS: beforeBins * binS, partS: binS }, before(setting));
  const countedS = 2 * windowBins * binS;
  const bins = await run(contender, { rps, seed: SEED + setting.apps.length, warmupS: 0, countedS, partS: binS });
  const rates = bins.map(rateOf);
  const last = bins.slice(windowBins);
  const steady = rateOf({
    arrived: last.reduce((sum, { arrived }) => sum + arrived, 0),
    in_time: last.reduce((sum, { in_time }) => sum + in_time, 0),
  });
  const isBack = (rate: number | undefined): boolean => rate !== undefined && rate >= steady - WITHIN;
  const back = rates.findIndex((rate, bin) => isBack(rate) && isBack(rates[bin + 1]));
  return { contender: contender.name, rates, steady, backS: back < 0 ? null : back * binS };
}

const rateOf = ({ arrived, in_time }: Pick<RunCounts, "arrived" | "in_time">): number =>
  arrived === 0 ? 1 : in_time / arrived;

const resultOf = ({ name }: AppsSetting, { contender, rates, steady, backS }: Measured, binS: number): BenchResult => ({
  name: `drift ${name}, ${contender}`,
  value: backS ?? Number.POSITIVE_INFINITY,
  unit: "s until back",
  detail:
    `within ${100 * WITHIN} points of steady ${(100 * steady).toFixed(1)} % in two bins of ${binS} s; ` +
    `in time by bin ${rates.map((rate) => (100 * rate).toFixed(0)).join(" ")} %`,
  digest: "-",
});

const figureOf = (settings: readonly AppsSetting[], rows: readonly LineRow[]): Figure => ({
  id: "apps-drift",
  title: "One app's requests become twice as long",
  caption: "Requests in time by time of arrival, from the change on.",
  kind: "lines",
  panels: settings.map(({ name }) => name),
  x: { title: "since the change", unit: "s" },
  y: { title: "in time", percent: true },
  series: [BY_APP, DEFAULT].map(({ name }) => ({ name })),
  rows,
});
