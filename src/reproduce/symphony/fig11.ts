import { type Experiment, pick } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { MAIN_SYSTEMS, SYMPHONY } from "../systems.js";
import { FIGURE_11_CODE, middle } from "./published.js";
import {
  bestOf,
  CODE_DELAYS,
  describeRun,
  formatEstimate,
  formatRate,
  model,
  peaksOf,
  RESNET50,
  runOf,
} from "./workloads.js";

const MODELS = 20;
const ACCELERATORS = 32;
const PANELS = [
  { name: "equal, Poisson", fields: {} },
  { name: "Zipf 0.9, Poisson", fields: { popularity: { zipf: 0.9 } } },
  { name: "equal, bursty", shape: 0.05, fields: {} },
  { name: "Zipf 0.9, bursty", shape: 0.05, fields: { popularity: { zipf: 0.9 } } },
] as const;

export const fig11: Experiment = {
  name: "symphony/fig11",
  title: "Figure 11: SLO, popularity and burstiness",
  about:
    "20 models with Table 2's ResNet50 profile on 32 accelerators, SLO 15 to 100 ms; equally popular or by Zipf 0.9; Poisson or " +
    "bursty (Gamma of shape 0.05) arrivals. Delays 100/50/0 µs.",
  plan(size) {
    const run = runOf(size, { seconds: [3, 5, 30], seeds: [2, 2, 10] });
    const slos = pick(size, {
      tiny: [25],
      small: [15, 25, 100],
      default: [15, 20, 25, 35, 50, 100],
      full: [15, 20, 25, 30, 35, 40, 50, 60, 80, 100],
    });
    const cases = PANELS.flatMap((panel) =>
      slos.flatMap((sloMs) =>
        MAIN_SYSTEMS.map((system) => ({
          panel: panel.name,
          sloMs,
          system,
          points: peaksOf(system, `fig11-${panel.name}-slo${sloMs}`, run, {
            accelerators: pick(size, { tiny: 4, small: ACCELERATORS, default: ACCELERATORS }),
            network: CODE_DELAYS,
            models: [model({ ...RESNET50, slo_ms: sloMs }, pick(size, { tiny: 3, small: MODELS, default: MODELS }))],
            arrivals:
              "shape" in panel
                ? { process: "gamma", shape: panel.shape, rate_rps: 18_000 }
                : { process: "poisson", rate_rps: 18_000 },
            ...panel.fields,
          }),
        })),
      ),
    );
    return {
      points: cases.flatMap(({ points }) => points),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({ ...each, peak: bestOf(each.points, get).result.peak_rps }));
        const codeRows: LineRow[] = Object.entries(FIGURE_11_CODE).flatMap(([panel, systems]) =>
          Object.values(systems).map((range) => ({ panel, x: 25, y: middle(range), series: "public code, SLO 25 ms" })),
        );
        return {
          tables: PANELS.map(({ name }) => ({
            title: `${name}: peak goodput, requests per second`,
            columns: [
              { title: "SLO ms", align: "right" as const },
              ...MAIN_SYSTEMS.map((system) => ({ title: system.name, align: "right" as const })),
            ],
            rows: slos.map((sloMs) => [
              String(sloMs),
              ...MAIN_SYSTEMS.map((system) =>
                formatEstimate(
                  measured.find((each) => each.panel === name && each.sloMs === sloMs && each.system === system)!.peak,
                ),
              ),
            ]),
          })),
          figures: [
            {
              kind: "lines",
              id: "fig11",
              title: "Peak goodput by SLO, popularity and burstiness",
              caption:
                "20 models, 32 accelerators. Vertical lines: 95 % interval over seeds. Public code: Symphony, eager and Shepherd from above at an SLO of 25 ms.",
              panels: PANELS.map(({ name }) => name),
              x: { title: "SLO", unit: "ms" },
              y: { title: "peak goodput", unit: "requests/s" },
              series: [
                ...MAIN_SYSTEMS.map(({ name }) => ({ name })),
                { name: "public code, SLO 25 ms", kind: "published" },
              ],
              rows: [
                ...measured.map(({ panel, sloMs, system, peak }) => ({
                  panel,
                  x: sloMs,
                  y: peak.mean,
                  low: peak.low,
                  high: peak.high,
                  series: system.name,
                })),
                ...codeRows,
              ],
            },
          ],
          findings: PANELS.flatMap(({ name }) => {
            const theirs = FIGURE_11_CODE[name]?.[SYMPHONY.name];
            const ours = measured.find((each) => each.panel === name && each.sloMs === 25 && each.system === SYMPHONY);
            if (theirs === undefined || ours === undefined) return [];
            return [
              {
                promise: `${name}, SLO 25 ms: Symphony at least 0.98 of the public code's ${formatRate(theirs.low)}–${formatRate(theirs.high)}`,
                found: formatEstimate(ours.peak),
                holds: ours.peak.mean >= 0.98 * theirs.low,
              },
            ];
          }),
          notes: [],
        };
      },
    };
  },
};
