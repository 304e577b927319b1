import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy } from "../../descriptor.js";
import { PullArbiter } from "./pull-arbiter.js";
import { TIMEOUT_US_MAX } from "./tfserving.js";
import { TritonQueue } from "./triton-queue.js";

/**
 * Triton's dynamic batcher, its names and defaults (ModelDynamicBatching, ModelQueuePolicy); each accelerator holds an
 * instance of every model and runs one batch at a time.
 */
export const tritonPolicy = definePolicy({
  name: "triton",
  summary:
    "Triton's dynamic batcher: arrival order, preferred sizes, a delay counted from the oldest request, and the queue " +
    "policy.",
  options: {
    preferred_batch_size: {
      type: "integers",
      min: 1,
      max: BATCH_SIZE_MAX,
      lengthMax: 64,
      meaning: "Batch sizes that are sent without waiting for more; the model's largest batch when absent.",
    },
    max_queue_delay_microseconds: {
      type: "integer",
      min: 0,
      max: TIMEOUT_US_MAX,
      default: 0,
      meaning: "Microseconds that the oldest request of a batch waits for others. 0: for none.",
    },
    max_queue_size: {
      type: "integer",
      min: 0,
      max: 10_000_000,
      default: 0,
      meaning: "Waiting requests of a model beyond which one more is dropped as queue-full. 0: no limit of its own.",
    },
    default_timeout_microseconds: {
      type: "integer",
      min: 0,
      max: TIMEOUT_US_MAX,
      default: 0,
      meaning: "Microseconds that a request may wait before timeout_action. 0: for ever.",
    },
    timeout_action: {
      type: "choice",
      of: ["REJECT", "DELAY"],
      default: "REJECT",
      meaning:
        "`REJECT` drops a request whose timeout passed as expired; `DELAY` serves it after all whose timeout has not.",
    },
  },
  create: (options) => {
    const queueOptions = {
      preferredBatchSizes: options.preferred_batch_size ?? null,
      maxQueueDelayUs: options.max_queue_delay_microseconds,
      maxQueueSize: options.max_queue_size,
      defaultTimeoutUs: options.default_timeout_microseconds,
      timeoutAction: options.timeout_action,
    };
    return {
      name: "triton",
      createQueue: (key, spec, core) => new TritonQueue(key, spec, core, queueOptions),
      createArbiter: (core) => new PullArbiter(core, { turn: "rank" }),
    };
  },
});

export const triton = tritonPolicy.create;
