/** The options of the baselines as a scenario names them: the systems' own names and defaults, errors with field, bound and value. */
import { describe, expect, test } from "vitest";
import { policyOptionSchemas, validatePolicyOptions } from "../../config/policy-options.js";
import { IssueList, sourceOf } from "../../config/source.js";
import { POLICY_NAMES } from "../registry.js";

function problems(policy: string, options: object): string {
  const issues = new IssueList(sourceOf(null, "test"));
  validatePolicyOptions(policy, options, ["policy_options"], issues, [{ name: "tiny", batchSizeMax: 4 }]);
  try {
    issues.throwIfAny();
  } catch (error) {
    return (error as Error).message;
  }
  return "";
}

test("every policy that a scenario can name exists, and the other way round", () => {
  expect([...POLICY_NAMES].sort()).toEqual(Object.keys(policyOptionSchemas).sort());
});

test("defaults are those of BatchingParameters and of ModelDynamicBatching", () => {
  const issues = new IssueList(sourceOf(null, "test"));
  expect(validatePolicyOptions("tfserving", {}, [], issues)).toEqual({
    batch_timeout_micros: 0,
    max_enqueued_batches: 10,
  });
  expect(validatePolicyOptions("triton", {}, [], issues)).toEqual({
    max_queue_delay_microseconds: 0,
    max_queue_size: 0,
    default_timeout_microseconds: 0,
    timeout_action: "REJECT",
  });
});

describe("errors", () => {
  test.each([
    [
      "tfserving",
      { allowed_batch_sizes: [2, 2] },
      "policy_options.allowed_batch_sizes[1]",
      "greater than the entry before it (2); was 2",
    ],
    [
      "tfserving",
      { allowed_batch_sizes: [2, 8], max_batch_size: 16 },
      "policy_options.allowed_batch_sizes[1]",
      "equal to max_batch_size (16) at the end; was 8",
    ],
    [
      "tfserving",
      { allowed_batch_sizes: [8] },
      "policy_options.allowed_batch_sizes[0]",
      "at most the largest batch of model tiny (4); was 8",
    ],
    ["tfserving", { max_enqueued_batches: 0 }, "policy_options.max_enqueued_batches", "at least 1; was 0"],
    [
      "tfserving",
      { batch_timeout_micro: 5 },
      "policy_options.batch_timeout_micro",
      "did you mean batch_timeout_micros?",
    ],
    ["clipper", { cap: "fixed" }, "policy_options.cap", 'one of aimd, regression; was "fixed"'],
    ["clipper", { back_off: 1.1 }, "policy_options.back_off", "at most 1; was 1.1"],
    ["clipper", { batch_size: 0 }, "policy_options.batch_size", "at least 1; was 0"],
    ["clockwork", { batch_sizes: [2, 4] }, "policy_options.batch_sizes[0]", "must be 1; was 2"],
    [
      "clockwork",
      { batch_sizes: [1, 4, 4] },
      "policy_options.batch_sizes[2]",
      "greater than the entry before it (4); was 4",
    ],
    ["clockwork", { slo_margin_ms: -1 }, "policy_options.slo_margin_ms", "at least 0; was -1"],
    ["shepherd", { drop: "tail" }, "policy_options.drop", "one of"],
    ["shepherd", { preemption_factor: 1 }, "policy_options.preemption_factor", "at least 1.01; was 1"],
    ["triton", { timeout_action: "DROP" }, "policy_options.timeout_action", 'one of REJECT, DELAY; was "DROP"'],
    ["triton", { preferred_batch_size: [0] }, "policy_options.preferred_batch_size[0]", "at least 1; was 0"],
    [
      "triton",
      { max_queue_delay_microseconds: -1 },
      "policy_options.max_queue_delay_microseconds",
      "at least 0; was -1",
    ],
  ] as const)("%s %j", (policy, options, field, message) => {
    const text = problems(policy, options);
    expect(text).toContain(field);
    expect(text).toContain(message);
  });
});
