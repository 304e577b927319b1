import { type Experiment, pick } from "../experiment.js";
import type { CorePoint } from "../point.js";
import { CLOCKWORK, NEXUS, SHEPHERD, SHEPHERD_PUBLISHED, SYMPHONY, SYSTEMS } from "../systems.js";
import {
  bestOf,
  CODE_DELAYS,
  describeRun,
  formatEstimate,
  formatRate,
  model,
  peaksOf,
  RESNET50,
  runOf,
} from "./workloads.js";

const COMPARED = SYSTEMS.filter(
  (system) => system.isOurs === true || [CLOCKWORK, NEXUS, SHEPHERD, SHEPHERD_PUBLISHED].includes(system),
);
/** Linear: goodput per accelerator on the largest cluster, relative to the smallest. */
const LINEAR = 0.95;

export const fig13: Experiment = {
  name: "symphony/fig13",
  title: "Figure 13: scalability",
  about:
    "Left: arrivals that the scheduling core decides per CPU-second on one thread, in virtual time with its load generator, by models " +
    "and accelerators; measured on this machine, so it differs between machines (the paper's is the rate of many threads on a " +
    "32-core machine). Right: peak goodput of 20 equally popular models (Table 2's ResNet50, SLO 100 ms) by accelerators, " +
    "delays 100/50/0 µs.",
  plan(size) {
    const run = runOf(size, { seconds: [2, 5, 20], seeds: [2, 2, 5] });
    const counts = pick(size, {
      tiny: [2, 4],
      small: [8, 32],
      default: [8, 16, 32, 64, 128],
      full: [8, 16, 32, 64, 128, 256],
    });
    const models = pick(size, { tiny: [1], small: [1, 64], default: [1, 16, 64, 256, 1000] });
    const clusters = pick(size, { tiny: [32], small: [32, 512], default: [32, 512, 4096] });
    const requests = pick(size, { tiny: 2000, small: 500_000, default: 2_000_000 });
    const cores = clusters.flatMap((accelerators) =>
      models.map((count): CorePoint => ({ kind: "core", models: count, accelerators, requests })),
    );
    const cases = COMPARED.flatMap((system) =>
      counts.map((accelerators) => ({
        system,
        accelerators,
        points: peaksOf(system, `fig13-${accelerators}`, run, {
          accelerators,
          network: CODE_DELAYS,
          models: [model({ ...RESNET50, slo_ms: 100 }, pick(size, { tiny: 2, small: 20, default: 20 }))],
          arrivals: { process: "poisson", rate_rps: 850 * accelerators },
        }),
      })),
    );
    return {
      points: [...cases.flatMap(({ points }) => points), ...cores],
      scope: `${describeRun(run)}; ${formatRate(requests)} arrivals, best of 3`,
      present(get) {
        const measured = cases.map((each) => ({ ...each, peak: bestOf(each.points, get).result.peak_rps }));
        const rates = cores.map((point) => ({ ...point, rate: get(point).arrivals_per_cpu_s }));
        const ours = measured.filter(({ system }) => system === SYMPHONY);
        const per = (each: (typeof ours)[number]): number => each.peak.mean / each.accelerators;
        const linearity = per(ours.at(-1)!) / per(ours[0]!);
        return {
          tables: [
            {
              title: "Arrivals decided per CPU-second, one thread",
              columns: [
                { title: "accelerators", align: "right" },
                ...models.map((count) => ({ title: `${count} models`, align: "right" as const })),
              ],
              rows: clusters.map((accelerators) => [
                formatRate(accelerators),
                ...models.map((count) =>
                  formatRate(rates.find((each) => each.accelerators === accelerators && each.models === count)!.rate),
                ),
              ]),
            },
            {
              title: "Peak goodput by accelerators, requests per second",
              columns: [
                { title: "accelerators", align: "right" },
                ...COMPARED.map(({ name }) => ({ title: name, align: "right" as const })),
              ],
              rows: counts.map((accelerators) => [
                String(accelerators),
                ...COMPARED.map((system) =>
                  formatEstimate(
                    measured.find((each) => each.system === system && each.accelerators === accelerators)!.peak,
                  ),
                ),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig13-core",
              title: "What one thread of the scheduler decides",
              caption: "Arrivals per CPU-second, load generator included; measured, best of three.",
              x: { title: "models", scale: "log" },
              y: { title: "arrivals per CPU-second" },
              series: clusters.map((accelerators) => ({ name: `${accelerators} accelerators` })),
              rows: rates.map(({ models: x, accelerators, rate: y }) => ({
                x,
                y,
                series: `${accelerators} accelerators`,
              })),
            },
            {
              kind: "lines",
              id: "fig13",
              title: "Peak goodput by accelerators",
              caption:
                "20 models, SLO 100 ms. Vertical lines: 95 % interval over seeds. Paper: Symphony's grows in proportion.",
              x: { title: "accelerators" },
              y: { title: "peak goodput", unit: "requests/s" },
              series: COMPARED.map(({ name }) => ({ name })),
              rows: measured.map(({ system, accelerators, peak }) => ({
                x: accelerators,
                y: peak.mean,
                low: peak.low,
                high: peak.high,
                series: system.name,
              })),
            },
          ],
          findings: [
            {
              promise: `goodput per accelerator on ${counts.at(-1)} at least ${LINEAR} of that on ${counts[0]}`,
              found: linearity.toFixed(3),
              holds: linearity >= LINEAR,
            },
          ],
          notes: ["`rubato bench scheduler`, where it is built in, measures threads and rings in real time."],
        };
      },
    };
  },
};
