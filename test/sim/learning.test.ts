/** Learning is a key of the scenario, and nothing else switches it on. */
import { expect, test } from "vitest";
import { durationUs, timeUs } from "../../src/core/time.js";
import { simulate } from "../../src/sim/simulate.js";
import { accelerators, linearModel, scenarioOf } from "../support/scenario.js";

const scenario = scenarioOf({
  models: [linearModel("m", 2, 10, 60, 300, 25)],
  accelerators: accelerators(2),
  durationUs: durationUs(20e6),
});
const slow = [{ kind: "slow" as const, at: timeUs(2e6), accelerator: 1, factor: 4 }];

test("a fault that does nothing changes nothing", () => {
  const idle = [{ kind: "slow" as const, at: timeUs(5e6), accelerator: 0, factor: 1 }];
  expect(simulate({ ...scenario, faults: idle })).toEqual(simulate(scenario));
});

test("an accelerator that turns slow is found out only by who learns", () => {
  const blind = simulate({ ...scenario, faults: slow });
  const learning = simulate({ ...scenario, faults: slow, learn: true });
  expect(blind.late).toBeGreaterThan(0.1 * blind.arrived);
  expect(learning.late).toBeLessThan(0.02 * learning.arrived);
});
