import { type ExpandedScenario, withRate } from "../config/scenario/scenario.js";
import { createArrivals } from "../sim/arrivals.js";

/** One model's arrivals of a run, known in advance. */
export interface KnownArrivals {
  /** Moments in µs, ascending. */
  readonly arrivalAt: Float64Array;
  /** l(b) at scale 1, µs; see core/latency/latency.ts. */
  readonly execUs: Float64Array;
  readonly sloUs: number;
}

/** The arrivals that a simulation of this scenario, rate and seed has, of about so many requests. */
export function knownArrivals(
  scenario: ExpandedScenario,
  rateRps: number,
  seed: number,
  requests: number,
): KnownArrivals[] {
  const untilUs = (requests / rateRps) * 1e6;
  const at = withRate({ ...scenario, durationUs: Math.ceil(untilUs) as typeof scenario.durationUs }, rateRps);
  const moments: number[][] = scenario.models.map(() => []);
  for (const arrivals = createArrivals(at, seed); arrivals.at < untilUs; arrivals.advance())
    moments[arrivals.model]!.push(arrivals.at);
  return scenario.models.map(({ execUs, sloUs }, model) => ({
    arrivalAt: Float64Array.from(moments[model]!),
    execUs,
    sloUs,
  }));
}
