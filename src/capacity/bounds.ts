/** Upper bounds on peak goodput: what no scheduler exceeds, to hold policies against. */
import { type ExpandedScenario, totalRate } from "../config/scenario/scenario.js";
import { invariant } from "../core/invariant.js";
import { tInterval95 } from "../measure/statistics.js";
import { type ClairvoyantOptions, clairvoyantBound } from "./clairvoyant.js";
import { gatheringBoundRps } from "./gathering.js";
import { knownArrivals } from "./known-arrivals.js";
import { capacityOf, fastestScales, isSteady, requestsOf, runEndOf } from "./scenario-run.js";

/**
 * Fluid bound, requests per second: no scheduler serves more over a run with at most `badRateMax` of every model bad.
 *
 * A request in a batch of b takes at least l(b) / b of an accelerator, and b is at most the largest batch that ends in
 * time when it starts with its last arrival: l(b) + d_ctrl + b * d_data + d_resp <= SLO. Accelerators count by their speed
 * relative to the fastest, and as if they were there all the time and as fast as they ever are. Arrivals are ignored: that so many arrive at once is
 * not asked.
 *
 * @returns Infinity when no model has arrivals; 0 when a model with arrivals cannot be served at all.
 */
export function fluidBoundRps(scenario: ExpandedScenario, badRateMax = 0.01): number {
  const { network } = scenario;
  const fastest = Math.min(...fastestScales(scenario));
  const totalRps = totalRate(scenario);
  const end = runEndOf(scenario);
  // µs per request that arrives, over all models; and of those that must have ended when arrivals end.
  let allUs = 0;
  let earlyUs = 0;
  for (const { rateRps, execUs, sloUs } of scenario.models) {
    if (rateRps === 0) continue;
    let least = Number.POSITIVE_INFINITY;
    for (let b = 1; b < execUs.length - 1; b++) {
      const us = execUs[b]! * fastest;
      if (us + network.controlUs + b * network.dataUsPerRequest + network.responseUs <= sloUs)
        least = Math.min(least, us / b);
    }
    allUs += (rateRps / totalRps) * (1 - badRateMax) * least;
    earlyUs += (rateRps / totalRps) * Math.max(0, 1 - badRateMax - end.openPart(sloUs)) * least;
  }
  if (allUs === 0) return Number.POSITIVE_INFINITY;
  return capacityOf(scenario) * 1e6 * Math.min(end.overrun / allUs, 1 / earlyUs);
}

/** Bounds on peak goodput, requests per second; see fluidBoundRps, gatheringBoundRps and clairvoyantBound. */
export interface GoodputBounds {
  readonly fluid_rps: number;
  /** Where rates change, the mean over seeds, since the run is too short to stand for all; see below. */
  readonly gathering_rps: number;
  /** 95 % interval of gathering_rps over seeds; only where rates change, elsewhere a long sample leaves none. */
  readonly gathering_low_rps?: number;
  readonly gathering_high_rps?: number;
  /**
   * Absent where rates change over the run: a part of it does not stand for the whole, which may be long. Absent, too, where
   * 1 % of a run is less than a request or two: then chance decides which rates those few arrivals can be served at.
   */
  readonly clairvoyant_any_rps?: number;
  readonly clairvoyant_in_order_rps?: number;
}

export interface ClairvoyantPeakOptions {
  readonly over: ClairvoyantOptions["over"];
  readonly seeds: readonly number[];
  /** Requests of a run, about. More bound tighter: accelerators work until the last deadline. Default 20,000. */
  readonly requests?: number;
  readonly steps?: number;
  readonly badRateMax?: number;
}

const REQUESTS = 20_000;
/** Enough to be within a per cent of what many more give. */
const BOUND_REQUESTS = 10_000;
const BOUND_STEPS = 100;
/** Rates that are looked at: the root is then known to 0.25 %. */
const LOOKS = 7;
const REACH = 0.2;

/**
 * Clairvoyant bound, requests per second: the rate at which, by clairvoyantBound and on average over seeds, more than
 * `badRateMax` of all requests must be bad. If every model has at most that part bad, so have all together.
 *
 * A part of a run of steady rates bounds the whole: a longer schedule, cut by arrivals, is a schedule of each part, which has the
 * accelerators for itself from before its first arrival until after its last deadline.
 */
export function clairvoyantPeakRps(scenario: ExpandedScenario, options: ClairvoyantPeakOptions): number {
  const { over, seeds, requests = REQUESTS, steps, badRateMax = 0.01 } = options;
  invariant(seeds.length > 0, "a clairvoyant peak needs at least 1 seed; was 0");
  let high = fluidBoundRps(scenario, badRateMax);
  if (!Number.isFinite(high)) return high;
  let low = high * (1 - REACH);
  const scales = fastestScales(scenario);
  const isAbove = (rateRps: number): boolean => {
    let inTime = 0;
    let arrived = 0;
    for (const seed of seeds) {
      const arrivals = knownArrivals(scenario, rateRps, seed, Math.min(requests, requestsOf(scenario, rateRps)));
      const bound = clairvoyantBound(arrivals, {
        scales,
        network: scenario.network,
        over,
        ...(steps === undefined ? {} : { steps }),
      });
      inTime += bound.inTime;
      arrived += bound.arrived;
    }
    return inTime < (1 - badRateMax) * arrived;
  };
  // With few accelerators chance costs more than the first guess allows for.
  while (low > high / 64 && isAbove(low)) {
    high = low;
    low *= 1 - REACH;
  }
  for (let look = 0; look < LOOKS; look++) {
    const middle = (low + high) / 2;
    if (isAbove(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Requests of a run below which a hundredth of them is a matter of chance. */
const FEW_REQUESTS = 200;
/** Enough where each seed of a steady run tells the same. */
const BOUND_SEEDS = 2;

/** All of them. @param seeds of the arrivals: all where rates change; else the first few are enough. */
export function boundsOf(scenario: ExpandedScenario, seeds: readonly number[]): GoodputBounds {
  const fluid = fluidBoundRps(scenario);
  const gathering = (seed: number): number => gatheringBoundRps(scenario, fluid, { seed });
  if (!isSteady(scenario)) {
    const { mean, low, high } = tInterval95(seeds.map(gathering));
    const isOne = seeds.length === 1;
    return {
      fluid_rps: fluid,
      gathering_rps: mean,
      ...(isOne ? {} : { gathering_low_rps: Math.max(0, low), gathering_high_rps: high }),
    };
  }
  const simple = { fluid_rps: fluid, gathering_rps: gathering(seeds[0]!) };
  const clairvoyant = (over: ClairvoyantOptions["over"]): number =>
    clairvoyantPeakRps(scenario, {
      over,
      seeds: seeds.slice(0, BOUND_SEEDS),
      requests: BOUND_REQUESTS,
      steps: BOUND_STEPS,
    });
  const any = requestsOf(scenario, simple.gathering_rps) < FEW_REQUESTS ? 0 : clairvoyant("any");
  if (requestsOf(scenario, any) < FEW_REQUESTS) return simple;
  return { ...simple, clairvoyant_any_rps: any, clairvoyant_in_order_rps: clairvoyant("in-order") };
}
