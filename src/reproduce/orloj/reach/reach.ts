import type { Experiment } from "../../experiment.js";
import type { LineRow } from "../../figure.js";
import { fairFindings } from "../findings.js";
import { BEST_FAIR, FINISH_RATE, fairTable } from "../presentation.js";
import {
  type BoundedRow,
  bestAt,
  boundedRows,
  describeRun,
  finishedOf,
  LOADS,
  pointsOf,
  referencesOf,
  rowOf,
  runOf,
} from "../runs.js";
import { FAIR, OURS, PLUS, PLUS_KNOWING } from "../systems.js";
import { HOW } from "../tables.js";
import { workloadNamed } from "../workloads.js";

/** Two narrow modes: what is known of an app leaves least to be learnt. */
const CASE = "std-0.5";
/** From here on sessions are level with us. */
const SLO = 3;

const BOUND = "bound";

const linesAt = (row: BoundedRow, x: number, load: number): LineRow[] =>
  Object.entries({
    [BEST_FAIR]: bestAt(row, FAIR, load).finished[load]!,
    [PLUS.name]: finishedOf(row, PLUS, load),
    [PLUS_KNOWING.name]: row.known[load]!,
    [BOUND]: row.bound[load]!,
  }).map(([series, { mean }]) => ({ x, y: mean, series, panel: CASE }));

/** How much of what tables ask for is beyond any scheduler, by a bound that is too dear for all of their rows. */
export const reach: Experiment = {
  name: "orloj/reach",
  title: "ORLOJ: what no scheduler reaches",
  about: `Rows of orloj/table2 (${CASE}) beside a bound on what ends in time in whole batches, whatever is known of times and of the future. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const rows = [rowOf(workloadNamed(CASE), SLO, [...FAIR, ...OURS], run, { batches: "whole" })];
    return {
      points: [...pointsOf(rows), ...referencesOf(rows)],
      scope: describeRun(run),
      present(get) {
        const measured = boundedRows(rows, get);
        return {
          tables: [fairTable(measured)],
          figures: [
            {
              kind: "lines",
              id: "orloj-reach",
              title: `Finish rate of ${CASE} at SLO ${SLO} beside what no scheduler exceeds`,
              caption: "Means over seeds.",
              panels: [CASE],
              x: { title: "load" },
              y: FINISH_RATE,
              series: [BEST_FAIR, PLUS.name, PLUS_KNOWING.name, BOUND].map((name) => ({ name })),
              rows: measured.flatMap((row) => LOADS.flatMap((x, load) => linesAt(row, x, load))),
            },
          ],
          findings: fairFindings(measured),
          notes: [
            "The bound: batches are whole and may serve a request more than once, at a price; prices are found so that this gains least (capacity/priced). It knows all that will come, which no scheduler does.",
          ],
        };
      },
    };
  },
};
