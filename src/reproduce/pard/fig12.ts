import type { Experiment } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { LV } from "./applications.js";
import { right } from "./presentation.js";
import { type Case, describeRun, measured, planned, runOf } from "./runs.js";
import { ABLATIONS, PARD } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

const FCFS = ABLATIONS.find(({ name }) => name === "PARD-FCFS")!;
/** Eq. 2. */
const SPENT = [
  { key: "queue", name: "queueing" },
  { key: "wait", name: "wait in batches" },
  { key: "exec", name: "execution" },
] as const;
const SHOWN = [5, 25, 50, 75, 95] as const;

/** @param percentiles 0 to 100; none where nothing finished. */
const spreadMs = (percentiles: readonly number[]): number => (percentiles[95] ?? 0) - (percentiles[5] ?? 0);

const MODULES = LV.modules.map(({ name }) => name);

const linesOf = (
  modules: readonly { readonly module: string }[],
  valuesOf: (index: number) => readonly (number | null)[],
  panel?: string,
): LineRow[] =>
  modules.flatMap(({ module }, index) =>
    valuesOf(index).flatMap((y, x): LineRow[] =>
      y === null ? [] : [{ x, y, series: module, ...(panel === undefined ? {} : { panel }) }],
    ),
  );

export const fig12: Experiment = {
  name: "pard/fig12",
  title: "PARD, Figure 12: where a request's budget goes",
  about:
    "lv under tweet, workers by peak, load 1: (a) time in each module by second; (b) queueing, wait in batches and execution over all modules; (c) waiting time in each module by second, PARD and PARD-FCFS; (d) what is left of the SLO " +
    "as 100 consecutive requests come to the second and third module.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const cases: Case[] = [{ app: LV, trace: traces[1], rule: "peak", load: 1 }];
    const runs = planned(cases, [PARD, FCFS], run, ["modules", "budgets", "spent"]);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const results = measured(runs, get);
        const [ours] = results.map(({ result }) => result);
        const { modules, budgets, spent } = ours!;
        const spread = (values: readonly (number | null)[]): number[] =>
          values.filter((value) => value !== null).toSorted((a, b) => a - b);
        const series = MODULES.map((name) => ({ name }));
        return {
          tables: [
            {
              title: "PARD: milliseconds over all modules, of requests in time",
              columns: [{ title: "spent on" }, ...SHOWN.map((percentile) => right(`p${percentile}`))],
              rows: SPENT.map(({ key, name }) => [name, ...SHOWN.map((at) => spent![key][at]?.toFixed(1) ?? "")]),
            },
            {
              title:
                "PARD: milliseconds left of the SLO on coming to a module, 100 consecutive requests in the middle of the run",
              columns: [{ title: "module" }, right("came"), right("least"), right("median"), right("most")],
              rows: budgets!.map(({ module, left_ms: left }) => {
                const sorted = spread(left);
                const at = (part: number): string =>
                  sorted.length === 0 ? "" : sorted[Math.round(part * (sorted.length - 1))]!.toFixed(0);
                return [module, String(sorted.length), at(0), at(0.5), at(1)];
              }),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "pard-fig12-stay",
              title: "Time in each module",
              caption: "Mean over the parts whose batches began in the second; first seed.",
              x: { title: "time", unit: "s" },
              y: { title: "time in the module, ms" },
              series,
              rows: linesOf(modules!, (index) => modules![index]!.stay_ms),
            },
            {
              kind: "lines",
              id: "pard-fig12-spent",
              title: "What a request's time is spent on",
              caption:
                "Part of the requests in time that spent at most so long, over all modules together; first seed.",
              x: { title: "time", unit: "ms" },
              y: { title: "part of the requests", percent: true, domain: [0, 1] as const },
              series: SPENT.map(({ name }) => ({ name })),
              rows: SPENT.flatMap(({ key, name }) =>
                spent![key].map((x, percentile) => ({ x, y: percentile / 100, series: name })),
              ),
            },
            {
              kind: "lines",
              id: "pard-fig12-wait",
              title: "Waiting in each module, by the order in which requests are decided about",
              caption: "From coming to the module until the batch begins, mean; first seed.",
              panels: results.map(({ system }) => system.name),
              x: { title: "time", unit: "s" },
              y: { title: "wait, ms" },
              series,
              rows: results.flatMap(({ system, result }) =>
                linesOf(result.modules!, (index) => result.modules![index]!.wait_ms, system.name),
              ),
            },
            {
              kind: "lines",
              id: "pard-fig12-budget",
              title: "What is left of the SLO",
              caption: "Consecutive requests, as they come to the second and to the third module.",
              x: { title: "request" },
              y: { title: "budget left, ms" },
              series: MODULES.slice(1, 3).map((name) => ({ name })),
              rows: linesOf(budgets!.slice(1, 3), (index) => budgets![index + 1]!.left_ms),
            },
          ],
          findings: [
            {
              promise: "waits in batches vary more than queueing and execution (paper: far more)",
              found: `from p5 to p95: ${SPENT.map(({ key, name }) => `${name} ${spreadMs(spent![key]).toFixed(1)} ms`).join(", ")}`,
              holds: spreadMs(spent!.wait) > Math.max(spreadMs(spent!.queue), spreadMs(spent!.exec)),
            },
          ],
          notes: [
            "(b) is of all modules: the sums of Figure 12b for k = 0. The paper does not say which k it shows, nor of which run. In (c) waiting is both queueing and the wait in a batch.",
          ],
        };
      },
    };
  },
};
