import type { QueueSpec } from "../../../core/policy.js";
import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy } from "../../descriptor.js";
import { PullArbiter } from "../servers/pull-arbiter.js";
import { AimdCap } from "./aimd-cap.js";
import { type BatchCap, FixedCap } from "./batch-cap.js";
import { ClipperQueue } from "./clipper-queue.js";
import { RegressionCap } from "./regression-cap.js";
import { SeededNormal } from "./seeded-normal.js";

const ACCELERATORS_MAX = 65_536;

/** Clipper: replicas pull, and learn from what ended how large their batches may be. */
export const clipperPolicy = definePolicy({
  name: "clipper",
  summary:
    "Clipper: earliest deadline first; a free accelerator takes what is there, up to a largest batch that it learns from the batches that " +
    "it ran. Only expired requests are dropped. Profiles are not read.",
  cannotServe: ({ cap, batch_size: size }) =>
    cap === "regression" && size === undefined
      ? "with cap regression it learns from batches that are filled up with copies, and workers run a batch as it is"
      : null,
  options: {
    cap: {
      type: "choice",
      of: ["aimd", "regression"],
      default: "aimd",
      meaning:
        "How each accelerator learns a model's largest batch. `aimd`: from 1, up by a step while full batches take at most the SLO, back by a " +
        "part when one takes longer (the paper). `regression`: sizes are tried out, filled up with copies, while the earliest deadline leaves " +
        "more time than any batch took; else the size is estimated from that time by the latencies seen (the code).",
    },
    additive_step: {
      type: "integer",
      min: 1,
      max: BATCH_SIZE_MAX,
      default: 1,
      meaning: "With `aimd`: requests that a full batch within the SLO adds.",
    },
    back_off: {
      type: "number",
      min: 0.1,
      max: 1,
      default: 0.9,
      meaning: "With `aimd`: the part of the largest batch that is left after a batch that took longer than the SLO.",
    },
    slack_factor: {
      type: "number",
      min: 0.1,
      max: 1,
      default: 0.92,
      meaning: "With `regression`: the part of the time until the earliest deadline that a batch may take.",
    },
    batch_size: {
      type: "integer",
      min: 1,
      max: BATCH_SIZE_MAX,
      meaning: "Largest batch, whatever is measured; a model's own bounds it. Default: learnt.",
    },
    seed: {
      type: "integer",
      min: 0,
      max: 4_294_967_295,
      default: 1,
      meaning: "With `regression`: seed of the sizes that are tried out from 10 on.",
    },
  },
  create: (options) => {
    const aimd = { additiveStep: options.additive_step, backOff: options.back_off };
    const capOf = ({ latency: { sizeMax }, sloUs }: QueueSpec, stream: number): BatchCap => {
      if (options.batch_size !== undefined) return new FixedCap(options.batch_size);
      if (options.cap === "aimd") return new AimdCap(sloUs, sizeMax, aimd);
      return new RegressionCap(sizeMax, options.slack_factor, new SeededNormal(options.seed, stream));
    };
    return {
      name: "clipper",
      createQueue: (key, spec, core) =>
        new ClipperQueue(key, spec, core, (accelerator) => capOf(spec, key * ACCELERATORS_MAX + accelerator)),
      createArbiter: (core) => new PullArbiter(core, { turn: "rank" }),
    };
  },
});

export const clipper = clipperPolicy.create;
