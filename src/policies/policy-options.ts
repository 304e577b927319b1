/** Options of the policies, as configuration names them; each has the default of its paper or system. */
export interface DeferredOptions {
  /** Dispatch at once while nothing presses. Simulations: false (the paper's rule); the live server: true. */
  readonly idle_dispatch?: boolean;
  /** Other models of the group leave an accelerator within reach of this one's SLO. Simulations: false; the live server: true. */
  readonly isolation?: boolean;
  /** Drop heads to keep the target batch size. Default true. */
  readonly head_drop?: boolean;
  /** A fixed target batch size; default "auto": from the measured rate. */
  readonly target?: number | "auto";
  /** Window of the rate estimate, seconds. Default 5. */
  readonly rate_window_s?: number;
  /** The window opens and closes this much early, µs. Default 0. */
  readonly timer_slack_us?: number;
}

/** See docs/decisions/004-deferred-plus.md. */
export interface DeferredPlusOptions {
  /** As of `deferred`. Default false. */
  readonly idle_dispatch?: boolean;
  /** As of `deferred`. Default false. */
  readonly isolation?: boolean;
  /** keep-up (default): the smallest batch at which all models keep up; auto: as `deferred`; or fixed. */
  readonly target?: number | "auto" | "keep-up";
  /** Protect a larger batch while much work is left on accelerators, a smaller one while little is. Default false. */
  readonly drop_by_strain?: boolean;
  /** Heads that keep a batch small are given up when it leaves, not before: until then they may return. Default false. */
  readonly heads_return?: boolean;
  /** Give up more heads where a projection of the next launches then loses fewer requests in all; a model that is alone. Default true. */
  readonly look_ahead?: boolean;
  /** With few accelerators: a batch large enough leaves as soon as one idles. Default true. */
  readonly leave_when_enough?: boolean;
  /** How much before its window a batch may leave, or compete for an accelerator, in its execution time over the number of accelerators. Default 0.5. */
  readonly early?: number;
  /** The same for each idle accelerator beyond the first, over the root of their number. Default 2. */
  readonly early_per_idle?: number;
  /** The last idle accelerator: earlier by this part of how much sooner than usual the next one comes free, or later. Default 0.8. */
  readonly early_by_gap?: number;
  /** Multiply early_per_idle by the measured dispersion of arrivals. Default true. */
  readonly burst_aware?: boolean;
  /** Models that lose more of their requests than others go before them. Default true. */
  readonly feedback?: boolean;
  /** The fastest idle accelerator first, the lowest id among equals. Default true. */
  readonly fastest_first?: boolean;
  /** Window of the rate estimate, seconds. Default 2. */
  readonly rate_window_s?: number;
  /** The window opens and closes this much early, µs. Default 0. */
  readonly timer_slack_us?: number;
}

export interface EagerOptions extends Omit<DeferredOptions, "idle_dispatch" | "head_drop"> {
  /** window: drop heads to keep the target size; infeasible: who cannot finish even alone (default); expired: whose deadline passed. */
  readonly drop?: "window" | "infeasible" | "expired";
}

export interface TimeoutOptions extends EagerOptions {
  /** How long the earliest request of a batch waits, ms; or as a share of the SLO. Exactly one. */
  readonly timeout_ms?: number;
  readonly timeout_fraction?: number;
}

/** Clockwork's INFER5 scheduler; defaults are its constants. Equal care: all four times 0. */
export interface ClockworkOptions {
  /** An accelerator is given work while its plan ends less than this ahead, ms. Default 10. */
  readonly schedule_ahead_ms?: number;
  /** Taken off every deadline, ms. Default 5. */
  readonly slo_margin_ms?: number;
  /** A batch whose turn comes this much after its planned start, ms, is refused. Default 10; 0: never. */
  readonly action_window_ms?: number;
  /** Plans start no sooner than this after the decision, ms. Default 1. */
  readonly control_delay_ms?: number;
  /** Ascending, from 1. Default: any size (Clockwork: 1, 2, 4, 8, 16). */
  readonly batch_sizes?: readonly number[];
  /** Which accelerator is given work first. Default earliest-free. */
  readonly first?: "lowest-id" | "earliest-free";
}

/** Nexus: frontends, an epoch planner, backends that drop by a sliding window. */
export interface NexusOptions {
  /** static (default): every model on every accelerator; epochs: planned from measured rates. */
  readonly plan?: "epochs" | "static";
  /** Batch of the static plan and of models whose rate is not known yet. Default "auto": the largest within half the SLO. */
  readonly static_batch?: number | "auto";
  /** Default 10 (Symphony's setting; Nexus 30). */
  readonly epoch_s?: number;
  /** Least time between epochs when rates leave their plan. Default 10. */
  readonly epoch_min_s?: number;
  /** Default 1: profiles are exact (Nexus plans with 1.15). */
  readonly profile_multiplier?: number;
  readonly rate_margin?: number;
  /** Taken off the SLO in plans, ms. Default 2. */
  readonly network_allowance_ms?: number;
  /** Default 1. */
  readonly frontends?: number;
  /** window (default): heads that cannot finish in a batch of the planned size; earliest: heads that cannot finish alone. */
  readonly drop?: "window" | "earliest";
}

/** Shepherd Flex, as Symphony's authors re-implemented it. */
export interface ShepherdOptions {
  /** A running batch gives way to a candidate this many times its size. Default 3.03. */
  readonly preemption_factor?: number;
  /** Default true. */
  readonly preemption?: boolean;
  /** earliest (default): as many as the earliest deadline allows; latest: as many as the latest allow, the rest dropped. */
  readonly size_from?: "earliest" | "latest";
  /** head (default): whoever can no longer finish alone; newest: nobody until the newest cannot, as published. */
  readonly drop?: "head" | "newest";
}

/** TensorFlow Serving's names and defaults (BatchingParameters). */
export interface TensorflowOptions {
  /** Default: the last allowed size, else 1000. Never above the largest batch of the model. */
  readonly max_batch_size?: number;
  /** How long the open batch waits after its first request, µs. Default 0: for no one. */
  readonly batch_timeout_micros?: number;
  /** Batches of a model that wait, the open one counted; a request that needs one more is dropped as queue-full. Default 10. */
  readonly max_enqueued_batches?: number;
  /** Increasing; a batch costs what the next of them costs. Default: every size. */
  readonly allowed_batch_sizes?: readonly number[];
}

/** Triton's names and defaults (ModelDynamicBatching, ModelQueuePolicy). */
export interface TritonOptions {
  /** Sizes that are sent without waiting for more. Default: the largest batch of the model. */
  readonly preferred_batch_size?: readonly number[];
  /** How long the oldest request of a batch waits for others, µs. Default 0. */
  readonly max_queue_delay_microseconds?: number;
  /** Waiting requests beyond which one more is dropped as queue-full. Default 0: no limit of its own. */
  readonly max_queue_size?: number;
  /** How long a request may wait, µs. Default 0: for ever. */
  readonly default_timeout_microseconds?: number;
  /** What happens then: dropped as expired (default), or moved behind those whose time has not passed. */
  readonly timeout_action?: "REJECT" | "DELAY";
}
