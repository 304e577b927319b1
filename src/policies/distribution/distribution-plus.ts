import { ByGroup, denseSizesUpTo, GROUP_OPTIONS } from "../by-kind/by-group.js";
import { KindQueue } from "../by-kind/kind-queue.js";
import type { TimesByKind } from "../by-kind/times-by-kind.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { BATCHING_OPTIONS, createLatency } from "./distribution-options.js";

/** Past ORLOJ: who goes together is chosen by what their kinds take. */
export const distributionPlusPolicy = definePolicy({
  name: "distribution+",
  summary:
    "Past ORLOJ: requests whose times are alike share a batch. Of all groups of neighbouring kinds and all sizes, that with most " +
    "expected finishes by expected time, less who becomes hopeless meanwhile.",
  options: {
    ...BATCHING_OPTIONS,
    hopeless: {
      type: "number",
      min: 0,
      max: 0.99,
      default: GROUP_OPTIONS.hopeless,
      meaning: "A request whose chance to be in time even alone is below this is given up.",
    },
    loss_weight: {
      type: "number",
      min: 0,
      max: 100,
      default: GROUP_OPTIONS.lossWeight,
      meaning: "What a request counts that becomes hopeless while a batch runs, beside one that finishes.",
    },
    sure: {
      type: "number",
      min: 0.01,
      max: 0.999,
      default: GROUP_OPTIONS.sure,
      meaning: "Who joins a batch has time until this quantile of what it takes.",
    },
    gap_part: {
      type: "number",
      min: 0,
      max: 1000,
      default: GROUP_OPTIONS.gapPart,
      meaning:
        "Mean time until a request that does not go now has its next chance, as a part of what lies between batches of its kind, as measured. 0, and with more than 8 accelerators: by " +
        "`patience` and `patience_of_many`, and a loss is only who can go alone now and not after the batch.",
    },
    patience: {
      type: "number",
      min: 0.001,
      max: 1000,
      default: GROUP_OPTIONS.patience,
      meaning:
        "Mean time until a request that does not go now is expected to have its next chance, as a part of its SLO: until a gap is measured, or where " +
        "gaps are not read. What has time left is worth less now.",
    },
    patience_of_many: {
      type: "number",
      min: 0.0001,
      max: 1000,
      default: GROUP_OPTIONS.patienceOfMany,
      meaning:
        "Where gaps are not read, the same at most with many accelerators, for each time alone that its SLO holds: the next chance comes soon. With two it is " +
        "four times this, with four 1.3 times.",
    },
    price: {
      type: "number",
      min: 0,
      max: 1000,
      default: GROUP_OPTIONS.price,
      meaning:
        "What time is worth that is spent on a request later, relative to what the largest batch of all kinds makes of it.",
    },
    lines: {
      type: "integer",
      min: 1,
      max: 64,
      default: GROUP_OPTIONS.lines,
      meaning:
        "Kinds that are told apart when groups are weighed: of more that wait, neighbours by their times count as one. Work grows with the square.",
    },
  },
  create: ({
    window_s,
    batch_sizes,
    hopeless,
    loss_weight,
    gap_part,
    patience,
    price,
    sure,
    patience_of_many,
    lines,
  }) => ({
    name: "distribution+",
    createLatency: createLatency(window_s),
    createQueue: (key, spec, core) => {
      const sizes = denseSizesUpTo(spec.latency.sizeMax, batch_sizes);
      const options = {
        sizes,
        hopeless,
        lossWeight: loss_weight,
        gapPart: gap_part,
        patience,
        patienceOfMany: patience_of_many,
        price,
        sure,
        lines,
      };
      const times = spec.latency as TimesByKind;
      return new KindQueue(key, spec, core, times, (waiting) => new ByGroup(waiting, times, options));
    },
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});

export const distributionPlus = distributionPlusPolicy.create;
