import { type Experiment, pick } from "../experiment.js";
import { describeRun, formatFinished, LOADS, measuredRows, pointsOf, rowOf, runOf, sloMsOf } from "./runs.js";
import {
  CLIPPER,
  CLOCKWORK,
  CLOCKWORK_FREE,
  CLOCKWORK_PUBLISHED,
  type Knowledge,
  NEXUS,
  NEXUS_PUBLISHED,
  type Options,
  type ToldSystem,
  told,
} from "./systems.js";
import { HOW } from "./tables.js";
import { BATCH_MAX, type Workload, workloadNamed } from "./workloads.js";

/** Two modes, two real tasks, a static model. */
const CASES: readonly string[] = ["two-modal", "gpt-cornell", "bart-cnn", "resnet-imagenet"];
const SLOS = [1.5, 3, 5];

interface Ablation {
  readonly of: ToldSystem;
  /** The same with one thing changed. */
  readonly changed: ToldSystem;
}

/** Of what was published, one thing at a time. */
function ablationsOf(workload: Workload, sloMs: number): Ablation[] {
  const changed =
    (of: ToldSystem) =>
    (name: string, options: Options, knows?: Knowledge): Ablation => ({
      of,
      changed: { name, variants: [told("", of.variants[0]!.choice.policy, options, knows)] },
    });
  const clockwork = changed(CLOCKWORK);
  const nexus = changed(NEXUS);
  const clipper = changed(CLIPPER);
  const learns = { learns: true };
  const { batch_sizes: sizes, exec_max_ms: execMax, ...anySize } = CLOCKWORK_PUBLISHED;
  return [
    clockwork("no action window", { ...CLOCKWORK_PUBLISHED, action_window_ms: 0 }, learns),
    clockwork("no margin of the SLO", { ...CLOCKWORK_PUBLISHED, slo_margin_ms: 0 }, learns),
    clockwork("nothing ahead", { ...CLOCKWORK_PUBLISHED, schedule_ahead_ms: 0 }, learns),
    clockwork("no control delay", { ...CLOCKWORK_PUBLISHED, control_delay_ms: 0 }, learns),
    clockwork("any batch size", { ...anySize, exec_max_ms: execMax }, learns),
    clockwork("batches of more than 250 ms", { ...anySize, batch_sizes: sizes }, learns),
    clockwork("the mean as estimate", { batch_sizes: sizes, exec_max_ms: execMax }),
    clockwork("none of these", CLOCKWORK_FREE),
    nexus("batches of the whole SLO", {
      ...NEXUS_PUBLISHED,
      static_batch: largestWithin(workload, sloMs),
    }),
    nexus("times as profiled", { ...NEXUS_PUBLISHED, profile_multiplier: 1 }),
    nexus("P99 as profile", NEXUS_PUBLISHED, {
      model: { planning: { sessions: false, quantile: 0.99 } },
    }),
    clipper("cap by regression", { cap: "regression" }),
    clipper(`cap ${BATCH_MAX}`, { batch_size: BATCH_MAX }),
  ];
}

/** The largest batch of requests of the mean time. */
function largestWithin({ c0Ms, c1, meanMs }: Workload, sloMs: number): number {
  let size = 1;
  while (size < BATCH_MAX && c0Ms + c1 * (size + 1) * meanMs <= sloMs) size++;
  return size;
}

const PUBLISHED = [CLOCKWORK, NEXUS, CLIPPER];
const signed = (value: number): string => `${value >= 0 ? "+" : ""}${value.toFixed(3)}`;

export const constants: Experiment = {
  name: "orloj/constants",
  title: "ORLOJ: what the baselines' constants cost them",
  about: `Clockwork, Nexus and Clipper as published, and with one thing changed at a time, on two modes, two real tasks and a static model. ${HOW}`,
  plan(size) {
    const run = runOf(size);
    const rows = pick(size, { tiny: CASES.slice(0, 1), small: CASES, default: CASES }).flatMap((caseId) =>
      pick(size, { tiny: [3], small: SLOS, default: SLOS }).map((slo) => {
        const workload = workloadNamed(caseId);
        const ablations = ablationsOf(workload, sloMsOf(workload, slo));
        const systems = [...PUBLISHED, ...ablations.map(({ changed }) => changed)];
        return { ablations, row: rowOf(workload, slo, systems, run) };
      }),
    );
    return {
      points: pointsOf(rows.map(({ row }) => row)),
      scope: describeRun(run),
      present(get) {
        const measured = rows.flatMap(({ ablations, row }) => {
          const { systems } = measuredRows([row], get)[0]!;
          const of = (wanted: ToldSystem) => systems.find(({ system }) => system === wanted)!.finished;
          return LOADS.flatMap((load, index) =>
            ablations.map(({ of: system, changed }) => ({
              place: [row.workload.caseId, String(row.slo), load.toFixed(1)],
              system,
              name: changed.name,
              published: of(system)[index]!,
              changed: of(changed)[index]!,
            })),
          );
        });
        const effects = ablationsOf(workloadNamed(CASES[0]!), 1).map(({ of: system, changed: { name } }) => {
          const each = measured.filter((one) => one.system === system && one.name === name);
          const differences = each.map(({ published, changed }) => changed.mean - published.mean);
          return {
            system,
            name,
            mean: differences.reduce((sum, by) => sum + by, 0) / each.length,
            low: Math.min(...differences),
            high: Math.max(...differences),
          };
        });
        return {
          tables: [
            {
              title: "What each change does to the finish rate, over all cases, SLOs and loads",
              columns: [
                { title: "system" },
                { title: "changed" },
                ...["mean", "least", "most"].map((title) => ({ title, align: "right" as const })),
              ],
              rows: effects.map(({ system, name, mean, low, high }) => [
                system.name,
                name,
                ...[mean, low, high].map(signed),
              ]),
            },
            {
              title: "Finish rate, mean and standard deviation over seeds",
              columns: [
                { title: "case" },
                ...["SLO", "load"].map((title) => ({ title, align: "right" as const })),
                { title: "system" },
                { title: "changed" },
                ...["as published", "changed", "difference"].map((title) => ({ title, align: "right" as const })),
              ],
              rows: measured.map(({ place, system, name, published, changed }) => [
                ...place,
                system.name,
                name,
                formatFinished(published),
                formatFinished(changed),
                signed(changed.mean - published.mean),
              ]),
            },
          ],
          figures: [
            {
              kind: "spans",
              id: "orloj-constants",
              title: "What one change does to the finish rate",
              caption:
                "The finish rate with it less that as published: mean over all cases, SLOs and loads; points are the least and the most.",
              x: { title: "difference of finish rates" },
              lanes: effects.map(({ name }) => name),
              series: PUBLISHED.map(({ name }) => ({ name })),
              rows: effects.map(({ system, name: lane, mean }) => ({
                lane,
                from: Math.min(0, mean),
                to: Math.max(0, mean),
                label: "",
                series: system.name,
              })),
              marks: effects.flatMap(({ system, name: lane, low, high }) =>
                [low, high].map((x) => ({ x, lane, series: system.name })),
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
