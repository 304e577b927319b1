import { describe, expect, it } from "vitest";
import { expandScenario, scenarioFrom, withRate } from "../config/scenario/scenario.js";
import { sourceOf } from "../config/source.js";
import { measuredTable } from "../core/latency/latency.js";
import { stream } from "../sim/random.js";
import { simulate, simulateBadRates } from "../sim/simulate.js";
import { boundsOf, clairvoyantPeakRps, fluidBoundRps } from "./bounds.js";
import { gatheringBoundRps, leastShares, leastUtilization } from "./gathering.js";
import type { KnownArrivals } from "./known-arrivals.js";
import { roughPeak } from "./rough-peak.js";

const NO_DELAYS = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };

function scenarioOf(fields: Readonly<Record<string, unknown>>) {
  return expandScenario(scenarioFrom(sourceOf({ name: "g", policy: "deferred", ...fields }, "g.yaml")));
}

/** The same by trying every set of requests. */
function leastSharesByForce({ arrivalAt, execUs, sloUs }: KnownArrivals): number[] {
  const least = Array.from(arrivalAt, () => Number.POSITIVE_INFINITY);
  for (let set = 1; set < 1 << arrivalAt.length; set++) {
    const members = Array.from(arrivalAt.keys()).filter((request) => (set >> request) & 1);
    const us = execUs[members.length];
    if (us === undefined || members.length > execUs.length - 2) continue;
    const moments = members.map((request) => arrivalAt[request]!);
    if (Math.max(...moments) + us > Math.min(...moments) + sloUs) continue;
    for (const request of members) least[request] = Math.min(least[request]!, us / members.length);
  }
  return least;
}

describe("least shares", () => {
  it("are those of the best set of requests that each could run with, on 200 small cases", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = stream(seed, "gathering");
      const whole = (max: number) => Math.floor(random() * max);
      const first = 2 + whole(6);
      const second = first + whole(4);
      const execUs = measuredTable([first, second, second + whole(4), second + 3 + whole(6)]);
      const arrivalAt = Float64Array.from({ length: 1 + whole(8) }, () => whole(25)).sort();
      const known = { arrivalAt, execUs, sloUs: first + whole(16) };
      expect([...leastShares(known, 1, NO_DELAYS)], `seed ${seed}`).toEqual(leastSharesByForce(known));
    }
  });

  it("allow for the delays that every schedule pays", () => {
    const known = { arrivalAt: Float64Array.of(0, 30), execUs: measuredTable([40, 50]), sloUs: 100 };
    const ofDelays = (delays: object) => [...leastShares(known, 1, { ...NO_DELAYS, ...delays })];
    expect(ofDelays({})).toEqual([25, 25]);
    expect(ofDelays({ dataUsPerRequest: 10 })).toEqual([25, 25]);
    expect(ofDelays({ dataUsPerRequest: 11 })).toEqual([40, 40]);
    expect(ofDelays({ controlUs: 30, responseUs: 31 })).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  });
});

const RESNET = {
  duration_s: 4,
  accelerators: 8,
  models: [{ name: "model", profile: { alpha_ms: 1.053, beta_ms: 5.072 }, slo_ms: 25 }],
  arrivals: { process: "poisson", rate_rps: 5000 },
};

describe("gathering bound", () => {
  it("lies between what deferred+ reaches and the fluid bound", () => {
    const scenario = scenarioOf(RESNET);
    const fluid = fluidBoundRps(scenario);
    const gathering = gatheringBoundRps(scenario, fluid, { seed: 1, requests: 20_000 });
    expect(gathering).toBeLessThanOrEqual(fluid);
    expect(gathering).toBeGreaterThan(5500);
    // One accelerator's time is worth the same at all moments to it; the clairvoyant bound knows better.
    const any = clairvoyantPeakRps(scenario, { over: "any", seeds: [1], requests: 2000, steps: 30 });
    expect(any).toBeLessThan(1.02 * gathering);
  });

  it("counts each of many models alike once, and is far below the fluid bound where few arrive", () => {
    const many = scenarioOf({
      ...RESNET,
      accelerators: 32,
      models: [{ ...RESNET.models[0], count: 20 }],
      arrivals: { process: "poisson", rate_rps: 18_000 },
    });
    const one = scenarioOf({ ...RESNET, arrivals: { process: "poisson", rate_rps: 900 } });
    const options = { seed: 1, requests: 20_000 };
    const alone = (leastUtilization(one, options) * 8) / 32;
    expect(leastUtilization(many, options)).toBeCloseTo(20 * alone, 1);
    expect(gatheringBoundRps(many, fluidBoundRps(many), options)).toBeLessThan(0.95 * fluidBoundRps(many));
  });

  it("no policy keeps less busy for what it serves; deferred hardly more", () => {
    for (const shape of [0.5, 1])
      for (const rateRps of [500, 2000, 4000]) {
        const scenario = scenarioOf({
          ...RESNET,
          duration_s: 40,
          models: [...RESNET.models, { name: "bert", profile: { alpha_ms: 4, beta_ms: 1 }, slo_ms: 20 }],
          arrivals: { process: "gamma", shape, rate_rps: rateRps },
        });
        const of = (policy: string) => {
          const { utilization, per_model } = simulate(scenario, { policy, seed: 1 });
          const badRateMax = Math.max(...Object.values(per_model).map((each) => each.bad_rate));
          return utilization / leastUtilization(scenario, { seed: 1, badRateMax });
        };
        const name = `shape ${shape}, ${rateRps} r/s`;
        // Bursts: as many arrive as the rate says only on average.
        for (const policy of ["deferred", "deferred+", "eager"]) expect(of(policy), name).toBeGreaterThan(0.97);
        expect(of("deferred"), name).toBeLessThan(1.15);
      }
  });

  it("a run that is short against its SLO may serve what it has no time for while requests arrive", () => {
    const scenario = scenarioOf({
      duration_s: 1,
      accelerators: 1,
      models: [{ name: "a", profile: { alpha_ms: 10, beta_ms: 5 }, slo_ms: 5000, batch_max: 8 }],
      arrivals: { process: "uniform", rate_rps: 500 },
    });
    expect(simulate(scenario, { policy: "deferred", seed: 1 }).bad_rate).toBe(0);
    const fluid = fluidBoundRps(scenario);
    expect(fluid).toBeGreaterThan(500);
    expect(gatheringBoundRps(scenario, fluid, { seed: 1 })).toBeGreaterThan(500);
  });

  it("rates that change: all of the run is looked at, and the clairvoyant bounds are left out", () => {
    const scenario = scenarioOf({
      ...RESNET,
      arrivals: {
        process: "gamma",
        shape: 0.05,
        steps: [
          { at_s: 0, rate_rps: 1000 },
          { at_s: 2, rate_rps: 7000 },
        ],
      },
    });
    const bounds = boundsOf(scenario, [1, 2]);
    expect(Object.keys(bounds)).toEqual(["fluid_rps", "gathering_rps", "gathering_low_rps", "gathering_high_rps"]);
    expect(bounds.gathering_rps).toBeLessThanOrEqual(bounds.fluid_rps);
    expect(bounds.gathering_low_rps!).toBeLessThan(bounds.gathering_rps);
    expect(bounds.gathering_high_rps!).toBeGreaterThan(bounds.gathering_rps);
    expect(Object.keys(boundsOf(scenario, [1]))).toEqual(["fluid_rps", "gathering_rps"]);
  });

  it("with few requests the clairvoyant bounds are left out: which few come together is chance", () => {
    const few = { ...RESNET, duration_s: 0.3, warmup_s: 0, accelerators: 1 };
    const tiny = { name: "m", profile: { alpha_ms: 1, beta_ms: 20 }, slo_ms: 22 };
    expect(Object.keys(boundsOf(scenarioOf({ ...few, models: [tiny] }), [1, 2]))).toEqual([
      "fluid_rps",
      "gathering_rps",
    ]);
  });

  it("faults that speed an accelerator up are in the capacity", () => {
    const faults = [0, 1, 2, 3].map((accelerator) => ({ at_s: 0, kind: "slow", accelerator, factor: 0.5 }));
    const fields = {
      ...RESNET,
      accelerators: 4,
      models: [{ name: "m", profile: { alpha_ms: 2, beta_ms: 10 }, slo_ms: 50, batch_max: 12 }],
    };
    const halved = [{ name: "m", profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 50, batch_max: 12 }];
    const sped = scenarioOf({ ...fields, faults });
    const fluid = fluidBoundRps(sped);
    expect(fluid).toBeCloseTo(fluidBoundRps(scenarioOf({ ...fields, models: halved })), 6);
    const slowed = { ...faults[0]!, factor: 3 };
    expect(fluidBoundRps(scenarioOf({ ...fields, faults: [slowed] }))).toBe(fluidBoundRps(scenarioOf(fields)));
    expect(gatheringBoundRps(sped, fluid, { seed: 1 })).toBeGreaterThan(1.5 * fluidBoundRps(scenarioOf(fields)) * 0.9);
  });

  it("no policy's peak is above the bounds, over random small scenarios, sped up or not", () => {
    const random = stream(12, "bounds/random");
    for (let round = 0; round < 12; round++) {
      const accelerators = 1 + Math.floor(random() * 3);
      const betaMs = 4 + random() * 9;
      const faults = Array.from({ length: Math.floor(random() * 3) }, () => ({
        at_s: random(),
        kind: "slow",
        accelerator: Math.floor(random() * accelerators),
        factor: 0.3 + random(),
      }));
      const sloMs = (1 + betaMs) * (1.5 + random() * 2);
      const scenario = scenarioOf({
        duration_s: 0.5 + random(),
        accelerators,
        models: [{ name: "m", profile: { alpha_ms: 2, beta_ms: betaMs }, slo_ms: sloMs }],
        arrivals: { process: "poisson", rate_rps: 500 },
        faults,
      });
      const seeds = [1, 2, 3];
      const fluid = fluidBoundRps(scenario);
      const least = Math.min(fluid, gatheringBoundRps(scenario, fluid, { seed: 1, requests: 5000 }));
      for (const policy of ["deferred", "eager"]) {
        const run = (rateRps: number, seed: number) => simulateBadRates(withRate(scenario, rateRps), { policy, seed });
        const { peakRps } = roughPeak(run, { seeds, startRps: 0.6 * fluid, tolerance: 0.02 });
        // A thousand requests: their number itself is off by per cents from what the rate says.
        expect(peakRps, `round ${round}, ${policy}`).toBeLessThanOrEqual(1.05 * least);
      }
    }
  });
});
