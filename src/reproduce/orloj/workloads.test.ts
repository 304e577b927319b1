import { describe, expect, it } from "vitest";
import { timesOf } from "./app-times.js";
import { DEVIATION, MINUTES, minuteFactors } from "./arrival-rates.js";
import { clairvoyantRps } from "./clairvoyant.js";
import { TABLE_1 } from "./published.js";
import { MODALITIES, REAL, STATIC, scaled, TWO_MODES, withCost, workloadNamed } from "./workloads.js";

const ALL = [...TWO_MODES, ...MODALITIES, ...STATIC, ...REAL];

describe("ORLOJ's workloads", () => {
  it.each(Object.entries(TABLE_1))("%s has Table 1's mean and P99", (caseId, { meanMs, p99Ms }) => {
    const { apps, meanMs: mean, p99Ms: p99 } = workloadNamed(caseId);
    expect(mean / meanMs).toBeCloseTo(1, 2);
    expect(p99 / p99Ms).toBeCloseTo(1, 2);
    expect(apps).toHaveLength(2);
    // The short app is the shorter one.
    expect(timesOf([apps[0]!]).quantile(1)).toBeLessThan(timesOf([apps[1]!]).mean);
  });

  it("modes lie evenly from 10 to 100 ms, and nothing is outside", () => {
    for (const { apps, caseId } of [...TWO_MODES, ...MODALITIES]) {
      const times = timesOf(apps);
      expect(times.min, caseId).toBeGreaterThanOrEqual(10_000);
      expect(times.max, caseId).toBeLessThanOrEqual(100_000);
      expect(new Set(apps.map(({ share }) => share)).size, caseId).toBe(1);
    }
    const three = workloadNamed("three-modal").apps;
    expect(three.map((app) => timesOf([app]).mean / 1000)[1]).toBeCloseTo(55, 1);
    expect(workloadNamed("one-modal").meanMs).toBeCloseTo(55, 1);
    expect(MODALITIES.map(({ apps }) => apps.length)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("std-2/0.5 has the wider short mode, std-0.5/2 the wider long one; both are mirror images", () => {
    const [wideShort, wideLong] = ["std-2/0.5", "std-0.5/2"].map(workloadNamed);
    expect(wideShort!.meanMs).toBeGreaterThan(55);
    expect(wideLong!.meanMs).toBeCloseTo(110 - wideShort!.meanMs, 1);
  });

  it("a case of two tables is one workload", () => {
    expect(workloadNamed("two-modal").name).toBe(workloadNamed("std-1").name);
    expect(new Set(ALL.map(({ name }) => name)).size).toBe(ALL.length - 1);
  });

  it("scaled times scale mean, P99 and the cost of a batch", () => {
    const of = workloadNamed("three-modal");
    const tenth = scaled(of, 0.1);
    for (const key of ["meanMs", "p99Ms", "c0Ms"] as const) expect(tenth[key] / of[key]).toBeCloseTo(0.1, 4);
    expect((of.c0Ms + of.c1 * of.meanMs) / of.meanMs).toBeCloseTo(1, 12);
    expect(withCost(of, { c0: 0.2, c1: 0.5 })).toMatchObject({ c1: 0.5, meanMs: of.meanMs });
  });
});

describe("clairvoyant capacity", () => {
  it("of a static model is that of its largest batch within the SLO", () => {
    const [model] = STATIC;
    const { meanMs: l } = model!;
    // c0 + c1 k l = (0.8 + 0.2 k) l: k = 16 takes 4 l.
    expect(clairvoyantRps(model!, 4 * l + 0.01) / ((16 * 1000) / (4 * l))).toBeCloseTo(1, 3);
    expect(clairvoyantRps(model!, 1.8 * l + 0.01) / ((5 * 1000) / (1.8 * l))).toBeCloseTo(1, 3);
  });

  it("grows with the SLO; who is late even alone takes no time", () => {
    const two = workloadNamed("two-modal");
    const rates = [1.5, 2, 3, 4, 5].map((slo) => clairvoyantRps(two, slo * two.p99Ms));
    expect(rates).toEqual(rates.toSorted((a, b) => a - b));
    const short = { ...two, apps: [two.apps[0]!] };
    // All of the short mode, nobody of the long one (from 64 ms).
    const sloMs = two.c0Ms + two.c1 * 60;
    expect(clairvoyantRps(two, sloMs)).toBeCloseTo(2 * clairvoyantRps(short, sloMs), 6);
  });
});

describe("rates by minute", () => {
  it("are the same every time, with a mean of 1", () => {
    const factors = minuteFactors();
    expect(factors).toEqual(minuteFactors());
    expect(factors).toHaveLength(MINUTES);
    expect(factors.reduce((sum, factor) => sum + factor, 0) / MINUTES).toBeCloseTo(1, 12);
  });

  it("have the deviation and the correlation that are written down", () => {
    const logs = minuteFactors(20_000).map(Math.log);
    const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
    const covariance = (lag: number): number =>
      logs.slice(lag).reduce((sum, log, at) => sum + (log - mean) * (logs[at]! - mean), 0) / (logs.length - lag);
    expect(Math.sqrt(covariance(0))).toBeCloseTo(DEVIATION, 1);
    expect(covariance(1) / covariance(0)).toBeCloseTo(0.8, 1);
  });
});
