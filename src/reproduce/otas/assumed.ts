/** Figures 4 and 7: what is measured on the paper's machine, and here only assumed, between the numbers that its text has. */
import type { Experiment, Presentation } from "../experiment.js";
import { accuracyByGamma, DATA_SETS } from "./query-types.js";
import { BATCH_MAX, FIGURE_4B, GAMMAS, MACHINES, tableMs } from "./vision-transformer.js";

const NOTE =
  "Nothing is run: these are the machine and the model that the other figures are simulated with. Those of a model that is served here are measured by `rubato profile` (latency by gamma and batch size) and when a task is registered (accuracy by gamma).";

const assumed = (figure: string, title: string, show: () => Omit<Presentation, "notes">): Experiment => ({
  name: `otas/${figure}`,
  title,
  about: "The numbers of the paper's text, and what is between them.",
  plan: () => ({ points: [], scope: "no runs", present: () => ({ ...show(), notes: [NOTE] }) }),
});

/** Figure 4b: requests/s by gamma. */
const PAPER_PER_S: readonly [gamma: number, perS: number][] = [
  [-25, 1500],
  [-15, 1000],
  [0, 580],
  [32, 220],
];
/** Figure 7: at gamma -15, batches of one and where it converges. */
const PAPER_BATCHES: readonly [size: number, perS: number][] = [
  [1, 100],
  [20, 1000],
  [64, 1000],
];

const perS = (gamma: number, size: number): number => (size * 1000) / tableMs(FIGURE_4B.perS(gamma))[size - 1]!;
const whole = (value: number): string => String(Math.round(value));

export const fig4 = assumed("fig4", "OTAS, Figure 4: accuracy and throughput by gamma, as assumed", () => ({
  tables: [
    {
      title: "Throughput of full batches, requests/s",
      columns: [
        { title: "gamma" },
        ...MACHINES.map(({ name }) => ({ title: name, align: "right" as const })),
        { title: "paper", align: "right" as const },
      ],
      rows: [-25, ...GAMMAS, 16, 32].map((gamma) => [
        String(gamma),
        ...MACHINES.map((machine) => whole(machine.perS(gamma))),
        PAPER_PER_S.find(([of]) => of === gamma)?.[1].toString() ?? "",
      ]),
    },
  ],
  figures: [
    {
      kind: "lines",
      id: "otas-fig4a",
      title: "Accuracy by gamma",
      caption: "The paper has curves without numbers.",
      x: { title: "gamma" },
      y: { title: "right answers", percent: true },
      series: DATA_SETS.map((name) => ({ name })),
      rows: accuracyByGamma().map(({ of, gamma, accuracy }) => ({ x: gamma, y: accuracy, series: of })),
    },
    {
      kind: "lines",
      id: "otas-fig4b",
      title: "Throughput by gamma",
      caption: "Batches of 64.",
      x: { title: "gamma" },
      y: { title: "throughput", unit: "requests/s" },
      series: [...MACHINES.map(({ name }) => ({ name })), { name: "paper", kind: "published" }],
      rows: [
        ...MACHINES.flatMap((machine) =>
          [-25, ...GAMMAS, 16, 32].map((gamma) => ({ x: gamma, y: machine.perS(gamma), series: machine.name })),
        ),
        ...PAPER_PER_S.map(([x, y]) => ({ x, y, series: "paper" })),
      ],
    },
  ],
  findings: [],
}));

export const fig7 = assumed("fig7", "OTAS, Figure 7: throughput by batch size, as assumed", () => ({
  tables: [
    {
      title: "Throughput by batch size, requests/s",
      columns: [
        { title: "gamma" },
        ...[1, 4, 8, 16, 20, 32, 64].map((size) => ({ title: String(size), align: "right" as const })),
      ],
      rows: GAMMAS.map((gamma) => [
        String(gamma),
        ...[1, 4, 8, 16, 20, 32, 64].map((size) => whole(perS(gamma, size))),
      ]),
    },
  ],
  figures: [
    {
      kind: "lines",
      id: "otas-fig7",
      title: "Throughput by batch size",
      caption: "A run takes 10 ms at least, and what its multiply-adds take.",
      x: { title: "batch size" },
      y: { title: "throughput", unit: "requests/s" },
      series: [...GAMMAS.map((gamma) => ({ name: `gamma ${gamma}` })), { name: "paper, gamma -15", kind: "published" }],
      rows: [
        ...GAMMAS.flatMap((gamma) =>
          Array.from({ length: BATCH_MAX }, (_, index) => ({
            x: index + 1,
            y: perS(gamma, index + 1),
            series: `gamma ${gamma}`,
          })),
        ),
        ...PAPER_BATCHES.map(([x, y]) => ({ x, y, series: "paper, gamma -15" })),
      ],
    },
  ],
  findings: [],
}));
