import { type Experiment, pick } from "../experiment.js";
import { APPLICATIONS } from "./applications.js";
import { casesOf, EQUAL, formatRates, held, LOST, percent, right, runOfSystem } from "./presentation.js";
import { bounded, type Case, describeRun, formatPercent, measured, runOf, workloadOf } from "./runs.js";
import { PARD, PARD_STAGGERED, PLUS, PLUS_PARTS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

const ALL = [PARD, PLUS, ...PLUS_PARTS, PARD_STAGGERED];
const SHOWN = [PARD, PLUS];
const BOUND = "bound";

export const past: Experiment = {
  name: "pard/past",
  title: "Past PARD: pipeline+, the default in every module, and its parts",
  about:
    "The twelve workloads, workers by peak: PARD, and `auto` told what later modules take when they are full (`budget: staggered`; together pipeline+); without one of its parts or told otherwise, and PARD told the same; beside a bound on any scheduler: in each module, what its workers can do at all.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const loads = pick(size, { tiny: [1], small: [0.8, 1, 1.2], default: [0.8, 1, 1.2] });
    const apps = pick(size, { tiny: APPLICATIONS.slice(0, 1), small: APPLICATIONS, default: APPLICATIONS });
    const cases = apps.flatMap((app) =>
      traces.flatMap((trace) => loads.map((load): Case => ({ app, trace, rule: "peak", load }))),
    );
    const runs = bounded(cases, ALL, run);
    return {
      points: runs.map(({ point }) => point),
      scope: `${describeRun(run, traces)}; loads ${loads.join(", ")}`,
      present(get) {
        const results = measured(runs, get);
        const each = casesOf(results).map((runsOf) => ({
          name: `${workloadOf(runsOf[0]!.at)} at ${runsOf[0]!.at.load}`,
          at: runsOf[0]!.at,
          runsOf,
          bound: runsOf[0]!.result.bound!,
          dropOf: (system: (typeof ALL)[number]) => runOfSystem(runsOf, system).result.drop_rate.mean,
        }));
        const distance = (system: (typeof ALL)[number]): number =>
          each.reduce((sum, { dropOf, bound }) => sum + Math.max(0, dropOf(system) - bound.mean), 0);
        const left = distance(PLUS) / distance(PARD);
        const full = each.filter(({ at }) => at.load === 1);
        return {
          tables: [
            {
              title: "Drop rate and, in brackets, invalid rate in per cent; least drop rate of any scheduler",
              columns: [{ title: "workload" }, right("load"), ...ALL.map(({ name }) => right(name)), right(BOUND)],
              rows: each.map(({ at, runsOf, bound }) => [
                workloadOf(at),
                at.load.toFixed(1),
                ...ALL.map((system) => formatRates(runOfSystem(runsOf, system).result)),
                formatPercent(bound),
              ]),
            },
          ],
          figures: [
            {
              kind: "bars",
              id: "pard-past",
              title: "Drop rate of PARD, of pipeline+, and of no scheduler",
              caption: "Workers by peak, load 1.",
              groups: full.map(({ at }) => workloadOf(at)),
              y: LOST,
              series: [...SHOWN.map(({ name }) => ({ name })), { name: BOUND }],
              rows: full.flatMap(({ at, dropOf, bound }) => [
                ...SHOWN.map((system) => ({ group: workloadOf(at), series: system.name, y: dropOf(system) })),
                { group: workloadOf(at), series: BOUND, y: bound.mean },
              ]),
            },
          ],
          findings: [
            held(
              `pipeline+ drops no more than PARD (${100 * EQUAL} points apart are equal)`,
              each.map(({ name, dropOf }) => ({ name, holds: dropOf(PLUS) <= dropOf(PARD) + EQUAL })),
            ),
            held(
              "where PARD is more than that above the bound, pipeline+ is at most half as far from it",
              each
                .filter(({ dropOf, bound }) => dropOf(PARD) > bound.mean + EQUAL)
                .map(({ name, dropOf, bound }) => ({
                  name,
                  holds: dropOf(PLUS) - bound.mean <= (dropOf(PARD) - bound.mean) / 2,
                })),
            ),
            {
              promise: "of PARD's distance to the bound pipeline+ leaves, over all cases, at most half",
              found: percent(left),
              holds: left <= 0.5,
            },
            ...PLUS_PARTS.map((part) =>
              held(
                `pipeline+ drops no more than with ${part.name}`,
                each.map(({ name, dropOf }) => ({ name, holds: dropOf(PLUS) <= dropOf(part) + EQUAL })),
              ),
            ),
          ],
          notes: [],
        };
      },
    };
  },
};
