/** Figures 4 and 5: the worked example of §3.3 as schedules. */
import type { Experiment, Size } from "../experiment.js";
import type { Figure, MarkRow, SpanRow } from "../figure.js";
import type { Choice, TimelinePoint, TimelineResult } from "../point.js";

const LANES = ["accelerator 1", "accelerator 2", "accelerator 3", "requests"];
const SMALL = "batch below 4";
const LARGE = "batch of 4 or more";
const SERVED = "request in time";
const DROPPED = "request dropped";
const MISSING = [13, 14, 15];

const DEFERRED: Choice = { policy: "deferred", options: { head_drop: false } };
const EAGER: Choice = { policy: "eager", options: { drop: "infeasible" } };

function pointOf(choice: Choice, missing: readonly number[], size: Size): TimelinePoint {
  return {
    kind: "timeline",
    scenario: {
      name: missing.length === 0 ? "example-3-3" : "example-3-3-missing",
      duration_s: size === "tiny" ? 0.018 : 0.036,
      accelerators: 3,
      models: [{ name: "example", profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 12 }],
      arrivals: {
        process: "uniform",
        rate_rps: 4000 / 3,
        ...(missing.length === 0 ? {} : { missing }),
      },
    },
    choice,
    seeds: [1],
  };
}

function rowsOf(result: TimelineResult, panel?: string): { rows: SpanRow[]; marks: MarkRow[] } {
  const where = panel === undefined ? {} : { panel };
  return {
    rows: result.batches.map(({ accelerator, start_us, end_us, size }) => ({
      ...where,
      lane: LANES[accelerator]!,
      from: start_us / 1000,
      to: end_us / 1000,
      label: String(size),
      series: size >= 4 ? LARGE : SMALL,
    })),
    marks: result.arrivals.map(({ at_us, dropped }) => ({
      ...where,
      x: at_us / 1000,
      lane: "requests",
      series: dropped ? DROPPED : SERVED,
    })),
  };
}

const SERIES = [{ name: LARGE }, { name: SMALL }, { name: SERVED }, { name: DROPPED }];
const X = { title: "time", unit: "ms" };
const ABOUT =
  "3 accelerators, one model with l(b) = b + 5 ms, SLO 12 ms, a request every 0.75 ms (§3.3). Nothing is drawn by chance.";

export const fig4: Experiment = {
  name: "symphony/fig4",
  title: "Figure 4: deferred scheduling staggers",
  about: ABOUT,
  plan(size) {
    const point = pointOf(DEFERRED, [], size);
    return {
      points: [point],
      scope: "one run of 36 ms",
      present(get) {
        const result = get(point);
        const { rows, marks } = rowsOf(result);
        const figure: Figure = {
          kind: "spans",
          id: "fig4",
          title: "Deferred scheduling of the worked example",
          caption: "Bars: batches with their sizes. Dots: arrivals.",
          x: X,
          lanes: LANES,
          series: SERIES,
          rows,
          marks,
        };
        const steady = result.batches.slice(0, 8);
        return {
          tables: [
            {
              title: "The first batches",
              columns: ["batch", "accelerator", "starts ms", "size"].map((title) => ({
                title,
                align: "right" as const,
              })),
              rows: steady.map(({ accelerator, start_us, size: b }, index) => [
                String(index + 1),
                String(accelerator + 1),
                (start_us / 1000).toFixed(2),
                String(b),
              ]),
            },
          ],
          figures: [figure],
          findings: [
            {
              promise: "the first batch, of 4, leaves at 2.25 ms; then one of 4 every 3 ms on accelerators in turn",
              found: steady.map(({ start_us, size: b }) => `${(start_us / 1000).toFixed(2)}: ${b}`).join(", "),
              holds: steady.every(
                ({ start_us, size: b, accelerator }, index) =>
                  b === 4 && start_us === 2250 + 3000 * index && accelerator === index % 3,
              ),
            },
          ],
          notes: [],
        };
      },
    };
  },
};

export const fig5: Experiment = {
  name: "symphony/fig5",
  title: "Figure 5: three requests missing",
  about: `${ABOUT} Requests 13, 14 and 15 do not come.`,
  plan(size) {
    const panels = [
      { panel: "eager", point: pointOf(EAGER, MISSING, size) },
      { panel: "deferred", point: pointOf(DEFERRED, MISSING, size) },
    ];
    return {
      points: panels.map(({ point }) => point),
      scope: "two runs of 36 ms",
      present(get) {
        const drawn = panels.map(({ panel, point }) => ({ panel, result: get(point), ...rowsOf(get(point), panel) }));
        const dropped = (result: TimelineResult): number[] =>
          result.arrivals.filter((arrival) => arrival.dropped).map(({ request, at_us }) => numberOf(request, at_us));
        const [eager, deferred] = drawn;
        return {
          tables: [
            {
              title: "Requests dropped in 36 ms",
              columns: [{ title: "policy" }, { title: "dropped" }, { title: "mean batch", align: "right" }],
              rows: drawn.map(({ panel, result }) => [
                panel,
                dropped(result).join(", ") || "none",
                (result.batches.reduce((all, { size: b }) => all + b, 0) / Math.max(1, result.batches.length)).toFixed(
                  2,
                ),
              ]),
            },
          ],
          figures: [
            {
              kind: "spans",
              id: "fig5",
              title: "After three missing requests",
              caption:
                "Eager: small batches keep coming back, requests are dropped. Deferred: accelerators idle shortly and batches of 4 return.",
              panels: panels.map(({ panel }) => panel),
              x: X,
              lanes: LANES,
              series: SERIES,
              rows: drawn.flatMap(({ rows }) => rows),
              marks: drawn.flatMap(({ marks }) => marks),
            },
          ],
          findings: [
            {
              promise: "deferred drops nobody, eager does (paper: from request 35 on)",
              found: `deferred ${dropped(deferred!.result).length}, eager ${dropped(eager!.result).length}`,
              holds: dropped(deferred!.result).length === 0 && dropped(eager!.result).length > 0,
            },
          ],
          notes: [],
        };
      },
    };
  },
};

/** As the paper counts: request i arrives at 0.75 (i - 1) ms, whether or not others came. */
const numberOf = (_request: number, atUs: number): number => Math.round(atUs / 750) + 1;
