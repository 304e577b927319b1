import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  DROP_CANCELLED,
  DROP_EXPIRED,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_WORKER_CRASHED,
  FAILED,
  FINISHED,
  LATE,
} from "../core/outcome.js";
import { OutcomeCollector } from "./collector.js";
import { conservation } from "./report.js";

const second = 1_000_000;
const collectorOf = (models: readonly string[] = ["a", "b"]) =>
  new OutcomeCollector({ models, warmupUs: second, endUs: 3 * second, accelerators: 2 });

describe("collector", () => {
  it("counts requests by arrival in [warmup, end), whenever they end", () => {
    const collector = collectorOf();
    collector.end(0, FINISHED, 0, second - 1, -1, second + 5); // arrived in the warm-up
    collector.end(0, FINISHED, 0, second, second + 10, second + 2000);
    collector.end(0, LATE, 0, 3 * second - 1, 3 * second, 9 * second); // ends while draining
    collector.end(0, FINISHED, 0, 3 * second, -1, 3 * second + 1); // arrived at the end
    const report = collector.report({ policy: "eager", seed: 4 });
    expect(report).toMatchObject({ arrived: 2, finished: 1, late: 1, seeds: [4], duration_s: 3, warmup_s: 1 });
    expect(report.goodput_rps).toBe(0.5);
    expect(report.latency_ms.max).toBe((6 * second + 1) / 1000);
    expect(report.queue_delay_ms).toMatchObject({ p50: 0.001, max: 0.01 });
  });

  it("leaves the cancelled out of both rates but not out of what arrived", () => {
    const collector = collectorOf();
    for (let i = 0; i < 3; i++) collector.end(0, FINISHED, 0, second, second, second + 1000);
    collector.end(0, DROPPED, DROP_EXPIRED, second, -1, second + 1000);
    for (let i = 0; i < 4; i++) collector.end(0, DROPPED, DROP_CANCELLED, second, -1, second + 500);
    const report = collector.report({ policy: "eager" });
    expect(report).toMatchObject({ arrived: 8, dropped: 5, cancelled: 4, finish_rate: 0.75, bad_rate: 0.25 });
    expect(report.drops_by_reason).toEqual({ expired: 1, cancelled: 4 });
    expect(collector.badRate(0)).toBe(0.25);
    expect(conservation(report)).toEqual([]);
  });

  it("takes latency over finished and late only, queue delay over all that were executed", () => {
    const collector = collectorOf();
    collector.end(0, FINISHED, 0, second, second + 100, second + 300);
    collector.end(0, LATE, 0, second, second + 200, second + 500);
    collector.end(0, FAILED, FAIL_WORKER_CRASHED, second, second + 400, second + 90_000);
    collector.end(0, DROPPED, DROP_EXPIRED, second, -1, second + 90_000);
    const report = collector.report({ policy: "eager" });
    expect(report.latency_ms).toMatchObject({ p50: 0.3, max: 0.5 });
    expect(report.queue_delay_ms).toMatchObject({ p50: 0.2, max: 0.4 });
    expect(report.failures_by_cause).toEqual({ "worker-crashed": 1 });
  });

  it("clips busy time to the interval and splits it evenly over members for the invalid rate", () => {
    const collector = collectorOf();
    collector.batch(0, 0, 4, second / 2, 1.5 * second, 1); // half of it in the warm-up
    collector.batch(1, 1, 2, 2.5 * second, 4 * second, 0); // a third of it counted
    collector.batch(1, 1, 8, 4 * second, 5 * second, 8); // after the end
    const report = collector.report({ policy: "eager" });
    expect(report.utilization).toBe(0.25);
    expect(report.invalid_rate).toBe(0.125);
    expect(report.per_model.a!.invalid_rate).toBe(0.25);
    expect(report.per_model.b!.utilization).toBe(0.125);
    expect(collector.acceleratorUtilization(0)).toBe(0.25);
    // Sizes of batches that started in the interval.
    expect(report.batch_size).toEqual({ mean: 2, p50: 2, p90: 2, max: 2 });
  });

  it("takes accelerators that join later", () => {
    const collector = collectorOf();
    collector.batch(0, 9, 1, second, 2 * second, 0);
    expect(collector.acceleratorUtilization(9)).toBe(0.5);
    expect(collector.acceleratorUtilization(5)).toBe(0);
  });

  it("says null, not 0, of what was never measured, and counts nothing as nothing bad", () => {
    const report = collectorOf().report({ policy: "eager" });
    expect(report.latency_ms).toEqual({ p50: null, p90: null, p99: null, p999: null, max: null });
    expect(report.batch_size.mean).toBeNull();
    expect(report).toMatchObject({ arrived: 0, finish_rate: 1, bad_rate: 0, goodput_rps: 0, invalid_rate: 0 });
  });

  it("conserves requests over any sequence of endings, and models add up to the whole", () => {
    const ending = fc.record({
      model: fc.nat(1),
      outcome: fc.constantFrom(FINISHED, LATE, DROPPED, FAILED) as fc.Arbitrary<0 | 1 | 2 | 3>,
      code: fc.nat(5),
      arrivalAt: fc.integer({ min: 0, max: 4 * second }),
      length: fc.nat(second),
    });
    fc.assert(
      fc.property(fc.array(ending, { maxLength: 200 }), (endings) => {
        const collector = collectorOf();
        for (const e of endings) collector.end(e.model, e.outcome, e.code, e.arrivalAt, -1, e.arrivalAt + e.length);
        const report = collector.report({ policy: "eager" });
        const counted = endings.filter((e) => e.arrivalAt >= second && e.arrivalAt < 3 * second);
        expect(report.arrived).toBe(counted.length);
        expect(conservation(report)).toEqual([]);
        for (const [model, name] of ["a", "b"].entries()) {
          expect(collector.badRate(model)).toBeCloseTo(report.per_model[name]!.bad_rate, 12);
        }
      }),
      { seed: 21, numRuns: 300 },
    );
  });

  it("names every reason and cause of the closed lists", () => {
    const collector = collectorOf();
    DROP_REASONS.forEach((_, code) => {
      collector.end(0, DROPPED, code, second, -1, second);
    });
    FAIL_CAUSES.forEach((_, code) => {
      collector.end(0, FAILED, code, second, -1, second);
    });
    const report = collector.report({ policy: "eager" });
    expect(Object.keys(report.drops_by_reason)).toEqual([...DROP_REASONS]);
    expect(Object.keys(report.failures_by_cause)).toEqual([...FAIL_CAUSES]);
  });

  it("merging a snapshot is counting both, through JSON as well", () => {
    const fill = (collector: OutcomeCollector, offset: number) => {
      collector.end(0, FINISHED, 0, second + offset, second + offset + 5, second + offset + 900);
      collector.end(1, DROPPED, DROP_EXPIRED, second + offset, -1, second + offset + 900);
      collector.batch(0, offset, 3, second, 2 * second, 1);
    };
    const [both, one, other] = [collectorOf(), collectorOf(), collectorOf()];
    fill(both, 1);
    fill(both, 7);
    fill(one, 1);
    fill(other, 7);
    one.merge(JSON.parse(JSON.stringify(other.snapshot())));
    expect(one.report({ policy: "eager" })).toEqual(both.report({ policy: "eager" }));
    expect(one.acceleratorUtilization(7)).toBe(0.5);
    expect(() =>
      new OutcomeCollector({ models: ["a"], warmupUs: 0, endUs: 1, accelerators: 1 }).merge(one.snapshot()),
    ).toThrow("cannot be merged");
  });

  it("refuses an empty interval, naming both ends", () => {
    expect(() => new OutcomeCollector({ models: ["a"], warmupUs: 5, endUs: 5, accelerators: 1 })).toThrow(
      "endUs 5 must be > warmupUs 5",
    );
  });
});
