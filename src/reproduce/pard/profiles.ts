import { ZOO } from "../../config/scenario/zoo.js";
import { shuffle } from "../../measure/shuffle.js";
import { stream } from "../../sim/random.js";
import { type Experiment, pick, type Table } from "../experiment.js";
import { APPLICATIONS, type Application, LV } from "./applications.js";
import {
  casesOf,
  comparisons,
  EARLY,
  EQUAL,
  formatRates,
  held,
  LATE,
  LOST,
  lostInFirst,
  lostInLatterHalf,
  right,
  runOfSystem,
} from "./presentation.js";
import { provision } from "./provisioning.js";
import { type Case, describeRun, type Measured, measured, planned, type Run, runOf, workloadOf } from "./runs.js";
import { ABLATIONS, NEXUS, PARD, type PipelineSystem, SYSTEMS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

/** Two batches of so many fit an equal part of the SLO: a module in which nothing is batched is none of the paper's. */
const BATCH = 4;

/** The application with other models of the zoo, drawn by number, each once. */
function withProfiles(app: Application, draw: number): Application {
  const partMs = app.sloMs / app.modules.length;
  const fit = ZOO["1080ti"].filter(({ alphaMs, betaMs }) => 2 * (alphaMs * BATCH + betaMs) <= partMs);
  shuffle(fit, app.modules.length, stream(draw, `pard/profiles/${app.name}`));
  const modules = app.modules.map((module, at) => {
    const { name, alphaMs, betaMs } = fit[at]!;
    return { ...module, model: name, alphaMs, betaMs };
  });
  return { ...app, name: `${app.name}-${draw}`, modules };
}

/** Position of the module that does least: where what is too much is lost. */
function shortOf(app: Application, run: Run): number {
  const { modules, capacityRps } = provision(app, run.workers);
  return modules.findIndex(({ rps }) => rps === capacityRps);
}

const tableOf = (title: string, run: Run, each: readonly Measured[][], systems: readonly PipelineSystem[]): Table => ({
  title: `${title}: drop rate and, in brackets, invalid rate in per cent`,
  columns: [{ title: "workload" }, { title: "models" }, right("short"), ...systems.map(({ name }) => right(name))],
  rows: each.map((runs) => {
    const { app } = runs[0]!.at;
    return [
      workloadOf(runs[0]!.at),
      app.modules.map(({ model }) => model).join(", "),
      `M${shortOf(app, run) + 1}`,
      ...systems.map((system) => formatRates(runOfSystem(runs, system).result)),
    ];
  }),
});

export const profiles: Experiment = {
  name: "pard/profiles",
  title: "PARD with other profiles",
  about: `The paper gives no profiles. Figure 8's systems, workers by peak, load 1, on its applications with models of Symphony's zoo that are drawn (those of which two batches of ${BATCH} fit an equal part of the SLO), each draw with batches and workers of its own; and Figure 11's alternatives on lv under tweet.`,
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const draws = pick(size, { tiny: 1, small: 3, default: 5, full: 20 });
    const drawnOf = (app: Application) => Array.from({ length: draws }, (_, at) => withProfiles(app, at + 1));
    const apps = pick(size, { tiny: [LV], small: APPLICATIONS, default: APPLICATIONS }).flatMap(drawnOf);
    const caseOf = (app: Application, trace: Case["trace"]): Case => ({ app, trace, rule: "peak", load: 1 });
    const runs = planned(
      apps.flatMap((app) => traces.map((trace) => caseOf(app, trace))),
      SYSTEMS,
      run,
    );
    const others = planned(
      drawnOf(LV).map((app) => caseOf(app, traces[1])),
      [PARD, ...ABLATIONS],
      run,
    );
    return {
      points: [...runs, ...others].map(({ point }) => point),
      scope: `${describeRun(run, traces)}; draws 1 to ${draws}`,
      present(get) {
        const each = casesOf(measured(runs, get));
        const alternatives = casesOf(measured(others, get));
        const isFirst = ({ at }: Measured): boolean => shortOf(at.app, run) === 0;
        const nameOf = ({ at }: Measured): string => workloadOf(at);
        const { least, times } = comparisons(each, nameOf);
        const later = comparisons(
          each.filter(([first]) => !isFirst(first!)),
          nameOf,
        ).least;
        return {
          tables: [
            tableOf("Figure 8's systems", run, each, SYSTEMS),
            tableOf("Figure 11's alternatives", run, alternatives, [PARD, ...ABLATIONS]),
          ],
          figures: [
            {
              kind: "bars",
              id: "pard-profiles",
              title: "Drop rate with other profiles",
              caption: "Workers by peak, load 1.",
              groups: each.map((runs) => nameOf(runs[0]!)),
              y: LOST,
              series: SYSTEMS.map(({ name }) => ({ name })),
              rows: each.flat().map((found) => ({
                group: nameOf(found),
                series: found.system.name,
                y: found.result.drop_rate.mean,
              })),
            },
          ],
          findings: [
            least,
            { ...later, promise: `where the first module is not the short one: ${later.promise}` },
            ...times,
            held(
              `${100 * EARLY} % of PARD's drops are in the first two modules`,
              each.map((runs) => ({
                name: nameOf(runs[0]!),
                holds: lostInFirst(runOfSystem(runs, PARD), 2) >= EARLY,
              })),
            ),
            held(
              `${100 * LATE} % of Nexus's are in the latter half`,
              each.map((runs) => ({
                name: nameOf(runs[0]!),
                holds: lostInLatterHalf(runOfSystem(runs, NEXUS)) >= LATE,
              })),
            ),
            ...ABLATIONS.map((system) =>
              held(
                `${system.name} drops no less than PARD (${100 * EQUAL} points apart are equal)`,
                alternatives.map((runs) => ({
                  name: nameOf(runs[0]!),
                  holds:
                    runOfSystem(runs, system).result.drop_rate.mean >=
                    runOfSystem(runs, PARD).result.drop_rate.mean - EQUAL,
                })),
              ),
            ),
          ],
          notes: [],
        };
      },
    };
  },
};
