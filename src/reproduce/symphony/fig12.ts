import type { Experiment } from "../experiment.js";
import { MAIN_SYSTEMS, NEXUS, SYMPHONY } from "../systems.js";
import { MODELS, table2Cases } from "./table2.js";
import { bestOf, describeRun } from "./workloads.js";

export const fig12: Experiment = {
  name: "symphony/fig12",
  title: "Figure 12: queueing delay of one model on 8 accelerators",
  about:
    "From the arrival of a request to the start of the batch that holds it, in Table 2's runs, each system at its own peak " +
    "(delays 100/50/0 µs).",
  plan(size) {
    const { run, cases: all } = table2Cases(size);
    const cases = all.filter(({ isWithDelays }) => isWithDelays);
    return {
      points: cases.flatMap(({ points }) => points),
      scope: `${describeRun(run)}; the runs of symphony/table2`,
      present(get) {
        const measured = cases.map((each) => ({
          ...each,
          delays: bestOf(each.points, get).result.queue_delay_ms ?? [],
        }));
        const of = (profile: string, system: string, percent: number): number | undefined =>
          measured.find((each) => each.profile === profile && each.system.name === system)?.delays[percent];
        return {
          tables: [
            {
              title: "Queueing delay, milliseconds",
              columns: [
                { title: "model" },
                { title: "system" },
                ...["p50", "p90", "p99", "longest"].map((title) => ({ title, align: "right" as const })),
              ],
              rows: measured.map(({ profile, system, delays }) => [
                profile,
                system.name,
                ...[50, 90, 99, 100].map((percent) => delays[percent]?.toFixed(1) ?? ""),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig12",
              title: "Queueing delay",
              caption: "Share of executed requests that waited at most this long, at each system's own peak.",
              panels: MODELS.map(({ name }) => name),
              shape: "step",
              x: { title: "queueing delay", unit: "ms" },
              y: { title: "requests", percent: true, domain: [0, 1] },
              series: MAIN_SYSTEMS.map(({ name }) => ({ name })),
              rows: measured.flatMap(({ profile, system, delays }) =>
                delays.map((x, percent) => ({ x, y: percent / 100, series: system.name, panel: profile })),
              ),
            },
          ],
          findings: MODELS.map(({ name }) => {
            const symphony = of(name, SYMPHONY.name, 99) ?? Number.NaN;
            const nexus = of(name, NEXUS.name, 99) ?? Number.NaN;
            return {
              promise: `${name}: Symphony's queueing delay is shorter than Nexus's (paper: 2 to 3 times)`,
              found: `p99 ${symphony.toFixed(1)} against ${nexus.toFixed(1)} ms, ${(nexus / symphony).toFixed(2)} times`,
              holds: nexus > symphony,
            };
          }),
          notes: ["The paper's longest delay of Nexus is about half the SLO: 12.5 and 35 ms."],
        };
      },
    };
  },
};
