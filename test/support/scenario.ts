import type {
  ExpandedAccelerator,
  ExpandedArrivals,
  ExpandedModel,
  ExpandedScenario,
} from "../../src/config/scenario/scenario.js";
import { linearTable } from "../../src/core/latency/latency.js";
import { durationUs } from "../../src/core/time.js";

/** A model with l(b) = alphaMs * b + betaMs. */
export function linearModel(
  name: string,
  alphaMs: number,
  betaMs: number,
  sloMs: number,
  rateRps: number,
  sizeMax = 64,
): ExpandedModel {
  return {
    name,
    execUs: linearTable(alphaMs * 1000, betaMs * 1000, sizeMax),
    batchSizeMax: sizeMax,
    sloUs: durationUs(sloMs * 1000),
    rateRps,
  };
}

export function accelerators(count: number, scale = 1): ExpandedAccelerator[] {
  return Array.from({ length: count }, () => ({ kind: "emulated", scale, present: true }));
}

/** Arrivals at given moments (ms), all of model 0. */
export function arrivalsAt(ms: readonly number[]): ExpandedArrivals {
  return {
    kind: "replay",
    atUs: Float64Array.from(ms, (at) => Math.round(at * 1000)),
    model: new Int32Array(ms.length),
    app: null,
    appNames: [],
  };
}

export const poisson: ExpandedArrivals = { kind: "renewal", gaps: "gamma", shape: 1, modulation: null, missing: [] };

export function scenarioOf(
  parts: Partial<ExpandedScenario> & Pick<ExpandedScenario, "models" | "accelerators">,
): ExpandedScenario {
  return {
    name: "test",
    file: "test",
    seed: 1,
    durationUs: durationUs(10_000_000),
    warmupUs: durationUs(0),
    network: { controlUs: durationUs(0), dataUsPerRequest: durationUs(0), responseUs: durationUs(0) },
    arrivals: poisson,
    faults: [],
    policy: "deferred",
    policyOptions: {},
    ...parts,
  };
}
