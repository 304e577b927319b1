import { KindQueue } from "../by-kind/kind-queue.js";
import type { TimesByKind } from "../by-kind/times-by-kind.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { ByScore } from "./by-score.js";
import { BATCHING_OPTIONS, createLatency, sizesUpTo } from "./distribution-options.js";

/** ORLOJ, whole: execution times as distributions, scores that vary with time, batch sizes by feasibility. */
export const distributionPolicy = definePolicy({
  name: "distribution",
  summary:
    "ORLOJ: execution times are distributions, by app. The most urgent request sets the batch size, and a score of what each " +
    "would lose by waiting says who is in the batch.",
  options: {
    ...BATCHING_OPTIONS,
    b_per_ms: {
      type: "number",
      min: 1e-9,
      max: 10,
      default: 1e-4,
      meaning:
        "Rate of the anticipated delay (ORLOJ's b), per millisecond: a request that does not go now is expected to wait 1/b.",
    },
    size: {
      type: "choice",
      of: ["descending", "earliest"],
      default: "descending",
      meaning:
        "Which batch size is taken: `descending` the largest for which enough requests have time (Algorithm 1, line 16), `earliest` " +
        "that of the earliest deadline (the paper's text).",
    },
    bins: {
      type: "integer",
      min: 1,
      max: 256,
      default: 16,
      meaning: "Bins of a batch's time that scores are made of.",
    },
  },
  create: ({ window_s, batch_sizes, b_per_ms, bins, size }) => ({
    name: "distribution",
    createLatency: createLatency(window_s),
    createQueue: (key, spec, core) => {
      const options = { sizes: sizesUpTo(spec.latency.sizeMax, batch_sizes), delayRate: b_per_ms / 1000, bins, size };
      const times = spec.latency as TimesByKind;
      return new KindQueue(key, spec, core, times, (waiting) => new ByScore(waiting, times, options));
    },
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});

export const distribution = distributionPolicy.create;
