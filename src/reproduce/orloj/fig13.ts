import { type Experiment, pick } from "../experiment.js";
import { FINISH_RATE } from "./presentation.js";
import { describeRun, FULL, formatFinished, LOADS, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { orlojWith, type ToldSystem } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { workloadNamed } from "./workloads.js";

/** Per millisecond, as the paper's. */
const BS = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
/** "ORLOJ indeed keeps stable finish rate regardless of the choice of b". */
const STABLE_WITHIN = 0.03;

export const fig13: Experiment = {
  name: "orloj/fig13",
  title: "ORLOJ, Figure 13: the anticipated delay's parameter",
  about: `ORLOJ on three modes, its b (per millisecond) from 1e-6 to 0.1; the paper's choice is 1e-4. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const bs = pick(size, { tiny: [1e-4, 1e-2], small: BS, default: BS });
    const systems = bs.map((b): ToldSystem => ({ name: String(b), variants: [orlojWith({ b_per_ms: b })] }));
    const rows = slosOf(size).map((slo) => rowOf(workloadNamed("three-modal"), slo, systems, run));
    return {
      points: pointsOf(rows),
      scope: describeRun(run),
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
                LOADS.map((load, index) => [
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
              caption: `Three modes, load ${LOADS[FULL]}; a line for each SLO, as a multiple of P99. The paper's lines have no numbers; they are flat.`,
              x: { title: "b", unit: "per ms", scale: "log" },
              y: FINISH_RATE,
              series: measured.map(({ slo }) => ({ name: `SLO ${slo}` })),
              rows: measured.flatMap(({ slo, systems: each }) =>
                each.map(({ finished }, index) => ({ x: bs[index]!, y: finished[FULL]!.mean, series: `SLO ${slo}` })),
              ),
            },
          ],
          findings: LOADS.map((load, index) => {
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
          notes: [],
        };
      },
    };
  },
};
