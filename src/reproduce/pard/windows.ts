/** Figures 2 (a, b), 9 and 10: the same runs by second, over windows of several lengths. */
import { type Experiment, type GetResult, pick, type Size } from "../experiment.js";
import type { PipelineResult } from "../point.js";
import { APPLICATIONS, LV } from "./applications.js";
import { LOST, percent, placesTable, right } from "./presentation.js";
import { type Case, describeRun, type Measured, measured, planned, runOf, workloadOf } from "./runs.js";
import { CLIPPER, NEXUS, PARD, SYSTEMS } from "./systems.js";
import type { Traces } from "./traces/rates.js";
import { tracesOf } from "./traces/trace-files.js";

const WINDOWS_S = [1, 2, 5, 10, 20, 60];
const SMOOTHED_S = 5;

type Seconds = NonNullable<PipelineResult["seconds"]>;

const sumOf = (counts: readonly number[], from: number, width: number): number =>
  counts.slice(from, from + width).reduce((sum, count) => sum + count, 0);

/** Of all windows of so many seconds in which anything came: the largest part lost, and the smallest part that finished. */
export function worstOver(windowS: number, { offered, good }: Seconds): number {
  const width = Math.min(windowS, offered.length);
  let worst = 0;
  for (let from = 0; from + width <= offered.length; from++) {
    const came = sumOf(offered, from, width);
    if (came > 0) worst = Math.max(worst, 1 - sumOf(good, from, width) / came);
  }
  return worst;
}

const windowsOf = (seconds: Seconds): number[] => WINDOWS_S.filter((windowS) => windowS <= seconds.offered.length);

const runsFor = (size: Size, cases: readonly Case[]) => planned(cases, SYSTEMS, runOf(size), ["seconds"]);
const secondsOf = ({ result }: Measured): Seconds => result.seconds!;

const casesFor = (size: Size, traces: Traces): readonly Case[] => {
  const all = APPLICATIONS.flatMap((app) => traces.map((trace): Case => ({ app, trace, rule: "peak", load: 1 })));
  return pick(size, { tiny: all.slice(0, 1), small: all, default: all });
};

const worstTable = (results: readonly Measured[]) => ({
  title: "Largest part lost in any window of so many seconds, per cent (first seed)",
  columns: [
    { title: "workload" },
    { title: "system" },
    ...windowsOf(secondsOf(results[0]!)).map((windowS) => right(`${windowS} s`)),
  ],
  rows: results.map((run) => [
    workloadOf(run.at),
    run.system.name,
    ...windowsOf(secondsOf(run)).map((windowS) => (100 * worstOver(windowS, secondsOf(run))).toFixed(1)),
  ]),
});

const byWindow = (results: readonly Measured[], value: (worst: number) => number) =>
  results.flatMap((run) =>
    windowsOf(secondsOf(run)).map((windowS) => ({
      x: windowS,
      y: value(worstOver(windowS, secondsOf(run))),
      series: run.system.name,
      panel: workloadOf(run.at),
    })),
  );

const X_WINDOW = { title: "window", unit: "s", scale: "log" } as const;
const SERIES = SYSTEMS.map(({ name }) => ({ name }));

export const fig2: Experiment = {
  name: "pard/fig2",
  title: "PARD, Figure 2: what reactive dropping loses",
  about:
    "lv under tweet: (a) least goodput and (b) highest drop rate over windows; (c) where Clipper++ loses requests under four workloads; (d) its drop rate by second.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const lv: Case = { app: LV, trace: traces[1], rule: "peak", load: 1 };
    const main = runsFor(size, [lv]);
    const others = planned(
      (size === "tiny" ? [lv] : casesFor(size, traces)).filter(({ app }) => app.name !== "da"),
      [CLIPPER, NEXUS],
      runOf(size),
      ["seconds"],
    );
    return {
      points: [...main, ...others].map(({ point }) => point),
      scope: describeRun(runOf(size), traces),
      present(get) {
        const results = measured(main, get);
        const reactive = measured(others, get);
        const clipper = results.find(({ system }) => system === CLIPPER)!;
        const { offered, good } = secondsOf(clipper);
        return {
          tables: [worstTable(results), placesTable("Reactive systems", reactive)],
          figures: [
            {
              kind: "lines",
              id: "pard-fig2-goodput",
              title: "Least goodput over windows",
              caption:
                "Part of what came in a window that finished in time: the worst window of the run. lv under tweet, load 1.",
              panels: [workloadOf(lv)],
              x: X_WINDOW,
              y: { title: "least normalised goodput", percent: true },
              series: SERIES,
              rows: byWindow(results, (worst) => 1 - worst),
            },
            {
              kind: "lines",
              id: "pard-fig2-transient",
              title: "Clipper++'s drop rate by second",
              caption: "lv under tweet, load 1, first seed.",
              x: { title: "time", unit: "s" },
              y: LOST,
              shape: "step",
              series: [{ name: CLIPPER.name }],
              rows: offered.map((came, second) => ({
                x: second,
                y: came === 0 ? 0 : Math.max(0, 1 - good[second]! / came),
                series: CLIPPER.name,
              })),
            },
          ],
          findings: [],
          notes: ["Figure 2b is the other side of 2a: what is not goodput is dropped."],
        };
      },
    };
  },
};

export const fig9: Experiment = {
  name: "pard/fig9",
  title: "PARD, Figure 9: drop rates over windows",
  about: "The window with the highest drop rate, for windows of several lengths; workers by peak, load 1.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const cases = casesFor(size, traces);
    const runs = runsFor(size, cases);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(runOf(size), traces),
      present(get: GetResult) {
        const results = measured(runs, get);
        const cuts = cases.flatMap((at) =>
          windowsOf(secondsOf(results[0]!)).map((windowS) => {
            const worstOf = (name: string): number =>
              worstOver(windowS, secondsOf(results.find((run) => run.at === at && run.system.name === name)!));
            const reactive = Math.min(worstOf(NEXUS.name), worstOf(CLIPPER.name));
            return reactive === 0 ? 0 : 1 - worstOf(PARD.name) / reactive;
          }),
        );
        return {
          tables: [worstTable(results)],
          figures: [
            {
              kind: "lines",
              id: "pard-fig9",
              title: "Highest drop rate over windows",
              caption: "First seed.",
              panels: [...new Set(results.map(({ at }) => workloadOf(at)))],
              columns: traces.length,
              x: X_WINDOW,
              y: { ...LOST, domain: [0, 1] as const },
              series: SERIES,
              rows: byWindow(results, (worst) => worst),
            },
          ],
          findings: [
            {
              promise: "in every window PARD's worst is 41 to 98 % below that of Nexus and Clipper++",
              found: `${percent(Math.min(...cuts))} to ${percent(Math.max(...cuts))}`,
              holds: Math.min(...cuts) >= 0.41,
            },
          ],
          notes: [],
        };
      },
    };
  },
};

export const fig10: Experiment = {
  name: "pard/fig10",
  title: "PARD, Figure 10: goodput as time passes",
  about: "What finished of what came, by second of arrival, on the twelve workloads; workers by peak, load 1.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const cases = casesFor(size, traces);
    const runs = runsFor(size, cases);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(runOf(size), traces),
      present(get) {
        const results = measured(runs, get);
        return {
          tables: [worstTable(results)],
          figures: APPLICATIONS.filter((app) => results.some(({ at }) => at.app === app)).map((app) => ({
            kind: "lines" as const,
            id: `pard-fig10-${app.name}`,
            title: `Normalised goodput, ${app.title}`,
            caption: "Over 5 s; first seed.",
            panels: traces.map(({ name }) => name),
            x: { title: "time", unit: "s" },
            y: { title: "finished of what came", percent: true, domain: [0, 1] as const },
            series: SERIES,
            rows: results
              .filter(({ at }) => at.app === app)
              .flatMap((run) =>
                smoothed(secondsOf(run)).map(({ x, y }) => ({
                  x,
                  y,
                  series: run.system.name,
                  panel: run.at.trace!.name,
                })),
              ),
          })),
          findings: [],
          notes: [],
        };
      },
    };
  },
};

/** A point for each 5 s, at their beginning. */
function smoothed({ offered, good }: Seconds): { x: number; y: number }[] {
  const points = [];
  for (let from = 0; from < offered.length; from += SMOOTHED_S) {
    const came = sumOf(offered, from, SMOOTHED_S);
    points.push({ x: from, y: came === 0 ? 1 : sumOf(good, from, SMOOTHED_S) / came });
  }
  return points;
}
