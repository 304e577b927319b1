import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy, type OptionProblem } from "../../descriptor.js";
import { PullArbiter } from "./pull-arbiter.js";
import { TensorflowQueue } from "./tensorflow-queue.js";

const MAX_BATCH_SIZE = 1000;
/** An hour. */
export const TIMEOUT_US_MAX = 3_600_000_000;

/** TensorFlow Serving's shared batch scheduler, its names and defaults (BatchingParameters); its threads are the accelerators. */
export const tfservingPolicy = definePolicy({
  name: "tfserving",
  summary:
    "TensorFlow Serving's batching: arrival order, models in turn, nothing looks at deadlines. num_batch_threads is " +
    "the number of accelerators.",
  options: {
    max_batch_size: {
      type: "integer",
      min: 1,
      max: BATCH_SIZE_MAX,
      meaning:
        `Largest batch; the last of allowed_batch_sizes when that is given, else ${MAX_BATCH_SIZE} when absent. A model's own ` +
        "largest batch bounds it.",
    },
    batch_timeout_micros: {
      type: "integer",
      min: 0,
      max: TIMEOUT_US_MAX,
      default: 0,
      meaning:
        "Microseconds that the open batch of a model waits, from its first request on. 0: a free accelerator takes " +
        "whatever is there.",
    },
    max_enqueued_batches: {
      type: "integer",
      min: 1,
      max: 100_000,
      default: 10,
      meaning:
        "Batches of a model that may wait, the open one counted. A request that needs one more is dropped as " +
        "queue-full.",
    },
    allowed_batch_sizes: {
      type: "integers",
      min: 1,
      max: BATCH_SIZE_MAX,
      lengthMax: 64,
      meaning:
        "Sizes that are executed, increasing, the last equal to max_batch_size: a batch costs what the next of them " +
        "costs. Sizes above a model's largest batch are left out for that model.",
    },
  },
  // TensorFlow Serving refuses the same: sizes must increase and end at the largest batch.
  problems: ({ allowed_batch_sizes: sizes, max_batch_size: most }, models) => {
    if (sizes === undefined) return [];
    const problems: OptionProblem[] = [];
    sizes.forEach((size, index) => {
      if (index > 0 && size <= sizes[index - 1]!)
        problems.push({
          at: ["allowed_batch_sizes", index],
          text: `must be greater than the entry before it (${sizes[index - 1]}); was ${size}`,
        });
    });
    const last = sizes.at(-1);
    if (most !== undefined && last !== most)
      problems.push({
        at: ["allowed_batch_sizes", sizes.length - 1],
        text: `must be equal to max_batch_size (${most}) at the end; was ${last}`,
      });
    for (const { name, batchSizeMax } of models)
      if (sizes[0]! > batchSizeMax)
        problems.push({
          at: ["allowed_batch_sizes", 0],
          text: `must be at most the largest batch of model ${name} (${batchSizeMax}); was ${sizes[0]}`,
        });
    return problems;
  },
  create: (options) => {
    const allowed = options.allowed_batch_sizes ?? null;
    const queueOptions = {
      maxBatchSize: options.max_batch_size ?? allowed?.at(-1) ?? MAX_BATCH_SIZE,
      batchTimeoutUs: options.batch_timeout_micros,
      maxEnqueuedBatches: options.max_enqueued_batches,
      allowedBatchSizes: allowed,
    };
    return {
      name: "tfserving",
      createQueue: (key, spec, core) => new TensorflowQueue(key, spec, core, queueOptions),
      createArbiter: (core) => new PullArbiter(core, { turn: "round-robin" }),
    };
  },
});

export const tfserving = tfservingPolicy.create;
