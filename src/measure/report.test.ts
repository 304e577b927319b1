import { describe, expect, it } from "vitest";
import { DROP_EXPIRED, DROPPED, FINISHED } from "../core/outcome.js";
import { OutcomeCollector } from "./collector.js";
import { combineReports, conservation, type Report, worstModelBadRate } from "./report.js";

/** One run: so many finished with this latency, so many expired, of model "a"; one of model "b" finished. */
function run(seed: number, finished: number, expired: number, latencyUs: number): Report {
  const collector = new OutcomeCollector({ models: ["a", "b"], warmupUs: 0, endUs: 1_000_000, accelerators: 1 });
  for (let i = 0; i < finished; i++) collector.end(0, FINISHED, 0, i, i, i + latencyUs);
  for (let i = 0; i < expired; i++) collector.end(0, DROPPED, DROP_EXPIRED, i, -1, i);
  collector.end(1, FINISHED, 0, 0, 0, 100);
  return collector.report({ policy: "eager", seed });
}

describe("report", () => {
  it("combines seeds: counts are sums, rates are of the sums, quantiles are means, max the largest", () => {
    const report = combineReports([run(1, 9, 1, 2000), run(2, 29, 1, 4000)]);
    expect(report).toMatchObject({ seeds: [1, 2], arrived: 42, finished: 40, dropped: 2, duration_s: 1 });
    expect(report.finish_rate).toBeCloseTo(40 / 42, 12);
    expect(report.goodput_rps).toBe(20);
    expect(report.latency_ms.p50).toBeCloseTo(3, 2);
    expect(report.latency_ms.max).toBe(4);
    expect(report.drops_by_reason).toEqual({ expired: 2 });
    expect(report.per_model.a!.arrived).toBe(40);
    expect(conservation(report)).toEqual([]);
  });

  it("keeps mean and standard deviation over seeds of every number", () => {
    const { stats } = combineReports([run(1, 9, 1, 2000), run(2, 29, 1, 4000)]);
    expect(stats!.finished).toEqual({ mean: 20, sd: Math.sqrt(200) });
    expect(stats!["latency_ms.max"]!.mean).toBe(3);
    expect(stats!["drops_by_reason.expired"]).toEqual({ mean: 1, sd: 0 });
    expect(stats!["batch_size.mean"]).toBeUndefined();
  });

  it("one seed needs no statistics", () => {
    const single = run(1, 9, 1, 2000);
    expect(combineReports([single])).toBe(single);
  });

  it("refuses to combine different policies", () => {
    expect(() => combineReports([run(1, 1, 0, 1), { ...run(2, 1, 0, 1), policy: "deferred" }])).toThrow("deferred");
    expect(() => combineReports([])).toThrow("no reports");
  });

  it("takes the worst model's bad rate, not the average", () => {
    const report = run(1, 9, 1, 2000);
    expect(worstModelBadRate(report)).toBeCloseTo(0.1, 12);
    expect(report.bad_rate).toBeLessThan(0.1);
  });

  it("says what is lost or counted twice", () => {
    const report = run(1, 9, 1, 2000);
    expect(conservation({ ...report, finished: 11 })).toEqual([
      "all models: arrived 11, ended 12",
      "finished: all models 11, sum over models 10",
    ]);
  });
});
