import { type Experiment, pick } from "../experiment.js";
import type { AcceleratorsPoint, BoundPoint } from "../point.js";
import { MAIN_SYSTEMS, SYMPHONY, type System } from "../systems.js";
import { FIGURE_10 } from "./published.js";
import { CODE_DELAYS, describeChoice, describeRun, runOf, scenario } from "./workloads.js";

const RATE_RPS = 15_000;
/** More than this counts as not delivered. */
const ACCELERATORS_MAX = 256;
const WORKLOADS = [
  {
    name: "ResNet50 (A100), SLO 25 ms",
    key: "ResNet50",
    bound: 6,
    fields: { models: [{ name: "ResNet50", profile: { alpha_ms: 0.268, beta_ms: 5.172 }, slo_ms: 25 }] },
  },
  { name: "all 37 models (A100)", key: "mix", bound: 60, fields: { models_from: { zoo: "a100", select: "all" } } },
] as const;

export const fig10: Experiment = {
  name: "symphony/fig10",
  title: "Figure 10: accelerators needed for 15,000 requests per second",
  about:
    "The fewest accelerators on which at most 1 % of requests are not in time in any model, 15,000 requests per second in all: " +
    "ResNet50 of the A100 zoo with an SLO of 25 ms, and all 37 models of that zoo. Poisson arrivals, delays 100/50/0 µs.",
  plan(size) {
    const run = runOf(size, { seconds: [4, 10, 30], seeds: [2, 3, 10] });
    const rateRps = pick(size, { tiny: 300, small: RATE_RPS, default: RATE_RPS });
    const fieldsOf = (workload: (typeof WORKLOADS)[number]) => ({
      accelerators: 1,
      network: CODE_DELAYS,
      ...workload.fields,
      arrivals: { process: "poisson", rate_rps: rateRps },
    });
    const cases = WORKLOADS.map((workload) => ({
      ...workload,
      least: {
        kind: "bound",
        scenario: scenario(`fig10-${workload.key}`, run, fieldsOf(workload)),
        seed: 1,
      } satisfies BoundPoint,
      systems: MAIN_SYSTEMS.map((system) => ({
        system,
        points: system.variants.map(
          (choice): AcceleratorsPoint => ({
            kind: "accelerators",
            scenario: scenario(
              `fig10-${workload.key}`,
              run,
              fieldsOf(workload),
              run.seconds < 1 ? run.warmupS : Math.max(run.warmupS, system.warmupS ?? 0),
            ),
            choice,
            seeds: run.seeds,
            rate_rps: rateRps,
            accelerators_max: pick(size, { tiny: 8, small: ACCELERATORS_MAX, default: ACCELERATORS_MAX }),
          }),
        ),
      })),
    }));
    return {
      points: cases.flatMap(({ systems, least }) => [...systems.flatMap(({ points }) => points), least]),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({
          ...each,
          least: get(each.least).least_busy,
          code: FIGURE_10.code[each.key] as Readonly<Record<string, number>>,
          systems: each.systems.map(({ system, points }) => {
            let best = { choice: points[0]!.choice, count: get(points[0]!).accelerators };
            for (const point of points.slice(1)) {
              const count = get(point).accelerators;
              if (count !== null && (best.count === null || count < best.count)) best = { choice: point.choice, count };
            }
            return { system, ...best };
          }),
        }));
        const countOf = (systems: readonly { system: System; count: number | null }[], wanted: System): number | null =>
          systems.find(({ system }) => system === wanted)!.count;
        return {
          tables: [
            {
              title: `Accelerators for ${RATE_RPS.toLocaleString("en-US")} requests per second`,
              columns: [
                { title: "models" },
                { title: "system" },
                { title: "ours", align: "right" },
                { title: "public code", align: "right" },
                { title: "more than Symphony", align: "right" },
                { title: "setting" },
              ],
              rows: measured.flatMap(({ name, code, systems, least }) => {
                const symphony = countOf(systems, SYMPHONY);
                const rows = systems.map(({ system, count, choice }) => [
                  name,
                  system.name,
                  count === null ? `over ${ACCELERATORS_MAX}` : String(count),
                  String(code[system.name] ?? ""),
                  count === null || symphony === null || system === SYMPHONY
                    ? ""
                    : `${((count / symphony - 1) * 100).toFixed(0)} %`,
                  describeChoice(system, choice),
                ]);
                return [...rows, [name, "any schedule", `≥ ${Math.ceil(least)}`, "", "", "gathering bound"]];
              }),
            },
          ],
          figures: [
            {
              kind: "bars",
              id: "fig10",
              title: "Accelerators for 15,000 requests per second",
              caption: `The fewest with at most 1 % bad in the worst model. No bar: more than ${ACCELERATORS_MAX}.`,
              panels: WORKLOADS.map(({ name }) => name),
              freeY: true,
              y: { title: "accelerators" },
              groups: MAIN_SYSTEMS.map(({ name }) => name),
              series: [{ name: "ours" }, { name: "public code", kind: "published" }],
              rows: measured.flatMap(({ name, code, systems }) =>
                systems.flatMap(({ system, count }) => [
                  ...(count === null ? [] : [{ panel: name, group: system.name, series: "ours", y: count }]),
                  ...(code[system.name] === undefined
                    ? []
                    : [{ panel: name, group: system.name, series: "public code", y: code[system.name]! }]),
                ]),
              ),
            },
          ],
          findings: measured.map(({ name, bound, systems }) => {
            const count = countOf(systems, SYMPHONY);
            return {
              promise: `${name}: Symphony needs at most ${bound}`,
              found: count === null ? `more than ${ACCELERATORS_MAX}` : String(count),
              holds: count !== null && count <= bound,
            };
          }),
          notes: [
            "Paper: with one model Symphony saves 2 to 6 accelerators against Shepherd and Nexus and Clockwork needs more than twice as many as any; with 37 Nexus needs 166 % and Shepherd 90 % more, and Clockwork does not deliver.",
          ],
        };
      },
    };
  },
};
