/**
 * The live server's policy: models of one accelerator group share one arbiter, and each queue brings its own rules
 * (auto, deferred, deferred+, eager or timeout; with or without an SLO) as plain numbers, so that they fit a ring record and an
 * event log.
 */
import { invariant } from "../core/invariant.js";
import type { Policy, QueueSpec, SeparablePolicy } from "../core/policy.js";
import { deferredPolicy } from "./deferred/deferred.js";
import { autoPolicy, deferredPlusPolicy, PLUS_ARBITER } from "./deferred/deferred-plus.js";
import { eagerPolicy } from "./deferred/eager.js";
import { timeoutPolicy } from "./deferred/timeout.js";
import { sharedWindowPolicy, type WindowDescriptor } from "./deferred/window-policy.js";
import type { WindowRules } from "./deferred/window-queue.js";
import { decodeElastic } from "./known-elastic.js";
import { decodeKinds } from "./known-kinds.js";

/** Policies that queues of one group may mix. */
const MIXED = [
  autoPolicy,
  deferredPolicy,
  deferredPlusPolicy,
  eagerPolicy,
  timeoutPolicy,
] as unknown as readonly WindowDescriptor[];
export const LIVE_POLICIES = MIXED.map(({ name }) => name) as [string, ...string[]];
/** What a model with an SLO gets that names none. */
export const LIVE_DEFAULT = autoPolicy.name;
/** Those that nothing can be planned by without an SLO. */
export const NEED_SLO: readonly string[] = [autoPolicy, deferredPolicy, deferredPlusPolicy].map(({ name }) => name);

export interface LiveQueueSpec extends QueueSpec {
  readonly window: WindowRules;
}

/** A queue's rules, from the numbers that follow it in rows of events. */
export function liveSpec(spec: QueueSpec, numbers: Float64Array): LiveQueueSpec {
  const { rest, elastic } = decodeElastic(numbers.subarray(WINDOW_NUMBERS));
  return {
    ...spec,
    window: decodeWindow(numbers, 0),
    ...decodeKinds(rest),
    ...(elastic === undefined ? {} : { elastic }),
  };
}

/** Every queue added must be a LiveQueueSpec. */
export function livePolicy(): Policy {
  return live((spec, key) => {
    invariant("window" in spec, `queue ${key} of the live policy must bring window rules`);
    return (spec as LiveQueueSpec).window;
  });
}

/** The same for queues and arbiter in threads of their own: each queue's rules come as numbers (`encodeWindow`). */
export function separableLivePolicy(): SeparablePolicy {
  return live((spec, key) => {
    invariant(spec.rules !== undefined, `queue ${key} of the live policy must bring window rules`);
    return decodeWindow(spec.rules, 0);
  });
}

/** Queues say each whether they may leave idle, or before their window. */
const live = (rulesOf: (spec: QueueSpec, key: number) => WindowRules): SeparablePolicy =>
  sharedWindowPolicy(LIVE_ON_THREADS, rulesOf, true, PLUS_ARBITER);

/** Name by which threads create it. */
export const LIVE_ON_THREADS = "live";

/** Options that a model's own stand over: dispatch at once while nothing presses (design, "When nothing presses"). */
export interface LiveDefaults {
  readonly idle_dispatch: boolean;
  readonly rate_window_s: number;
  /** A thread's timer fires up to 0.1 ms late. */
  readonly timer_slack_us: number;
  /** No model's batches keep every accelerator from another whose SLO is shorter; see Reserve. */
  readonly isolation: boolean;
}

export const LIVE_DEFAULTS: LiveDefaults = {
  idle_dispatch: true,
  rate_window_s: 1,
  timer_slack_us: 100,
  isolation: true,
};

/**
 * Rules of one model's queues.
 *
 * Without an SLO there is no promise to plan with: served as eager, and given up only when the deadline (its timeout)
 * has passed, not when a profile says that it will.
 */
export function liveWindow(
  policy: string,
  options: Readonly<Record<string, unknown>>,
  sloUs: number | null,
  defaults: LiveDefaults,
): WindowRules {
  const of = sloUs === null && NEED_SLO.includes(policy) ? eagerPolicy.name : policy;
  const descriptor = MIXED.find(({ name }) => name === of);
  invariant(descriptor !== undefined, `live policy must be one of ${LIVE_POLICIES.join(", ")}; was ${policy}`);
  const known = Object.entries({ ...defaults, ...(sloUs === null ? { drop: "expired" } : {}), ...options });
  const given = Object.fromEntries(known.filter(([key]) => key in descriptor.options));
  const rules = descriptor.rulesOf(given as Parameters<WindowDescriptor["rulesOf"]>[0], sloUs ?? 0);
  // Of every policy, live: without it one model can starve another.
  return { ...rules, isolation: (options.isolation as boolean | undefined) ?? defaults.isolation };
}

const OPENS = ["frontrun", "eager", "timeout"] as const;
const DROPS = ["window", "infeasible", "expired"] as const;
/** Bits of the last number. */
const ISOLATION = 1;
const ADAPTS_TOKENS = 2;
const LEARNS_ACCURACY = 4;
/** Numbers that `encodeWindow` writes. */
export const WINDOW_NUMBERS = 9;

/** In the order of their bits: new ones go last, where logs of before them have 0; null: of a part that is no more. */
const PARTS = [
  "keepUp",
  null,
  null,
  "feedback",
  "lookAhead",
  "leaveWhenEnough",
  "usableCapacity",
  "marginalEarly",
  null,
  "feedbackPastTarget",
  "rehearse",
  "byApp",
  "handOn",
  "backlogTarget",
] as const;

export function encodeWindow(window: WindowRules, into: Float64Array, offset: number): void {
  into[offset] = OPENS.indexOf(window.opens);
  into[offset + 1] = window.timeoutUs;
  into[offset + 2] = DROPS.indexOf(window.drop);
  into[offset + 3] = window.target ?? 0;
  into[offset + 4] = window.rateWindowUs;
  into[offset + 5] = window.slackUs;
  into[offset + 6] = window.idleDispatch ? 1 : 0;
  // 0: none of deferred+; else 1 and a bit per part.
  const { plus } = window;
  into[offset + 7] =
    plus === null ? 0 : PARTS.reduce((bits, part, at) => bits + (part !== null && plus[part] ? 2 << at : 0), 1);
  into[offset + 8] =
    (window.isolation ? ISOLATION : 0) +
    (window.adaptsTokens ? ADAPTS_TOKENS : 0) +
    (window.learnsAccuracy ? LEARNS_ACCURACY : 0);
}

export function decodeWindow(from: Float64Array, offset: number): WindowRules {
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
    isolation: (from[offset + 8]! & ISOLATION) !== 0,
    ...((from[offset + 8]! & ADAPTS_TOKENS) === 0 ? {} : { adaptsTokens: true }),
    ...((from[offset + 8]! & LEARNS_ACCURACY) === 0 ? {} : { learnsAccuracy: true }),
    plus: decodeParts(from[offset + 7]),
  };
}

/** @param bits undefined in a log of before there was deferred+. */
function decodeParts(bits: number | undefined): WindowRules["plus"] {
  if (bits === undefined || bits === 0) return null;
  const has = (part: NonNullable<(typeof PARTS)[number]>): boolean => (bits & (2 << PARTS.indexOf(part))) !== 0;
  return {
    keepUp: has("keepUp"),
    feedback: has("feedback"),
    feedbackPastTarget: has("feedbackPastTarget"),
    lookAhead: has("lookAhead"),
    leaveWhenEnough: has("leaveWhenEnough"),
    usableCapacity: has("usableCapacity"),
    marginalEarly: has("marginalEarly"),
    rehearse: has("rehearse"),
    byApp: has("byApp"),
    handOn: has("handOn"),
    backlogTarget: has("backlogTarget"),
  };
}
