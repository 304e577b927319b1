import type { QueueSpec } from "../../../core/policy.js";
import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy, type OptionProblem } from "../../descriptor.js";
import { ClockworkArbiter } from "./clockwork-arbiter.js";
import { ClockworkQueue } from "./clockwork-queue.js";
import { LastTimes } from "./last-times.js";

/** Batches that an accelerator may hold, far above what 10 ms of plan hold unless it hangs. */
const DEPTH = 64;
const MS_MAX = 10_000;

const whole = (ms: number): number => Math.round(ms * 1000);

/** Clockwork's simpler scheduler (INFER5): accelerators are given work ahead, most urgent model first. */
export const clockworkPolicy = definePolicy({
  name: "clockwork",
  summary:
    "Clockwork's INFER5 scheduler with arbitrary batch sizes; defaults are its own constants. Without them: the four " +
    "times 0.",
  cannotServe: "it plans more batches ahead than a worker holds, and has late ones refused",
  options: {
    schedule_ahead_ms: {
      type: "number",
      min: 0,
      max: MS_MAX,
      default: 10,
      meaning:
        "An accelerator is given work while its plan ends less than this many milliseconds ahead. 0: only when it " +
        "holds nothing.",
    },
    slo_margin_ms: {
      type: "number",
      min: 0,
      max: MS_MAX,
      default: 5,
      meaning:
        "Milliseconds taken off every deadline. No deadline is planned for that is less than this and " +
        "schedule_ahead_ms together after the arrival.",
    },
    action_window_ms: {
      type: "number",
      min: 0,
      max: MS_MAX,
      default: 10,
      meaning:
        "A batch whose turn comes more than this many milliseconds after its planned start is refused by the " +
        "accelerator. 0: never.",
    },
    control_delay_ms: {
      type: "number",
      min: 0,
      max: MS_MAX,
      default: 1,
      meaning: "Plans start a batch no sooner than this many milliseconds after the decision.",
    },
    batch_sizes: {
      type: "integers",
      min: 1,
      max: BATCH_SIZE_MAX,
      lengthMax: 64,
      meaning:
        "Sizes that batches may have, increasing, the first 1; Clockwork's own are 1, 2, 4, 8, 16. Default: any.",
    },
    exec_max_ms: {
      type: "number",
      min: 0,
      max: 1e6,
      meaning:
        "Batches of more than one that are profiled to take longer than this many milliseconds are left out; Clockwork's own is " +
        "250. Default: none is.",
    },
    estimate: {
      type: "choice",
      of: ["profile", "last-10"],
      default: "profile",
      meaning:
        "How long plans take a batch to run. `last-10`: of each size the largest of its last 10 times, the profile being the first, as " +
        "published; it needs `learn: true` in the scenario, without which nothing is measured.",
    },
    first: {
      type: "choice",
      of: ["lowest-id", "earliest-free"],
      default: "earliest-free",
      meaning:
        "Which accelerator is given work first: `lowest-id` the first whose plan is not full, `earliest-free` the one " +
        "whose plan ends first.",
    },
  },
  // A queue for batches of one is what makes every request servable.
  problems: ({ batch_sizes: sizes = [] }) =>
    sizes.flatMap((size, index): OptionProblem[] => {
      const at = ["batch_sizes", index];
      const before = index === 0 ? 0 : sizes[index - 1]!;
      if (index === 0 && size !== 1) return [{ at, text: `must be 1; was ${size}` }];
      if (size > before) return [];
      return [{ at, text: `must be greater than the entry before it (${before}); was ${size}` }];
    }),
  create: (options) => {
    const scheduleAheadUs = whole(options.schedule_ahead_ms);
    const windowUs = whole(options.action_window_ms);
    const queueOptions = {
      batchSizes: options.batch_sizes ?? null,
      execMaxUs: options.exec_max_ms === undefined ? Number.POSITIVE_INFINITY : whole(options.exec_max_ms),
      scheduleAheadUs,
      marginUs: whole(options.slo_margin_ms),
      actionWindowUs: windowUs === 0 ? Number.POSITIVE_INFINITY : windowUs,
      controlDelayUs: whole(options.control_delay_ms),
    };
    const arbiterOptions = { scheduleAheadUs, depth: DEPTH, first: options.first };
    return {
      name: "clockwork",
      depth: DEPTH,
      ...(options.estimate === "profile" ? {} : { createLatency: ({ latency }: QueueSpec) => new LastTimes(latency) }),
      createQueue: (key, spec, core) => new ClockworkQueue(key, spec, core, queueOptions),
      createArbiter: (core) => new ClockworkArbiter(core, arbiterOptions),
    };
  },
});

export const clockwork = clockworkPolicy.create;
