import { type Experiment, type Finding, pick } from "../experiment.js";
import { APPLICATIONS } from "./applications.js";
import { casesOf, EQUAL, formatRates, held, LOST, percent, right, runOfSystem } from "./presentation.js";
import { bounded, type Case, describeRun, formatPercent, measured, runOf, workloadOf } from "./runs.js";
import { PARD, PARD_STAGGERED, type PipelineSystem, PLUS, PLUS_PARTS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

const ALL = [PARD, PLUS, ...PLUS_PARTS, PARD_STAGGERED];
const SHOWN = [PARD, PLUS];
const BOUND = "bound";
const KEEP_UP = "bound, keeping up";

export const past: Experiment = {
  name: "pard/past",
  title: "Past PARD: pipeline+, the default in every module, and its parts",
  about:
    "The twelve workloads, workers by peak: PARD, and `auto` told what later modules take when they are full (`budget: staggered`; together pipeline+); without one of its parts or told otherwise, and PARD told the same; beside two bounds: what workers can do at all in each module, and what they can do in batches that are always large enough for the pipeline's capacity.",
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
          keepUp: runsOf[0]!.result.keep_up_bound!,
          dropOf: (system: (typeof ALL)[number]) => runOfSystem(runsOf, system).result.drop_rate.mean,
        }));
        const full = each.filter(({ at }) => at.load === 1);
        return {
          tables: [
            {
              title: "Drop rate and, in brackets, invalid rate in per cent; least drop rates of any scheduler",
              columns: [{ title: "workload" }, ...["load", ...ALL.map(({ name }) => name), BOUND, KEEP_UP].map(right)],
              rows: each.map(({ at, runsOf, bound, keepUp }) => [
                workloadOf(at),
                at.load.toFixed(1),
                ...ALL.map((system) => formatRates(runOfSystem(runsOf, system).result)),
                formatPercent(bound),
                formatPercent(keepUp),
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
              series: [...SHOWN.map(({ name }) => ({ name })), { name: BOUND }, { name: KEEP_UP }],
              rows: full.flatMap(({ at, dropOf, bound, keepUp }) => [
                ...SHOWN.map((system) => ({ group: workloadOf(at), series: system.name, y: dropOf(system) })),
                { group: workloadOf(at), series: BOUND, y: bound.mean },
                { group: workloadOf(at), series: KEEP_UP, y: keepUp.mean },
              ]),
            },
          ],
          findings: [
            held(
              `pipeline+ drops no more than PARD (${100 * EQUAL} points apart are equal)`,
              each.map(({ name, dropOf }) => ({ name, holds: dropOf(PLUS) <= dropOf(PARD) + EQUAL })),
            ),
            ...halved(
              "any scheduler must",
              each.map(({ name, dropOf, bound }) => ({ name, dropOf, bound: bound.mean })),
            ),
            ...halved(
              "any must whose batches always keep up",
              each.map(({ name, dropOf, keepUp }) => ({ name, dropOf, bound: keepUp.mean })),
            ),
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

interface BoundedCase {
  readonly name: string;
  dropOf(system: PipelineSystem): number;
  readonly bound: number;
}

/** How much of PARD's distance to a bound pipeline+ leaves. @param what bounds, as in "where PARD loses more than ...". */
function halved(what: string, cases: readonly BoundedCase[]): Finding[] {
  const distances = cases.map(({ name, dropOf, bound }) => ({
    name,
    pard: Math.max(0, dropOf(PARD) - bound),
    plus: Math.max(0, dropOf(PLUS) - bound),
  }));
  const sumOf = (of: "pard" | "plus"): number => distances.reduce((sum, one) => sum + one[of], 0);
  const left = sumOf("plus") / sumOf("pard");
  return [
    held(
      `where PARD loses more than ${what}, pipeline+ is at most half as far from it`,
      distances.filter(({ pard }) => pard > EQUAL).map(({ name, pard, plus }) => ({ name, holds: plus <= pard / 2 })),
    ),
    { promise: "and over all cases, in the sum", found: percent(left), holds: left <= 0.5 },
  ];
}
