import type { AllocationProblem } from "../../src/policies/elastic/allocation/allocation.js";

/** @param batches due moment, µs; then [time in µs, utility] by gamma. */
export function problemOf(batches: readonly [number, ...[number, number][]][]): AllocationProblem {
  const options = batches.map(([, ...byGamma]) => byGamma);
  return {
    count: batches.length,
    gammas: options[0]!.length,
    dueAt: Float64Array.from(batches, ([dueAt]) => dueAt),
    timeUs: Float64Array.from(options.flat(), ([timeUs]) => timeUs),
    utility: Float64Array.from(options.flat(), ([, utility]) => utility),
  };
}
