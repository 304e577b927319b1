/** The baselines in the simulator, against a naive twin written from the sentence that describes them. */
import { describe, expect, test } from "vitest";
import { accelerators, linearModel, poisson, scenarioOf } from "../../../test/support/scenario.js";
import type { ExpandedFault } from "../../config/scenario/expand-faults.js";
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import { durationUs, timeUs } from "../../core/time.js";
import { createArrivals } from "../../sim/arrivals.js";
import { simulate } from "../../sim/simulate.js";
import { Simulation } from "../../sim/simulation.js";
import { type eager, tfserving, triton } from "../registry.js";

const SIZE_MAX = 16;
const ACCELERATORS = 4;

class Trace extends Simulation {
  readonly dispatches: string[] = [];
  override dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    this.dispatches.push(`${at}:${this.scheduler.batches.size[batch]}`);
    super.dispatch(batch, accelerator, at);
  }
}

function trace(scenario: ExpandedScenario, policy: ReturnType<typeof eager>, seed: number): string[] {
  const simulation = new Trace(scenario, policy, seed);
  simulation.run();
  return simulation.dispatches;
}

const at = (rateRps: number, more: Partial<ExpandedScenario> = {}): ExpandedScenario =>
  scenarioOf({
    models: [linearModel("m", 1, 5, 1000, rateRps, SIZE_MAX)],
    accelerators: accelerators(ACCELERATORS),
    durationUs: durationUs(3_000_000),
    ...more,
  });

/** Whatever is there (at most SIZE_MAX, in order of arrival) as soon as a thread is free; l(b) = b + 5 ms. */
function whateverIsThere(scenario: ExpandedScenario, seed: number): string[] {
  const arrivals = createArrivals(scenario, seed);
  const moments: number[] = [];
  for (; arrivals.at !== Number.POSITIVE_INFINITY; arrivals.advance()) moments.push(arrivals.at);
  const freeAt = new Array<number>(ACCELERATORS).fill(0);
  const dispatches: string[] = [];
  for (let next = 0; next < moments.length; ) {
    freeAt.sort((a, b) => a - b);
    const takenAt = Math.max(freeAt[0]!, moments[next]!);
    let size = 0;
    while (size < SIZE_MAX && next + size < moments.length && moments[next + size]! <= takenAt) size++;
    dispatches.push(`${takenAt}:${size}`);
    freeAt[0] = takenAt + (size + 5) * 1000;
    next += size;
  }
  return dispatches;
}

describe.each([300, 1500, 2800])("%i requests per second on 4 accelerators of at most 3048", (rate) => {
  test.each([1, 2, 3])(
    "tfserving with timeout 0 is whatever is there as soon as a thread is free (seed %i)",
    (seed) => {
      const scenario = at(rate);
      const expected = whateverIsThere(scenario, seed);
      expect(expected.length).toBeGreaterThan(400);
      expect(trace(scenario, tfserving({ max_enqueued_batches: 1000 }), seed)).toEqual(expected);
    },
  );

  test.each([1, 2, 3])(
    "triton with its defaults is the same: formed batches grow until they start (seed %i)",
    (seed) => {
      const scenario = at(rate);
      expect(trace(scenario, triton(), seed)).toEqual(whateverIsThere(scenario, seed));
    },
  );
});

test("tfserving: a timeout makes batches larger and requests wait, here at a quarter of the load", () => {
  const scenario = at(700);
  const none = simulate(scenario, { policy: "tfserving", policyOptions: {} });
  const some = simulate(scenario, { policy: "tfserving", policyOptions: { batch_timeout_micros: 20_000 } });
  expect(some.batch_size.mean! / none.batch_size.mean!).toBeGreaterThan(3);
  expect(some.latency_ms.p50).toBeGreaterThan(none.latency_ms.p50! + 5);
});

test("tfserving: padding costs accelerator time", () => {
  const exact = simulate(at(1000), { policy: "tfserving", policyOptions: {} });
  const padded = simulate(at(1000), { policy: "tfserving", policyOptions: { allowed_batch_sizes: [16] } });
  expect(padded.latency_ms.p50).toBeGreaterThanOrEqual(21);
  expect(exact.latency_ms.p50).toBeLessThan(15);
});

test("tfserving: past capacity the queue is bounded by batches and nobody is dropped for a deadline", () => {
  const report = simulate(at(6000), { policy: "tfserving", policyOptions: { max_enqueued_batches: 4 } });
  expect(Object.keys(report.drops_by_reason).filter((reason) => report.drops_by_reason[reason]! > 0)).toEqual([
    "queue-full",
  ]);
  expect(report.finished + report.late + report.dropped + report.failed).toBe(report.arrived);
});

test.each([
  ["tfserving", { max_enqueued_batches: 1000 }],
  ["triton", {}],
])("%s: when every accelerator is lost for good, what waits fails", (policy, policyOptions) => {
  const faults: ExpandedFault[] = [0, 1, 2, 3].map((accelerator) => ({
    kind: "fail",
    at: timeUs(1_000_000),
    accelerator,
    factor: 1,
  }));
  const report = simulate(at(1000, { faults, arrivals: poisson }), { policy, policyOptions });
  expect(report.failed).toBeGreaterThan(1000);
  expect(report.finished + report.late + report.dropped + report.failed).toBe(report.arrived);
});
