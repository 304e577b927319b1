/** The queue of `otas` and of `otas+`, and what either is told by default. */
import type { QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import { type OptionsOf, withDefaults } from "../options.js";
import type { Allocator } from "./allocation/allocation.js";
import { Frontier } from "./allocation/frontier.js";
import { TokenAdaptation } from "./allocation/token-adaptation.js";
import { accuracy, evicts, gammas, POOL_OPTIONS } from "./elastic-options.js";
import { demandOf, poolByArrival, sizeMaxOf, sizesOf } from "./elastic-parts.js";
import { ElasticQueue, type ElasticQueueOptions } from "./elastic-queue.js";
import { ElasticTimes } from "./elastic-times.js";
import { BATCHES_MAX } from "./planned-line.js";
import { OtasWork } from "./planners/otas-work.js";
import { PricedWork } from "./planners/priced-work.js";
import { limitsByProfile, limitsByTable } from "./planners/rate-limits.js";
import { WantedPool } from "./pools/wanted-pool.js";

/** Options of `otas` and of `otas+`, which switches on what is past the paper. @param isPlus its defaults. */
export const otasOptions = <const B extends boolean>(isPlus: B) =>
  ({
    ...POOL_OPTIONS,
    gammas,
    grouping: {
      type: "choice",
      of: ["arrival", "wanted"],
      default: isPlus ? "wanted" : "arrival",
      meaning:
        "Who shares a batch: `arrival` whoever Algorithm 1 put there on arrival (delta, eta, mu), `wanted` who would want the same gamma at a price of time, " +
        "of all that wait, whenever an accelerator is free.",
    },
    wanted_share: {
      type: "number",
      min: 0,
      max: 1,
      default: 0.6,
      meaning:
        "The price for `grouping: wanted`: at which requests would buy this part of the time that they ask for at none. 1: all want the most.",
    },
    price: {
      type: "choice",
      of: ["none", "demand"],
      default: isPlus ? "demand" : "none",
      meaning:
        "What a plan pays for accelerator time: `none`, or `demand` what the last of it earns, going by who came of late. Batches are worth what they earn less that.",
    },
    price_window_ms: {
      type: "number",
      min: 1,
      max: 3_600_000,
      default: 500,
      meaning: "Time constant by which who came is forgotten, for `price` and `grouping: wanted`, ms.",
    },
    dispatch: {
      type: "choice",
      of: ["eager", "deferred"],
      default: "eager",
      meaning:
        "When a batch leaves: `eager` as soon as an accelerator is free, `deferred` where less than a full batch waits not before it could grow no more " +
        "and end in time by the gamma that it is worth.",
    },
    allocator: {
      type: "choice",
      of: ["token-adaptation", "frontier"],
      default: isPlus ? "frontier" : "token-adaptation",
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
      default: isPlus ? 0 : 5,
      meaning: "So many waiting batches and fewer get their tokens by the arrival rate (Algorithm 3).",
    },
    initial_s: {
      type: "number",
      min: 0,
      max: 86_400,
      default: isPlus ? 0 : 2,
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
    accuracy: accuracy("profiled"),
    evict: evicts("late"),
  }) as const;

type Options = OptionsOf<ReturnType<typeof otasOptions<boolean>>>;

/** @param shared what it tells the queues that it shares accelerators with; absent: it has them to itself. */
export function otasQueue(
  key: QueueKey,
  spec: QueueSpec,
  core: QueueView,
  times: ElasticTimes,
  options: Options,
  shared?: ElasticQueueOptions["shared"],
): ElasticQueue {
  const sizes = sizesOf(times, options);
  const isAsked = options.grouping === "wanted" || options.price === "demand";
  const demand = isAsked ? demandOf(times, options, options.price_window_ms * 1000) : null;
  const pool =
    options.grouping === "arrival"
      ? poolByArrival(core, times, options)
      : new WantedPool(core, times, demand!, {
          sizeMax: sizeMaxOf(times, options),
          batchesMax: BATCHES_MAX,
          sizes,
          share: options.wanted_share,
        });
  const own = new OtasWork(allocatorOf(options, times), BATCHES_MAX, {
    few: options.beta,
    critical: options.kappa,
    initialUs: options.initial_s * 1e6,
    rateMax:
      options.rate_rule === "table"
        ? limitsByTable(times.gammas)
        : limitsByProfile(times, options.epsilon, options.headroom),
  });
  const work = options.price === "demand" ? new PricedWork(own, demand!, times) : own;
  return new ElasticQueue(
    key,
    spec,
    core,
    { times, pool, work, demand, sizes },
    { dispatch: options.dispatch, evicts: options.evict, accuracy: options.accuracy, shared },
  );
}

const allocatorOf = (
  { allocator, states_max }: { readonly allocator: string; readonly states_max: number },
  { count }: ElasticTimes,
): Allocator =>
  allocator === "frontier" ? new Frontier(BATCHES_MAX, count, states_max) : new TokenAdaptation(BATCHES_MAX, count);

const PLUS = withDefaults(otasOptions(true), {});

/** As `otas+` has it, on accelerators that it shares with queues of other policies. */
export const otasPlusQueue = (
  key: QueueKey,
  spec: QueueSpec,
  core: QueueView,
  { accuracy, ...shared }: NonNullable<ElasticQueueOptions["shared"]> & Pick<ElasticQueueOptions, "accuracy">,
): ElasticQueue => otasQueue(key, spec, core, new ElasticTimes(spec), { ...PLUS, accuracy }, shared);
