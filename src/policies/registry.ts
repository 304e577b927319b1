import { invariant } from "../core/invariant.js";
import type { ArbiterView, CoreView, Policy, QueueKey, QueueSpec, QueueView, SeparablePolicy } from "../core/policy.js";
import { ClockworkArbiter } from "./baselines/clockwork-arbiter.js";
import { ClockworkQueue } from "./baselines/clockwork-queue.js";
import { NexusArbiter } from "./baselines/nexus-arbiter.js";
import { NexusPlanner } from "./baselines/nexus-planner.js";
import { NexusQueue } from "./baselines/nexus-queue.js";
import { PullArbiter } from "./baselines/pull-arbiter.js";
import { ShepherdArbiter } from "./baselines/shepherd-arbiter.js";
import { ShepherdQueue } from "./baselines/shepherd-queue.js";
import { TensorflowQueue } from "./baselines/tensorflow-queue.js";
import { TritonQueue } from "./baselines/triton-queue.js";
import { plusParts } from "./deferred/queue-plus.js";
import { PLUS_EARLY, PLUS_EARLY_BY_GAP, PLUS_EARLY_PER_IDLE, RankArbiter } from "./deferred/rank-arbiter.js";
import { SharedLoad } from "./deferred/shared-load.js";
import { WindowQueue, type WindowQueueOptions } from "./deferred/window-queue.js";
import { LIVE_ON_THREADS, separableLivePolicy } from "./live.js";
import type {
  ClockworkOptions,
  DeferredOptions,
  DeferredPlusOptions,
  EagerOptions,
  NexusOptions,
  ShepherdOptions,
  TensorflowOptions,
  TimeoutOptions,
  TritonOptions,
} from "./policy-options.js";

const RATE_WINDOW_S = 5;
const PLUS_RATE_WINDOW_S = 2;
/** Batches that an accelerator may hold, far above what 10 ms of plan hold unless it hangs. */
const CLOCKWORK_DEPTH = 64;
const NEXUS_EPOCH_S = 10;
const NEXUS_ALLOWANCE_MS = 2;
const NEXUS_RATE_MARGIN = 1.15;
const SHEPHERD_PREEMPTION_FACTOR = 3.03;
const TF_MAX_BATCH_SIZE = 1000;
const TF_MAX_ENQUEUED_BATCHES = 10;

function windowPolicy(
  name: string,
  idleDispatch: boolean,
  optionsFor: (spec: QueueSpec) => WindowQueueOptions,
): SeparablePolicy {
  return {
    name,
    createQueue: (key: QueueKey, spec: QueueSpec, core: QueueView) =>
      new WindowQueue(key, spec, core, optionsFor(spec)),
    createArbiter: (core: ArbiterView) => new RankArbiter(core, { idleDispatch }),
  };
}

function shared(
  options: DeferredOptions | EagerOptions,
): Pick<WindowQueueOptions, "target" | "rateWindowUs" | "slackUs" | "isolation"> {
  return {
    target: typeof options.target === "number" ? options.target : null,
    rateWindowUs: (options.rate_window_s ?? RATE_WINDOW_S) * 1e6,
    slackUs: options.timer_slack_us ?? 0,
    isolation: options.isolation ?? false,
  };
}

/** Symphony: Algorithm 1 and Appendix D. */
export function deferred(options: DeferredOptions = {}): SeparablePolicy {
  const idleDispatch = options.idle_dispatch ?? false;
  return windowPolicy("deferred", idleDispatch, () => ({
    opens: "frontrun",
    timeoutUs: 0,
    drop: (options.head_drop ?? true) ? "window" : "infeasible",
    idleDispatch,
    ...shared(options),
  }));
}

/**
 * Past Symphony's paper: `deferred` with a target that keeps up and no more, windows that open early while accelerators
 * idle, and feedback between models (docs/decisions/004-deferred-plus.md). Each part can be switched off alone.
 */
export function deferredPlus(options: DeferredPlusOptions = {}): Policy {
  const idleDispatch = options.idle_dispatch ?? false;
  const loads = new WeakMap<CoreView, SharedLoad>();
  const loadOf = (core: CoreView): SharedLoad => {
    const load = loads.get(core) ?? new SharedLoad(core.accelerators);
    loads.set(core, load);
    return load;
  };
  return {
    name: "deferred+",
    createQueue: (key, spec, core) =>
      new WindowQueue(key, spec, core, {
        opens: "frontrun",
        timeoutUs: 0,
        drop: "window",
        idleDispatch,
        target: typeof options.target === "number" ? options.target : null,
        rateWindowUs: (options.rate_window_s ?? PLUS_RATE_WINDOW_S) * 1e6,
        slackUs: options.timer_slack_us ?? 0,
        isolation: options.isolation ?? false,
        plus: { load: loadOf(core), ...plusParts(options) },
      }),
    createArbiter: (core) =>
      new RankArbiter(core, {
        idleDispatch,
        plus: {
          load: loadOf(core),
          early: options.early ?? PLUS_EARLY,
          earlyPerIdle: options.early_per_idle ?? PLUS_EARLY_PER_IDLE,
          earlyByGap: options.early_by_gap ?? PLUS_EARLY_BY_GAP,
          burstAware: options.burst_aware ?? true,
          fastestFirst: options.fastest_first ?? true,
        },
      }),
  };
}

/** A batch leaves as soon as an accelerator is free (Symphony §3.4 with k = 0). */
export function eager(options: EagerOptions = {}): SeparablePolicy {
  return windowPolicy("eager", false, () => ({
    opens: "eager",
    timeoutUs: 0,
    drop: options.drop ?? "infeasible",
    idleDispatch: false,
    ...shared(options),
  }));
}

/** A batch leaves when its earliest request has waited a fixed time (Symphony §3.4: exec = max(now, a + k)). */
export function timeout(options: TimeoutOptions): SeparablePolicy {
  return windowPolicy("timeout", false, (spec) => ({
    opens: "timeout",
    timeoutUs:
      options.timeout_ms !== undefined
        ? Math.round(options.timeout_ms * 1000)
        : Math.round((options.timeout_fraction ?? 0) * spec.sloUs),
    drop: options.drop ?? "infeasible",
    idleDispatch: false,
    ...shared(options),
  }));
}

/** TensorFlow Serving's shared batch scheduler; its threads are the accelerators. */
export function tfserving(options: TensorflowOptions = {}): Policy {
  const allowed = options.allowed_batch_sizes ?? null;
  const queueOptions = {
    maxBatchSize: options.max_batch_size ?? allowed?.at(-1) ?? TF_MAX_BATCH_SIZE,
    batchTimeoutUs: options.batch_timeout_micros ?? 0,
    maxEnqueuedBatches: options.max_enqueued_batches ?? TF_MAX_ENQUEUED_BATCHES,
    allowedBatchSizes: allowed,
  };
  return {
    name: "tfserving",
    createQueue: (key, spec, core) => new TensorflowQueue(key, spec, core, queueOptions),
    createArbiter: (core) => new PullArbiter(core, { turn: "round-robin" }),
  };
}

/** Triton's dynamic batcher; each accelerator holds an instance of every model and runs one batch at a time. */
export function triton(options: TritonOptions = {}): Policy {
  const queueOptions = {
    preferredBatchSizes: options.preferred_batch_size ?? null,
    maxQueueDelayUs: options.max_queue_delay_microseconds ?? 0,
    maxQueueSize: options.max_queue_size ?? 0,
    defaultTimeoutUs: options.default_timeout_microseconds ?? 0,
    timeoutAction: options.timeout_action ?? "REJECT",
  };
  return {
    name: "triton",
    createQueue: (key, spec, core) => new TritonQueue(key, spec, core, queueOptions),
    createArbiter: (core) => new PullArbiter(core, { turn: "rank" }),
  };
}

/** Clockwork's simpler scheduler (INFER5): accelerators are given work ahead, most urgent model first. */
export function clockwork(options: ClockworkOptions = {}): Policy {
  const us = (ms: number | undefined, otherwiseMs: number) => Math.round((ms ?? otherwiseMs) * 1000);
  const scheduleAheadUs = us(options.schedule_ahead_ms, 10);
  const windowUs = us(options.action_window_ms, 10);
  const queueOptions = {
    batchSizes: options.batch_sizes ?? null,
    scheduleAheadUs,
    marginUs: us(options.slo_margin_ms, 5),
    actionWindowUs: windowUs === 0 ? Number.POSITIVE_INFINITY : windowUs,
    controlDelayUs: us(options.control_delay_ms, 1),
  };
  const arbiterOptions = { scheduleAheadUs, depth: CLOCKWORK_DEPTH, first: options.first ?? "earliest-free" };
  return {
    name: "clockwork",
    depth: CLOCKWORK_DEPTH,
    createQueue: (key, spec, core) => new ClockworkQueue(key, spec, core, queueOptions),
    createArbiter: (core) => new ClockworkArbiter(core, arbiterOptions),
  };
}

/** Nexus: requests are sent to accelerators as they arrive, by a plan that is made anew each epoch. */
export function nexus(options: NexusOptions = {}): Policy {
  const plannerOptions = {
    plan: options.plan ?? "epochs",
    staticBatch: typeof options.static_batch === "number" ? options.static_batch : null,
    epochUs: (options.epoch_s ?? NEXUS_EPOCH_S) * 1e6,
    epochMinUs: (options.epoch_min_s ?? NEXUS_EPOCH_S) * 1e6,
    profileMultiplier: options.profile_multiplier ?? 1,
    rateMargin: options.rate_margin ?? NEXUS_RATE_MARGIN,
    allowanceUs: Math.round((options.network_allowance_ms ?? NEXUS_ALLOWANCE_MS) * 1000),
  };
  const queueOptions = { frontends: options.frontends ?? 1, drop: options.drop ?? "window" };
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
    createArbiter: (core) => new NexusArbiter(core, plannerOf(core)),
  };
}

/** Shepherd's Flex: the largest batch that can be run at once, running ones preempted. */
export function shepherd(options: ShepherdOptions = {}): Policy {
  const preemptionFactor =
    (options.preemption ?? true) ? (options.preemption_factor ?? SHEPHERD_PREEMPTION_FACTOR) : Number.POSITIVE_INFINITY;
  const queueOptions = { sizeFrom: options.size_from ?? "earliest", drop: options.drop ?? "head" };
  return {
    name: "shepherd",
    createQueue: (key, spec, core) => new ShepherdQueue(key, spec, core, queueOptions),
    createArbiter: (core) => new ShepherdArbiter(core, { preemptionFactor }),
  };
}

/** Policies that can run on many threads. */
const SEPARABLE: Readonly<Record<string, (options: never) => SeparablePolicy>> = { deferred, eager, timeout };

/** Every policy by its configured name. Options have been checked against the schema of the policy. */
const POLICIES: Readonly<Record<string, (options: never) => Policy>> = {
  ...SEPARABLE,
  "deferred+": deferredPlus,
  tfserving,
  triton,
  clockwork,
  nexus,
  shepherd,
};

export const POLICY_NAMES: readonly string[] = Object.keys(POLICIES);

export function createPolicy(name: string, options: Readonly<Record<string, unknown>>): Policy {
  const create = POLICIES[name];
  invariant(create !== undefined, `policy must be one of ${POLICY_NAMES.join(", ")}; was ${name}`);
  return create(options as never);
}

/**
 * @param name of a policy that can run on many threads, or LIVE_ON_THREADS: the live server's, whose queues bring their own rules.
 * @throws InvariantViolation when queues and arbiter of the policy must share one thread.
 */
export function createSeparablePolicy(name: string, options: Readonly<Record<string, unknown>>): SeparablePolicy {
  if (name === LIVE_ON_THREADS) return separableLivePolicy();
  const create = SEPARABLE[name];
  invariant(
    create !== undefined,
    `policy on many threads must be one of ${Object.keys(SEPARABLE).join(", ")}; was ${name}`,
  );
  return create(options as never);
}
