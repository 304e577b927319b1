import { type Experiment, type GetResult, pick, type Size, seedsUpTo } from "../../experiment.js";
import type { BarRow, LineRow } from "../../figure.js";
import type { PipelinePoint, PipelineResult } from "../../point.js";
import { EQUAL, formatRates, held, LOST, percent, right } from "../presentation.js";
import { PAPER_RAG } from "../published.js";
import { type PipelineSystem, PREDICT, PROACTIVE, RAG_SYSTEMS, REACTIVE } from "../systems.js";
import { AZURE_CODE, AZURE_CONV, cutAt, SHAREGPT } from "./lengths.js";
import { capacityRps, MODULES, ON_GPUS, RAG, scenarioOf, WARMUP_S, type Workflow } from "./workflow.js";

/** Where the workflow itself is varied: of these loads the one where `reactive` loses about what it does in the paper. */
const SWEPT_LOAD = 0.4;
/** "Proactive dropping reduces drop rate by 22%". */
const PAPER_REDUCTION = 0.22;

interface Variant {
  readonly what: string;
  readonly value: string;
  readonly workflow: Workflow;
  /** Who is admitted first; absent: in order of coming. */
  readonly priority?: string;
}

const vary = <K extends keyof Workflow>(
  what: string,
  key: K,
  values: readonly Workflow[K][],
  nameOf: (value: Workflow[K]) => string,
): Variant[] =>
  values.map((value) => ({
    what,
    value: nameOf(value),
    workflow: RAG[key] === value ? RAG : { ...RAG, [key]: value },
  }));

/** What the paper does not say, one by one. */
const VARIANTS: readonly Variant[] = [
  ...vary(
    "rewritten as",
    "rewritten",
    [AZURE_CODE, cutAt(AZURE_CONV, 128), cutAt(AZURE_CONV, 256), AZURE_CONV, cutAt(SHAREGPT, 256)],
    ({ name }) => name,
  ),
  ...vary("generated as", "generated", [AZURE_CODE, AZURE_CONV, SHAREGPT], ({ name }) => name),
  ...vary("SLO, s", "sloMs", [3000, 4000, 5000, 8000, 12_000], (ms) => String(ms / 1000)),
  ...vary("deviation of a search, ms", "searchSdMs", [200, 800, 2000], String),
  ...vary("sequences", "sequencesMax", [16, 64, 256], String),
  ...vary("GPUs", "isShared", [false, true], (isShared) => (isShared ? "both serve both" : "one each")),
  ...["fcfs", "hbf", "lbf"].map((priority) => ({ what: "first", value: priority, workflow: RAG, priority })),
];

interface Run {
  readonly seconds: number;
  readonly seeds: readonly number[];
  readonly loads: readonly number[];
  readonly variants: readonly Variant[];
}

const runOf = (size: Size): Run => ({
  seconds: pick(size, { tiny: 40, small: 300, default: 1200 }),
  seeds: seedsUpTo(pick(size, { tiny: 1, small: 2, default: 5 })),
  loads: pick(size, {
    tiny: [SWEPT_LOAD],
    small: [0.2, SWEPT_LOAD, 0.6, 0.8, 1],
    default: [0.2, 0.3, SWEPT_LOAD, 0.5, 0.6, 0.8, 1, 1.2],
  }),
  variants: pick(size, { tiny: VARIANTS.slice(0, 1), small: VARIANTS, default: VARIANTS }),
});

function pointOf(
  { workflow, priority }: Pick<Variant, "workflow" | "priority">,
  load: number,
  { budget, choice }: PipelineSystem,
  { seconds, seeds }: Run,
): PipelinePoint {
  const isRag = workflow === RAG && (priority === undefined || priority === choice.options.priority);
  return {
    kind: "pipeline",
    scenario: scenarioOf(workflow, load, seconds, budget),
    choice: isRag || priority === undefined ? choice : { ...choice, options: { ...choice.options, priority } },
    seeds,
    details: isRag ? ["stays"] : [],
    spent_in: ON_GPUS,
  };
}

interface Case {
  readonly name: string;
  readonly load: number;
  readonly points: readonly PipelinePoint[];
}

const caseOf = (name: string, variant: Pick<Variant, "workflow" | "priority">, load: number, run: Run): Case => ({
  name,
  load,
  points: RAG_SYSTEMS.map((system) => pointOf(variant, load, system, run)),
});

interface Found {
  readonly name: string;
  readonly load: number;
  readonly results: readonly PipelineResult[];
  dropOf(system: PipelineSystem): number;
}

const found = ({ name, load, points }: Case, get: GetResult): Found => {
  const results = points.map((point) => get(point));
  return { name, load, results, dropOf: (system) => results[RAG_SYSTEMS.indexOf(system)]!.drop_rate.mean };
};

/** The case where reactive's drop rate is nearest to the paper's. */
const nearestToPaper = (cases: readonly Found[]): Found => {
  const apart = ({ dropOf }: Found): number => Math.abs(dropOf(REACTIVE) - PAPER_RAG.reactive!);
  return cases.reduce((best, each) => (apart(each) < apart(best) ? each : best));
};

const noMore = (cases: readonly Found[], one: PipelineSystem, other: PipelineSystem) =>
  cases.map(({ name, dropOf }) => ({ name, holds: dropOf(one) <= dropOf(other) + EQUAL }));

const reduction = ({ dropOf }: Found, one: PipelineSystem, other: PipelineSystem): number =>
  dropOf(other) === 0 ? 0 : 1 - dropOf(one) / dropOf(other);

export const rag: Experiment = {
  name: "pard/rag",
  title: "PARD, Figure 15: dropping in a RAG workflow",
  about:
    "Rewrite, retrieve and search beside each other, generate (Table 2); SLO 5 s on the time to the first token; rates as the azure trace's, stretched to steps of 10 s. rewrite and generate are emulated iteration by " +
    "iteration (continuous batching) as Llama-3-8B on an A100 each; lengths are drawn by the quantiles of Azure's traces of 2023: answers of rewrite as those to code, generate's prompts and answers as of conversations. The paper has no times and no rates: load 1 is what " +
    "the busier GPU can do with all its slots taken. reactive: dropped when the SLO has passed; proactive: PARD's forecast, by recent means and, of generate, by the prompt; predict: proactive, the answer of rewrite foreseen.",
  plan(size) {
    const run = runOf(size);
    const loads = run.loads.map((load) => caseOf(`load ${load}`, { workflow: RAG }, load, run));
    const variants = run.variants.map((variant) =>
      caseOf(`${variant.what} ${variant.value}`, variant, SWEPT_LOAD, run),
    );
    return {
      points: [...loads, ...variants].flatMap(({ points }) => points),
      scope: `seeds 1 to ${run.seeds.length}, ${run.seconds} s after ${WARMUP_S} s at the mean rate; loads ${run.loads.join(", ")} of ${capacityRps(RAG).toFixed(2)} requests/s`,
      present(get) {
        const byLoad = loads.map((each) => found(each, get));
        const byVariant = variants.map((each) => found(each, get));
        const like = nearestToPaper(byLoad);
        const systems = RAG_SYSTEMS.map(({ name }) => right(name));
        const stays = like.results[RAG_SYSTEMS.indexOf(PROACTIVE)]!.stays!;
        return {
          tables: [
            {
              title:
                "Drop rate and, in brackets, invalid rate of the GPUs in per cent, mean and standard deviation over seeds",
              columns: [right("load"), ...systems],
              rows: [
                ...byLoad.map(({ load, results }) => [load.toFixed(1), ...results.map(formatRates)]),
                ["paper", ...RAG_SYSTEMS.map(({ name }) => (100 * PAPER_RAG[name]!).toFixed(1))],
              ],
            },
            {
              title: "Goodput, requests/s",
              columns: [right("load"), ...systems],
              rows: byLoad.map(({ load, results }) => [
                load.toFixed(1),
                ...results.map(({ goodput_rps: { mean, sd } }) => `${mean.toFixed(2)} ± ${sd.toFixed(2)}`),
              ]),
            },
            {
              title: `Of the lost requests, per cent by module, at load ${like.load}`,
              columns: [{ title: "system" }, ...MODULES.map(right)],
              rows: like.results.map(({ lost_in: lostIn }, index) => [
                RAG_SYSTEMS[index]!.name,
                ...lostIn.map(({ share }) => (100 * share).toFixed(0)),
              ]),
            },
            {
              title: `Drop rate and invalid rate likewise, at load ${SWEPT_LOAD}, where one thing is another`,
              columns: [{ title: "what" }, { title: "value" }, ...systems],
              rows: byVariant.map(({ results }, index) => [
                run.variants[index]!.what,
                run.variants[index]!.value,
                ...results.map(formatRates),
              ]),
            },
          ],
          figures: [
            {
              kind: "bars",
              id: "pard-fig15a",
              title: "Drop rate in the RAG workflow",
              caption:
                "By load. Vertical lines: one standard deviation over seeds. The paper's load is not known; its reactive rate is reckoned from its text.",
              groups: [...byLoad.map(({ name }) => name), "paper"],
              y: LOST,
              series: RAG_SYSTEMS.map(({ name }) => ({ name })),
              rows: [
                ...byLoad.flatMap(({ name, results }) =>
                  results.map(
                    ({ drop_rate: { mean, sd } }, index): BarRow => ({
                      group: name,
                      series: RAG_SYSTEMS[index]!.name,
                      y: mean,
                      low: Math.max(0, mean - sd),
                      high: mean + sd,
                    }),
                  ),
                ),
                ...RAG_SYSTEMS.map(({ name }): BarRow => ({ group: "paper", series: name, y: PAPER_RAG[name]! })),
              ],
            },
            {
              kind: "lines",
              id: "pard-fig15b",
              title: "Time in each module",
              caption: `From coming to a module to the end there (generate: the first token), of the parts that ran; proactive, load ${like.load}, first seed.`,
              x: { title: "time in the module", unit: "s" },
              y: { title: "part of the requests", percent: true },
              series: stays.map(({ module }) => ({ name: module })),
              rows: stays.flatMap(({ module, at_ms: atMs }) =>
                atMs.map((ms, step): LineRow => ({ x: ms / 1000, y: step / (atMs.length - 1), series: module })),
              ),
            },
          ],
          findings: [
            held(
              `proactive drops no more than reactive (${100 * EQUAL} points apart are equal)`,
              noMore(byLoad, PROACTIVE, REACTIVE),
            ),
            {
              promise: `${100 * PAPER_REDUCTION} % less, where reactive is nearest to the paper's ${percent(PAPER_RAG.reactive!)}`,
              found: `${percent(reduction(like, PROACTIVE, REACTIVE))} at load ${like.load} (${percent(like.dropOf(REACTIVE))})`,
              holds: reduction(like, PROACTIVE, REACTIVE) >= PAPER_REDUCTION,
            },
            held(
              "proactive spends less of the GPUs in vain",
              byLoad.map(({ name, results: [reactive, proactive] }) => ({
                name,
                holds: proactive!.invalid_rate.mean < reactive!.invalid_rate.mean,
              })),
            ),
            held("predict drops no more than proactive, by load", noMore(byLoad, PREDICT, PROACTIVE)),
            held("and in every variant", noMore(byVariant, PREDICT, PROACTIVE)),
          ],
          notes: [
            "A request whose first token is in time holds its slot until the last; of one whose first token is late nothing more is generated.",
          ],
        };
      },
    };
  },
};
