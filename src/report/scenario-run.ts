/** What bounds ask of a scenario: how its run begins and ends, and what its accelerators can do. */
import type { ExpandedScenario } from "../config/scenario.js";

/** Rates do not change over the run, so a part of it stands for all. */
export function isSteady({ arrivals, models }: ExpandedScenario): boolean {
  return (
    arrivals.kind !== "replay" &&
    arrivals.modulation === null &&
    models.every(({ modulation }) => modulation === undefined)
  );
}

/** Requests of the counted part of a run, about. */
export function requestsOf(scenario: ExpandedScenario, rateRps: number): number {
  return (rateRps * (scenario.durationUs - scenario.warmupUs)) / 1e6;
}

/**
 * How a run ends: requests are counted that arrive in it, and accelerators work on until the last deadline. So all of them have
 * `overrun` times the time in which they arrive; and whoever arrived an SLO before the end must be done by the end.
 */
export interface RunEnd {
  readonly overrun: number;
  /** Part of a model's requests, at most, that may still be open when arrivals end. */
  openPart(sloUs: number): number;
}

export function runEndOf({ durationUs, warmupUs, models }: ExpandedScenario): RunEnd {
  const countedUs = durationUs - warmupUs;
  const sloUs = Math.max(0, ...models.map((model) => (model.rateRps > 0 ? model.sloUs : 0)));
  return { overrun: (countedUs + sloUs) / countedUs, openPart: (us) => Math.min(1, us / countedUs) };
}

/** Accelerators, each counted by its speed relative to the fastest. */
export function capacityOf({ accelerators }: ExpandedScenario): number {
  const fastest = Math.min(...accelerators.map((each) => each.scale));
  return accelerators.reduce((all, each) => all + fastest / each.scale, 0);
}
