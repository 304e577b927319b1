import { Priority, type PriorityRule } from "../../policies/pard/priority.js";
import type { Experiment } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { FIFTH_US } from "../pipeline-run.js";
import { LV } from "./applications.js";
import { right } from "./presentation.js";
import { provision } from "./provisioning.js";
import { type Case, describeRun, planned, runOf } from "./runs.js";
import { PARD } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

const RULES = ["adaptive", "instant"] as const satisfies readonly PriorityRule[];
const NAMES = { adaptive: "PARD", instant: "PARD-instant" } as const;

/** The first module's priority over its arrivals, by the very code that its queue asks. */
function followed(rule: PriorityRule, arrivals: readonly number[], throughputRps: number) {
  const priority = new Priority(rule, FIFTH_US, () => throughputRps);
  let changes = 0;
  const steps = arrivals.map((count, fifth) => {
    const before = priority.isHighFirst;
    for (let request = 0; request < Math.max(1, count); request++) priority.arrived(fifth * FIFTH_US);
    if (priority.isHighFirst !== before) changes++;
    const { inputRps, epsilon } = priority.load;
    return { x: (fifth * FIFTH_US) / 1e6, load: inputRps / throughputRps, epsilon, isHighFirst: priority.isHighFirst };
  });
  return { steps, changes };
}

export const fig13: Experiment = {
  name: "pard/fig13",
  title: "PARD, Figure 13: load factor and priority",
  about:
    "lv under tweet, workers by peak, load 1: the first module's load factor, the thresholds around 1, and which end of its queues goes first, with and without the delay.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const at: Case = { app: LV, trace: traces[1], rule: "peak", load: 1 };
    const runs = planned([at], [PARD], run, ["arrivals"]);
    const { batch, execMs, workers } = provision(LV, run.workers).modules[0]!;
    const throughputRps = (1000 * workers * batch) / execMs;
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const arrivals = get(runs[0]!.point).arrivals!;
        const each = RULES.map((rule) => ({ rule, ...followed(rule, arrivals, throughputRps) }));
        const { steps } = each[0]!;
        const lineOf = (series: string, y: (step: (typeof steps)[number]) => number): LineRow[] =>
          steps.map((step) => ({ x: step.x, y: y(step), series }));
        return {
          tables: [
            {
              title: "Changes between high and low budget first",
              columns: [{ title: "system" }, right("changes"), right("high budget first, of the time")],
              rows: each.map(({ rule, steps: all, changes }) => [
                NAMES[rule],
                String(changes),
                `${((100 * all.filter(({ isHighFirst }) => isHighFirst).length) / all.length).toFixed(0)} %`,
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "pard-fig13-load",
              title: "Load factor and thresholds",
              caption: "Counted in fifths of a second; first seed.",
              x: { title: "time", unit: "s" },
              y: { title: "input, of the module's throughput" },
              series: [
                { name: "load factor" },
                { name: "high budget first above" },
                { name: "low budget first below" },
              ],
              rows: [
                ...lineOf("load factor", ({ load }) => load),
                ...lineOf("high budget first above", ({ epsilon }) => 1 + epsilon),
                ...lineOf("low budget first below", ({ epsilon }) => 1 - epsilon),
              ],
            },
            {
              kind: "lines",
              id: "pard-fig13-priority",
              title: "Which end goes first",
              caption: "1: high budget first; 0: low budget first.",
              panels: RULES.map((rule) => NAMES[rule]),
              x: { title: "time", unit: "s" },
              y: { title: "high budget first" },
              shape: "step",
              series: RULES.map((rule) => ({ name: NAMES[rule] })),
              rows: each.flatMap(({ rule, steps: all }) =>
                all.map(({ x, isHighFirst }) => ({
                  x,
                  y: isHighFirst ? 1 : 0,
                  series: NAMES[rule],
                  panel: NAMES[rule],
                })),
              ),
            },
          ],
          findings: [
            {
              promise: "the delay changes priority less often",
              found: each.map(({ rule, changes }) => `${NAMES[rule]} ${changes}`).join(", "),
              holds: each[0]!.changes < each[1]!.changes,
            },
          ],
          notes: [],
        };
      },
    };
  },
};
