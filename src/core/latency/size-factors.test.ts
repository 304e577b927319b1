import { describe, expect, it } from "vitest";
import { durationUs } from "../time.js";
import { linearTable, ProfiledLatency } from "./latency.js";
import { SizeFactors } from "./size-factors.js";

function measured(bySize: Readonly<Record<number, number>>, times = 500): SizeFactors {
  const sizes = new SizeFactors(64);
  for (let run = 0; run < times; run++)
    for (const [size, ratio] of Object.entries(bySize)) sizes.observe(Number(size), ratio);
  return sizes;
}

describe("factors by size", () => {
  it("are 1 before anything was measured, and where batches take what is planned", () => {
    for (const sizes of [new SizeFactors(64), measured({ 1: 1, 8: 1, 64: 1 })])
      for (const size of [1, 5, 64]) {
        expect(sizes.of(size)).toBe(1);
        expect(sizes.between(size)).toBe(1);
      }
  });

  it("come to what each power of two of sizes is off by; those never measured are as the nearest", () => {
    const sizes = measured({ 1: 1, 8: 1.5 });
    expect(sizes.of(1)).toBeCloseTo(1, 3);
    expect(sizes.of(8)).toBeCloseTo(1.5, 3);
    expect(sizes.of(15)).toBe(sizes.of(8));
    expect(sizes.of(64)).toBe(sizes.of(8));
    expect(sizes.of(2)).toBe(sizes.of(1));
  });

  it("rise without steps between powers of two", () => {
    const sizes = measured({ 1: 1, 2: 1.2, 4: 1.4, 8: 1.5, 16: 1.7, 32: 1.8, 64: 1.9 });
    for (let size = 1; size < 64; size++) {
      const step = sizes.between(size + 1) - sizes.between(size);
      expect(step).toBeGreaterThanOrEqual(-1e-9);
      expect(step).toBeLessThan(0.21);
    }
  });

  it("say nothing where all that is measured is of one size: that is the profile's one factor", () => {
    expect(measured({ 8: 1.5 }).of(8)).toBe(1);
  });

  it("are bounded, and forgotten", () => {
    const sizes = measured({ 1: 1, 8: 1000 });
    expect(sizes.of(8)).toBe(4);
    sizes.forget();
    expect(sizes.of(8)).toBe(1);
  });

  it("are adopted from who measures", () => {
    const [told, knows] = [new SizeFactors(64), measured({ 1: 1, 8: 1.5 })];
    for (let bin = 0; bin < knows.bins; bin++) told.adopt(bin, knows.ofBin(bin));
    for (const size of [1, 3, 8, 40]) expect(told.of(size)).toBe(knows.of(size));
    told.adopt(7, 3);
    expect(told.bins).toBe(7);
  });
});

describe("a profile corrected by size", () => {
  const profile = linearTable(1000, 9000, 32);

  it("plans what batches take at small and at large sizes, where one factor is off at both", () => {
    const off = (isBySize: boolean, size: number): number => {
      const latency = new ProfiledLatency(profile);
      for (let run = 0; run < 1000; run++)
        for (const [of, times] of [
          [1, 1],
          [32, 2],
        ] as const)
          latency.observe(of, durationUs(times * profile[of]!), isBySize);
      return latency.meanUs(size) / profile[size]!;
    };
    expect(off(true, 1)).toBeCloseTo(1, 1);
    expect(off(true, 32)).toBeCloseTo(2, 1);
    expect(Math.abs(off(false, 1) - 1)).toBeGreaterThan(0.4);
  });

  it("never plans less for a larger batch, and goes back to the profile when it is reset", () => {
    const latency = new ProfiledLatency(profile);
    for (let run = 0; run < 300; run++) {
      latency.observe(8, durationUs(2 * profile[8]!), true);
      latency.observe(16, durationUs(0.5 * profile[16]!), true);
    }
    for (let size = 1; size < 32; size++)
      expect(latency.execUs[size + 1]!).toBeGreaterThanOrEqual(latency.execUs[size]!);
    expect(latency.reset()).toBe(true);
    expect([...latency.execUs]).toEqual([...profile]);
    expect(latency.reset()).toBe(false);
  });
});
