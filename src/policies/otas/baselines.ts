/** What OTAS is compared with (§V): its batches, and another answer to how much work they get. */
import type { Policy } from "../../core/policy.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { evicts, GAMMA_MAX, POOL_OPTIONS } from "../elastic/elastic-options.js";
import { type PoolOptions, poolByArrival, sizesOf } from "../elastic/elastic-parts.js";
import { ElasticQueue } from "../elastic/elastic-queue.js";
import { ElasticTimes, type WaysOptions } from "../elastic/elastic-times.js";
import { InfaasWork } from "../elastic/planners/infaas-work.js";
import { FixedWork, type WorkPlanner } from "../elastic/planners/work-planner.js";
import type { NumberOption, OptionsOf, OptionTable } from "../options.js";

type Options = PoolOptions & { readonly evict: "late" | "expired" };

const elasticPolicy = (
  name: string,
  options: Options,
  ways: WaysOptions,
  workOf: (times: ElasticTimes) => WorkPlanner,
): Policy => ({
  name,
  isByVariant: true,
  createLatency: (spec) => new ElasticTimes(spec, ways),
  createQueue: (key, spec, core) => {
    const times = spec.latency as ElasticTimes;
    const parts = { times, pool: poolByArrival(core, times, options), work: workOf(times), demand: null };
    return new ElasticQueue(
      key,
      spec,
      core,
      { ...parts, sizes: sizesOf(times, options) },
      { dispatch: "eager", evicts: options.evict, accuracy: "profiled" },
    );
  },
  createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
});

const byOneGamma = (name: string, options: Options, gamma: number): Policy =>
  elasticPolicy(name, options, { nearest: gamma }, () => new FixedWork(0));

const OPTIONS = { ...POOL_OPTIONS, evict: evicts("late") } as const satisfies OptionTable;

export const petsPolicy = definePolicy({
  name: "pets",
  summary:
    "PetS as OTAS compares with it: one shared model for all tasks, no tokens added or removed; OTAS's batches in deadline order.",
  options: OPTIONS,
  create: (options: OptionsOf<typeof OPTIONS>) => byOneGamma("pets", options, 0),
});

const tokens = (value: number, meaning: string) =>
  ({ type: "integer", min: 0, max: GAMMA_MAX, default: value, meaning }) as const satisfies NumberOption;

export const tomePolicy = definePolicy({
  name: "tome",
  summary:
    "ToMe as OTAS compares with it: as many tokens merged in each layer for every batch; OTAS's batches in deadline order.",
  options: { ...OPTIONS, r: tokens(20, "Tokens merged in each layer; the nearest that the model has.") },
  create: ({ r, ...options }) => byOneGamma("tome", options, -r),
});

export const vptPolicy = definePolicy({
  name: "vpt",
  summary:
    "VPT as OTAS compares with it: as many prompts added in each layer for every batch; OTAS's batches in deadline order.",
  options: { ...OPTIONS, p: tokens(2, "Prompts added in each layer; the nearest that the model has.") },
  create: ({ p, ...options }) => byOneGamma("vpt", options, p),
});

const INFAAS_OPTIONS = { ...POOL_OPTIONS, evict: evicts("expired") } as const satisfies OptionTable;

export const infaasPolicy = definePolicy({
  name: "infaas",
  summary:
    "INFaaS as OTAS compares with it: every second the most accurate model of a family that keeps up with the load, where a change takes as long as " +
    "loading does; OTAS's batches in deadline order.",
  options: INFAAS_OPTIONS,
  create: (options: OptionsOf<typeof INFAAS_OPTIONS>) =>
    elasticPolicy(
      "infaas",
      options,
      { among: ({ gamma }) => gamma === 0 },
      (times) => new InfaasWork(times, options.epsilon),
    ),
});
