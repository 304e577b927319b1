import { definePolicy } from "../../descriptor.js";
import { ShepherdArbiter } from "./shepherd-arbiter.js";
import { ShepherdQueue } from "./shepherd-queue.js";

/** Shepherd's Flex, as Symphony's authors re-implemented it: the largest batch that can be run at once, running ones preempted. */
export const shepherdPolicy = definePolicy({
  name: "shepherd",
  summary:
    "Shepherd's Flex, without its planner: at each arrival and completion the largest batch that would be in time, " +
    "with preemption.",
  cannotServe: "it preempts batches, and a run of a model cannot be interrupted",
  options: {
    preemption: {
      type: "boolean",
      default: true,
      meaning: "Whether a batch that runs is given up, its work lost, for a much larger one.",
    },
    preemption_factor: {
      type: "number",
      min: 1.01,
      max: 1000,
      default: 3.03,
      meaning: "How many times as large as the batch that runs a candidate must be to take its place.",
    },
    size_from: {
      type: "choice",
      of: ["earliest", "latest"],
      default: "earliest",
      meaning:
        "How large a candidate is: `earliest` as many as its earliest deadline allows, `latest` as many as the latest " +
        "deadlines allow, with earlier requests dropped where they would keep it smaller.",
    },
    drop: {
      type: "choice",
      of: ["head", "newest"],
      default: "head",
      meaning:
        "Which request is asked whether it can still finish alone: `head` the earliest; `newest` the newest, as in the " +
        "published re-implementation, where a head that cannot keeps its model waiting until the newest cannot either.",
    },
  },
  create: ({ preemption, preemption_factor, size_from, drop }) => ({
    name: "shepherd",
    createQueue: (key, spec, core) => new ShepherdQueue(key, spec, core, { sizeFrom: size_from, drop }),
    createArbiter: (core) =>
      new ShepherdArbiter(core, { preemptionFactor: preemption ? preemption_factor : Number.POSITIVE_INFINITY }),
  }),
});

export const shepherd = shepherdPolicy.create;
