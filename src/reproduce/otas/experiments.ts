/** Figures 4, 7 and 9 to 13 of OTAS. */
import type { Experiment, Presentation } from "../experiment.js";
import { fig4, fig7 } from "./assumed.js";
import { accuracyFigure, accuracyFindings, accuracyTable, gammaFigure } from "./batches.js";
import {
  gainFindings,
  gainTable,
  gammaTable,
  pastFindings,
  TYPES,
  typesTable,
  utilityFigure,
  utilityTable,
} from "./presentation.js";
import { caseName, casesOf, describeRun, measured, planned, resultOf, runOf } from "./runs.js";
import {
  ALL,
  INFAAS,
  INFAAS_LATE,
  OTAS,
  type OtasSystem,
  PETS,
  PETS_LATE,
  PLUS,
  PUBLISHED,
  SIMPLE,
  TOME,
  VPT,
} from "./systems.js";

/** "OTAS improves the system utility by at least 18.2 %." */
const GAIN = 0.182;
/** Part of the queries that is right in time (§V). */
const PAPER_RIGHT = { synthetic: 0.8554, maf: 0.7558 } as const;

const MACHINE_NOTE =
  "figure 4b: 1500, 580 and 220 requests/s at gamma -25, 0 and +32. table 1: what their server keeps up with by its own table, 380/s at gamma 0. At the first speeds 200 to 700 requests/s (450 in the mean) leave " +
  "little to gain: even without prompts nearly all is in time, and the ceiling is near.";

const ABOUT =
  "Six kinds of queries (Table II) on one elastic transformer, whose speed is anchored by Figure 4b or by Table I, at 200 to 700 requests/s and at rates as those of Azure Functions.";

/** @param show what is made of the runs, which all systems have in all cases. */
const experiment = (
  figure: string,
  title: string,
  systems: readonly OtasSystem[],
  show: (cases: ReturnType<typeof casesOf>, runs: ReturnType<typeof measured>) => Omit<Presentation, "notes">,
): Experiment => ({
  name: `otas/${figure}`,
  title,
  about: ABOUT,
  plan(size, dataDir) {
    const run = runOf(size);
    const cases = casesOf(dataDir);
    const runs = planned(cases, systems, run);
    return {
      points: runs.map(({ point }) => point),
      scope: describeRun(run, cases),
      present: (get) => ({ ...show(cases, measured(runs, get)), notes: [MACHINE_NOTE] }),
    };
  },
});

const comparison = (
  figure: string,
  title: string,
  systems: readonly OtasSystem[],
  others: readonly OtasSystem[],
  findings: (...args: [ReturnType<typeof casesOf>, ReturnType<typeof measured>]) => ReturnType<typeof gainFindings>,
): Experiment =>
  experiment(figure, title, systems, (cases, runs) => ({
    tables: [utilityTable("Utility", cases, runs), gainTable(cases, runs, OTAS, others)],
    figures: [utilityFigure(`otas-${figure}`, title, cases, systems, runs)],
    findings: findings(cases, runs),
  }));

export const fig9 = comparison(
  "fig9",
  "OTAS, Figure 9: utility beside PetS and INFaaS",
  [OTAS, PETS, INFAAS, PETS_LATE, INFAAS_LATE, PLUS],
  [PETS, INFAAS, PETS_LATE, INFAAS_LATE],
  (cases, runs) => [
    ...gainFindings(`${100 * GAIN} % more utility than PetS and INFaaS as published`, GAIN, cases, runs, OTAS, [
      PETS,
      INFAAS,
    ]),
    ...gainFindings(`${100 * GAIN} % more utility than both if they evict as OTAS does`, GAIN, cases, runs, OTAS, [
      PETS_LATE,
      INFAAS_LATE,
    ]),
  ],
);

export const fig10 = comparison(
  "fig10",
  "OTAS, Figure 10: utility beside one number of tokens for all, and what an engineer would try first",
  ALL,
  ALL.filter((system) => system !== OTAS && system !== PLUS),
  (cases, runs) => [
    ...gainFindings("more utility than ToMe and VPT", 0, cases, runs, OTAS, [TOME, VPT]),
    ...gainFindings("more utility than the best of the simple three", 0, cases, runs, OTAS, SIMPLE),
    ...pastFindings(cases, runs, PLUS, OTAS),
    ...gainFindings("OTAS+ earns more than the best of the simple three", 0, cases, runs, PLUS, SIMPLE),
  ],
);

/** The five of the paper, and ours. */
const COMPARED = [...PUBLISHED, PLUS];

export const fig11 = experiment(
  "fig11",
  "OTAS, Figure 11: which part of a batch is right",
  COMPARED,
  (cases, runs) => ({
    tables: [accuracyTable(cases, runs)],
    figures: [accuracyFigure("otas-fig11", cases, runs)],
    findings: accuracyFindings(cases, runs),
  }),
);

export const fig12 = experiment("fig12", "OTAS, Figure 12: which gamma is chosen", [OTAS, PLUS], (cases, runs) => ({
  tables: [gammaTable(cases, runs, OTAS), gammaTable(cases, runs, PLUS)],
  figures: [gammaFigure("otas-fig12", cases, runs, [OTAS, PLUS])],
  findings: [],
}));

export const fig13 = experiment("fig13", "OTAS, Figure 13: how queries end", COMPARED, (cases, runs) => ({
  tables: [typesTable(cases, runs)],
  figures: [
    {
      kind: "bars",
      id: "otas-fig13",
      title: "How queries end",
      caption: "Part of all queries, by the types of §V.",
      panels: cases.map(caseName),
      columns: 2,
      groups: COMPARED.map(({ name }) => name),
      y: { title: "part of the queries", percent: true },
      series: TYPES.map(([, name]) => ({ name })),
      rows: runs.flatMap(({ at, system, result }) =>
        TYPES.map(([type, series]) => ({ group: system.name, series, y: result[type].mean, panel: caseName(at) })),
      ),
    },
  ],
  findings: cases.map((at) => {
    const found = resultOf(runs, at, OTAS).result.right.mean;
    const paper = PAPER_RIGHT[at.source.name];
    return {
      promise: `${caseName(at)}: ${(100 * paper).toFixed(2)} % right in time (paper)`,
      found: `${(100 * found).toFixed(2)} %`,
      holds: found >= paper,
    };
  }),
}));

export const OTAS_EXPERIMENTS: readonly Experiment[] = [fig4, fig7, fig9, fig10, fig11, fig12, fig13];
