import { type Experiment, pick } from "../experiment.js";
import type { LineRow } from "../figure.js";
import { orderAt } from "./findings.js";
import { publishedRate, TABLE_2, TABLE_3, TABLE_4, TABLE_5 } from "./published.js";
import { describeRun, finishedOf, type MeasuredRow, measuredRows, pointsOf, rowOf, runOf } from "./runs.js";
import { PUBLISHED } from "./systems.js";
import { HOW, slosOf } from "./tables.js";
import { withCost, workloadNamed } from "./workloads.js";

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

/** c1 of Eq. 3; c0 is the rest of the mean, as where it is written down (workloads.ts). */
const C1S = [0.1, 0.2, 0.3, 0.4];

/** Nothing is taken from it: loads and costs stay as they are. */
export const load: Experiment = {
  name: "orloj/load",
  title: "ORLOJ: which load was it, and what does batching save?",
  about:
    "The paper prints no load and no constant of Eq. 3. All cases of Tables 2 to 5 under the systems as published, at 0.1 to 1.2 of a clairvoyant worker's " +
    `capacity, with c1 from ${C1S[0]} to ${C1S.at(-1)} and c0 = 1 - c1 of the mean: where the finish rates are nearest to the paper's, and their order the paper's most often. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const loads = pick(size, { tiny: [0.5, 1], small: LOADS, default: LOADS });
    const costs = pick(size, { tiny: C1S.slice(0, 1), small: C1S, default: C1S });
    const cases = TABLES.flatMap(({ name: table, cases: all }) =>
      pick(size, { tiny: all.slice(0, 1), small: all, default: all }).flatMap((caseId) =>
        costs.map((c1) => ({
          table,
          caseId,
          c1,
          rows: slosOf(size).map((slo) =>
            rowOf(withCost(workloadNamed(caseId), { c0: Number((1 - c1).toFixed(6)), c1 }), slo, PUBLISHED, run, {
              loads,
            }),
          ),
        })),
      ),
    );
    return {
      points: cases.flatMap(({ rows }) => pointsOf(rows)),
      scope: describeRun(run, loads),
      present(get) {
        const measured = cases.map((each) => ({ ...each, rows: measuredRows(each.rows, get) }));
        const choices = TABLES.flatMap(({ name }) =>
          costs.map((c1) => {
            const of = measured.filter((each) => each.table === name && each.c1 === c1);
            return { name, c1, of, rows: of.flatMap(({ rows }) => rows) };
          }),
        );
        const title = (c1: number): string => `c1 ${c1}`;
        const right = (text: string) => ({ title: text, align: "right" as const });
        const columns = [{ title: "table" }, right("c1"), ...loads.map((each) => right(String(each)))];
        const isSame = (row: MeasuredRow, index: number): number => (orderAt(row, index).isSame ? 1 : 0);
        const sameAt = (rows: readonly MeasuredRow[], index: number): number =>
          rows.reduce((sum, row) => sum + isSame(row, index), 0);
        const mostOf = (rows: readonly MeasuredRow[]): number =>
          Math.max(...loads.map((_, index) => sameAt(rows, index)));
        const LINES = [
          { panel: "distance from the paper's", of: distanceOf },
          { panel: "rows in the paper's order", of: isSame },
        ];
        const panelOf = (panel: string, c1: number): string => `${panel}, ${title(c1)}`;
        return {
          tables: [
            {
              title: "Mean distance of finish rates from the paper's over rows and systems, by load",
              columns,
              rows: choices.map(({ name, c1, rows }) => [
                name,
                String(c1),
                ...loads.map((_, index) => meanOf(rows, (row) => distanceOf(row, index)).toFixed(2)),
              ]),
            },
            {
              title: "Rows in which the order of the systems is the paper's, by load, and with a load for each case",
              columns: [...columns, right("load by case")],
              rows: choices.map(({ name, c1, of, rows }) => [
                name,
                String(c1),
                ...loads.map((_, index) => `${sameAt(rows, index)} of ${rows.length}`),
                `${of.reduce((sum, each) => sum + mostOf(each.rows), 0)} of ${rows.length}`,
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "orloj-load",
              title: "The systems as published beside the paper, by load",
              caption:
                "Mean over rows and systems of the distance between finish rates; part of the rows in which systems that are more than 0.03 apart in the paper are so here.",
              panels: LINES.flatMap(({ panel }) => costs.map((c1) => panelOf(panel, c1))),
              columns: costs.length,
              x: { title: "load, of a clairvoyant worker's capacity" },
              y: { title: "distance, part of rows", domain: [0, 1] },
              series: TABLES.map(({ name }) => ({ name })),
              rows: LINES.flatMap(({ panel, of }) =>
                choices.flatMap(({ name, c1, rows }) =>
                  loads.map((x, index): LineRow => {
                    const y = meanOf(rows, (row) => of(row, index));
                    return { x, y, series: name, panel: panelOf(panel, c1) };
                  }),
                ),
              ),
            },
          ],
          findings: [],
          notes: [],
        };
      },
    };
  },
};
