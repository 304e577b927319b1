import { expect, test } from "vitest";
import { CONTROL, DEFAULT, EAGER, timeoutsOf } from "./paired-runs.js";
import { DEFAULT_POLICY, policyModel } from "./served-setting.js";

test("each contender has a group of its own, and its policy", () => {
  expect([DEFAULT, EAGER, CONTROL, ...timeoutsOf([0.25])].map((contender) => policyModel(contender, "m"))).toEqual([
    { name: "default-m", group: "default", policy: DEFAULT_POLICY, policyOptions: {} },
    { name: "eager-m", group: "eager", policy: "eager", policyOptions: {} },
    { name: "eager-again-m", group: "eager-again", policy: "eager", policyOptions: {} },
    { name: "timeout-0-25-m", group: "timeout-0-25", policy: "timeout", policyOptions: { timeout_fraction: 0.25 } },
  ]);
});
