/**
 * The live server's policy: models of one accelerator group share one arbiter, and each queue brings its own rules
 * (deferred, eager or timeout; with or without an SLO) as plain numbers, so that they fit a ring record and an event log.
 */
import { invariant } from "../core/invariant.js";
import type { CoreView, Policy, QueueSpec, SeparablePolicy } from "../core/policy.js";
import { plusParts, type QueuePlusOptions } from "./deferred/queue-plus.js";
import { PLUS_EARLY, PLUS_EARLY_BY_GAP, PLUS_EARLY_PER_IDLE, RankArbiter } from "./deferred/rank-arbiter.js";
import { SharedLoad } from "./deferred/shared-load.js";
import { WindowQueue, type WindowQueueOptions } from "./deferred/window-queue.js";
import type { DeferredOptions, DeferredPlusOptions, EagerOptions, TimeoutOptions } from "./policy-options.js";

/** Policies that queues of one group may mix. */
export type LivePolicy = "deferred" | "deferred+" | "eager" | "timeout";

/** A queue's rules without what it shares with others. */
export interface LiveWindow extends Omit<WindowQueueOptions, "plus"> {
  /** Parts of `deferred+`; null: none. */
  readonly plus: Omit<QueuePlusOptions, "load"> | null;
}

export interface LiveQueueSpec extends QueueSpec {
  readonly window: LiveWindow;
}

export interface LiveDefaults {
  /** Dispatch at once while nothing presses (design, "When nothing presses"). */
  readonly idleDispatch: boolean;
  readonly rateWindowUs: number;
  /** The window of a deferred queue opens and closes this much early: a thread's timer fires up to 0.1 ms late. */
  readonly slackUs: number;
  /** No model's batches keep every accelerator from another whose SLO is shorter; see Reserve. */
  readonly isolation: boolean;
}

export const LIVE_DEFAULTS: LiveDefaults = {
  idleDispatch: true,
  rateWindowUs: 1_000_000,
  slackUs: 100,
  isolation: true,
};

const TIMEOUT_FRACTION = 0.3;

/** Every queue added must be a LiveQueueSpec. */
export function livePolicy(): Policy {
  let shared: SharedLoad | null = null;
  const loadOf = (core: CoreView): SharedLoad => {
    shared ??= new SharedLoad(core.accelerators);
    return shared;
  };
  return {
    name: "live",
    createQueue: (key, spec, core) => {
      invariant("window" in spec, `queue ${key} of the live policy must bring window options`);
      const { plus, ...window } = (spec as LiveQueueSpec).window;
      return new WindowQueue(
        key,
        spec,
        core,
        plus === null ? window : { ...window, plus: { ...plus, load: loadOf(core) } },
      );
    },
    // Queues say each whether they may leave idle, or before their window.
    createArbiter: (core) =>
      new RankArbiter(core, {
        idleDispatch: true,
        plus: {
          load: loadOf(core),
          early: PLUS_EARLY,
          earlyPerIdle: PLUS_EARLY_PER_IDLE,
          earlyByGap: PLUS_EARLY_BY_GAP,
          burstAware: true,
          // Measured scales differ by noise: the lowest id keeps work together.
          fastestFirst: false,
        },
      }),
  };
}

/**
 * The same for queues and arbiter in threads of their own: each queue's window comes as numbers in its `rules`
 * (`encodeWindow`). Parts of `deferred+` know more of each other than offers and grants, so no queue may have them.
 */
export function separableLivePolicy(): SeparablePolicy {
  return {
    name: LIVE_ON_THREADS,
    createQueue: (key, spec, core) => {
      invariant(spec.rules !== undefined, `queue ${key} of the live policy must bring window options`);
      const { plus, ...window } = decodeWindow(spec.rules, 0);
      invariant(plus === null, `queue ${key} must have no part of deferred+ on a thread of its own`);
      return new WindowQueue(key, spec, core, window);
    },
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: true }),
  };
}

/** Name by which threads create it. */
export const LIVE_ON_THREADS = "live";
/** Policies whose queues can be of it. */
export const SEPARABLE_LIVE: readonly LivePolicy[] = ["deferred", "eager", "timeout"];

/**
 * Rules of one model's queues.
 *
 * Without an SLO there is no promise to plan with: served as eager, and given up only when the deadline (its timeout)
 * has passed, not when a profile says that it will.
 */
export function liveWindow(
  policy: LivePolicy,
  options: Readonly<Record<string, unknown>>,
  sloUs: number | null,
  defaults: LiveDefaults,
): LiveWindow {
  const { target, rate_window_s, timer_slack_us, isolation } = options as DeferredOptions;
  const common = {
    target: typeof target === "number" ? target : null,
    rateWindowUs: rate_window_s === undefined ? defaults.rateWindowUs : rate_window_s * 1e6,
    slackUs: timer_slack_us ?? (policy === "deferred" || policy === "deferred+" ? defaults.slackUs : 0),
    isolation: isolation ?? defaults.isolation,
    plus: null,
  };
  const dropWithout = sloUs === null ? "expired" : "infeasible";
  if (sloUs === null && (policy === "deferred" || policy === "deferred+"))
    return { opens: "eager", timeoutUs: 0, drop: "expired", idleDispatch: false, ...common, slackUs: 0 };
  if (policy === "deferred") {
    const { idle_dispatch, head_drop } = options as DeferredOptions;
    const idleDispatch = idle_dispatch ?? defaults.idleDispatch;
    const drop = (head_drop ?? true) ? "window" : "infeasible";
    return { opens: "frontrun", timeoutUs: 0, drop, idleDispatch, ...common };
  }
  if (policy === "deferred+") {
    const plus = plusParts(options as DeferredPlusOptions);
    const { idle_dispatch } = options as DeferredPlusOptions;
    const idleDispatch = idle_dispatch ?? defaults.idleDispatch;
    return { opens: "frontrun", timeoutUs: 0, drop: "window", idleDispatch, ...common, plus };
  }
  const { drop } = options as EagerOptions;
  if (policy === "eager")
    return { opens: "eager", timeoutUs: 0, drop: drop ?? dropWithout, idleDispatch: false, ...common };
  const { timeout_ms, timeout_fraction } = options as TimeoutOptions;
  const timeoutUs =
    timeout_ms !== undefined
      ? Math.round(timeout_ms * 1000)
      : Math.round((timeout_fraction ?? TIMEOUT_FRACTION) * (sloUs ?? 0));
  return { opens: "timeout", timeoutUs, drop: drop ?? dropWithout, idleDispatch: false, ...common };
}

const OPENS = ["frontrun", "eager", "timeout"] as const;
const DROPS = ["window", "infeasible", "expired"] as const;
/** Numbers that `encodeWindow` writes. */
export const WINDOW_NUMBERS = 9;

/** In the order of their bits: new ones go last, where logs of before them have 0. */
const PARTS = ["keepUp", "strain", "headsReturn", "feedback", "lookAhead", "leaveWhenEnough"] as const;

export function encodeWindow(window: LiveWindow, into: Float64Array, offset: number): void {
  into[offset] = OPENS.indexOf(window.opens);
  into[offset + 1] = window.timeoutUs;
  into[offset + 2] = DROPS.indexOf(window.drop);
  into[offset + 3] = window.target ?? 0;
  into[offset + 4] = window.rateWindowUs;
  into[offset + 5] = window.slackUs;
  into[offset + 6] = window.idleDispatch ? 1 : 0;
  // 0: none of deferred+; else 1 and a bit per part.
  const { plus } = window;
  into[offset + 7] = plus === null ? 0 : PARTS.reduce((bits, part, at) => bits + (plus[part] ? 2 << at : 0), 1);
  into[offset + 8] = window.isolation ? 1 : 0;
}

export function decodeWindow(from: Float64Array, offset: number): LiveWindow {
  const opens = OPENS[from[offset]!];
  const drop = DROPS[from[offset + 2]!];
  invariant(
    opens !== undefined && drop !== undefined,
    `unknown window rule ${from[offset]} or drop rule ${from[offset + 2]}`,
  );
  const target = from[offset + 3]!;
  return {
    opens,
    timeoutUs: from[offset + 1]!,
    drop,
    target: target === 0 ? null : target,
    rateWindowUs: from[offset + 4]!,
    slackUs: from[offset + 5]!,
    idleDispatch: from[offset + 6] === 1,
    // Not there in a log of before there was any.
    isolation: from[offset + 8] === 1,
    plus: decodeParts(from[offset + 7]),
  };
}

/** @param bits undefined in a log of before there was deferred+. */
function decodeParts(bits: number | undefined): LiveWindow["plus"] {
  if (bits === undefined || bits === 0) return null;
  const has = (at: number): boolean => (bits & (2 << at)) !== 0;
  return {
    keepUp: has(0),
    strain: has(1),
    headsReturn: has(2),
    feedback: has(3),
    lookAhead: has(4),
    leaveWhenEnough: has(5),
  };
}
