import { type Experiment, pick } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { fairFindings, orderFindings } from "./findings.js";
import { BEST_FAIR, FINISH_RATE, fairTable, publishedTable } from "./presentation.js";
import { bestAt, describeRun, FULL, finishedOf, LOADS, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { ALL, FAIR, PLUS, PUBLISHED } from "./systems.js";
import { HOW } from "./tables.js";
import { withCost, workloadNamed } from "./workloads.js";

/** Of Eq. 3: c0 as a part of the mean time alone, and c1. */
const C0S = [0.4, 0.8, 1.2];
const C1S = [0.1, 0.2, 0.4];
/** Two modes, a real task. */
const CASES: readonly string[] = ["two-modal", "gpt-cornell"];
const SLOS = [1.5, 3, 5];
/** Of the figure. */
const DRAWN = { caseId: "two-modal", slo: 3 };

export const sweep: Experiment = {
  name: "orloj/sweep",
  title: "ORLOJ: what batching saves",
  about:
    "The paper does not say what c0 and c1 of a batch's time c0 + c1 k l are (Eq. 3). Here c0 is 0.4, 0.8 and 1.2 of the mean time alone, " +
    `c1 0.1, 0.2 and 0.4, for a case of two modes and a real task. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const costs = pick(size, { tiny: [0.4], small: C0S, default: C0S }).flatMap((c0) =>
      pick(size, { tiny: [0.4], small: C1S, default: C1S }).map((c1) => ({ c0, c1 })),
    );
    const cases = costs.map((cost) => ({
      cost,
      rows: pick(size, { tiny: CASES.slice(0, 1), small: CASES, default: CASES }).flatMap((caseId) =>
        pick(size, { tiny: [DRAWN.slo], small: SLOS, default: SLOS }).map((slo) =>
          rowOf(withCost(workloadNamed(caseId), cost), slo, ALL, run),
        ),
      ),
    }));
    return {
      points: cases.flatMap(({ rows }) => pointsOf(rows)),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map(({ cost, rows }) => ({ ...cost, rows: measuredRows(rows, get) }));
        const all = measured.flatMap(({ rows }) => rows);
        const shown = [...PUBLISHED, PLUS];
        const panel = (c0: number): string => `c0 ${c0} of the mean`;
        return {
          tables: [publishedTable(all), fairTable(all)],
          figures: [
            {
              kind: "lines",
              id: "orloj-sweep",
              title: `Finish rate of ${DRAWN.caseId} at SLO ${DRAWN.slo} by what batching saves`,
              caption: `Load ${LOADS[FULL]}, means over seeds.`,
              panels: [...new Set(costs.map(({ c0 }) => panel(c0)))],
              x: { title: "c1" },
              y: FINISH_RATE,
              series: [...shown.map(({ name }) => ({ name })), { name: BEST_FAIR }],
              rows: measured.flatMap(({ c0, c1, rows }) => {
                const row = rows.find(({ workload, slo }) => workload.caseId === DRAWN.caseId && slo === DRAWN.slo)!;
                const line = (series: string, y: number): LineRow => ({ x: c1, y, series, panel: panel(c0) });
                return [
                  ...shown.map((system) => line(system.name, finishedOf(row, system, FULL).mean)),
                  line(BEST_FAIR, bestAt(row, FAIR, FULL).finished[FULL]!.mean),
                ];
              }),
            },
          ],
          findings: [
            ...measured.flatMap(({ c0, c1, rows }) =>
              orderFindings(rows).map((finding) => ({ ...finding, promise: `c0 ${c0}, c1 ${c1}, ${finding.promise}` })),
            ),
            ...fairFindings(all),
          ],
          notes: [],
        };
      },
    };
  },
};
