import type { Experiment } from "../../experiment.js";
import type { Choice } from "../../point.js";
import { describeRun } from "../workloads.js";
import { allCases } from "./fig7-cases.js";
import { EAGERS, partWith, percent, ratioOf, roughPoint, workloadsOf } from "./fig7-points.js";

const NO_WORSE = 0.95;
const AGAINST = ["paper's eager", "eager of the same drop rule", "best eager"] as const;
/** deferred+ with these off is deferred with early windows and, by its target, the keep-up target. */
const OTHER_PARTS_OFF = { feedback: false, look_ahead: false, leave_when_enough: false, early_by_gap: 0 };

/** Which eager a reading is held against by the same drop rule: the first drops heads, the second does not. */
const READINGS: readonly { readonly name: string; readonly choice: Choice; readonly alike: 0 | 1 }[] = [
  { name: "Algorithm 1", choice: { policy: "deferred", options: {} }, alike: 0 },
  { name: "no head dropping", choice: { policy: "deferred", options: { head_drop: false } }, alike: 1 },
  { name: "idle dispatch", choice: { policy: "deferred", options: { idle_dispatch: true } }, alike: 0 },
  {
    name: "early windows",
    choice: { policy: "deferred+", options: { target: "auto", ...OTHER_PARTS_OFF } },
    alike: 0,
  },
  { name: "keep-up target", choice: { policy: "deferred+", options: OTHER_PARTS_OFF }, alike: 0 },
  { name: "deferred+", choice: { policy: "deferred+", options: {} }, alike: 0 },
];

export const fig7Readings: Experiment = {
  name: "symphony/fig7-readings",
  title: "Readings of Algorithm 1 on Figure 7's workloads",
  about:
    "Figure 7's promise that deferred is at least 0.95 of eager, for each way in which Algorithm 1 can be read, and for what has to be added " +
    "to it until the promise holds: Algorithm 1 with heads dropped as in the public code; without; with idle dispatch, the live default; then with " +
    "early windows; these and the keep-up target; all of deferred+. The same cases, arrivals and eagers as Figure 7, whose kept points are used.",
  plan(size) {
    const { cases, run } = workloadsOf(size);
    const measured = cases.map((one) => ({
      one,
      eagers: EAGERS.map((choice) => roughPoint(choice, one, run)),
      readings: READINGS.map(({ choice }) => roughPoint(choice, one, run)),
    }));
    return {
      points: measured.flatMap(({ eagers, readings }) => [...eagers, ...readings]),
      scope: `${cases.length} of ${allCases().length} cases, ${describeRun(run)}`,
      present(get) {
        const parts = READINGS.map(({ name, alike }, index) => {
          const partOf = (baseOf: (eagers: readonly number[]) => number): number => {
            const ratios = measured.map(({ one, eagers, readings }) => {
              const base = baseOf(eagers.map((point) => get(point).peak_rps.mean));
              return { one, ratio: ratioOf(get(readings[index]!).peak_rps.mean, base) };
            });
            return partWith(ratios, NO_WORSE);
          };
          return {
            name,
            against: [
              partOf((eagers) => eagers[0]!),
              partOf((eagers) => eagers[alike]!),
              partOf((eagers) => Math.max(...eagers)),
            ],
          };
        });
        return {
          tables: [
            {
              title: `Parts of the cases, weighted to the whole product, with at least ${NO_WORSE} of eager's peak`,
              columns: [{ title: "reading" }, ...AGAINST.map((title) => ({ title, align: "right" as const }))],
              rows: parts.map(({ name, against }) => [name, ...against.map(percent)]),
            },
          ],
          figures: [
            {
              kind: "bars",
              id: "fig7-readings",
              title: "Cases with at least 0.95 of eager's peak, by reading",
              caption: "Parts of Table 1's product. Paper: almost all.",
              y: { title: "cases", percent: true, domain: [0, 1] },
              groups: READINGS.map(({ name }) => name),
              series: AGAINST.map((name) => ({ name })),
              rows: parts.flatMap(({ name, against }) =>
                against.map((y, index) => ({ group: name, series: AGAINST[index]!, y })),
              ),
            },
          ],
          findings: [],
          notes: ["Paper: almost all cases."],
        };
      },
    };
  },
};
