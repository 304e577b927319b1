import { type Experiment, pick } from "../experiment.js";
import { FINISH_RATE } from "./presentation.js";
import { describeRun, FULL, finishedOf, formatFinished, LOADS, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { ORLOJ, PLUS } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { scaled, workloadNamed } from "./workloads.js";

/** Of the P99 of three modes, which is about 100 ms: down to about 2 ms. */
const FACTORS = [1, 0.5, 0.2, 0.1, 0.05, 0.02];
/** In virtual time a decision takes none: what is lost on short requests is what delays cost. Symphony's public code has these. */
const NETWORKS = [
  { name: "no delays", fields: {} },
  { name: "100/50/0 µs", fields: { network: { control_us: 100, data_us_per_request: 50, response_us: 0 } } },
] as const;
const SHOWN = [ORLOJ, PLUS];
/** "only starts to degrade when the minimum P99 execution time is approaching 20 ms". */
const DEGRADED = 0.05;
const SHORTEST_MS = 20;

export const fig14: Experiment = {
  name: "orloj/fig14",
  title: "ORLOJ, Figure 14: shorter and shorter requests",
  about:
    "Three modes, all times scaled down until their P99 nears 2 ms, without delays and with those of Symphony's public code (100 µs of " +
    `control, 50 µs of data per request). ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const factors = pick(size, { tiny: [1, 0.02], small: FACTORS, default: FACTORS });
    const cases = NETWORKS.flatMap(({ name: network, fields }) =>
      factors.flatMap((factor) =>
        slosOf(size).map((slo) => ({
          network,
          factor,
          row: rowOf(scaled(workloadNamed("three-modal"), factor), slo, SHOWN, run, { fields }),
        })),
      ),
    );
    return {
      points: pointsOf(cases.map(({ row }) => row)),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({ ...each, row: measuredRows([each.row], get)[0]! }));
        const system = ORLOJ;
        const rateOf = (network: string, factor: number, slo: number): number =>
          finishedOf(
            measured.find((each) => each.network === network && each.factor === factor && each.row.slo === slo)!.row,
            system,
            FULL,
          ).mean;
        return {
          tables: [
            {
              title: "Finish rate by the P99 of the time alone, mean and standard deviation over seeds",
              columns: [
                { title: "delays" },
                ...["P99 ms", "SLO", "load", ...SHOWN.map(({ name }) => name)].map((title) => ({
                  title,
                  align: "right" as const,
                })),
              ],
              rows: measured.flatMap(({ network, row }) =>
                LOADS.map((load, index) => [
                  network,
                  row.workload.p99Ms.toFixed(1),
                  String(row.slo),
                  load.toFixed(1),
                  ...SHOWN.map((each) => formatFinished(finishedOf(row, each, index))),
                ]),
              ),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "orloj-fig14",
              title: `Finish rate of ${system.name} by the P99 of the time alone`,
              caption: `Three modes, load ${LOADS[FULL]}; a line for each SLO, as a multiple of P99.`,
              panels: NETWORKS.map(({ name }) => name),
              x: { title: "P99 of the time alone", unit: "ms", scale: "log" },
              y: FINISH_RATE,
              series: slosOf(size).map((slo) => ({ name: `SLO ${slo}` })),
              rows: measured.map(({ network, factor, row }) => ({
                x: Number(row.workload.p99Ms.toPrecision(4)),
                y: rateOf(network, factor, row.slo),
                series: `SLO ${row.slo}`,
                panel: network,
              })),
            },
          ],
          findings: NETWORKS.map(({ name: network }) => {
            const lost = measured
              .filter((each) => each.network === network && each.row.workload.p99Ms >= SHORTEST_MS / 2)
              .map(({ factor, row }) => ({
                row,
                by: rateOf(network, 1, row.slo) - rateOf(network, factor, row.slo),
              }))
              .reduce((a, b) => (b.by > a.by ? b : a));
            return {
              promise: `${network}: down to a P99 of half of ${SHORTEST_MS} ms, where the paper's is lost, at most ${DEGRADED} of the finish rate is`,
              found: `${lost.by.toFixed(3)} at ${lost.row.workload.p99Ms.toFixed(1)} ms, SLO ${lost.row.slo}`,
              holds: lost.by <= DEGRADED,
            };
          }),
          notes: [
            "What the scheduler's own decisions take is not in virtual time; `rubato bench` measures it.",
            `Paper: "performance only starts to degrade when the minimum P99 execution time is approaching ${SHORTEST_MS} ms".`,
          ],
        };
      },
    };
  },
};
