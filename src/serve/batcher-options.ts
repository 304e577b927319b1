/** What `createScheduler` and `submit` take, checked before anything runs: their caller may be JavaScript, where types say nothing. */
import { z } from "zod";
import { validatePolicyOptions } from "../config/policy-options.js";
import { IssueList, sourceOf } from "../config/source.js";
import { validate } from "../config/validate.js";
import { linearTable, measuredTable } from "../core/latency/latency.js";
import type { Policy } from "../core/policy.js";
import { sloUsFromMs, workUsFromMs } from "../core/time.js";
import type { WindowRules } from "../policies/deferred/window-queue.js";
import { LIVE_DEFAULT, LIVE_DEFAULTS, LIVE_POLICIES, liveWindow } from "../policies/live.js";

const BATCH_MAX = 4096;
/** Timers of this thread have steps of 1 ms. */
const TIMER_US = 1000;

const schema = z.strictObject({
  run: z.custom<unknown>((value) => typeof value === "function", "must be a function of a batch"),
  profile: z.union([
    z.strictObject({ alpha_ms: z.number().min(0), beta_ms: z.number().min(0) }),
    z.strictObject({ table_ms: z.array(z.number().positive()).min(1).max(BATCH_MAX) }),
  ]),
  slo_ms: z.number().positive(),
  batch_max: z.int().min(1).max(BATCH_MAX).optional(),
  concurrency: z.int().min(1).max(1024).default(1),
  policy: z.enum(LIVE_POLICIES).default(LIVE_DEFAULT),
  policy_options: z.record(z.string(), z.unknown()).default({}),
  queue_max: z.int().min(1).max(1_000_000).default(10_000),
});

const submitSchema = z.strictObject({
  timeout_ms: z.number().positive().optional(),
  signal: z
    .custom<AbortSignal>(
      (value) => typeof (value as AbortSignal)?.addEventListener === "function",
      "must be an AbortSignal",
    )
    .optional(),
});

/** What `submit` takes beside the item. @throws ConfigError */
export function checkSubmitOptions(options: unknown): { timeoutUs?: number; signal?: AbortSignal } {
  const { timeout_ms, signal } = validate(submitSchema, sourceOf(options, "submit"));
  return {
    ...(timeout_ms === undefined ? {} : { timeoutUs: sloUsFromMs(timeout_ms) }),
    ...(signal === undefined ? {} : { signal }),
  };
}

export interface CheckedBatcherOptions {
  /** See core/latency/latency: l(1), l(2), ... in µs. */
  readonly table: Float64Array;
  readonly sloUs: number;
  readonly concurrency: number;
  readonly queueMax: number;
  /** Of `livePolicy`. */
  readonly window: WindowRules;
  /** The caller's, in place of that; null: none. */
  readonly policy: Policy | null;
}

function policyIn(options: unknown): Policy | null {
  const policy = (options as { policy?: Partial<Policy> } | null)?.policy;
  return typeof policy?.createQueue === "function" && typeof policy.createArbiter === "function"
    ? (policy as Policy)
    : null;
}

/** @throws ConfigError naming field, bound and value of all that is wrong. */
export function checkBatcherOptions(options: unknown): CheckedBatcherOptions {
  const own = policyIn(options);
  const source = sourceOf(own === null ? options : { ...(options as object), policy: undefined }, "createScheduler");
  const checked = validate(schema, source);
  const issues = new IssueList(source);
  const { profile, policy } = checked;
  if ("table_ms" in profile ? (checked.batch_max ?? 1) > profile.table_ms.length : false)
    issues.add(["batch_max"], `must be at most the length of table_ms; was ${checked.batch_max}`);
  if ("alpha_ms" in profile && profile.alpha_ms + profile.beta_ms === 0)
    issues.add(["profile"], "alpha_ms + beta_ms must be greater than 0; was 0");
  validatePolicyOptions(policy, checked.policy_options, ["policy_options"], issues);
  if (own !== null && Object.keys(checked.policy_options).length > 0)
    issues.add(["policy_options"], "must be absent beside a policy of your own");
  issues.throwIfAny();
  const table =
    "table_ms" in profile
      ? measuredTable(profile.table_ms.slice(0, checked.batch_max).map((ms) => workUsFromMs(ms)))
      : linearTable(profile.alpha_ms * 1000, profile.beta_ms * 1000, checked.batch_max ?? 32);
  const sloUs = sloUsFromMs(checked.slo_ms);
  const window = liveWindow(policy, checked.policy_options, sloUs, { ...LIVE_DEFAULTS, timer_slack_us: TIMER_US });
  const leastUs = table[1]! + window.slackUs;
  // Every item would be refused as infeasible.
  if (sloUs < leastUs)
    issues.add(
      ["slo_ms"],
      `must be at least ${leastUs / 1000}, one item's run by the profile${window.slackUs > 0 ? ` and ${window.slackUs / 1000} ms that timers are late by` : ""}; was ${checked.slo_ms}`,
    );
  issues.throwIfAny();
  return { table, sloUs, concurrency: checked.concurrency, queueMax: checked.queue_max, window, policy: own };
}
