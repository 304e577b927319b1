import { describe, expect, it } from "vitest";
import { roughPeak } from "./rough-peak.js";

const seeds = [1, 2];
/** Ten times worse per 4 % of rate, 1 % at the root. */
const curve = (root: number, rate: number) => Math.min(1, 0.01 * 10 ** ((rate / root - 1) / 0.04));

describe("rough peak", () => {
  it.each([
    [5300, 5000],
    [5300, 500],
    [5300, 40_000],
  ])("finds a known root, %d r/s, from a guess of %d, within the tolerance and with few runs", (root, startRps) => {
    const peak = roughPeak((rate) => ({ badRates: [0, curve(root, rate)] }), { seeds, startRps, tolerance: 0.015 });
    expect(Math.abs(peak.peakRps / root - 1)).toBeLessThan(0.015);
    expect(peak).toMatchObject({ found: "root", worstModel: 1 });
    expect(peak.runs).toBeLessThanOrEqual(40);
  });

  it("averages over seeds before it takes the worst model", () => {
    const run = (rate: number, seed: number) => {
      const bad = rate > 1000 ? 1 : 0.015;
      return { badRates: seed % 2 === 0 ? [bad, 0] : [0, bad] };
    };
    expect(Math.abs(roughPeak(run, { seeds, startRps: 900 }).peakRps / 1000 - 1)).toBeLessThan(0.02);
  });

  it("says below when no rate is low enough and above when none is too high", () => {
    expect(roughPeak(() => ({ badRates: [0.5] }), { seeds, startRps: 100 })).toMatchObject({
      found: "below",
      peakRps: 0,
    });
    expect(roughPeak(() => ({ badRates: [0] }), { seeds, startRps: 100 }).found).toBe("above");
  });

  it("refuses bad options, naming them", () => {
    const run = () => ({ badRates: [0] });
    expect(() => roughPeak(run, { seeds: [], startRps: 1 })).toThrow("at least 1 seed; was 0");
    expect(() => roughPeak(run, { seeds, startRps: 0 })).toThrow("startRps must be > 0; was 0");
  });
});
