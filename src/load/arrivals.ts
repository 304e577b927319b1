import { randomExponential, randomGamma } from "d3-random";
import { ServingError } from "../wire/serving-error.js";
import { randomStream } from "./inputs/random.js";

export const PROCESSES = ["poisson", "uniform", "gamma"] as const;
export type Process = (typeof PROCESSES)[number];

/** The offered rate from `fromS` on, until the next step; the last one lasts to the end of the run. */
export interface RateStep {
  readonly fromS: number;
  readonly rps: number;
}

export interface ArrivalOptions {
  readonly process: Process;
  /** Gamma: shape of the gaps (1 is Poisson, below 1 is burstier); others ignore it. */
  readonly shape: number;
  readonly steps: readonly RateStep[];
  readonly durationS: number;
  readonly seed: number;
}

/**
 * The moments, in µs from the start of the run, at which requests are to be sent; NEVER-ending calls return Infinity.
 *
 * Gaps of mean 1 are drawn on the axis of expected arrivals (the integral of the rate) and mapped to time, so one
 * process serves constant rates and traces alike, and the random draws of a seed are the same at every rate.
 */
export function arrivalTimes(options: ArrivalOptions): () => number {
  const gap = gaps(options);
  const timeOf = timeOfExpected(options.steps, options.durationS);
  let expected = 0;
  return () => {
    expected += gap();
    return Math.floor(timeOf(expected) * 1e6);
  };
}

function gaps({ process, shape, seed }: ArrivalOptions): () => number {
  const random = randomStream(seed, "arrivals");
  switch (process) {
    case "uniform":
      return () => 1;
    case "poisson":
      return randomExponential.source(random)(1);
    case "gamma":
      return randomGamma.source(random)(shape, 1 / shape);
  }
}

/** Inverse of the expected number of arrivals; calls must not go back. Infinity beyond the duration. */
function timeOfExpected(steps: readonly RateStep[], durationS: number): (expected: number) => number {
  let step = 0;
  let expectedAtStep = 0;
  return (expected) => {
    for (; step < steps.length; step++) {
      const { fromS, rps } = steps[step]!;
      const untilS = Math.min(steps[step + 1]?.fromS ?? durationS, durationS);
      const expectedHere = Math.max(0, untilS - fromS) * rps;
      if (expected < expectedAtStep + expectedHere) return fromS + (expected - expectedAtStep) / rps;
      expectedAtStep += expectedHere;
    }
    return Number.POSITIVE_INFINITY;
  };
}

/** Mean rate over the duration. */
export function meanRate(steps: readonly RateStep[], durationS: number): number {
  let expected = 0;
  steps.forEach(({ fromS, rps }, step) => {
    const untilS = Math.min(steps[step + 1]?.fromS ?? durationS, durationS);
    expected += Math.max(0, untilS - fromS) * rps;
  });
  return expected / durationS;
}

/**
 * A trace of rates: CSV of `second,requests_per_second`, a header line allowed, seconds increasing.
 *
 * @returns the steps from second 0 on (the first row's second is taken as the start) and how long the trace is: the
 *   last row lasts as long as the one before it.
 * @throws ServingError invalid-argument naming file, line, bound and value.
 */
export function parseRateTrace(name: string, text: string): { steps: RateStep[]; durationS: number } {
  const steps: RateStep[] = [];
  let originS = 0;
  text.split(/\r?\n/).forEach((line, index) => {
    const row = line.trim();
    if (row === "" || row.startsWith("#")) return;
    const [second, rps] = row.split(",").map((cell) => (cell.trim() === "" ? Number.NaN : Number(cell)));
    if (steps.length === 0 && index === 0 && Number.isNaN(second)) return; // header
    const fail = (what: string) => {
      throw new ServingError("invalid-argument", `${name}: line ${index + 1}: ${what}; was '${row.slice(0, 80)}'`);
    };
    if (second === undefined || !Number.isFinite(second)) fail("the first column must be a number of seconds");
    if (rps === undefined || !Number.isFinite(rps) || rps! < 0) fail("the second column must be a rate in r/s, >= 0");
    if (steps.length === 0) originS = second!;
    const fromS = second! - originS;
    if (steps.length > 0 && fromS <= steps.at(-1)!.fromS) fail("seconds must increase");
    steps.push({ fromS, rps: rps! });
  });
  if (steps.length === 0) throw new ServingError("invalid-argument", `${name}: a trace needs at least one row`);
  const lastS = steps.length > 1 ? steps.at(-1)!.fromS - steps.at(-2)!.fromS : 1;
  return { steps, durationS: steps.at(-1)!.fromS + lastS };
}
