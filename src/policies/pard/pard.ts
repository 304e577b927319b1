import { BATCH_SIZE_MAX } from "../deferred/window-options.js";
import { definePolicy } from "../descriptor.js";
import { WorkerArbiter } from "../worker-arbiter.js";
import { DISPATCHES } from "./dispatcher.js";
import { PardQueue } from "./pard-queue.js";
import { PRIORITIES } from "./priority.js";

/** PARD's workers: who is decided about next, and who is given up. What later modules need is the pipeline's budget. */
export const pardPolicy = definePolicy({
  name: "pard",
  summary:
    "PARD: requests are sent to workers as they come; each has a double-ended priority queue by remaining budget, and a batch that grows " +
    "behind the one that runs. Whoever would not end in it by its budget is given up. For modules of pipelines with `budget: forecast`.",
  inPipelines: { budget: "forecast" },
  options: {
    priority: {
      type: "choice",
      of: PRIORITIES,
      default: "adaptive",
      meaning:
        "Who of those who wait is decided about next. `hbf`: most of its budget left first; `lbf`: least first; `fcfs`: in order of coming; " +
        "`adaptive`: hbf while more comes than the module can do, lbf while less does, changed with delay; `instant`: without.",
    },
    dispatch: {
      type: "choice",
      of: DISPATCHES,
      default: "soonest",
      meaning:
        "The worker that a request is sent to. `least`: where fewest wait, an idle one first; `soonest`: whose next batch with room starts first; " +
        "`round-robin`: in turn.",
    },
    batch_size: {
      type: "word-or-integer",
      words: ["auto"],
      min: 1,
      max: BATCH_SIZE_MAX,
      default: "auto",
      meaning: "Size up to which a batch grows; `auto` is the largest whose time is within half the SLO of the queue.",
    },
    interval_ms: {
      type: "number",
      min: 10,
      max: 60_000,
      default: 200,
      meaning:
        "With `adaptive` and `instant`: milliseconds in which arrivals are counted; the last five counts say how steady they are.",
    },
  },
  create: (options) => {
    const queueOptions = {
      priority: options.priority,
      dispatch: options.dispatch,
      batchSize: typeof options.batch_size === "number" ? options.batch_size : null,
      intervalUs: Math.round(options.interval_ms * 1000),
    };
    return {
      name: "pard",
      createQueue: (key, spec, core) => new PardQueue(key, spec, core, queueOptions),
      createArbiter: (core) => new WorkerArbiter(core),
    };
  },
});

export const pard = pardPolicy.create;
