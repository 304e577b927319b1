import { type Experiment, pick } from "../experiment.js";
import {
  type Application,
  DA_CLASSES,
  DA_DYNAMIC,
  DA_EXIT,
  DA_UNEVEN,
  LV_MODES,
  OCR,
  TM_MODES,
} from "./applications.js";
import { casesOf, EQUAL, formatRates, held, LOST, right, runOfSystem } from "./presentation.js";
import { bounded, type Case, describeRun, formatPercent, measured, planned, runOf, workloadOf } from "./runs.js";
import {
  DISTRIBUTION,
  DISTRIBUTION_HALF,
  LEARNT,
  MEAN_HALF,
  PUBLISHED as PARD,
  type PipelineSystem,
  SLOWEST,
} from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

interface Estimate {
  readonly title: string;
  readonly apps: readonly Application[];
  /** PARD's first. */
  readonly systems: readonly PipelineSystem[];
  /** A bound on any scheduler holds: every batch takes what its profile says, no request makes parts. */
  readonly isBounded: boolean;
}

const ESTIMATES: readonly Estimate[] = [
  {
    title: "Executions",
    apps: [TM_MODES, LV_MODES],
    systems: [PARD, DISTRIBUTION, MEAN_HALF, DISTRIBUTION_HALF],
    isBounded: false,
  },
  { title: "Ways", apps: [DA_DYNAMIC, DA_UNEVEN, DA_CLASSES, DA_EXIT], systems: [PARD, LEARNT], isBounded: true },
  { title: "Joins", apps: [OCR], systems: [PARD, SLOWEST], isBounded: false },
];

export const estimates: Experiment = {
  name: "pard/estimates",
  title: "Past PARD: what lies ahead of a request",
  about:
    "PARD under tweet, workers by peak, with one part of its estimate another: executions with their distributions in place of their means (two modules " +
    "whose requests take one of three times), ways as often as a request's kind takes them in place of the longest, joins that wait for the slowest part in " +
    "place of one. Beside a bound on any scheduler where one holds.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const loads = pick(size, { tiny: [1.2], small: [0.8, 1, 1.2], default: [0.8, 1, 1.2] });
    const blocks = ESTIMATES.map((estimate) => {
      const apps = size === "tiny" ? estimate.apps.slice(-1) : estimate.apps;
      const cases = apps.flatMap((app) => loads.map((load): Case => ({ app, trace: traces[1], rule: "peak", load })));
      return { ...estimate, runs: (estimate.isBounded ? bounded : planned)(cases, estimate.systems, run) };
    });
    return {
      points: blocks.flatMap(({ runs }) => runs.map(({ point }) => point)),
      scope: `${describeRun(run, traces)}; loads ${loads.join(", ")}`,
      present(get) {
        const shown = blocks.map(({ runs, ...estimate }) => {
          const results = measured(runs, get);
          const each = casesOf(results).map((ofCase) => ({
            at: ofCase[0]!.at,
            ofCase,
            gain: (system: PipelineSystem) =>
              runOfSystem(ofCase, PARD).result.drop_rate.mean - runOfSystem(ofCase, system).result.drop_rate.mean,
          }));
          return { ...estimate, results, each };
        });
        return {
          tables: shown.map(({ title, systems, isBounded, each }) => ({
            title: `${title}: drop rate and, in brackets, invalid rate in per cent${isBounded ? "; least drop rate of any scheduler" : ""}`,
            columns: [
              { title: "workload" },
              right("load"),
              ...systems.map(({ name }) => right(name)),
              ...(isBounded ? [right("bound")] : []),
            ],
            rows: each.map(({ at, ofCase }) => [
              workloadOf(at),
              at.load.toFixed(1),
              ...systems.map((system) => formatRates(runOfSystem(ofCase, system).result)),
              ...(isBounded ? [formatPercent(ofCase[0]!.result.bound!)] : []),
            ]),
          })),
          figures: shown.map(({ title, systems, results, each }) => ({
            kind: "bars" as const,
            id: `pard-estimates-${title.toLowerCase()}`,
            title: `${title}: drop rate by what is expected of later modules`,
            caption: "Workload and load; workers by peak.",
            groups: each.map(({ at }) => `${at.app.name} ${at.load}`),
            y: LOST,
            series: systems.map(({ name }) => ({ name })),
            rows: results.map(({ at, system, result }) => ({
              group: `${at.app.name} ${at.load}`,
              series: system.name,
              y: result.drop_rate.mean,
            })),
          })),
          findings: shown.map(({ title, systems, each }) =>
            held(
              `${title}: ${systems[1]!.name} drops no more than PARD (${100 * EQUAL} points apart are equal)`,
              each.map(({ at, gain }) => ({
                name: `${at.app.name} at ${at.load}`,
                holds: gain(systems[1]!) >= -EQUAL,
              })),
            ),
          ),
          notes: [
            "No bound is shown where a batch takes other times than its profile, or a request makes parts: none of ours holds there.",
          ],
        };
      },
    };
  },
};
