/** What bounds ask of a scenario: how its run begins and ends, and what its accelerators can do. */
import type { ExpandedScenario } from "../config/scenario/scenario.js";

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

/** Execution times of each accelerator relative to the profiles, at its fastest over the run: faults may speed it up. */
export function fastestScales({ accelerators, faults }: ExpandedScenario): readonly number[] {
  const factors = accelerators.map(() => 1);
  for (const fault of faults)
    if (fault.kind === "slow") factors[fault.accelerator] = Math.min(factors[fault.accelerator]!, fault.factor);
  return accelerators.map(({ scale }, id) => scale * factors[id]!);
}

/** Accelerators, each counted by its speed relative to the fastest; all at their fastest. */
export function capacityOf(scenario: ExpandedScenario): number {
  const scales = fastestScales(scenario);
  const fastest = Math.min(...scales);
  return scales.reduce((all, scale) => all + fastest / scale, 0);
}
