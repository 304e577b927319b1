import { type Experiment, pick } from "../experiment.js";
import { LV } from "./applications.js";
import { casesOf, EQUAL, formatRates, held, LOST, placesTable, right, runOfSystem } from "./presentation.js";
import { type Case, describeRun, measured, planned, runOf } from "./runs.js";
import { CLIPPER, NEXUS, PARD, SYSTEMS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

export const bottleneck: Experiment = {
  name: "pard/bottleneck",
  title: "Which module is short of workers",
  about:
    "lv under tweet with 1.2 times the workers in all modules but one, at that one's capacity, by peak: how early a system knows of what is short later. Not in the paper, which does not say how many workers modules had.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const places = pick(size, { tiny: [0, 4], small: [0, 1, 2, 3, 4], default: [0, 1, 2, 3, 4] });
    const cases = places.map((tight): Case => ({ app: LV, trace: traces[1], rule: "peak", load: 1, tight }));
    const runs = planned(cases, SYSTEMS, run);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, traces),
      present(get) {
        const results = measured(runs, get);
        const nameOf = ({ tight }: Case): string => LV.modules[tight!]!.name;
        return {
          tables: [
            {
              title: "Drop rate and, in brackets, invalid rate in per cent, by the module that is short",
              columns: [{ title: "short" }, ...SYSTEMS.map(({ name }) => right(name))],
              rows: casesOf(results).map((each) => [
                nameOf(each[0]!.at),
                ...SYSTEMS.map((system) => formatRates(runOfSystem(each, system).result)),
              ]),
            },
            placesTable("By the module that is short, in order", results),
          ],
          figures: [
            {
              kind: "bars",
              id: "pard-bottleneck",
              title: "Drop rate by the module that is short of workers",
              caption: "lv under tweet, workers by peak, load 1 of the module that is short.",
              groups: cases.map(nameOf),
              y: LOST,
              series: SYSTEMS.map(({ name }) => ({ name })),
              rows: results.map(({ at, system, result }) => ({
                group: nameOf(at),
                series: system.name,
                y: result.drop_rate.mean,
              })),
            },
          ],
          findings: [
            held(
              `PARD drops no more than Nexus and Clipper++ wherever workers are short (${100 * EQUAL} points apart are equal)`,
              casesOf(results).map((each) => ({
                name: nameOf(each[0]!.at),
                holds: [NEXUS, CLIPPER].every(
                  (other) =>
                    runOfSystem(each, PARD).result.drop_rate.mean <=
                    runOfSystem(each, other).result.drop_rate.mean + EQUAL,
                ),
              })),
            ),
          ],
          notes: [],
        };
      },
    };
  },
};
