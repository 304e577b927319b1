import type { QueueSpec } from "../../core/policy.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import type { Allocator } from "./allocation/allocation.js";
import { Frontier } from "./allocation/frontier.js";
import { TokenAdaptation } from "./allocation/token-adaptation.js";
import { evicts, gammas, POOL_OPTIONS, queueOptions } from "./elastic-options.js";
import { ElasticQueue } from "./elastic-queue.js";
import { ElasticTimes } from "./elastic-times.js";
import { BATCHES_MAX } from "./planned-line.js";
import { OtasWork } from "./planners/otas-work.js";
import { limitsByProfile, limitsByTable } from "./planners/rate-limits.js";

/** OTAS, whole: batches of like deadline and utility, and tokens added or removed for each of them by what they earn. */
export const otasPolicy = definePolicy({
  name: "otas",
  summary:
    "OTAS: an elastic model does as much work on each batch as the load allows. Requests of like arrival, deadline and utility share a batch " +
    "(Algorithm 1); tokens added or removed are allocated to the waiting batches by what they earn (Algorithms 2 and 3).",
  options: {
    ...POOL_OPTIONS,
    gammas,
    allocator: {
      type: "choice",
      of: ["token-adaptation", "frontier"],
      default: "token-adaptation",
      meaning:
        "What allocates to many batches: `token-adaptation` the paper's Algorithm 2, `frontier` a search that is exact where it can be and says how far it is from the best.",
    },
    states_max: {
      type: "integer",
      min: 100,
      max: 10_000_000,
      default: 10_000,
      meaning: "States that `frontier` looks at for a plan at most; one takes some 50 ns.",
    },
    beta: {
      type: "integer",
      min: 0,
      max: BATCHES_MAX,
      default: 5,
      meaning: "So many waiting batches and fewer get their tokens by the arrival rate (Algorithm 3).",
    },
    initial_s: {
      type: "number",
      min: 0,
      max: 86_400,
      default: 2,
      meaning: "Seconds after the first request in which the arrival rate decides, too (the initial stage).",
    },
    kappa: {
      type: "number",
      min: 0,
      max: 1e9,
      default: 0.8,
      meaning: "Where the rate decides, batches of a larger mean utility get the most tokens.",
    },
    rate_rule: {
      type: "choice",
      of: ["profile", "table"],
      default: "profile",
      meaning:
        "Which gamma the rate asks for (f): `profile` the largest by which the model keeps up, `table` as printed in Table I, for the paper's machine.",
    },
    headroom: {
      type: "number",
      min: 0.01,
      max: 10,
      default: 1,
      meaning: "Part of what a gamma does per second up to which it keeps up with the rate (`rate_rule: profile`).",
    },
    evict: evicts("late"),
  },
  create: (options) => ({
    name: "otas",
    isByVariant: true,
    createLatency: (spec: QueueSpec) => new ElasticTimes(spec, { gammas: options.gammas }),
    createQueue: (key, spec, core) => {
      const times = spec.latency as ElasticTimes;
      const work = new OtasWork(allocatorOf(options, times), BATCHES_MAX, {
        few: options.beta,
        critical: options.kappa,
        initialUs: options.initial_s * 1e6,
        rateMax:
          options.rate_rule === "table"
            ? limitsByTable(times.gammas)
            : limitsByProfile(times, options.epsilon, options.headroom),
      });
      return new ElasticQueue(key, spec, core, times, work, queueOptions(options));
    },
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});

const allocatorOf = (
  { allocator, states_max }: { readonly allocator: string; readonly states_max: number },
  { count }: ElasticTimes,
): Allocator =>
  allocator === "frontier" ? new Frontier(BATCHES_MAX, count, states_max) : new TokenAdaptation(BATCHES_MAX, count);

export const otas = otasPolicy.create;
