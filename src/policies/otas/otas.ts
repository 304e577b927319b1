import type { QueueSpec } from "../../core/policy.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { ElasticTimes } from "../elastic/elastic-times.js";
import { otasOptions, otasQueue } from "../elastic/otas-queue.js";

/** OTAS, whole: batches of like deadline and utility, and tokens added or removed for each of them by what they earn. */
const define = (name: string, summary: string, isPlus: boolean) =>
  definePolicy({
    name,
    summary,
    options: otasOptions(isPlus),
    create: (options) => ({
      name,
      isByVariant: true,
      createLatency: (spec: QueueSpec) => new ElasticTimes(spec, { gammas: options.gammas }),
      createQueue: (key, spec, core) => otasQueue(key, spec, core, spec.latency as ElasticTimes, options),
      createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
    }),
  });

export const otasPolicy = define(
  "otas",
  "OTAS: an elastic model does as much work on each batch as the load allows. Requests of like arrival, deadline and utility share a batch " +
    "(Algorithm 1); tokens added or removed are allocated to the waiting batches by what they earn (Algorithms 2 and 3).",
  false,
);

/** docs/decisions/011-token-allocation.md. */
export const otasPlusPolicy = define(
  "otas+",
  "OTAS past the paper: whoever would want the same gamma shares a batch, plans are exact where they can be and pay for the time that they take.",
  true,
);

export const otas = otasPolicy.create;
export const otasPlus = otasPlusPolicy.create;
