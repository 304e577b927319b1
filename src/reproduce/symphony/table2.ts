import { type Experiment, type Finding, pick, type Size } from "../experiment.js";
import type { BarRow, Figure } from "../figure.js";
import type { PeakPoint } from "../point.js";
import { MAIN_SYSTEMS, NEXUS, SHEPHERD_PUBLISHED, SYMPHONY, type System } from "../systems.js";
import { middle, TABLE_2 } from "./published.js";
import {
  bestOf,
  CODE_DELAYS,
  describeChoice,
  describeRun,
  formatEstimate,
  formatRate,
  INCEPTION,
  model,
  peaksOf,
  RESNET50,
  type Run,
  runOf,
} from "./workloads.js";

export const MODELS = [RESNET50, INCEPTION] as const;
const NETWORKS = [
  { name: "100/50/0 µs", network: CODE_DELAYS },
  { name: "no delay", network: { control_us: 0, data_us_per_request: 0, response_us: 0 } },
] as const;
/** Must be reached: Symphony at least this part of the paper's, Nexus and Shepherd within this distance of it. */
const SYMPHONY_PART = 0.98;
const BASELINE_WITHIN = 0.05;

export type ModelName = "ResNet50" | "InceptionResNetV2";

/** The points of the table: Figures 1 and 12 show how the same runs go at the peak. */
export function table2Cases(size: Size): { readonly run: Run; readonly cases: readonly Table2Case[] } {
  const run = {
    ...runOf(size, { seconds: [10, 30, 60], seeds: [3, 16, 32] }),
    ...pick(size, { tiny: {}, small: {}, default: { tolerance: 0.003 }, full: { tolerance: 0.002 } }),
  };
  const cases = MODELS.flatMap((profile) =>
    NETWORKS.flatMap(({ name: network, network: delays }) =>
      MAIN_SYSTEMS.map((system) => ({
        profile: profile.name as ModelName,
        network,
        isWithDelays: network === NETWORKS[0].name,
        system,
        points: peaksOf(
          system,
          `table2-${profile.name}`,
          run,
          {
            accelerators: 8,
            network: delays,
            models: [model(profile)],
            arrivals: { process: "poisson", rate_rps: TABLE_2.paper[profile.name as ModelName].Symphony },
          },
          { details: network === NETWORKS[0].name },
        ),
      })),
    ),
  );
  return { run, cases };
}

export interface Table2Case {
  readonly profile: ModelName;
  readonly network: string;
  readonly isWithDelays: boolean;
  readonly system: System;
  readonly points: readonly PeakPoint[];
}

export const table2: Experiment = {
  name: "symphony/table2",
  title: "Table 2: peak goodput of one model on 8 accelerators",
  about:
    "The highest rate at which at most 1 % of requests are not in time: ResNet50 (SLO 25 ms) and InceptionResNetV2 " +
    "(70 ms), Poisson arrivals. With the delays that the public code plans for (100 µs of control, 50 µs of data per " +
    "request, none for the answer), which the paper does not state, and without any.",
  plan(size) {
    const { run, cases } = table2Cases(size);
    return {
      points: cases.flatMap(({ points }) => points),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({ ...each, best: bestOf(each.points, get) }));
        const paperOf = (profile: ModelName, system: System): number | undefined =>
          (TABLE_2.paper[profile] as Readonly<Record<string, number>>)[system.name];
        const codeOf = (profile: ModelName, system: System) =>
          (TABLE_2.code[profile] as Readonly<Record<string, { low: number; high: number }>>)[system.name];
        const rows: BarRow[] = measured.map(({ profile, network, system, best }) => ({
          panel: profile,
          group: system.name,
          series: `ours, ${network}`,
          y: best.result.peak_rps.mean,
          low: best.result.peak_rps.low,
          high: best.result.peak_rps.high,
        }));
        for (const { name } of MODELS) {
          const profile = name as ModelName;
          for (const system of MAIN_SYSTEMS) {
            const paper = paperOf(profile, system);
            if (paper !== undefined) rows.push({ panel: profile, group: system.name, series: "paper", y: paper });
            const code = codeOf(profile, system);
            if (code !== undefined)
              rows.push({ panel: profile, group: system.name, series: "public code", y: middle(code), ...code });
          }
        }
        const figure: Figure = {
          kind: "bars",
          id: "table2",
          title: "Peak goodput on 8 accelerators",
          caption:
            "Requests per second at 1 % bad. Bars of ours: 95 % interval over seeds; of the public code: range of several runs.",
          panels: MODELS.map(({ name }) => name),
          freeY: true,
          y: { title: "peak goodput", unit: "requests/s" },
          groups: MAIN_SYSTEMS.map(({ name }) => name),
          series: [
            { name: "ours, 100/50/0 µs" },
            { name: "ours, no delay" },
            { name: "paper", kind: "published" },
            { name: "public code", kind: "published" },
          ],
          rows,
        };
        return {
          tables: [
            {
              title: "Peak goodput, requests per second; 95 % interval over seeds",
              columns: [
                { title: "model" },
                { title: "system" },
                ...NETWORKS.map(({ name }) => ({ title: name, align: "right" as const })),
                { title: "paper", align: "right" },
                { title: "public code", align: "right" },
                { title: "setting" },
              ],
              rows: MODELS.flatMap(({ name }) =>
                MAIN_SYSTEMS.map((system) => {
                  const profile = name as ModelName;
                  const of = measured.filter((each) => each.profile === profile && each.system === system);
                  const paper = paperOf(profile, system);
                  const code = codeOf(profile, system);
                  return [
                    profile,
                    system.name,
                    ...NETWORKS.map(({ name: network }) =>
                      formatEstimate(of.find((each) => each.network === network)!.best.result.peak_rps),
                    ),
                    paper === undefined ? "" : formatRate(paper),
                    code === undefined ? "" : `${formatRate(code.low)}–${formatRate(code.high)}`,
                    describeChoice(system, of[0]!.best.choice),
                  ];
                }),
              ),
            },
          ],
          figures: [figure],
          findings: MODELS.flatMap(({ name }) => findingsOf(name as ModelName, measured)),
          notes: [
            `Analysis in the paper: staggered execution ${TABLE_2.staggered.ResNet50} and ${TABLE_2.staggered.InceptionResNetV2} r/s, ` +
              `no coordination ${TABLE_2.uncoordinated.ResNet50} and ${TABLE_2.uncoordinated.InceptionResNetV2}.`,
          ],
        };
      },
    };
  },
};

interface Measured extends Table2Case {
  readonly best: ReturnType<typeof bestOf>;
}

function findingsOf(profile: ModelName, measured: readonly Measured[]): Finding[] {
  const peakOf = (system: System) =>
    measured.find((each) => each.profile === profile && each.system === system && each.network === NETWORKS[0].name)!
      .best.result.peak_rps;
  const paper = TABLE_2.paper[profile];
  const symphony = peakOf(SYMPHONY);
  const baseline = (system: System, theirs: number): Finding => {
    const ours = peakOf(system);
    return {
      promise: `${profile}: ${system.name} within ${BASELINE_WITHIN * 100} % of the paper's ${theirs}`,
      found: `${formatEstimate(ours)}, ${((ours.mean / theirs - 1) * 100).toFixed(1)} %`,
      holds: Math.abs(ours.mean / theirs - 1) <= BASELINE_WITHIN,
    };
  };
  return [
    {
      promise: `${profile}: Symphony at least ${SYMPHONY_PART} of the paper's ${paper.Symphony} at 100/50/0 µs`,
      found: `${formatEstimate(symphony)}, ${(symphony.mean / paper.Symphony).toFixed(3)} of it`,
      holds: symphony.mean >= SYMPHONY_PART * paper.Symphony,
    },
    baseline(SHEPHERD_PUBLISHED, paper["Shepherd, as published"]),
    baseline(NEXUS, paper.Nexus),
  ];
}
