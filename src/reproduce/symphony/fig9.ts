import type { ZooName } from "../../config/scenario/zoo.js";
import { type Experiment, type Finding, pick } from "../experiment.js";
import type { BarRow } from "../figure.js";
import type { BoundPoint } from "../point.js";
import {
  CLOCKWORK,
  CLOCKWORK_FREE,
  EAGER,
  MAIN_SYSTEMS,
  NEXUS_8,
  SHEPHERD,
  SHEPHERD_PUBLISHED,
  SYMPHONY,
  SYSTEMS,
  type System,
} from "../systems.js";
import { FIGURE_9, middle, type Range } from "./published.js";
import {
  bestOf,
  CODE_DELAYS,
  describeChoice,
  describeRun,
  formatEstimate,
  formatRate,
  peaksOf,
  runOf,
  scenario,
} from "./workloads.js";

const ZOOS: readonly { readonly zoo: ZooName; readonly name: string }[] = [
  { zoo: "1080ti", name: "1080Ti" },
  { zoo: "a100", name: "A100" },
];
const SELECTIONS = [
  { select: "all", name: "Mixed" },
  { select: "strong", name: "Strong" },
  { select: "weak", name: "Weak" },
] as const;
/** Rates near the peaks, for the time left. */
const RATE: Readonly<Record<string, number>> = { all: 10_000, strong: 30_000, weak: 4000 };

/** What no schedule exceeds, in place of a system. */
const ANY = "any schedule";
const BOUND = "gathering bound";

/** Those of the paper's figure, and eager. */
const COMPARED: readonly System[] = SYSTEMS.filter((system) => MAIN_SYSTEMS.includes(system) || system === NEXUS_8);
/** Not the paper's baselines: Symphony's own eager variant, Clockwork with other constants, Shepherd repaired. */
const NOT_IN_PAPER: readonly System[] = [EAGER, CLOCKWORK_FREE, SHEPHERD];

export const fig9: Experiment = {
  name: "symphony/fig9",
  title: "Figure 9: mixed models on 64 accelerators",
  about:
    "Peak goodput of the two model zoos (Appendix C) on 64 accelerators: all models, those with a strong batching effect " +
    "(β/α above 2), those with a weak one; equal rates, Poisson arrivals, delays 100/50/0 µs. The scheduler alone, as the paper's " +
    "(s); there are no end-to-end runs (e).",
  plan(size) {
    const run = runOf(size, { seconds: [3, 8, 30], seeds: [2, 3, 10] });
    const accelerators = pick(size, { tiny: 4, small: 64, default: 64 });
    const cases = ZOOS.flatMap(({ zoo, name: zooName }) =>
      SELECTIONS.map(({ select, name }) => {
        const fields = {
          accelerators,
          network: CODE_DELAYS,
          models_from: { zoo, select },
          arrivals: { process: "poisson", rate_rps: RATE[select]! },
        };
        const caseName = `fig9-${zoo}-${select}`;
        return {
          zoo,
          select,
          panel: `${zooName}, ${name}`,
          systems: COMPARED.map((system) => ({ system, points: peaksOf(system, caseName, run, fields) })),
          bound: { kind: "bound", scenario: scenario(caseName, run, fields), seed: 1 } satisfies BoundPoint,
        };
      }),
    );
    return {
      points: cases.flatMap(({ systems, bound }) => [...systems.flatMap(({ points }) => points), bound]),
      scope: describeRun(run),
      present(get) {
        const measured = cases.map((each) => ({
          ...each,
          systems: each.systems.map(({ system, points }) => ({ system, best: bestOf(points, get) })),
          boundRps: get(each.bound).gathering_rps,
          code: FIGURE_9.code[each.zoo]?.[each.select] ?? {},
        }));
        const rows: BarRow[] = measured.flatMap(({ panel, systems, code, boundRps }) => [
          ...systems.flatMap(({ system, best }): BarRow[] => {
            const theirs = code[system.name];
            const { mean, low, high } = best.result.peak_rps;
            return [
              { panel, group: system.name, series: "ours", y: mean, low, high },
              ...(theirs === undefined
                ? []
                : [{ panel, group: system.name, series: "public code", y: middle(theirs), ...theirs }]),
            ];
          }),
          { panel, group: ANY, series: BOUND, y: boundRps },
        ]);
        return {
          tables: [
            {
              title: "Peak goodput, requests per second; 95 % interval over seeds",
              columns: [
                { title: "models" },
                { title: "system" },
                { title: "ours", align: "right" },
                { title: "public code", align: "right" },
                { title: "Symphony / it", align: "right" },
                { title: "limited by" },
                { title: "setting" },
              ],
              rows: measured.flatMap(({ panel, systems, code, boundRps }) => {
                const symphony = systems.find(({ system }) => system === SYMPHONY)!.best.result.peak_rps.mean;
                const rows = systems.map(({ system, best }) => [
                  panel,
                  system.name,
                  formatEstimate(best.result.peak_rps),
                  formatRange(code[system.name]),
                  system === SYMPHONY ? "" : `${(symphony / best.result.peak_rps.mean).toFixed(2)}x`,
                  best.result.worst_model,
                  describeChoice(system, best.choice),
                ]);
                return [...rows, [panel, ANY, `≤ ${formatRate(boundRps)}`, "", "", "", BOUND]];
              }),
            },
          ],
          figures: [
            {
              kind: "bars",
              id: "fig9",
              title: "Peak goodput of mixed models on 64 accelerators",
              caption:
                "Requests per second at 1 % bad in the worst model. Bars: 95 % interval over seeds; of the public code: range.",
              panels: measured.map(({ panel }) => panel),
              freeY: true,
              y: { title: "peak goodput", unit: "requests/s" },
              groups: [...COMPARED.map(({ name }) => name), ANY],
              series: [{ name: "ours" }, { name: BOUND }, { name: "public code", kind: "published" }],
              rows,
            },
          ],
          findings: measured.flatMap(({ panel, zoo, select, systems, code, boundRps }): Finding[] => {
            const peakOf = (wanted: System) => systems.find(({ system }) => system === wanted)!.best.result.peak_rps;
            const symphony = peakOf(SYMPHONY);
            const theirs = code[SYMPHONY.name];
            const baselines = systems.filter(({ system }) => system.isOurs !== true && !NOT_IN_PAPER.includes(system));
            const best = baselines.reduce((a, b) =>
              b.best.result.peak_rps.mean > a.best.result.peak_rps.mean ? b : a,
            );
            const ratio = symphony.mean / best.best.result.peak_rps.mean;
            const promised = FIGURE_9.ratio[zoo]![select]!;
            return [
              ...(theirs === undefined
                ? []
                : [
                    {
                      promise: `${panel}: at least the public code's ${formatRange(theirs)} r/s`,
                      found: formatEstimate(symphony),
                      holds: symphony.mean >= theirs.low,
                    },
                  ]),
              {
                promise: `${panel}: ${promised} times the best of the paper's baselines`,
                found:
                  `${ratio.toFixed(2)} times ${best.system.name}; any schedule: at most ${(boundRps / best.best.result.peak_rps.mean).toFixed(2)}` +
                  `; ${(symphony.mean / peakOf(SHEPHERD).mean).toFixed(2)} times Shepherd repaired`,
                holds: ratio >= promised,
              },
            ];
          }),
          notes: [
            `Baselines of the paper: ${CLOCKWORK.name} (published constants), Nexus with 1 and 8 frontends, ${SHEPHERD_PUBLISHED.name}. Paper's ratios: Mixed 2.0 to 2.4, Strong 3.5 (1080Ti) and 5.7 (A100), Weak 1.23 and 1.10.`,
          ],
        };
      },
    };
  },
};

const formatRange = (range: Range | undefined): string =>
  range === undefined ? "" : `${formatRate(range.low)}–${formatRate(range.high)}`;
