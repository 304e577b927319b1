import { type Experiment, pick } from "../experiment.js";
import { FINISH_RATE } from "./presentation.js";
import { describeRun, formatFinished, LOADS, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { orlojWith, type ToldSystem } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { workloadNamed } from "./workloads.js";

/** Per millisecond, as the paper's. */
const BS = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
/** Below 0.8: where ORLOJ finishes as many as in the paper. */
const SWEPT = [0.3, 0.5, ...LOADS];
/** "ORLOJ indeed keeps stable finish rate regardless of the choice of b". */
const STABLE_WITHIN = 0.03;

const panelOf = (load: number): string => `load ${load}`;

export const fig13: Experiment = {
  name: "orloj/fig13",
  title: "ORLOJ, Figure 13: the anticipated delay's parameter",
  about: `ORLOJ on three modes, its b (per millisecond) from 1e-6 to 0.1; the paper's choice is 1e-4. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const bs = pick(size, { tiny: [1e-4, 1e-2], small: BS, default: BS });
    const systems = bs.map((b): ToldSystem => ({ name: String(b), variants: [orlojWith({ b_per_ms: b })] }));
    const rows = slosOf(size).map((slo) => rowOf(workloadNamed("three-modal"), slo, systems, run, { loads: SWEPT }));
    return {
      points: pointsOf(rows),
      scope: describeRun(run, SWEPT),
      present(get) {
        const measured = measuredRows(rows, get);
        return {
          tables: [
            {
              title: "Finish rate by b, mean and standard deviation over seeds",
              columns: ["SLO", "load", ...systems.map(({ name }) => `b ${name}`)].map((title) => ({
                title,
                align: "right" as const,
              })),
              rows: measured.flatMap(({ slo, systems: each }) =>
                SWEPT.map((load, index) => [
                  String(slo),
                  load.toFixed(1),
                  ...each.map(({ finished }) => formatFinished(finished[index]!)),
                ]),
              ),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "orloj-fig13",
              title: "Finish rate by b",
              caption:
                "Three modes; a line for each SLO, as a multiple of P99. The paper's lines have no numbers; they are flat.",
              panels: SWEPT.map(panelOf),
              x: { title: "b", unit: "per ms", scale: "log" },
              y: FINISH_RATE,
              series: measured.map(({ slo }) => ({ name: `SLO ${slo}` })),
              rows: measured.flatMap(({ slo, systems: each }) =>
                each.flatMap(({ finished }, index) =>
                  SWEPT.map((load, at) => ({
                    x: bs[index]!,
                    y: finished[at]!.mean,
                    series: `SLO ${slo}`,
                    panel: panelOf(load),
                  })),
                ),
              ),
            },
          ],
          findings: SWEPT.map((load, index) => {
            const widest = measured
              .map(({ slo, systems: each }) => {
                const means = each.map(({ finished }) => finished[index]!.mean);
                return { slo, by: Math.max(...means) - Math.min(...means) };
              })
              .reduce((a, b) => (b.by > a.by ? b : a));
            return {
              promise: `load ${load}: no b changes the finish rate by more than ${STABLE_WITHIN}`,
              found: `${widest.by.toFixed(3)} at SLO ${widest.slo}`,
              holds: widest.by <= STABLE_WITHIN,
            };
          }),
          notes: [
            "Eq. 2 weighs who is in time now by e^{-b (slack - l)}: it is 1 for everybody while b times an SLO is far below 1, and from there on the nearest deadlines go first.",
          ],
        };
      },
    };
  },
};
