import { accuracy } from "../elastic/elastic-options.js";
import type { ArbiterPlusOptions } from "./rank-arbiter.js";
import {
  BATCH_SIZE_MAX,
  fixedTarget,
  idleDispatch,
  isolation,
  microseconds,
  rateWindow,
  timerSlack,
} from "./window-options.js";
import { defineSharedWindowPolicy } from "./window-policy.js";

/** Options of `deferred+` and of `auto`, which switches on what it has learnt since. @param isAuto its defaults. */
const optionsOf = <const B extends boolean>(isAuto: B) =>
  ({
    idle_dispatch: idleDispatch(
      "Dispatch at once while idle accelerators exceed what the present rate needs; the live server's own default is true.",
    ),
    isolation,
    target: {
      type: "word-or-integer",
      words: ["keep-up", "auto"],
      min: 1,
      max: BATCH_SIZE_MAX,
      default: "keep-up",
      meaning:
        "Batch size that head dropping protects: `keep-up` the smallest at which all models together keep up with " +
        "their arrivals, `auto` the largest that staggered execution sustains (as for deferred), a number fixes it.",
    },
    look_ahead: {
      type: "boolean",
      default: true,
      meaning:
        "A batch that cannot hold all gives up more heads where a projection of the next launches then loses fewer requests " +
        "in all. Only for a model alone on its accelerators, up to 64 of them.",
    },
    leave_when_enough: {
      type: "boolean",
      default: true,
      meaning:
        "A batch leaves as soon as an accelerator idles once it is so large that waiting for one more request costs more " +
        "accelerator time than it saves: at once with one accelerator, hardly ever with more than six.",
    },
    early: {
      type: "number",
      isShared: true,
      min: 0,
      max: 1000,
      default: 0.5,
      meaning:
        "How much before its window a batch may leave when an accelerator idles, and compete for one that comes free, " +
        "in its execution time divided by the number of accelerators. 0: not at all.",
    },
    early_per_idle: {
      type: "number",
      isShared: true,
      min: 0,
      max: 1000,
      default: 2,
      meaning:
        "The same for each idle accelerator beyond the first, divided by the root of the number of accelerators. 0: none.",
    },
    early_by_gap: {
      type: "number",
      isShared: true,
      min: 0,
      max: 10,
      default: 0.8,
      meaning:
        "With one idle accelerator: earlier by this part of how much sooner the next one comes free than in even turns, or " +
        "later where it comes free later. 0: not at all.",
    },
    burst_aware: {
      type: "boolean",
      isShared: true,
      default: true,
      meaning:
        "Multiply early_per_idle by the dispersion of arrivals (variance over mean, 1 for Poisson): after a burst nobody " +
        "comes for whom waiting would be worth while.",
    },
    feedback: {
      type: "boolean",
      default: true,
      meaning:
        "Models that lose a larger part of their requests than others open earlier and go first, until all lose the same.",
    },
    feedback_past_target: {
      type: "boolean",
      default: isAuto,
      meaning:
        "Feedback opens a window earlier only once its batch holds the target: smaller ones do not keep up. false: always.",
    },
    fastest_first: {
      type: "boolean",
      isShared: true,
      default: true,
      meaning: "Take the fastest idle accelerator, the lowest id among equals; false: the lowest id.",
    },
    usable_capacity: {
      type: "boolean",
      default: isAuto,
      meaning:
        "Accelerators count by what they serve in time, not by their speed: for the keep-up target, where a slow one holds " +
        "smaller batches, and among the idle ones, where those too slow for any request do not count.",
    },
    marginal_early: {
      type: "boolean",
      default: isAuto,
      meaning:
        "The unit of earliness is the part of a batch's execution time that grows with its size: where that is small, many join " +
        "in a short time. false: all of it.",
    },
    rehearse: {
      type: "boolean",
      default: isAuto,
      meaning:
        "Play recent arrivals to other ways of serving (deferred, eager, timeouts) in virtual time, and serve as the one that " +
        "has most work in time. false: always by its own rules.",
    },
    by_app: {
      type: "boolean",
      default: isAuto,
      meaning:
        "Where requests of unlike apps or sizes wait, it can be chosen who goes together by how long those of each take (as " +
        "distribution+ does); with `rehearse` where that would have earned most. false: one time for each batch size.",
    },
    hand_on: {
      type: "boolean",
      default: isAuto,
      meaning:
        "Requests that go on to later modules of a pipeline wait for no larger batch once an accelerator idles, and are not rehearsed: what ends " +
        "sooner leaves more time there. Only for a model alone on its accelerators.",
    },
    backlog_target: {
      type: "boolean",
      default: isAuto,
      meaning:
        "For requests that go on to later modules of a pipeline the target is at least what each accelerator has of all that wait: the measured " +
        "rate is behind when a burst begins. Only for a model alone on its accelerators.",
    },
    adapt_tokens: {
      type: "boolean",
      default: isAuto,
      meaning:
        "An elastic model does as much work on each batch as earns the most, as under `otas+` with its defaults, and nothing is rehearsed on its accelerators. " +
        "false: one gamma for all, and windows as for other models.",
    },
    accuracy: accuracy("profiled"),
    rate_window_s: rateWindow(2),
    timer_slack_us: timerSlack,
  }) as const;

/**
 * Past Symphony's paper: `deferred` with a target that keeps up and no more, windows that open early while accelerators
 * idle, and feedback between models (docs/decisions/004-deferred-plus.md). Each part can be switched off alone.
 */
const define = (name: string, summary: string, isAuto: boolean) =>
  defineSharedWindowPolicy({
    name,
    summary,
    options: optionsOf(isAuto),
    rules: (given) => ({
      opens: "frontrun",
      timeoutUs: 0,
      drop: "window",
      idleDispatch: given.idle_dispatch,
      target: fixedTarget(given.target),
      rateWindowUs: microseconds(given.rate_window_s),
      slackUs: given.timer_slack_us,
      isolation: given.isolation,
      ...(given.adapt_tokens ? { adaptsTokens: true } : {}),
      ...(given.accuracy === "recent" ? { learnsAccuracy: true } : {}),
      plus: {
        keepUp: given.target === "keep-up",
        feedback: given.feedback,
        feedbackPastTarget: given.feedback_past_target,
        lookAhead: given.look_ahead,
        leaveWhenEnough: given.leave_when_enough,
        usableCapacity: given.usable_capacity,
        marginalEarly: given.marginal_early,
        rehearse: given.rehearse,
        byApp: given.by_app,
        backlogTarget: given.backlog_target,
        handOn: given.hand_on,
      },
    }),
    arbiterPlus: (given) => ({
      early: given.early,
      earlyPerIdle: given.early_per_idle,
      earlyByGap: given.early_by_gap,
      burstAware: given.burst_aware,
      fastestFirst: given.fastest_first,
    }),
  });

export const deferredPlusPolicy = define(
  "deferred+",
  "Deferred scheduling past the paper: a target that keeps up and no more, early windows while accelerators idle, " +
    "feedback between models.",
  false,
);

/** What nobody has to choose: docs/decisions/006-auto.md. */
export const autoPolicy = define(
  "auto",
  "The default: deferred+ that knows what slow accelerators can serve and how much waiting is worth.",
  true,
);

const { early, early_per_idle, early_by_gap, burst_aware } = autoPolicy.options;
/** The parts of an arbiter whose queues bring their own rules (the live server's). */
export const PLUS_ARBITER: Omit<ArbiterPlusOptions, "load"> = {
  early: early.default,
  earlyPerIdle: early_per_idle.default,
  earlyByGap: early_by_gap.default,
  burstAware: burst_aware.default,
  // Measured scales differ by noise: the lowest id keeps work together.
  fastestFirst: false,
};

export const deferredPlus = deferredPlusPolicy.create;
export const auto = autoPolicy.create;
