/** What PARD is compared with in pipelines (§5.1): the batches are planned from the profile, as PARD's are. */
import { plannedBatch } from "../../../core/latency/planned-batch.js";
import type { Policy, QueueSpec } from "../../../core/policy.js";
import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy } from "../../descriptor.js";
import type { WordOrIntegerOption } from "../../options.js";
import { PullArbiter } from "../servers/pull-arbiter.js";
import { FixedCap } from "./batch-cap.js";
import { ClipperQueue } from "./clipper-queue.js";

const batchSize = {
  type: "word-or-integer",
  words: ["auto"],
  min: 1,
  max: BATCH_SIZE_MAX,
  default: "auto",
  meaning: "Largest batch; `auto` is the largest whose time is within half the SLO of the queue.",
} as const satisfies WordOrIntegerOption;

function policyOf(name: string, size: string | number, drops: boolean): Policy {
  const capOf = ({ latency: { execUs, sizeMax }, sloUs }: QueueSpec): FixedCap =>
    new FixedCap(typeof size === "number" ? size : plannedBatch(execUs, sizeMax, sloUs));
  return {
    name,
    createQueue: (key, spec, core) => new ClipperQueue(key, spec, core, () => capOf(spec), drops),
    createArbiter: (core) => new PullArbiter(core, { turn: "rank" }),
  };
}

/** With `budget: split` the order is that of coming, and who has been in the module for longer than its SLO_k is dropped. */
export const clipperPlusPolicy = definePolicy({
  name: "clipper++",
  summary:
    "Clipper++: a free accelerator takes what is there, up to the planned batch; whose budget has passed by then is dropped. For modules of " +
    "pipelines with `budget: split`.",
  inPipelines: { budget: "split" },
  options: { batch_size: batchSize },
  create: ({ batch_size }) => policyOf("clipper++", batch_size, true),
});

export const naivePolicy = definePolicy({
  name: "naive",
  summary:
    "A free accelerator takes what is there, up to the planned batch, earliest deadline first; nobody is ever dropped.",
  inPipelines: { budget: "whole" },
  options: { batch_size: batchSize },
  create: ({ batch_size }) => policyOf("naive", batch_size, false),
});

export const clipperPlus = clipperPlusPolicy.create;
export const naive = naivePolicy.create;
