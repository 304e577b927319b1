import { type Experiment, pick, seedsUpTo } from "../experiment.js";
import type { PlanImbalance, PlanPoint } from "../point.js";

const KINDS = ["load", "memory"] as const;
const IMBALANCE_MAX = 0.05;

export const fig16: Experiment = {
  name: "symphony/fig16",
  title: "Figure 16: how even sub-clusters are",
  about:
    "800 variants of zoo models over 20 sub-clusters, rates independent and exponential (Appendix A.2): the imbalance (max - min) / " +
    "mean of load and memory over sub-clusters, for `rubato plan`, for greedy placement with swaps alone, and for random search of the " +
    "same length. Takes the time it is given: the result depends on the machine.",
  plan(size) {
    const timeLimitMs = pick(size, { tiny: 200, small: 1500, default: 10_000 });
    const points = seedsUpTo(pick(size, { tiny: 2, small: 4, default: 20 })).map(
      (seed): PlanPoint => ({ kind: "plan", seed, time_limit_ms: timeLimitMs }),
    );
    return {
      points,
      scope: `${points.length} configurations, ${timeLimitMs / 1000} s each`,
      present(get) {
        const results = points.map((point) => ({ ...point, ...get(point) }));
        const methods = [
          { name: "plan", of: (result: (typeof results)[number]): PlanImbalance | null => result.plan },
          { name: "greedy with swaps", of: (result: (typeof results)[number]): PlanImbalance | null => result.greedy },
          { name: "random search", of: (result: (typeof results)[number]): PlanImbalance | null => result.random },
        ];
        const format = (imbalance: PlanImbalance | null, kind: (typeof KINDS)[number]): string =>
          imbalance === null ? "none found" : imbalance[kind].toFixed(4);
        const worst = (kind: (typeof KINDS)[number]): number => Math.max(...results.map(({ plan }) => plan[kind]));
        const beats = results.filter(
          ({ plan, random }) => random === null || (plan.load < random.load && plan.memory < random.memory),
        ).length;
        const noWorse = results.filter(({ plan, greedy }) => plan.objective <= greedy.objective).length;
        return {
          tables: [
            {
              title: "Imbalance of load / memory",
              columns: [
                { title: "configuration", align: "right" },
                ...methods.map(({ name }) => ({ title: name, align: "right" as const })),
              ],
              rows: results.map((result) => [
                String(result.seed),
                ...methods.map(({ of }) => `${format(of(result), "load")} / ${format(of(result), "memory")}`),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig16",
              title: "Imbalance of partitions",
              caption: "Share of configurations with at most this imbalance; each method has the same time.",
              panels: KINDS.map((kind) => `imbalance of ${kind}`),
              shape: "step",
              x: { title: "(max - min) / mean", scale: "log" },
              y: { title: "configurations", percent: true, domain: [0, 1] },
              series: methods.map(({ name }) => ({ name })),
              rows: KINDS.flatMap((kind) =>
                methods.flatMap(({ name, of }) => {
                  const values = results.flatMap((result) => of(result)?.[kind] ?? []).sort((a, b) => a - b);
                  return values.map((x, index) => ({
                    // On a logarithmic axis nothing is at 0.
                    x: Math.max(x, 1e-5),
                    y: (index + 1) / results.length,
                    series: name,
                    panel: `imbalance of ${kind}`,
                  }));
                }),
              ),
            },
          ],
          findings: [
            {
              promise: `imbalance of load and memory at most ${IMBALANCE_MAX} in every configuration`,
              found: `${worst("load").toFixed(4)} and ${worst("memory").toFixed(4)} at worst`,
              holds: Math.max(worst("load"), worst("memory")) <= IMBALANCE_MAX,
            },
            {
              promise: "below random search's in every configuration",
              found: `${beats} of ${results.length}`,
              holds: beats === results.length,
            },
            {
              promise: "no worse than greedy with swaps in any",
              found: `${noWorse} of ${results.length}`,
              holds: noWorse === results.length,
            },
          ],
          notes: [],
        };
      },
    };
  },
};
