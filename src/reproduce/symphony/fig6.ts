import { type Experiment, pick } from "../experiment.js";
import type { PeakPoint } from "../point.js";
import { EAGER, SYMPHONY, type System } from "../systems.js";
import { bestOf, describeRun, formatEstimate, model, peaksOf, RESNET50, runOf } from "./workloads.js";

/** α is 1 ms and β is varied; SLO 2 l(8). */
const BETAS_MS = [1, 2, 3, 5, 7, 9, 11, 13, 15];
const FRACTIONS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7];

const SETUPS = [
  {
    name: "ResNet50, SLO 50 ms, 8 accelerators",
    key: "one",
    fields: {
      accelerators: 8,
      models: [model({ ...RESNET50, slo_ms: 50 })],
      arrivals: { process: "poisson", rate_rps: 6000 },
    },
  },
  {
    name: "37 models (A100), 64 accelerators",
    key: "mixed",
    fields: {
      accelerators: 64,
      models_from: { zoo: "a100", select: "all" },
      arrivals: { process: "poisson", rate_rps: 16_500 },
    },
  },
] as const;

const timeoutOf = (fraction: number): System => ({
  name: `timeout ${fraction}`,
  variants: ["infeasible", "window"].map((drop) => ({
    policy: "timeout",
    options: { timeout_fraction: fraction, drop },
  })),
  isMain: false,
});

export const fig6: Experiment = {
  name: "symphony/fig6",
  title: "Figure 6: deferred against eager and against timeouts",
  about:
    "(a) 10 equal models on 32 accelerators, α 1 ms, β 1 to 15 ms, SLO 2 l(8): eager as a part of deferred. (b) a timeout that is " +
    "a fraction of each model's SLO, as a part of deferred. Eager and timeouts have the better of two drop rules. Poisson " +
    "arrivals, no delays. ResNet50 has Table 2's profile; the paper does not say which.",
  plan(size) {
    const run = runOf(size, { seconds: [4, 8, 30], seeds: [2, 5, 10] });
    const betas = pick(size, { tiny: [1, 15], small: [1, 5, 10, 15], default: BETAS_MS });
    const fractions = pick(size, { tiny: [0, 0.3], small: [0, 0.2, 0.4, 0.6], default: FRACTIONS });
    const parts = betas.map((beta) => {
      const fields = {
        accelerators: 32,
        models: [model({ name: "model", alpha_ms: 1, beta_ms: beta, slo_ms: 2 * (8 + beta) }, 10)],
        arrivals: { process: "poisson", rate_rps: (32_000 * 8) / (8 + beta) },
      };
      return {
        beta,
        deferred: peaksOf(SYMPHONY, `fig6a-beta${beta}`, run, fields),
        eager: peaksOf(EAGER, `fig6a-beta${beta}`, run, fields),
      };
    });
    const setups = SETUPS.map((setup) => ({
      ...setup,
      deferred: peaksOf(SYMPHONY, `fig6b-${setup.key}`, run, setup.fields),
      timeouts: fractions.map((fraction) => ({
        fraction,
        points: peaksOf(timeoutOf(fraction), `fig6b-${setup.key}`, run, setup.fields),
      })),
    }));
    const points: PeakPoint[] = [
      ...parts.flatMap(({ deferred, eager }) => [...deferred, ...eager]),
      ...setups.flatMap(({ deferred, timeouts }) => [...deferred, ...timeouts.flatMap((each) => each.points)]),
    ];
    return {
      points,
      scope: describeRun(run),
      present(get) {
        const a = parts.map(({ beta, deferred, eager }) => ({
          beta,
          deferred: bestOf(deferred, get).result.peak_rps,
          eager: bestOf(eager, get).result.peak_rps,
        }));
        const b = setups.map(({ name, deferred, timeouts }) => {
          const peak = bestOf(deferred, get).result.peak_rps;
          return {
            name,
            peak,
            timeouts: timeouts.map(({ fraction, points: each }) => ({ fraction, ...bestOf(each, get) })),
          };
        });
        return {
          tables: [
            {
              title: "(a) Peak goodput, requests per second",
              columns: ["β/α", "deferred", "eager", "eager / deferred"].map((title) => ({
                title,
                align: "right" as const,
              })),
              rows: a.map(({ beta, deferred, eager }) => [
                String(beta),
                formatEstimate(deferred),
                formatEstimate(eager),
                `${((eager.mean / deferred.mean) * 100).toFixed(1)} %`,
              ]),
            },
            {
              title: "(b) Peak goodput of timeouts as a part of deferred",
              columns: [
                { title: "workload" },
                { title: "deferred r/s", align: "right" },
                ...fractions.map((fraction) => ({ title: `${fraction} SLO`, align: "right" as const })),
              ],
              rows: b.map(({ name, peak, timeouts }) => [
                name,
                formatEstimate(peak),
                ...timeouts.map(({ result }) => `${((result.peak_rps.mean / peak.mean) * 100).toFixed(1)} %`),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig6a",
              title: "Eager as a part of deferred, by batching effect",
              caption:
                "10 models, 32 accelerators, α 1 ms, SLO 2 l(8). Paper: nearly the same at β/α = 1, more of a difference the larger it is.",
              x: { title: "β/α" },
              y: { title: "peak goodput, eager / deferred", percent: true, domain: [0, 1.05] },
              series: [{ name: "eager" }],
              rows: a.map(({ beta, deferred, eager }) => ({ x: beta, y: eager.mean / deferred.mean, series: "eager" })),
            },
            {
              kind: "lines",
              id: "fig6b",
              title: "Timeouts as a part of deferred",
              caption:
                "The timeout is a fraction of each model's SLO. Paper: the best one reaches deferred with one model and stays far below it with many.",
              x: { title: "timeout / SLO" },
              y: { title: "peak goodput, timeout / deferred", percent: true, domain: [0, 1.1] },
              series: SETUPS.map(({ name }) => ({ name })),
              rows: b.flatMap(({ name, peak, timeouts }) =>
                timeouts.map(({ fraction, result }) => ({
                  x: fraction,
                  y: result.peak_rps.mean / peak.mean,
                  series: name,
                })),
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
