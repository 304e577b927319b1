import { type Experiment, pick } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { orderAt } from "./findings.js";
import { publishedRate, TABLE_2, TABLE_3, TABLE_4, TABLE_5 } from "./published.js";
import { describeRun, finishedOf, type MeasuredRow, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { PUBLISHED } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { workloadNamed } from "./workloads.js";

const TABLES = [TABLE_2, TABLE_3, TABLE_4, TABLE_5].map((table, index) => ({
  name: `Table ${index + 2}`,
  cases: Object.keys(table),
}));
const LOADS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2];

/** Mean distance of a row's finish rates from the paper's. */
function distanceOf(row: MeasuredRow, load: number): number {
  const distances = PUBLISHED.map((system) =>
    Math.abs(finishedOf(row, system, load).mean - publishedRate(row.workload.caseId, row.slo, system.name)!),
  );
  return distances.reduce((sum, distance) => sum + distance, 0) / distances.length;
}

const meanOf = (rows: readonly MeasuredRow[], of: (row: MeasuredRow) => number): number =>
  rows.reduce((sum, row) => sum + of(row), 0) / rows.length;

/** Nothing is taken from it: loads stay as they are. */
export const load: Experiment = {
  name: "orloj/load",
  title: "ORLOJ: which load was it?",
  about:
    "The paper prints no load. All cases of Tables 2 to 5 under the systems as published, at 0.1 to 1.2 of a clairvoyant worker's capacity: " +
    `at which the finish rates are nearest to the paper's, and their order the paper's most often. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const loads = pick(size, { tiny: [0.5, 1], small: LOADS, default: LOADS });
    const cases = TABLES.flatMap(({ name: table, cases: all }) =>
      pick(size, { tiny: all.slice(0, 1), small: all, default: all }).map((caseId) => ({
        table,
        caseId,
        rows: slosOf(size).map((slo) => rowOf(workloadNamed(caseId), slo, PUBLISHED, run, { loads })),
      })),
    );
    return {
      points: cases.flatMap(({ rows }) => pointsOf(rows)),
      scope: describeRun(run, loads),
      present(get) {
        const measured = cases.map((each) => ({ ...each, rows: measuredRows(each.rows, get) }));
        const tables = TABLES.map(({ name }) => ({
          name,
          rows: measured.filter(({ table }) => table === name).flatMap(({ rows }) => rows),
        }));
        const columns = loads.map((each) => ({ title: String(each), align: "right" as const }));
        const line = (name: string, rows: readonly MeasuredRow[]): string[] => [
          name,
          ...loads.map((_, index) => meanOf(rows, (row) => distanceOf(row, index)).toFixed(2)),
        ];
        const isSame = (row: MeasuredRow, index: number): number => (orderAt(row, index).isSame ? 1 : 0);
        const sameAt = (rows: readonly MeasuredRow[], index: number): number =>
          rows.reduce((sum, row) => sum + isSame(row, index), 0);
        const sames = (rows: readonly MeasuredRow[]): string[] =>
          loads.map((_, index) => `${sameAt(rows, index)} of ${rows.length}`);
        const mostOf = (rows: readonly MeasuredRow[]): number =>
          Math.max(...loads.map((_, index) => sameAt(rows, index)));
        const curves = (of: (row: MeasuredRow, index: number) => number, panel: string): LineRow[] =>
          tables.flatMap(({ name, rows }) =>
            loads.map((x, index) => ({ x, y: meanOf(rows, (row) => of(row, index)), series: name, panel })),
          );
        const PANELS = ["distance from the paper's", "rows in the paper's order"];
        return {
          tables: [
            {
              title: "Mean distance of finish rates from the paper's over SLOs and systems, by load",
              columns: [{ title: "case" }, ...columns],
              rows: [
                ...measured.map(({ caseId, rows }) => line(caseId, rows)),
                ...tables.map(({ name, rows }) => line(name, rows)),
              ],
            },
            {
              title: "Rows in which the order of the systems is the paper's, by load, and with a load for each case",
              columns: [{ title: "case" }, ...columns, { title: "best by case", align: "right" }],
              rows: [
                ...measured.map(({ caseId, rows }) => [caseId, ...sames(rows), String(mostOf(rows))]),
                ...tables.map(({ name, rows }) => [
                  name,
                  ...sames(rows),
                  `${measured.reduce((sum, each) => sum + (each.table === name ? mostOf(each.rows) : 0), 0)} of ${rows.length}`,
                ]),
              ],
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "orloj-load",
              title: "The systems as published beside the paper, by load",
              caption:
                "Mean over rows and systems of the distance between finish rates; part of the rows in which systems that are more than 0.03 apart in the paper are so here.",
              panels: PANELS,
              x: { title: "load, of a clairvoyant worker's capacity" },
              y: { title: "distance, part of rows", domain: [0, 1] },
              series: tables.map(({ name }) => ({ name })),
              rows: [...curves(distanceOf, PANELS[0]!), ...curves(isSame, PANELS[1]!)],
            },
          ],
          findings: [],
          notes: [],
        };
      },
    };
  },
};
