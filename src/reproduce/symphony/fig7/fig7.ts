import type { Experiment, Table } from "../../experiment.js";
import type { LineRow } from "../../figure.js";
import type { BoundPoint } from "../../point.js";
import { OUR_SYSTEMS, SYMPHONY } from "../../systems.js";
import { describeRun, scenario } from "../workloads.js";
import { acceleratorsOf, allCases, type Case, fieldsOf, KINDS, MIXED, nameOf } from "./fig7-cases.js";
import { EAGERS, partWith, percent, ratioOf, roughPoint, workloadsOf } from "./fig7-points.js";

/** At least this part of eager in at least this part of the cases; so many times eager in so many. */
const NO_WORSE = { ratio: 0.95, part: 0.99 } as const;
const BETTER = { ratio: 1.5, part: 0.16 } as const;
/** Below this deferred loses: listed by name. */
const LISTED_BELOW = 0.95;
const LISTED_MAX = 20;

const AGAINST = ["paper's eager", "best eager"] as const;
/** What no schedule exceeds (the gathering bound), in place of a system. */
const BOUND = "any schedule";
const SUBJECTS = [...OUR_SYSTEMS.map(({ name }) => name), BOUND];

export const fig7: Experiment = {
  name: "symphony/fig7",
  title: "Figure 7: deferred relative to eager on Table 1's workloads",
  about:
    "Peak goodput of deferred over that of eager. Table 1's product is 7,770 cases by our count (the paper says 5,880): run in full " +
    "by --size full, else a sample stratified by model and SLO, weighted accordingly. Models of the 1080Ti zoo; mixed cases take " +
    "each model's own SLO times the option over 30 ms, since Table 1's SLOs are shorter than some models take alone. Gamma arrivals, no " +
    "delays. Peaks are searched to 1.5 % without interval, so single ratios are good to some per cent.",
  plan(size) {
    const { cases, run } = workloadsOf(size);
    const measured = cases.map((one) => ({
      one,
      eagers: EAGERS.map((choice) => roughPoint(choice, one, run)),
      ours: OUR_SYSTEMS.map((system) => ({ system, point: roughPoint(system.variants[0]!, one, run) })),
      bound: {
        kind: "bound",
        scenario: scenario(nameOf(one), run, fieldsOf(one)),
        seed: 1,
      } satisfies BoundPoint,
    }));
    return {
      points: measured.flatMap(({ eagers, ours, bound }) => [...eagers, ...ours.map(({ point }) => point), bound]),
      scope: `${cases.length} of ${allCases().length} cases, ${describeRun(run)}`,
      present(get) {
        const ratios = SUBJECTS.flatMap((subject) =>
          measured.flatMap(({ one, eagers, ours, bound }) => {
            const system = ours.find((each) => each.system.name === subject);
            const peak = system === undefined ? get(bound).gathering_rps : get(system.point).peak_rps.mean;
            const [same, other] = eagers.map((point) => get(point).peak_rps.mean) as [number, number];
            return AGAINST.map((against) => {
              const base = against === AGAINST[0] ? same : Math.max(same, other);
              return { subject, against, one, peak, base, ratio: ratioOf(peak, base) };
            });
          }),
        );
        const of = (subject: string, against: Against, kind?: string) =>
          ratios
            .filter(
              (each) =>
                each.subject === subject && each.against === against && (kind === undefined || each.one.kind === kind),
            )
            .sort((a, b) => a.ratio - b.ratio);
        const kinds = KINDS.filter((kind) => of(SYMPHONY.name, "best eager", kind).length > 0);
        const y = { title: "peak goodput, deferred / eager", scale: "log" as const, domain: domainOf(ratios) };
        const x = { title: "cases, in order", percent: true, domain: [0, 1] as const };
        return {
          tables: [
            {
              title: "Ratios by model; parts of cases are weighted to the whole product",
              columns: [
                { title: "system" },
                { title: "against" },
                { title: "models" },
                ...["cases", "least", "median", "greatest", "≥ 0.95", "≥ 1.5", "≥ 2"].map((title) => ({
                  title,
                  align: "right" as const,
                })),
              ],
              rows: SUBJECTS.flatMap((subject) =>
                AGAINST.flatMap((against) =>
                  [...kinds, undefined].map((kind) => {
                    const each = of(subject, against, kind);
                    const at = (part: number): string => each[Math.round(part * (each.length - 1))]!.ratio.toFixed(2);
                    return [
                      subject,
                      against,
                      kind ?? "all",
                      String(each.length),
                      at(0),
                      at(0.5),
                      at(1),
                      ...[0.95, 1.5, 2].map((bound) => percent(partWith(each, bound))),
                    ];
                  }),
                ),
              ),
            },
            ...AGAINST.flatMap((against) => lostTable(against, of(SYMPHONY.name, against))),
          ],
          figures: [
            {
              kind: "lines",
              id: "fig7",
              title: "Deferred relative to eager, all cases",
              caption:
                "Cases in order of their ratio, weighted to Table 1's product. Paper: nearly all above 0.95, 16 % above 1.5. Any schedule: the gathering bound, which nothing exceeds.",
              panels: AGAINST,
              shape: "step",
              x,
              y,
              series: [...SUBJECTS.map((name) => ({ name })), { name: "paper: 16 % above 1.5", kind: "published" }],
              rows: AGAINST.flatMap((panel) => [
                ...SUBJECTS.flatMap((name) => inOrder(name, of(name, panel)).map((row) => ({ ...row, panel }))),
                { panel, x: 0.84, y: 1.5, series: "paper: 16 % above 1.5" },
              ]),
            },
            {
              kind: "lines",
              id: "fig7-models",
              title: "By model",
              caption: "Symphony, one curve a model, by descending batching effect.",
              panels: AGAINST,
              shape: "step",
              x,
              y,
              series: kinds.map((name) => ({ name })),
              rows: AGAINST.flatMap((panel) =>
                kinds.flatMap((kind) =>
                  inOrder(kind, of(SYMPHONY.name, panel, kind)).map((row) => ({ ...row, panel })),
                ),
              ),
            },
          ],
          findings: AGAINST.flatMap((against) => {
            return [NO_WORSE, BETTER].map(({ ratio, part }) => {
              const [found, ...others] = SUBJECTS.map((subject) => partWith(of(subject, against), ratio));
              return {
                promise: `at least ${ratio} times ${against} in at least ${percent(part)} of the cases`,
                found: `${percent(found!)} (${others.map((other, i) => `${SUBJECTS[i + 1]}: ${percent(other)}`).join(", ")})`,
                holds: found! >= part,
              };
            });
          }),
          notes: [
            `No schedule exceeds the gathering bound, whatever it knows: where "${BOUND}" does not reach a part, nothing can.`,
            "Paper: mixed models gain 35 to 102 %; DenseNet121 34 to 234 % with an SLO of 30 ms; BERT about nothing; 50 % more in 16 % of the cases, more than double in extreme ones.",
          ],
        };
      },
    };
  },
};

type Against = (typeof AGAINST)[number];

interface Rated {
  readonly one: Case;
  readonly peak: number;
  readonly base: number;
  readonly ratio: number;
}

function domainOf(ratios: readonly Rated[]): readonly [number, number] {
  const values = ratios.map(({ ratio }) => ratio);
  return [Math.min(0.8, ...values) * 0.95, Math.max(2, ...values) * 1.05];
}

function lostTable(against: Against, ratios: readonly Rated[]): Table[] {
  const lost = ratios.filter(({ ratio }) => ratio < LISTED_BELOW);
  if (lost.length === 0) return [];
  return [
    {
      title: `Where Symphony is below ${LISTED_BELOW} of ${against} (the ${Math.min(LISTED_MAX, lost.length)} lowest of ${lost.length})`,
      columns: [
        { title: "models" },
        ...["number", "accelerators", "SLO ms", "shape", "deferred r/s", "eager r/s", "ratio"].map((title) => ({
          title,
          align: "right" as const,
        })),
      ],
      rows: lost
        .slice(0, LISTED_MAX)
        .map(({ one, peak, base, ratio }) => [
          one.kind,
          String(one.count),
          String(acceleratorsOf(one)),
          one.kind === MIXED ? `own x ${(one.sloMs / 30).toFixed(2)}` : String(one.sloMs),
          String(one.shape),
          peak.toFixed(0),
          base.toFixed(0),
          ratio.toFixed(3),
        ]),
    },
  ];
}

/** Ratios over the part of the cases that is not above them. */
function inOrder(series: string, ratios: readonly { readonly one: Case; readonly ratio: number }[]): LineRow[] {
  let all = 0;
  for (const { one } of ratios) all += one.weight;
  let before = 0;
  const rows = ratios.map(({ one, ratio }) => {
    const row = { x: before / all, y: ratio, series };
    before += one.weight;
    return row;
  });
  const last = rows.at(-1);
  return last === undefined ? [] : [...rows, { ...last, x: 1 }];
}
