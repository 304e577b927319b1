import type { Experiment } from "../experiment.js";
import { type Application, DA, DA_DYNAMIC } from "./applications.js";
import { IN_VAIN, LOST, ratesTable, runOfSystem } from "./presentation.js";
import { type Case, describeRun, measured, planned, runOf, workloadOf } from "./runs.js";
import { PARD, PUBLISHED, SYSTEMS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

/** Paper: by 0.05, 0.21 and 0.10 times on wiki, tweet and azure. */
const PAPER_RISE: Readonly<Record<string, number>> = { wiki: 0.05, tweet: 0.21, azure: 0.1 };

export const dynamic: Experiment = {
  name: "pard/dynamic",
  title: "PARD, §5.2: requests that take one way of two",
  about:
    "da, and da where each request takes either the pose or the face module, evenly; workers planned for that; by peak, load 1.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const casesOf = (app: Application): Case[] => traces.map((trace) => ({ app, trace, rule: "peak", load: 1 }));
    const cases = [DA, DA_DYNAMIC].flatMap(casesOf);
    const runs = [
      ...planned(casesOf(DA), SYSTEMS, run),
      ...planned(
        casesOf(DA_DYNAMIC),
        SYSTEMS.map((system) => (system === PARD ? PUBLISHED : system)),
        run,
      ),
    ];
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const results = measured(runs, get);
        const dropOf = (app: string, trace: string): number =>
          runOfSystem(
            results.filter(({ at }) => at.app.name === app && at.trace!.name === trace),
            PARD,
          ).result.drop_rate.mean;
        return {
          tables: [
            ratesTable("A graph, and one way of two", results, SYSTEMS),
            {
              title: "PARD's drop rate with one way of two, of that with both",
              columns: [{ title: "trace" }, { title: "ours", align: "right" }, { title: "paper", align: "right" }],
              rows: traces.map(({ name }) => [
                name,
                `${(dropOf(DA_DYNAMIC.name, name) / Math.max(1e-9, dropOf(DA.name, name))).toFixed(2)}`,
                `${(1 + PAPER_RISE[name]!).toFixed(2)}`,
              ]),
            },
          ],
          figures: (["drop_rate", "invalid_rate"] as const).map((key) => ({
            kind: "bars" as const,
            id: `pard-dynamic-${key === "drop_rate" ? "drop" : "invalid"}`,
            title:
              key === "drop_rate" ? "Drop rate, both ways and one of two" : "Invalid rate, both ways and one of two",
            caption: "Workers by peak, load 1.",
            groups: cases.map(workloadOf),
            y: key === "drop_rate" ? LOST : IN_VAIN,
            series: SYSTEMS.map(({ name }) => ({ name })),
            rows: results.map(({ at, system, result }) => ({
              group: workloadOf(at),
              series: system.name,
              y: result[key].mean,
            })),
          })),
          findings: [],
          notes: [
            "With one way of two PARD's forecast still takes the longer one (§5.2: mis-estimated); pard/estimates has it learnt.",
          ],
        };
      },
    };
  },
};
