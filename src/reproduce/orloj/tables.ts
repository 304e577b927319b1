/** Tables 2 to 5 of Appendix A: every case at every SLO, under all systems. */
import { type Experiment, type Finding, pick, type Size } from "../experiment.js";
import { fairFindings, orderFindings, staticFindings } from "./findings.js";
import { fairTable, publishedTable, settingsTable, tableFigure } from "./presentation.js";
import { SLOS } from "./published.js";
import { type BoundedRow, boundedRows, describeRun, pointsOf, referencesOf, rowOf, runOf } from "./runs.js";
import { ALL, PLUS_KNOWING } from "./systems.js";
import { MODALITIES, REAL, STATIC, TWO_MODES, type Workload } from "./workloads.js";

/** What all tables and the figures that show their runs share. */
export const slosOf = (size: Size): readonly number[] =>
  pick<readonly number[]>(size, { tiny: [3], small: SLOS, default: SLOS });
export const HOW =
  "One accelerator; SLOs are multiples of the P99 of the time alone; Poisson arrivals at a rate that changes as that of cloud functions.";

function tableOf(
  number: number,
  title: string,
  about: string,
  cases: readonly Workload[],
  findings: readonly ((rows: readonly BoundedRow[]) => Finding[])[],
): Experiment {
  return {
    name: `orloj/table${number}`,
    title: `ORLOJ, Table ${number}: ${title}`,
    about: `${about} ${HOW}`,
    plan(size) {
      const run = runOf(size);
      const rows = pick(size, { tiny: cases.slice(0, 2), small: cases, default: cases }).flatMap((workload) =>
        slosOf(size).map((slo) => rowOf(workload, slo, ALL, run)),
      );
      return {
        points: [...pointsOf(rows), ...referencesOf(rows)],
        scope: describeRun(run),
        present(get) {
          const measured = boundedRows(rows, get);
          return {
            tables: [publishedTable(measured), fairTable(measured), settingsTable(measured)],
            figures: [tableFigure(`orloj-table${number}`, `Finish rate: ${title}`, measured)],
            findings: findings.flatMap((of) => of(measured)),
            notes: [
              "Load 1 is the capacity of a worker that knows every time and always finds requests alike to batch (clairvoyant.ts), at the loosest SLO: nobody reaches it with requests as they come. The paper gives no load; it has one rate for all SLOs, as here.",
              "The bound: what no scheduler exceeds, whatever it knows (capacity/in-time/in-time.ts): each request takes at least its least share of any batch that it could be in, and batches can be interrupted.",
              `${PLUS_KNOWING.name}: the same policy and requests, where each request's time is told beforehand (capacity/times-known.ts), with its own settings or those that are best then. What it does not reach, better knowledge of times does not bring.`,
            ],
          };
        },
      };
    },
  };
}

export const TABLES: readonly Experiment[] = [
  tableOf(
    2,
    "two modes",
    "Requests of two apps, one short and one long, each with times of its own; the case is the standard deviation of both or of the short and the long mode.",
    TWO_MODES,
    [orderFindings, fairFindings],
  ),
  tableOf(
    3,
    "one to eight modes",
    "Requests of one to eight apps, whose mean times lie evenly from 10 to 100 ms.",
    MODALITIES,
    [orderFindings, fairFindings],
  ),
  tableOf(4, "static models", "Every request takes as long.", STATIC, [orderFindings, fairFindings, staticFindings]),
  tableOf(
    5,
    "real tasks",
    "Distributions of Table 1's means and P99s, each cut into two apps, one of the shorter and one of the longer requests.",
    REAL,
    [orderFindings, fairFindings],
  ),
];
