import { randomNormal } from "d3-random";
import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";
import { describe, expect, it } from "vitest";
import { peakGoodput, peakGoodputAsync, searchPeakGoodput } from "./goodput.js";

const seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/** Exponential bad-rate curve through (root, 1 %), as a queue near saturation has: ten times worse per 4 % of rate. */
const curve = (root: number, rate: number) => Math.min(1, 0.01 * 10 ** ((rate / root - 1) / 0.04));

/** A seed's own root: common random numbers move the whole curve. */
function rootsOf(stream: number, spread: number): (seed: number, model?: number) => number {
  const rng = xoroshiro128plus(stream);
  const normal = randomNormal.source(() => (rng.next() >>> 0) / 2 ** 32)(0, spread);
  const table = Array.from({ length: 400 }, () => normal());
  return (seed, model = 0) => 1 + table[(seed * 20 + model) % table.length]!;
}

describe("peak goodput", () => {
  it.each([
    [5300, 5000],
    [5300, 50],
    [5300, 200_000],
    [0.7, 1],
  ])("finds a known root, %d r/s, from a guess of %d", (root, startRps) => {
    const peak = peakGoodput((rate) => ({ badRates: [curve(root, rate)] }), { seeds, startRps });
    expect(Math.abs(peak.peak_goodput_rps / root - 1)).toBeLessThan(0.001);
    expect(peak.high_rps - peak.low_rps).toBeLessThan(root * 1e-6);
    expect(peak.found).toBe("root");
    expect(peak.runs).toBeLessThanOrEqual(120);
  });

  it("spends few runs on a good guess: at most seven rates with all seeds", () => {
    const peak = peakGoodput((rate) => ({ badRates: [curve(5300, rate)] }), { seeds, startRps: 5400 });
    expect(peak.curve.filter((point) => point.seeds === 10).length).toBeLessThanOrEqual(7);
  });

  it("finds the edge of a step to within the tolerance", () => {
    const peak = peakGoodput((rate) => ({ badRates: [rate > 777 ? 1 : 0] }), { seeds, startRps: 100 });
    expect(Math.abs(peak.peak_goodput_rps / 777 - 1)).toBeLessThan(0.003);
  });

  it("says what is a cliff, and reaches to where the other seeds fall", () => {
    // Each seed falls at a rate of its own, the fourth first: the mean leaps over 1 % with it.
    const falls = (seed: number) => (seed === 4 ? 1768 : 1790 + seed);
    const peak = peakGoodput((rate, seed) => ({ badRates: [rate > falls(seed) ? 0.6 : 0] }), { seeds, startRps: 1500 });
    expect(peak.is_cliff).toBe(true);
    expect(peak.low_rps).toBeLessThanOrEqual(1768);
    expect(peak.high_rps).toBeGreaterThan(1791);
    expect(peak.high_rps).toBeLessThan(1.1 * 1768);
  });

  it("at a cliff the interval is never less than the bracket, and sees a seed that falls well before the others", () => {
    const peakOf = (falls: (seed: number) => number) =>
      peakGoodput((rate, seed) => ({ badRates: [rate > falls(seed) ? 0.6 : 0] }), { seeds, startRps: 1300 });
    // All at once: leaving one out moves nothing.
    for (let edge = 1500; edge < 1540; edge++) {
      const same = peakOf(() => edge);
      expect(same.low_rps).toBeLessThanOrEqual(edge);
      expect(same.high_rps).toBeGreaterThan(edge);
    }
    expect(peakOf((seed) => (seed === 4 ? 1500 : 1610)).high_rps).toBeGreaterThan(1610);
  });

  it("a curve that bends is no cliff, however wide the last bracket", () => {
    for (const tolerance of [0.0002, 0.002, 0.02, 0.09])
      for (const startRps of [500, 5000, 5290])
        expect(
          peakGoodput((rate) => ({ badRates: [curve(5300, rate)] }), { seeds, startRps, tolerance }).is_cliff,
          `${tolerance}, ${startRps}`,
        ).toBe(false);
    // What is offered above is lost and no more: a flat top.
    const flat = (rate: number) => Math.max(0, 1 - 1000 / rate);
    expect(peakGoodput((rate) => ({ badRates: [flat(rate)] }), { seeds, startRps: 800 }).is_cliff).toBe(false);
  });

  it("is the root of the mean curve, not the mean of the roots or a seed's worst", () => {
    const root = rootsOf(3, 0.02);
    const meanCurve = (rate: number) => seeds.reduce((all, seed) => all + curve(root(seed), rate / 1000), 0) / 10;
    const peak = peakGoodput((rate, seed) => ({ badRates: [curve(root(seed), rate / 1000)] }), {
      seeds,
      startRps: 900,
    });
    expect(meanCurve(peak.peak_goodput_rps)).toBeCloseTo(0.01, 4);
  });

  it("names the model that limits, by its mean over seeds", () => {
    const peak = peakGoodput((rate) => ({ badRates: [curve(2000, rate), curve(1500, rate), 0] }), {
      seeds,
      startRps: 900,
    });
    expect(peak.worst_model).toBe(1);
    expect(Math.abs(peak.peak_goodput_rps / 1500 - 1)).toBeLessThan(0.001);
  });

  it("averages over seeds before it takes the worst model", () => {
    // Two models that are bad in turn: every seed's worst is 1.5 % at any rate below 1000, every model's mean 0.75 %.
    const run = (rate: number, seed: number) => {
      const bad = rate > 1000 ? 1 : 0.015;
      return { badRates: seed % 2 === 0 ? [bad, 0] : [0, bad] };
    };
    const peak = peakGoodput(run, { seeds, startRps: 500 });
    expect(Math.abs(peak.peak_goodput_rps / 1000 - 1)).toBeLessThan(0.003);
  });

  it("covers the true root in about 95 of 100 experiments", () => {
    // Seeds differ by 30 % in bad rate. The truth is the root of the expected curve: by quadrature over the normal.
    const spread = 0.005;
    const expected = (rate: number) => {
      let all = 0;
      let weights = 0;
      for (let z = -6; z <= 6; z += 0.01) {
        const weight = Math.exp((-z * z) / 2);
        all += weight * curve(1 + spread * z, rate);
        weights += weight;
      }
      return all / weights;
    };
    let low = 0.9;
    let high = 1.1;
    for (let step = 0; step < 30; step++) {
      const middle = (low + high) / 2;
      if (expected(middle) <= 0.01) low = middle;
      else high = middle;
    }
    let covered = 0;
    const experiments = 400;
    for (let experiment = 0; experiment < experiments; experiment++) {
      const root = rootsOf(1000 + experiment, spread);
      const peak = peakGoodput((rate, seed) => ({ badRates: [curve(root(seed), rate / 1000)] }), {
        seeds,
        startRps: 1000,
      });
      if (peak.low_rps <= low * 1000 && peak.high_rps >= low * 1000) covered++;
    }
    expect(covered / experiments).toBeGreaterThan(0.92);
    expect(covered / experiments).toBeLessThan(0.98);
  });

  it("says below when no rate is low enough and above when none is too high", () => {
    const below = peakGoodput(() => ({ badRates: [0.5] }), { seeds, startRps: 100 });
    expect(below).toMatchObject({ found: "below", peak_goodput_rps: 0 });
    const above = peakGoodput(() => ({ badRates: [0] }), { seeds, startRps: 100 });
    expect(above).toMatchObject({ found: "above" });
    expect(above.peak_goodput_rps).toBeGreaterThan(40_000);
  });

  it("says how many bad events it rests on", () => {
    const run = (rate: number) => ({ badRates: [curve(1000, rate), 0], arrived: [rate * 60, rate * 6] });
    const peak = peakGoodput(run, { seeds, startRps: 1000 });
    expect(peak.bad_events_expected).toBeGreaterThan(598);
    expect(peak.bad_events_expected).toBeLessThan(602);
  });

  it("gives the same answer whether runs happen here or elsewhere, and never repeats a run", async () => {
    const root = rootsOf(3, 0.02);
    const asked = new Set<string>();
    const run = (rate: number, seed: number) => ({ badRates: [curve(root(seed), rate / 1000)] });
    const here = peakGoodput(
      (rate, seed) => {
        expect(asked.has(`${rate} ${seed}`)).toBe(false);
        asked.add(`${rate} ${seed}`);
        return run(rate, seed);
      },
      { seeds, startRps: 900 },
    );
    const elsewhere = await peakGoodputAsync(async (rate, seed) => run(rate, seed), { seeds, startRps: 900 });
    expect(elsewhere).toEqual(here);
    expect(here.runs).toBe(asked.size);
  });

  it("refuses bad options, naming them", () => {
    expect(() => searchPeakGoodput({ seeds: [1], startRps: 1 }).next()).toThrow("at least 2 seeds; was 1");
    expect(() => searchPeakGoodput({ seeds, startRps: 0 }).next()).toThrow("startRps must be > 0; was 0");
  });
});
