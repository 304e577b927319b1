import type { CoreView } from "../../../core/policy.js";
import { BATCH_SIZE_MAX } from "../../deferred/window-options.js";
import { definePolicy } from "../../descriptor.js";
import { WorkerArbiter } from "../../worker-arbiter.js";
import { NexusPlanner } from "./nexus-planner.js";
import { NexusQueue } from "./nexus-queue.js";

/** Nexus: requests are sent to accelerators as they arrive, by a plan that is made anew each epoch. */
export const nexusPolicy = definePolicy({
  name: "nexus",
  summary:
    "Nexus: each request is sent to an accelerator as it arrives, by a plan made from measured rates; backends take " +
    "the models in turn and wait for nothing.",
  // On the workers of one module the planner has nothing to place.
  inPipelines: { budget: "whole", options: { plan: "static" } },
  options: {
    plan: {
      type: "choice",
      of: ["epochs", "static"],
      default: "epochs",
      meaning:
        "`static` puts every model on every accelerator; `epochs` decides from measured rates which accelerators serve " +
        "which models and in which batches.",
    },
    static_batch: {
      type: "word-or-integer",
      words: ["auto"],
      min: 1,
      max: BATCH_SIZE_MAX,
      default: "auto",
      meaning:
        "Planned batch of the static plan, and of models whose rate is not known yet; `auto` is the largest whose time " +
        "is within half the SLO.",
    },
    epoch_s: {
      type: "number",
      min: 1,
      max: 86_400,
      default: 10,
      meaning: "Seconds between plans; Symphony's comparison has 10, Nexus itself 30.",
    },
    epoch_min_s: {
      type: "number",
      min: 1,
      max: 86_400,
      default: 10,
      meaning: "Least seconds between plans when a rate leaves 0.8 to 1.1 times what is planned for it.",
    },
    profile_multiplier: {
      type: "number",
      min: 1,
      max: 10,
      default: 1,
      meaning:
        "Times of batches are taken this many times as long, in plans and where heads are dropped. Nexus has 1.15, which also makes batches smaller; with " +
        "exact profiles the margin is better on the rates.",
    },
    rate_margin: {
      type: "number",
      min: 1,
      max: 10,
      default: 1.15,
      meaning:
        "Epochs plan for this many times the measured rates. At 1 accelerators are planned to be full, and then 2 to 5 " +
        "per cent of Poisson arrivals are not in time at any rate that fills one.",
    },
    network_allowance_ms: {
      type: "number",
      min: 0,
      max: 10_000,
      default: 2,
      meaning: "Milliseconds taken off the SLO in plans.",
    },
    frontends: {
      type: "integer",
      min: 1,
      max: 10_000,
      default: 1,
      meaning: "Frontends that spread the requests over accelerators by deficit round robin, each for itself.",
    },
    drop: {
      type: "choice",
      of: ["window", "earliest"],
      default: "window",
      meaning:
        "`window` drops heads that cannot finish in a batch of the planned size, `earliest` heads that cannot finish " +
        "alone.",
    },
  },
  create: (options) => {
    const plannerOptions = {
      plan: options.plan,
      staticBatch: typeof options.static_batch === "number" ? options.static_batch : null,
      epochUs: options.epoch_s * 1e6,
      epochMinUs: options.epoch_min_s * 1e6,
      profileMultiplier: options.profile_multiplier,
      rateMargin: options.rate_margin,
      allowanceUs: Math.round(options.network_allowance_ms * 1000),
    };
    const queueOptions = {
      frontends: options.frontends,
      drop: options.drop,
      profileMultiplier: options.profile_multiplier,
    };
    // The planner is an actor of its own beside queues and arbiter, one to each scheduler.
    const planners = new WeakMap<CoreView, NexusPlanner>();
    const plannerOf = (core: CoreView): NexusPlanner => {
      const planner = planners.get(core) ?? new NexusPlanner(core, plannerOptions);
      planners.set(core, planner);
      return planner;
    };
    return {
      name: "nexus",
      createQueue: (key, spec, core) => new NexusQueue(key, spec, core, plannerOf(core), queueOptions),
      createArbiter: (core) => {
        const planner = plannerOf(core);
        return new WorkerArbiter(core, (key) => planner.remove(key));
      },
    };
  },
});

export const nexus = nexusPolicy.create;
