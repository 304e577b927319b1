/** What an engineer would try before OTAS: one gamma for all, or one by how many wait. Both in deadline order, without who cannot be in time. */
import type { QueueSpec } from "../../../core/policy.js";
import { RankArbiter } from "../../deferred/rank-arbiter.js";
import type { WindowRules } from "../../deferred/window-queue.js";
import { definePolicy } from "../../descriptor.js";
import { GAMMA_MAX, gammas } from "../../elastic/elastic-options.js";
import { ElasticTimes } from "../../elastic/elastic-times.js";
import type { OptionTable } from "../../options.js";
import { OneWayQueue } from "./one-way-queue.js";
import { OneWayTimes } from "./one-way-times.js";

const OPTIONS = {
  dispatch: {
    type: "choice",
    of: ["deferred", "eager"],
    default: "deferred",
    meaning: "When a batch leaves: `deferred` when it can grow no more, `eager` as soon as an accelerator is free.",
  },
} as const satisfies OptionTable;

const rules = (dispatch: "deferred" | "eager"): WindowRules => ({
  opens: dispatch === "eager" ? "eager" : "frontrun",
  timeoutUs: 0,
  drop: "window",
  idleDispatch: false,
  target: null,
  rateWindowUs: 5_000_000,
  slackUs: 0,
  isolation: false,
  plus: null,
});

export const fixedGammaPolicy = definePolicy({
  name: "fixed-gamma",
  summary:
    "An elastic model with one gamma for all batches: one line in deadline order, who cannot be in time is dropped. Other models as `deferred`.",
  options: {
    gamma: {
      type: "integer",
      min: -GAMMA_MAX,
      max: GAMMA_MAX,
      default: 0,
      meaning: "Tokens added or removed in each layer; the nearest that the model has.",
    },
    ...OPTIONS,
  },
  create: ({ gamma, dispatch }) => ({
    name: "fixed-gamma",
    isByVariant: true,
    createLatency: (spec) => new OneWayTimes(new ElasticTimes(spec, { nearest: gamma }), 0),
    createQueue: (key, spec, core) =>
      new OneWayQueue(key, spec, core, rules(dispatch), spec.latency as OneWayTimes, null),
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});

export const queueGammaPolicy = definePolicy({
  name: "queue-gamma",
  summary:
    "An elastic model with a gamma by how many wait: the largest by which they would be served soon enough, the smallest where there is none. " +
    "One line in deadline order, who cannot be in time is dropped.",
  options: {
    wait_part: {
      type: "number",
      min: 0.001,
      max: 10,
      default: 0.25,
      meaning:
        "Part of the model's SLO within which all that wait are to be served by the gamma chosen, at its best batch size.",
    },
    gammas,
    ...OPTIONS,
  },
  create: ({ wait_part, gammas: among, dispatch }) => ({
    name: "queue-gamma",
    isByVariant: true,
    createLatency: (spec) => {
      const times = new ElasticTimes(spec, { gammas: among });
      return new OneWayTimes(times, times.count - 1);
    },
    createQueue: (key, spec, core) => {
      const times = spec.latency as OneWayTimes;
      const limits = waitingLimits(times.times, spec, wait_part);
      const wayFor = (length: number): number =>
        Math.max(
          0,
          limits.findLastIndex((limit) => length <= limit),
        );
      return new OneWayQueue(key, spec, core, rules(dispatch), times, wayFor);
    },
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});

/** By way: how many an accelerator serves in that part of the SLO. */
const waitingLimits = (times: ElasticTimes, { sloUs }: QueueSpec, part: number): Float64Array =>
  Float64Array.from({ length: times.count }, (_, way) => (times.throughput(way, times.sizeMax) * sloUs * part) / 1e6);
