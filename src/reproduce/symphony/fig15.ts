import { type Experiment, type Finding, pick } from "../experiment.js";
import type { Figure, LineRow } from "../figure.js";
import type { SeriesPoint, SweepPoint } from "../point.js";
import { SYMPHONY } from "../systems.js";
import { fieldsOfFigure15, modelsOfFigure15, RATE_PER_ACCELERATOR } from "./fig15-workload.js";
import { describeRun, formatEstimate, formatRate, runOf, scenario } from "./workloads.js";

/** Bands of the stack, by batching effect. */
const BANDS = 6;
const LOST = "not in time";
const OF_PEAK = [0.25, 0.5, 0.75, 1, 1.5, 2];
const FLAT = 0.97;
const PROPORTIONAL_WITHIN = 0.05;

export const fig15: Experiment = {
  name: "symphony/fig15",
  title: "Figure 15: a changing workload on 512 accelerators",
  about:
    "The paper's trace is not public. Here 24 models of the A100 zoo, whose rates wander, each by itself, around a level that " +
    "climbs past what the cluster takes and falls again (fig15-workload.ts). Beside it the same 24 models at equal, constant rates: how " +
    "flat the top is with 512 accelerators.",
  plan(size) {
    const accelerators = pick(size, { tiny: 8, small: 64, default: 512 });
    const durationS = pick(size, { tiny: 1, small: 40, default: 120, full: 600 });
    const everyS = pick(size, { tiny: 0.25, small: 1, default: 2, full: 5 });
    const choice = SYMPHONY.variants[0]!;
    const point: SeriesPoint = {
      kind: "series",
      scenario: fieldsOfFigure15({ accelerators, durationS, stepS: everyS, seed: 1 }),
      choice,
      seeds: [1],
      every_s: everyS,
    };
    const run = runOf(size, { seconds: [3, 5, 10], seeds: [2, 2, 3] });
    const models = modelsOfFigure15();
    const top: SweepPoint = {
      kind: "sweep",
      scenario: scenario(
        "fig15-flat-top",
        run,
        {
          accelerators,
          models: models.map(({ name, alphaMs, betaMs, sloMs }) => ({
            name,
            profile: { alpha_ms: alphaMs, beta_ms: betaMs },
            slo_ms: sloMs,
          })),
          arrivals: { process: "poisson", rate_rps: RATE_PER_ACCELERATOR * accelerators },
        },
        pick(size, { tiny: run.warmupS, small: 1, default: 2 }),
      ),
      choice,
      seeds: run.seeds,
      of_peak: pick(size, { tiny: [0.5, 1, 2], small: OF_PEAK, default: OF_PEAK }),
      tolerance: Math.max(run.tolerance, 0.01),
      ...(run.isRough ? { is_rough: true } : {}),
    };
    return {
      points: [point, top],
      scope: `${accelerators} accelerators, ${durationS} s; flat top: ${describeRun(run)}`,
      present(get) {
        const { slices, load, advice, changes_of_direction: turns } = get(point);
        const flat = get(top);
        const peak = flat.peak_rps!.mean;
        const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
        const bandOf = (index: number): number => Math.floor((index * BANDS) / models.length);
        const effectOf = ({ alphaMs, betaMs }: (typeof models)[number]): string => (betaMs / alphaMs).toPrecision(2);
        const bands = Array.from({ length: BANDS }, (_, band) => {
          const within = models.filter((_, index) => bandOf(index) === band);
          return `β/α ${Number(effectOf(within[0]!))} to ${Number(effectOf(within.at(-1)!))}`;
        });
        const rows: LineRow[] = slices.flatMap(({ at_s: x, good_rps: good, offered_rps: offered }) => [
          ...bands.map((series, band) => ({ x, series, y: sum(good.filter((_, index) => bandOf(index) === band)) })),
          { x, series: LOST, y: Math.max(0, sum(offered) - sum(good)) },
        ]);
        const line = (numberOf: (slice: (typeof slices)[number]) => number, series: string): LineRow[] =>
          slices.map((slice) => ({ x: slice.at_s, y: numberOf(slice), series }));
        const x = { title: "time", unit: "s" };
        const figures: Figure[] = [
          {
            kind: "lines",
            id: "fig15",
            title: "Requests in time, by models in order of batching effect",
            caption: "Stacked; on top what was not in time. Models from the strongest batching effect to the weakest.",
            shape: "area",
            x,
            y: { title: "rate", unit: "requests/s" },
            series: [...bands.map((name) => ({ name })), { name: LOST, kind: "published" }],
            rows,
          },
          {
            kind: "lines",
            id: "fig15-accelerators",
            title: "Accelerators in use",
            caption: `Used: those that ran any batch in a slice of ${everyS} s. Busy: their time together. Of ${accelerators}.`,
            shape: "step",
            x,
            y: { title: "accelerators", domain: [0, accelerators] },
            series: [{ name: "used" }, { name: "busy" }],
            rows: [...line(({ used }) => used, "used"), ...line(({ busy }) => busy, "busy")],
          },
          {
            kind: "lines",
            id: "fig15-advice",
            title: "Advice to an autoscaler",
            caption: `Accelerators that there should be, in a dry run: ${accelerators} stay. Needed: for the load of the interval at a utilization of 80 %.`,
            shape: "step",
            x,
            y: { title: "accelerators" },
            series: [{ name: "advice" }, { name: "needed" }, { name: "there are", kind: "published" }],
            publishedAs: "line",
            rows: [
              ...advice.flatMap(({ at_s, advice: advised, needed }) => [
                { x: at_s, y: advised, series: "advice" },
                { x: at_s, y: needed, series: "needed" },
              ]),
              ...[0, durationS].map((at) => ({ x: at, y: accelerators, series: "there are" })),
            ],
          },
          {
            kind: "lines",
            id: "fig15-bad",
            title: "Bad rate",
            caption: "Requests not in time, of those that arrived in the slice.",
            shape: "step",
            x,
            y: { title: "bad rate", percent: true },
            series: [{ name: "bad rate" }],
            rows: line(({ bad_rate }) => bad_rate, "bad rate"),
          },
        ];
        const below = slices.filter(({ offered_rps }) => sum(offered_rps) <= 0.85 * peak);
        const badBelow =
          below.reduce((all, { bad_rate, offered_rps }) => all + bad_rate * sum(offered_rps), 0) /
          Math.max(1e-9, sum(below.map(({ offered_rps }) => sum(offered_rps))));
        return {
          tables: [
            {
              title: "The run as a whole, and the flat top at equal rates",
              columns: [{ title: "what" }, { title: "value", align: "right" }],
              rows: [
                ["mean offered, requests/s", formatRate(load.offered_rps)],
                ["mean in time, requests/s", formatRate(load.goodput_rps.mean)],
                ["mean utilization", `${(load.utilization * 100).toFixed(1)} %`],
                ["peak goodput at equal rates, requests/s", formatEstimate(flat.peak_rps!)],
                ...flat.loads.map((each): [string, string] => [
                  `${(each.offered_rps / peak).toFixed(2)} of it: in time, utilization`,
                  `${(each.goodput_rps.mean / peak).toFixed(3)}, ${(each.utilization * 100).toFixed(1)} %`,
                ]),
              ],
            },
          ],
          figures,
          findings: [
            ...flatFindings(flat.loads, peak),
            {
              promise: "advice turns at most once more than the level of the load, which turns twice",
              found: `${turns} times`,
              holds: turns <= 3,
            },
            {
              promise: "while at most 0.85 of the peak is offered, at most 1 % is not in time",
              found: `${(badBelow * 100).toFixed(2)} %`,
              holds: badBelow <= 0.01,
            },
          ],
          notes: [
            "The paper's formula asks for N r / (1 - r) more and N f fewer; docs/autoscaling.md says what is changed and why.",
          ],
        };
      },
    };
  },
};

function flatFindings(
  loads: readonly {
    readonly offered_rps: number;
    readonly goodput_rps: { readonly mean: number };
    readonly utilization: number;
  }[],
  peak: number,
): Finding[] {
  const atTwice = loads.find(({ offered_rps }) => Math.abs(offered_rps / peak - 2) < 0.01)!.goodput_rps.mean / peak;
  const off = loads
    .filter(({ offered_rps }) => offered_rps <= peak * 1.0001)
    .map(({ offered_rps, utilization }) => ({ part: offered_rps / peak, by: utilization - offered_rps / peak }))
    .reduce((a, b) => (Math.abs(b.by) > Math.abs(a.by) ? b : a));
  return [
    {
      promise: `goodput at twice the peak at least ${FLAT} of it`,
      found: atTwice.toFixed(3),
      holds: atTwice >= FLAT,
    },
    {
      promise: `utilization within ${PROPORTIONAL_WITHIN * 100} points of proportional up to the peak`,
      found: `${(off.by * 100).toFixed(1)} points at ${off.part.toFixed(2)} of it`,
      holds: Math.abs(off.by) <= PROPORTIONAL_WITHIN,
    },
  ];
}
