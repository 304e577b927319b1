import { type Experiment, type Finding, pick } from "../experiment.js";
import type { LineRow } from "../figure.js";
import type { LoadResult, SweepPoint } from "../point.js";
import { MAIN_SYSTEMS, OUR_SYSTEMS, SYMPHONY } from "../systems.js";
import { FLAT_TOP_CODE } from "./published.js";
import { CODE_DELAYS, describeRun, formatEstimate, formatRate, model, RESNET50, runOf, scenario } from "./workloads.js";

const RATES_RPS = [1000, 3000, 6000, 9000, 12_000, 15_000, 18_000, 21_000, 24_000, 27_000, 30_000];
const OF_PEAK = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2];
/** Load at which nothing is idle any more: §3.5's p, which is what is served however much is offered. */
const FULL = 1.25;
/** Goodput at twice the peak, as a part of the peak; utilization below it, points from proportional. */
const FLAT = { one: 1, mixed: 0.97 } as const;
const PROPORTIONAL_WITHIN = 0.05;
/** Loads up to the peak, for the last digits. */
const UP_TO_PEAK = 1.0001;
const LEAST = "utilization, least of any";

const FLAT_TOPS = [
  {
    name: "ResNet50, 8 accelerators",
    flat: FLAT.one,
    fields: { accelerators: 8, models: [model(RESNET50)], arrivals: { process: "poisson", rate_rps: 5000 } },
  },
  {
    name: "10 ResNet50, SLO 100 ms, 24 accelerators",
    flat: FLAT.mixed,
    fields: {
      accelerators: 24,
      models: [model({ ...RESNET50, slo_ms: 100 }, 10)],
      arrivals: { process: "poisson", rate_rps: 20_000 },
    },
  },
  {
    name: "37 models (A100), 64 accelerators",
    flat: FLAT.mixed,
    fields: {
      accelerators: 64,
      models_from: { zoo: "a100", select: "all" },
      arrivals: { process: "poisson", rate_rps: 16_500 },
    },
  },
] as const;

export const fig2: Experiment = {
  name: "symphony/fig2",
  title: "Figure 2: goodput and utilization under more and less load than fits",
  about:
    "Ten ResNet50 (Table 2's profile: the paper does not say which) with an SLO of 100 ms on 24 accelerators, 1,000 to 30,000 " +
    "requests per second offered; and, for the flat top that §3.5 asks for, three workloads at multiples of their own peak. Poisson " +
    "arrivals, delays 100/50/0 µs.",
  plan(size) {
    const run = runOf(size, { seconds: [3, 8, 30], seeds: [2, 3, 5] });
    const rates = pick(size, { tiny: [3000, 30_000], small: RATES_RPS, default: RATES_RPS });
    const parts = pick(size, { tiny: [0.5, 1, 2], small: OF_PEAK, default: OF_PEAK });
    const curves = MAIN_SYSTEMS.map((system) => ({
      system,
      points: rates.map(
        (rateRps): SweepPoint => ({
          kind: "sweep",
          scenario: scenario(
            "fig2",
            run,
            { ...FLAT_TOPS[1].fields, network: CODE_DELAYS },
            run.seconds < 1 ? run.warmupS : Math.max(run.warmupS, system.warmupS ?? 0),
          ),
          choice: system.variants[0]!,
          seeds: run.seeds,
          rates_rps: [rateRps],
          tolerance: run.tolerance,
        }),
      ),
    }));
    const tops = FLAT_TOPS.flatMap((workload) =>
      OUR_SYSTEMS.map((system) => ({
        ...workload,
        system,
        point: {
          kind: "sweep",
          scenario: scenario(`fig2-${workload.name}`, run, { ...workload.fields, network: CODE_DELAYS }),
          choice: system.variants[0]!,
          seeds: run.seeds,
          of_peak: parts,
          tolerance: run.tolerance,
          with_least: true,
          ...(run.isRough ? { is_rough: true } : {}),
        } satisfies SweepPoint,
      })),
    );
    return {
      points: [...curves.flatMap(({ points }) => points), ...tops.map(({ point }) => point)],
      scope: describeRun(run),
      present(get) {
        const loads = curves.map(({ system, points }) => ({
          system,
          loads: points.map((point) => get(point).loads[0]!),
        }));
        const flat = tops.map((top) => ({ ...top, result: get(top.point) }));
        const lines = (numberOf: (load: LoadResult) => number): LineRow[] =>
          loads.flatMap(({ system, loads: each }) =>
            each.map((load) => ({ x: load.offered_rps, y: numberOf(load), series: system.name })),
          );
        return {
          tables: [
            {
              title: "Good requests per second and utilization at the offered rate",
              columns: [
                { title: "offered", align: "right" },
                ...MAIN_SYSTEMS.map(({ name }) => ({ title: name, align: "right" as const })),
              ],
              rows: rates.map((rateRps, index) => [
                formatRate(rateRps),
                ...loads.map(({ loads: each }) => {
                  const { goodput_rps: good, utilization } = each[index]!;
                  return `${formatRate(good.mean)} (${(100 * utilization).toFixed(0)} %)`;
                }),
              ]),
            },
            {
              title: "At multiples of the peak",
              columns: [
                { title: "workload" },
                { title: "system" },
                { title: "peak r/s", align: "right" },
                { title: "good at 1.25x", align: "right" },
                { title: "1.5x", align: "right" },
                { title: "2x", align: "right" },
                { title: "utilization at 0.5x", align: "right" },
              ],
              rows: flat.map(({ name, system, result }) => [
                name,
                system.name,
                formatEstimate(result.peak_rps!),
                ...[1.25, 1.5, 2].map((part) =>
                  ofPeak(result, parts, part, ({ goodput_rps }, peak) => goodput_rps.mean / peak),
                ),
                ofPeak(result, parts, 0.5, ({ utilization }) => utilization),
              ]),
            },
          ],
          figures: [
            {
              kind: "lines",
              id: "fig2",
              title: "Goodput, 10 ResNet50 on 24 accelerators",
              caption: "Requests in time per second at the offered rate, means over seeds.",
              x: { title: "offered", unit: "requests/s" },
              y: { title: "goodput", unit: "requests/s" },
              series: MAIN_SYSTEMS.map(({ name }) => ({ name })),
              rows: lines(({ goodput_rps }) => goodput_rps.mean),
            },
            {
              kind: "lines",
              id: "fig2-utilization",
              title: "Utilization of the same runs",
              caption: "Part of the accelerators' time in which they are busy.",
              x: { title: "offered", unit: "requests/s" },
              y: { title: "utilization", percent: true, domain: [0, 1] },
              series: MAIN_SYSTEMS.map(({ name }) => ({ name })),
              rows: lines(({ utilization }) => utilization),
            },
            {
              kind: "lines",
              id: "fig2-flat-top",
              title: "The flat top",
              caption:
                "Goodput and utilization at multiples of the peak, the peak being 1. Proportional: utilization equal to the load. Public code: ResNet50 on 8 accelerators, its peak taken as 5,264.",
              panels: FLAT_TOPS.map(({ name }) => name),
              x: { title: "offered / peak" },
              y: { title: "part of the peak" },
              series: [
                ...OUR_SYSTEMS.flatMap(({ name }) => [{ name: `goodput, ${name}` }, { name: `utilization, ${name}` }]),
                { name: LEAST },
                { name: "public code, goodput", kind: "published" },
              ],
              rows: [
                ...flat.flatMap(({ name, system, result }) =>
                  result.loads.flatMap((load): LineRow[] => {
                    const peak = result.peak_rps!.mean;
                    const x = load.offered_rps / peak;
                    return [
                      { panel: name, x, y: load.goodput_rps.mean / peak, series: `goodput, ${system.name}` },
                      { panel: name, x, y: load.utilization, series: `utilization, ${system.name}` },
                      ...(system === SYMPHONY && load.offered_rps <= peak * UP_TO_PEAK
                        ? [{ panel: name, x, y: load.least_utilization!, series: LEAST }]
                        : []),
                    ];
                  }),
                ),
                ...FLAT_TOP_CODE.filter(([offered]) => offered <= 2.3 * 5264).map(([offered, good]) => ({
                  panel: FLAT_TOPS[0].name,
                  x: offered / 5264,
                  y: good / 5264,
                  series: "public code, goodput",
                })),
              ],
            },
          ],
          findings: flat
            .filter(({ system }) => system === SYMPHONY)
            .flatMap(({ name, flat: promised, result }): Finding[] => {
              const peak = result.peak_rps!.mean;
              const atTwice = result.loads[parts.indexOf(2)]!.goodput_rps.mean / peak;
              const top = result.loads[parts.indexOf(FULL)]?.goodput_rps.mean ?? peak;
              return [
                {
                  promise: `${name}: goodput at twice the peak at least ${promised.toFixed(2)} of it`,
                  found: atTwice.toFixed(3),
                  holds: atTwice >= promised,
                },
                ...(
                  [
                    ["of offered / p, p the peak at 1 % bad", ({ offered_rps }) => offered_rps / peak],
                    [`of offered / p, p what is served at ${FULL} times that`, ({ offered_rps }) => offered_rps / top],
                    ["of the least of any schedule", (load) => load.least_utilization!],
                  ] as readonly (readonly [string, (load: LoadResult) => number])[]
                ).map(([which, wantedOf]): Finding => {
                  const upToPeak = result.loads.filter((load) => load.offered_rps <= peak * UP_TO_PEAK);
                  const offOf = (usedOf: (load: LoadResult) => number): Distance =>
                    upToPeak
                      .map((load) => ({ part: load.offered_rps / peak, off: usedOf(load) - wantedOf(load) }))
                      .reduce((a, b) => (Math.abs(b.off) > Math.abs(a.off) ? b : a));
                  const farthest = offOf(({ utilization }) => utilization);
                  return {
                    promise: `${name}: utilization within ${PROPORTIONAL_WITHIN * 100} points ${which}`,
                    found: `${points(farthest)}; the least itself: ${points(offOf((load) => load.least_utilization!))}`,
                    holds: Math.abs(farthest.off) <= PROPORTIONAL_WITHIN,
                  };
                }),
              ];
            }),
          notes: [
            "§3.5 asks that goodput stay p when more is offered, so its p is what is served when all are busy; at the peak, where 1 % is lost, some are still idle.",
            "The least of any schedule is what requests need in the largest batches that those who arrive near them allow (gathering bound), clairvoyant or not. Where that is far from proportional, so is every scheduler that wastes nothing.",
            "Paper: at 3,000 requests per second the three baselines keep all accelerators busy, Symphony 20 % of them.",
          ],
        };
      },
    };
  },
};

function ofPeak(
  result: { readonly peak_rps: { readonly mean: number } | null; readonly loads: readonly LoadResult[] },
  parts: readonly number[],
  part: number,
  numberOf: (load: LoadResult, peak: number) => number,
): string {
  const load = result.loads[parts.indexOf(part)];
  return load === undefined ? "" : numberOf(load, result.peak_rps!.mean).toFixed(3);
}

interface Distance {
  /** Of the peak. */
  readonly part: number;
  readonly off: number;
}

const points = ({ off, part }: Distance): string => `${(off * 100).toFixed(1)} points at ${part.toFixed(1)} of it`;
