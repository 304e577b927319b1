import type { Experiment } from "../experiment.js";
import { LV } from "./applications.js";
import {
  EARLY,
  EQUAL,
  held,
  LATE,
  lostInFirst,
  lostInLatterHalf,
  percent,
  placesTable,
  ratesTable,
  runOfSystem,
} from "./presentation.js";
import { PAPER_DROPS } from "./published.js";
import { type Case, describeRun, measured, planned, runOf } from "./runs.js";
import { ABLATIONS, NEXUS, PARD } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

const ALL = [PARD, ...ABLATIONS, NEXUS];

export const fig11: Experiment = {
  name: "pard/fig11",
  title: "PARD, Figure 11: what each of its parts is worth",
  about:
    "lv under a rate as tweet's, workers by its peak, load 1: PARD, and PARD with one part taken out or replaced (Table 1), each a policy option or a budget in one line.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const cases: Case[] = [{ app: LV, trace: traces[1], rule: "peak", load: 1 }];
    const runs = planned(cases, ALL, run);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const results = measured(runs, get);
        const ours = runOfSystem(results, PARD);
        const nexus = runOfSystem(results, NEXUS);
        const latter = lostInLatterHalf(nexus);
        return {
          tables: [ratesTable("Ablations", results, ALL), placesTable("Ablations", results)],
          figures: [
            {
              kind: "bars",
              id: "pard-fig11-rates",
              title: "Drop and invalid rate of PARD's alternatives",
              caption:
                "Vertical lines: one standard deviation over seeds. The paper's drop rates are reckoned from its text.",
              groups: ALL.map(({ name }) => name),
              y: { title: "part", percent: true },
              series: [
                { name: "drop rate" },
                { name: "invalid rate" },
                { name: "drop rate, paper", kind: "published" },
              ],
              rows: results.flatMap(({ system, result }) => [
                { group: system.name, series: "drop rate", y: result.drop_rate.mean },
                { group: system.name, series: "invalid rate", y: result.invalid_rate.mean },
                ...(PAPER_DROPS[system.name] === undefined
                  ? []
                  : [{ group: system.name, series: "drop rate, paper", y: PAPER_DROPS[system.name]! }]),
              ]),
            },
            {
              kind: "bars",
              id: "pard-fig11-places",
              title: "Where requests are lost",
              caption: "Part of a system's lost requests by module.",
              groups: ALL.map(({ name }) => name),
              y: { title: "part of the lost", percent: true },
              series: LV.modules.map(({ name }) => ({ name })),
              rows: results.flatMap(({ system, result }) =>
                result.lost_in.map(({ module, share }) => ({ group: system.name, series: module, y: share })),
              ),
            },
          ],
          findings: [
            held(
              `no alternative drops less than PARD (${100 * EQUAL} points apart are equal)`,
              ABLATIONS.map((system) => ({
                name: system.name,
                holds: runOfSystem(results, system).result.drop_rate.mean >= ours.result.drop_rate.mean - EQUAL,
              })),
            ),
            {
              promise: `${100 * EARLY} % of PARD's drops are in the first two modules (paper: 87 %)`,
              found: percent(lostInFirst(ours, 2)),
              holds: lostInFirst(ours, 2) >= EARLY,
            },
            {
              promise: `${100 * LATE} % of Nexus's are in the latter half`,
              found: percent(latter),
              holds: latter >= LATE,
            },
          ],
          notes: [],
        };
      },
    };
  },
};
