/** 1,000 seeds of faults at 1.5 times the capacity: every request ends exactly once and nothing stays in flight. */
import { describe, expect, test } from "vitest";
import type { ExpandedFault, ExpandedScenario } from "../../src/config/scenario/scenario.js";
import { timeUs } from "../../src/core/time.js";
import { createPolicy, POLICY_NAMES } from "../../src/policies/registry.js";
import { stream } from "../../src/sim/random.js";
import { Simulation } from "../../src/sim/simulation.js";
import { variantsOf } from "../support/chaos-driver.js";
import { accelerators, linearModel, scenarioOf } from "../support/scenario.js";

const DURATION_US = 400_000;

class Counting extends Simulation {
  readonly ends = new Map<number, number>();
  readonly outcomes = [0, 0, 0, 0];
  override end(request: number, outcome: number, reason: number, execStartAt: number, at: number): void {
    const tag = this.scheduler.requests.tag[request]!;
    this.ends.set(tag, (this.ends.get(tag) ?? 0) + 1);
    this.outcomes[outcome]!++;
    super.end(request, outcome, reason, execStartAt, at);
  }
}

function scenarioFor(seed: number): ExpandedScenario {
  const random = stream(seed, "faults");
  const count = 2 + Math.floor(random() * 4);
  const models = [
    linearModel("strong", 1, 6, 30, 0, 16),
    linearModel("weak", 4, 1, 40, 0, 8),
    linearModel("one", 3, 1, 9, 0, 1),
  ];
  // Capacity at the largest batch within half the SLO: 9/15, 4/17 and 1/4 requests per ms and accelerator; a third each.
  const perMs = [9 / 15, 4 / 17, 1 / 4];
  const withRates = models.map((model, index) => ({ ...model, rateRps: (1.5 * count * perMs[index]! * 1000) / 3 }));
  const faults: ExpandedFault[] = [];
  const states = Array.from({ length: count }, () => "up");
  let at = 0;
  for (;;) {
    at += -Math.log1p(-random()) * 20_000;
    if (at > DURATION_US * 1.1) break;
    const accelerator = Math.floor(random() * count);
    const state = states[accelerator]!;
    const dice = random();
    const kind =
      dice < 0.3 ? "slow" : state === "up" ? (dice < 0.7 ? "fail" : "leave") : state === "failed" ? "recover" : "join";
    if (kind !== "slow") states[accelerator] = kind === "fail" ? "failed" : kind === "leave" ? "gone" : "up";
    const factor = kind !== "slow" || random() < 0.4 ? 1 : 1 + 15 * random() ** 2;
    faults.push({ at: timeUs(Math.round(at)), kind, accelerator, factor });
  }
  const isDelayed = random() < 0.5;
  return scenarioOf({
    models: withRates,
    accelerators: accelerators(count).map((each) => ({ ...each, scale: random() < 0.2 ? 2 : 1 })),
    durationUs: DURATION_US as ExpandedScenario["durationUs"],
    faults,
    learn: true,
    seed,
    ...(isDelayed
      ? { network: { controlUs: 100, dataUsPerRequest: 50, responseUs: 500 } as ExpandedScenario["network"] }
      : {}),
  });
}

describe("conservation under faults", () => {
  test("arrived = finished + late + dropped + failed, each exactly once, in flight returns to 0 (1,000 seeds)", () => {
    const variants = POLICY_NAMES.flatMap((policy) => variantsOf(policy).map(({ options }) => ({ policy, options })));
    const totals = [0, 0, 0, 0];
    for (let seed = 1; seed <= 1000; seed++) {
      const { policy, options } = variants[seed % variants.length]!;
      const scenario = scenarioFor(seed);
      const simulation = new Counting(scenario, createPolicy(policy, options), seed);
      simulation.run();
      const report = simulation.report(seed);
      const where = `seed ${seed}, ${policy} ${JSON.stringify(options)}`;
      const { arrived, finished, late, dropped, failed } = report;
      // Tags count up from 0, one per arrival.
      expect(simulation.ends.size, where).toBe(arrived);
      expect(
        [...simulation.ends.values()].every((ends) => ends === 1),
        where,
      ).toBe(true);
      expect(Math.max(...simulation.ends.keys()), where).toBe(arrived - 1);
      expect([finished, late, dropped, failed], where).toEqual(simulation.outcomes);
      expect(finished + late + dropped + failed, where).toBe(arrived);
      expect(simulation.scheduler.requests.live, where).toBe(0);
      expect(simulation.scheduler.batches.live, where).toBe(0);
      simulation.outcomes.forEach((count, outcome) => {
        totals[outcome]! += count;
      });
    }
    // The faults bite and the load is too high: all four ways of ending occur in numbers.
    for (const total of totals) expect(total).toBeGreaterThan(500);
    expect(totals[0]! / totals.reduce((a, b) => a + b)).toBeGreaterThan(0.1);
  });
});
