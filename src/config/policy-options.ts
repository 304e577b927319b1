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
  return value;
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
