/** What each policy may be told. The table is the one place that knows which policies a scenario can name. */
import { z } from "zod";
import { type FieldPath, nearest } from "./config-error.js";
import { IssueList, sourceOf } from "./source.js";
import { validateAt } from "./validate.js";

const rateWindow = z
  .number()
  .min(0.05)
  .max(3600)
  .default(5)
  .describe("Seconds over which the arrival rate of a model is averaged to choose the target batch.");

const target = z
  .union([z.literal("auto"), z.int().min(1).max(1024)])
  .default("auto")
  .describe("Batch size that head dropping protects: `auto` follows the measured rate, a number fixes it.");

/** Largest batch that an option may name. */
const BATCH_SIZE_MAX = 65_536;
/** An hour. */
const TIMEOUT_US_MAX = 3_600_000_000;

const isolation = z
  .boolean()
  .default(false)
  .describe(
    "While this model is active, no other model's batch begins that would leave it without an accelerator within half of " +
      "its slack; and what is light does not wait for larger batches. The live server's own default is true.",
  );

export const policyOptionSchemas = {
  deferred: z
    .strictObject({
      idle_dispatch: z
        .boolean()
        .default(false)
        .describe(
          "Dispatch at once while idle accelerators exceed what the present rate needs. false is the paper's rule; " +
            "the live server's own default is true.",
        ),
      isolation,
      head_drop: z
        .boolean()
        .default(true)
        .describe("Drop the earliest requests where serving them would keep the batch below its target size."),
      rate_window_s: rateWindow,
      target,
      timer_slack_us: z
        .number()
        .min(0)
        .max(1_000_000)
        .default(0)
        .describe("Microseconds by which the schedulable window opens and closes early, for timers that fire late."),
    })
    .describe("Symphony's deferred batch scheduling (Algorithm 1): a batch leaves when it can grow no more."),
  "deferred+": z
    .strictObject({
      idle_dispatch: z
        .boolean()
        .default(false)
        .describe(
          "Dispatch at once while idle accelerators exceed what the present rate needs; the live server's own default is true.",
        ),
      isolation,
      target: z
        .union([z.literal("keep-up"), z.literal("auto"), z.int().min(1).max(BATCH_SIZE_MAX)])
        .default("keep-up")
        .describe(
          "Batch size that head dropping protects: `keep-up` the smallest at which all models together keep up with " +
            "their arrivals, `auto` the largest that staggered execution sustains (as for deferred), a number fixes it.",
        ),
      drop_by_strain: z
        .boolean()
        .default(false)
        .describe(
          "Protect a larger batch while much work is left on the accelerators, a smaller one while little is left.",
        ),
      heads_return: z
        .boolean()
        .default(false)
        .describe(
          "Heads that keep a batch below its target are set aside and given up only when a batch leaves without them; until " +
            "then they may return. false: given up at once, as deferred does.",
        ),
      look_ahead: z
        .boolean()
        .default(true)
        .describe(
          "A batch that cannot hold all gives up more heads where a projection of the next launches then loses fewer requests " +
            "in all. Only for a model alone on its accelerators, up to 64 of them.",
        ),
      leave_when_enough: z
        .boolean()
        .default(true)
        .describe(
          "A batch leaves as soon as an accelerator idles once it is so large that waiting for one more request costs more " +
            "accelerator time than it saves: at once with one accelerator, hardly ever with more than six.",
        ),
      early: z
        .number()
        .min(0)
        .max(1000)
        .default(0.5)
        .describe(
          "How much before its window a batch may leave when an accelerator idles, and compete for one that comes free, " +
            "in its execution time divided by the number of accelerators. 0: not at all.",
        ),
      early_per_idle: z
        .number()
        .min(0)
        .max(1000)
        .default(2)
        .describe(
          "The same for each idle accelerator beyond the first, divided by the root of the number of accelerators. 0: none.",
        ),
      early_by_gap: z
        .number()
        .min(0)
        .max(10)
        .default(0.8)
        .describe(
          "With one idle accelerator: earlier by this part of how much sooner the next one comes free than in even turns, or " +
            "later where it comes free later. 0: not at all.",
        ),
      burst_aware: z
        .boolean()
        .default(true)
        .describe(
          "Multiply early_per_idle by the dispersion of arrivals (variance over mean, 1 for Poisson): after a burst nobody " +
            "comes for whom waiting would be worth while.",
        ),
      feedback: z
        .boolean()
        .default(true)
        .describe(
          "Models that lose a larger part of their requests than others open earlier and go first, until all lose the same.",
        ),
      fastest_first: z
        .boolean()
        .default(true)
        .describe("Take the fastest idle accelerator, the lowest id among equals; false: the lowest id."),
      rate_window_s: rateWindow.default(2),
      timer_slack_us: z
        .number()
        .min(0)
        .max(1_000_000)
        .default(0)
        .describe("Microseconds by which the schedulable window opens and closes early, for timers that fire late."),
    })
    .describe(
      "Deferred scheduling past the paper: a target that keeps up and no more, early windows while accelerators idle, " +
        "feedback between models. Served live, too, but not with scheduler.threads.",
    ),
  eager: z
    .strictObject({
      drop: z
        .enum(["infeasible", "window", "expired"])
        .default("infeasible")
        .describe(
          "Which requests are given up: `infeasible` those that cannot finish even alone, `window` also those that " +
            "keep the batch below its target size, `expired` only those whose deadline has passed.",
        ),
      rate_window_s: rateWindow,
      target,
    })
    .describe("A batch leaves as soon as an accelerator is free."),
  timeout: z
    .strictObject({
      timeout_ms: z
        .number()
        .min(0)
        .max(3_600_000)
        .optional()
        .describe("Milliseconds that the oldest request waits for others. Excludes timeout_fraction."),
      timeout_fraction: z
        .number()
        .min(0)
        .max(1)
        .optional()
        .describe(
          "The same wait as a fraction of each model's SLO. Excludes timeout_ms; 0.3 when neither is given. " +
            "0 is the eager policy.",
        ),
      drop: z
        .enum(["infeasible", "window", "expired"])
        .default("infeasible")
        .describe("Which requests are given up, as for the eager policy."),
      rate_window_s: rateWindow,
      target,
    })
    .describe("A batch leaves when it is full or its oldest request has waited the timeout."),
  tfserving: z
    .strictObject({
      max_batch_size: z
        .int()
        .min(1)
        .max(BATCH_SIZE_MAX)
        .optional()
        .describe(
          "Largest batch; the last of allowed_batch_sizes when that is given, else 1000 when absent. A model's own " +
            "largest batch bounds it.",
        ),
      batch_timeout_micros: z
        .int()
        .min(0)
        .max(TIMEOUT_US_MAX)
        .default(0)
        .describe(
          "Microseconds that the open batch of a model waits, from its first request on. 0: a free accelerator takes " +
            "whatever is there.",
        ),
      max_enqueued_batches: z
        .int()
        .min(1)
        .max(100_000)
        .default(10)
        .describe(
          "Batches of a model that may wait, the open one counted. A request that needs one more is dropped as " +
            "queue-full.",
        ),
      allowed_batch_sizes: z
        .array(z.int().min(1).max(BATCH_SIZE_MAX))
        .min(1)
        .max(64)
        .optional()
        .describe(
          "Sizes that are executed, increasing, the last equal to max_batch_size: a batch costs what the next of them " +
            "costs. Sizes above a model's largest batch are left out for that model.",
        ),
    })
    .describe(
      "TensorFlow Serving's batching: arrival order, models in turn, nothing looks at deadlines. num_batch_threads is " +
        "the number of accelerators.",
    ),
  triton: z
    .strictObject({
      preferred_batch_size: z
        .array(z.int().min(1).max(BATCH_SIZE_MAX))
        .min(1)
        .max(64)
        .optional()
        .describe("Batch sizes that are sent without waiting for more; the model's largest batch when absent."),
      max_queue_delay_microseconds: z
        .int()
        .min(0)
        .max(TIMEOUT_US_MAX)
        .default(0)
        .describe("Microseconds that the oldest request of a batch waits for others. 0: for none."),
      max_queue_size: z
        .int()
        .min(0)
        .max(10_000_000)
        .default(0)
        .describe(
          "Waiting requests of a model beyond which one more is dropped as queue-full. 0: no limit of its own.",
        ),
      default_timeout_microseconds: z
        .int()
        .min(0)
        .max(TIMEOUT_US_MAX)
        .default(0)
        .describe("Microseconds that a request may wait before timeout_action. 0: for ever."),
      timeout_action: z
        .enum(["REJECT", "DELAY"])
        .default("REJECT")
        .describe(
          "`REJECT` drops a request whose timeout passed as expired; `DELAY` serves it after all whose timeout has not.",
        ),
    })
    .describe(
      "Triton's dynamic batcher: arrival order, preferred sizes, a delay counted from the oldest request, and the queue " +
        "policy.",
    ),
  clockwork: z
    .strictObject({
      schedule_ahead_ms: z
        .number()
        .min(0)
        .max(10_000)
        .default(10)
        .describe(
          "An accelerator is given work while its plan ends less than this many milliseconds ahead. 0: only when it " +
            "holds nothing.",
        ),
      slo_margin_ms: z
        .number()
        .min(0)
        .max(10_000)
        .default(5)
        .describe(
          "Milliseconds taken off every deadline. No deadline is planned for that is less than this and " +
            "schedule_ahead_ms together after the arrival.",
        ),
      action_window_ms: z
        .number()
        .min(0)
        .max(10_000)
        .default(10)
        .describe(
          "A batch whose turn comes more than this many milliseconds after its planned start is refused by the " +
            "accelerator. 0: never.",
        ),
      control_delay_ms: z
        .number()
        .min(0)
        .max(10_000)
        .default(1)
        .describe("Plans start a batch no sooner than this many milliseconds after the decision."),
      batch_sizes: z
        .array(z.int().min(1).max(BATCH_SIZE_MAX))
        .min(1)
        .max(64)
        .optional()
        .describe(
          "Sizes that batches may have, increasing, the first 1; Clockwork's own are 1, 2, 4, 8, 16. Default: any.",
        ),
      first: z
        .enum(["lowest-id", "earliest-free"])
        .default("earliest-free")
        .describe(
          "Which accelerator is given work first: `lowest-id` the first whose plan is not full, `earliest-free` the one " +
            "whose plan ends first.",
        ),
    })
    .describe(
      "Clockwork's INFER5 scheduler with arbitrary batch sizes; defaults are its own constants. Without them: the four " +
        "times 0.",
    ),
  nexus: z
    .strictObject({
      plan: z
        .enum(["epochs", "static"])
        .default("epochs")
        .describe(
          "`static` puts every model on every accelerator; `epochs` decides from measured rates which accelerators serve " +
            "which models and in which batches.",
        ),
      static_batch: z
        .union([z.literal("auto"), z.int().min(1).max(BATCH_SIZE_MAX)])
        .default("auto")
        .describe(
          "Planned batch of the static plan, and of models whose rate is not known yet; `auto` is the largest whose time " +
            "is within half the SLO.",
        ),
      epoch_s: z
        .number()
        .min(1)
        .max(86_400)
        .default(10)
        .describe("Seconds between plans; Symphony's comparison has 10, Nexus itself 30."),
      epoch_min_s: z
        .number()
        .min(1)
        .max(86_400)
        .default(10)
        .describe("Least seconds between plans when a rate leaves 0.8 to 1.1 times what is planned for it."),
      profile_multiplier: z
        .number()
        .min(1)
        .max(10)
        .default(1)
        .describe(
          "Times of batches are planned this many times as long. Nexus has 1.15, which also makes batches smaller; with " +
            "exact profiles the margin is better on the rates.",
        ),
      rate_margin: z
        .number()
        .min(1)
        .max(10)
        .default(1.15)
        .describe(
          "Epochs plan for this many times the measured rates. At 1 accelerators are planned to be full, and then 2 to 5 " +
            "per cent of Poisson arrivals are not in time at any rate that fills one.",
        ),
      network_allowance_ms: z
        .number()
        .min(0)
        .max(10_000)
        .default(2)
        .describe("Milliseconds taken off the SLO in plans."),
      frontends: z
        .int()
        .min(1)
        .max(10_000)
        .default(1)
        .describe("Frontends that spread the requests over accelerators by deficit round robin, each for itself."),
      drop: z
        .enum(["window", "earliest"])
        .default("window")
        .describe(
          "`window` drops heads that cannot finish in a batch of the planned size, `earliest` heads that cannot finish " +
            "alone.",
        ),
    })
    .describe(
      "Nexus: each request is sent to an accelerator as it arrives, by a plan made from measured rates; backends take " +
        "the models in turn and wait for nothing.",
    ),
  shepherd: z
    .strictObject({
      preemption: z
        .boolean()
        .default(true)
        .describe("Whether a batch that runs is given up, its work lost, for a much larger one."),
      preemption_factor: z
        .number()
        .min(1.01)
        .max(1000)
        .default(3.03)
        .describe("How many times as large as the batch that runs a candidate must be to take its place."),
      size_from: z
        .enum(["earliest", "latest"])
        .default("earliest")
        .describe(
          "How large a candidate is: `earliest` as many as its earliest deadline allows, `latest` as many as the latest " +
            "deadlines allow, with earlier requests dropped where they would keep it smaller.",
        ),
      drop: z
        .enum(["head", "newest"])
        .default("head")
        .describe(
          "Which request is asked whether it can still finish alone: `head` the earliest; `newest` the newest, as in the " +
            "published re-implementation, where a head that cannot keeps its model waiting until the newest cannot either.",
        ),
    })
    .describe(
      "Shepherd's Flex, without its planner: at each arrival and completion the largest batch that would be in time, " +
        "with preemption.",
    ),
} as const satisfies Record<string, z.ZodType>;

export type PolicyName = keyof typeof policyOptionSchemas;
export type PolicyOptions = Readonly<Record<string, unknown>>;
export const POLICY_NAMES = Object.keys(policyOptionSchemas) as [PolicyName, ...PolicyName[]];

export function isPolicyName(name: string): name is PolicyName {
  return Object.hasOwn(policyOptionSchemas, name);
}

/** Holds options against their policy's schema; violations go to `issues` at `base`. Defaults are filled in. */
export function validatePolicyOptions(
  policy: PolicyName,
  options: unknown,
  base: FieldPath,
  issues: IssueList,
): PolicyOptions {
  const value = validateAt(policyOptionSchemas[policy], options, base, issues) as PolicyOptions | null;
  if (value === null) return {};
  if (policy === "timeout") {
    if (value.timeout_ms !== undefined && value.timeout_fraction !== undefined) {
      issues.add(
        [...base, "timeout_fraction"],
        `must not stand beside timeout_ms; were ${value.timeout_fraction} and ${value.timeout_ms}`,
      );
    }
    if (value.timeout_ms === undefined && value.timeout_fraction === undefined) {
      return { ...value, timeout_fraction: 0.3 };
    }
  }
  if (policy === "tfserving") checkAllowedSizes(value, base, issues);
  if (policy === "clockwork") checkBatchSizes(value, base, issues);
  return value;
}

/** TensorFlow Serving refuses the same: sizes must increase and end at the largest batch. */
function checkAllowedSizes(value: PolicyOptions, base: FieldPath, issues: IssueList): void {
  const sizes = value.allowed_batch_sizes as readonly number[] | undefined;
  if (sizes === undefined) return;
  sizes.forEach((size, index) => {
    if (index > 0 && size <= sizes[index - 1]!) {
      issues.add(
        [...base, "allowed_batch_sizes", index],
        `must be greater than the entry before it (${sizes[index - 1]}); was ${size}`,
      );
    }
  });
  const last = sizes.at(-1);
  if (value.max_batch_size !== undefined && last !== value.max_batch_size) {
    issues.add(
      [...base, "allowed_batch_sizes", sizes.length - 1],
      `must be equal to max_batch_size (${value.max_batch_size}) at the end; was ${last}`,
    );
  }
}

/** A queue for batches of one is what makes every request servable. */
function checkBatchSizes(value: PolicyOptions, base: FieldPath, issues: IssueList): void {
  const sizes = value.batch_sizes as readonly number[] | undefined;
  sizes?.forEach((size, index) => {
    const before = index === 0 ? 0 : sizes[index - 1]!;
    if (index === 0 && size !== 1) issues.add([...base, "batch_sizes", 0], `must be 1; was ${size}`);
    else if (size <= before)
      issues.add([...base, "batch_sizes", index], `must be greater than the entry before it (${before}); was ${size}`);
  });
}

/** What valid options and valid models cannot do together. */
export function checkOptionsForModels(
  policy: PolicyName,
  options: PolicyOptions,
  models: readonly { readonly name: string; readonly batchSizeMax: number }[],
  base: FieldPath,
  issues: IssueList,
): void {
  const sizes = options.allowed_batch_sizes as readonly number[] | undefined;
  if (policy !== "tfserving" || sizes === undefined) return;
  for (const { name, batchSizeMax } of models) {
    if (sizes[0]! > batchSizeMax) {
      issues.add(
        [...base, "allowed_batch_sizes", 0],
        `must be at most the largest batch of model ${name} (${batchSizeMax}); was ${sizes[0]}`,
      );
    }
  }
}

/** Options given on the command line over those of a scenario; one of two exclusive options replaces the other. */
export function mergePolicyOptions(inherited: PolicyOptions, given: PolicyOptions): PolicyOptions {
  const merged: Record<string, unknown> = { ...inherited };
  for (const [key, other] of EXCLUSIVE) {
    if (given[key] !== undefined) delete merged[other];
    if (given[other] !== undefined) delete merged[key];
  }
  return { ...merged, ...given };
}
const EXCLUSIVE = [["timeout_ms", "timeout_fraction"]] as const;

/** For names and options that come from a command line. @throws ConfigError naming `origin`. */
export function resolvePolicy(
  name: string,
  options: PolicyOptions,
  origin: string,
): { policy: PolicyName; policyOptions: PolicyOptions } {
  const issues = new IssueList(sourceOf(null, origin));
  if (!isPolicyName(name)) {
    const near = nearest(name, POLICY_NAMES);
    const hint = near === null ? "" : `; did you mean ${near}?`;
    issues.add(["policy"], `must be one of ${POLICY_NAMES.join(", ")}; was ${JSON.stringify(name)}${hint}`);
    issues.throwIfAny();
  }
  const policy = name as PolicyName;
  const policyOptions = validatePolicyOptions(policy, options, ["policy_options"], issues);
  issues.throwIfAny();
  return { policy, policyOptions };
}
