/** Figures 3, 7 to 11: some cases of the tables, as the paper draws them. Their points are the tables'. */
import type { Experiment } from "../experiment.js";
import { orderFindings } from "./findings.js";
import { publishedTable, viewFigure } from "./presentation.js";
import { describeRun, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { CLIPPER, CLOCKWORK, NEXUS, PLUS, PUBLISHED, type ToldSystem } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { workloadNamed } from "./workloads.js";

/** §2.3's: before ORLOJ is introduced. */
const OTHERS = [CLIPPER, NEXUS, CLOCKWORK];
const ALL_DRAWN = [...PUBLISHED, PLUS];

interface View {
  readonly figure: number;
  readonly title: string;
  /** Case IDs, in the paper's order. */
  readonly cases: readonly string[];
  readonly table: string;
  readonly systems?: readonly ToldSystem[];
}

function viewOf({ figure, title, cases, table, systems = ALL_DRAWN }: View): Experiment {
  return {
    name: `orloj/fig${figure}`,
    title: `ORLOJ, Figure ${figure}: ${title}`,
    about: `The runs of ${table}. ${HOW}`,
    plan(size) {
      const run = runOf(size);
      const rows = cases
        .map(workloadNamed)
        .flatMap((workload) =>
          slosOf(size).map((slo) => rowOf(workload, slo, [...new Set([...PUBLISHED, ...systems])], run)),
        );
      return {
        points: pointsOf(rows),
        scope: describeRun(run),
        present(get) {
          const measured = measuredRows(rows, get);
          return {
            tables: [publishedTable(measured)],
            figures: [viewFigure(`orloj-fig${figure}`, `Finish rate: ${title}`, measured, systems)],
            findings: orderFindings(measured),
            notes: [],
          };
        },
      };
    },
  };
}

export const VIEWS: readonly Experiment[] = [
  viewOf({
    figure: 3,
    title: "the systems before ORLOJ on requests that differ",
    cases: ["one-modal", "two-modal", "std-0.5/2"],
    table:
      "orloj/table3 and orloj/table2; which way Figure 3c's peaks are unequal cannot be read, here as in Figure 9a",
    systems: OTHERS,
  }),
  viewOf({
    figure: 7,
    title: "real tasks",
    cases: ["rdinet-cifar", "bart-cnn", "skipnet-imagenet", "gpt-cornell"],
    table: "orloj/table5",
  }),
  viewOf({
    figure: 8,
    title: "one, two, three modes",
    cases: ["one-modal", "two-modal", "three-modal"],
    table: "orloj/table3",
  }),
  viewOf({
    figure: 9,
    title: "two unequal peaks, more short or more long requests",
    cases: ["std-0.5/2", "std-2/0.5"],
    table: "orloj/table2",
  }),
  viewOf({
    figure: 10,
    title: "narrow and wide peaks",
    cases: ["std-0.5", "std-2"],
    table: "orloj/table2",
  }),
  viewOf({
    figure: 11,
    title: "static models",
    cases: ["inception-imagenet", "resnet-imagenet"],
    table: "orloj/table4",
  }),
];
