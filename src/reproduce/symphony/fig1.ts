import type { Experiment } from "../experiment.js";
import { MAIN_SYSTEMS } from "../systems.js";
import { FIGURE_1_MEDIANS } from "./published.js";
import { MODELS, table2Cases } from "./table2.js";
import { bestOf, describeRun } from "./workloads.js";

export const fig1: Experiment = {
  name: "symphony/fig1",
  title: "Figure 1: batch sizes of one model on 8 accelerators",
  about:
    "How the requests of Table 2's runs spread over batch sizes, each system at its own peak (delays 100/50/0 µs). The paper " +
    "does not say at which rate it looked; its text counts requests, so requests are counted here, too.",
  plan(size) {
    const { run, cases: all } = table2Cases(size);
    const cases = all.filter(({ isWithDelays }) => isWithDelays);
    return {
      points: cases.flatMap(({ points }) => points),
      scope: `${describeRun(run)}; the runs of symphony/table2`,
      present(get) {
        const measured = cases.map((each) => {
          const { result } = bestOf(each.points, get);
          return { ...each, result, cumulative: cumulate(result.requests_by_batch ?? []) };
        });
        const paperOf = (profile: string, system: string): number | undefined =>
          (FIGURE_1_MEDIANS as Readonly<Record<string, Readonly<Record<string, number>>>>)[profile]?.[system];
        return {
          tables: [
            {
              title: "Median batch size over requests, mean over batches",
              columns: [
                { title: "model" },
                { title: "system" },
                { title: "median", align: "right" },
                { title: "paper's median", align: "right" },
                { title: "mean", align: "right" },
              ],
              rows: measured.map(({ profile, system, result, cumulative }) => [
                profile,
                system.name,
                String(medianOf(cumulative)),
                String(paperOf(profile, system.name) ?? ""),
                result.at_peak?.batch_mean?.toFixed(1) ?? "",
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig1",
              title: "Requests by size of their batch",
              caption: "Share of requests that ran in a batch of at most this size, at each system's own peak.",
              panels: MODELS.map(({ name }) => name),
              shape: "step",
              x: { title: "batch size" },
              y: { title: "requests in batches of at most this", percent: true, domain: [0, 1] },
              series: [...MAIN_SYSTEMS.map(({ name }) => ({ name })), { name: "paper: medians", kind: "published" }],
              rows: [
                ...measured.flatMap(({ profile, system, cumulative }) =>
                  cumulative.map((y, x) => ({ x, y, series: system.name, panel: profile })),
                ),
                ...MODELS.flatMap(({ name }) =>
                  MAIN_SYSTEMS.flatMap((system) => {
                    const x = paperOf(name, system.name);
                    return x === undefined ? [] : [{ x, y: 0.5, series: "paper: medians", panel: name }];
                  }),
                ),
              ],
            },
          ],
          findings: [],
          notes: [
            "The paper's medians, from left to right: Clockwork, Nexus, Shepherd, Symphony (ResNet50 1, 6, 9, 14; InceptionResNetV2 1, 2, 4, 8).",
          ],
        };
      },
    };
  },
};

/** shares[b] -> share of requests in batches of at most b. */
function cumulate(shares: readonly number[]): number[] {
  let total = 0;
  return shares.map((share) => {
    total += share;
    return Math.min(1, total);
  });
}

const medianOf = (cumulative: readonly number[]): number => cumulative.findIndex((share) => share >= 0.5);
