import type { Experiment } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { LV } from "./applications.js";
import { right } from "./presentation.js";
import { type Case, describeRun, measured, planned, runOf } from "./runs.js";
import { ABLATIONS, PARD } from "./systems.js";
import { tracesOf } from "./trace-files.js";

const FCFS = ABLATIONS.find(({ name }) => name === "PARD-FCFS")!;
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
    "lv under tweet, workers by peak, load 1: (a) time in each module by second; (c) waiting time in each module by second, PARD and PARD-FCFS; (d) what is left of the SLO " +
    "as 100 consecutive requests come to the second and third module.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const cases: Case[] = [{ app: LV, trace: traces[1], rule: "peak", load: 1 }];
    const runs = planned(cases, [PARD, FCFS], run, ["modules", "budgets"]);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const results = measured(runs, get);
        const [ours] = results.map(({ result }) => result);
        const { modules, budgets } = ours!;
        const spread = (values: readonly (number | null)[]): number[] =>
          values.filter((value) => value !== null).toSorted((a, b) => a - b);
        const series = MODULES.map((name) => ({ name }));
        return {
          tables: [
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
          findings: [],
          notes: [
            "Figure 12b parts queueing from the wait in a batch; events tell when a batch begins, not when a request entered it: both are the wait here.",
          ],
        };
      },
    };
  },
};
