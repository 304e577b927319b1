import { type ExpandedModel, type ExpandedScenario, totalRate, withRate } from "../config/scenario/scenario.js";
import { invariant } from "../core/invariant.js";
import type { NetworkDelays } from "../core/policy.js";
import { type KnownArrivals, knownArrivals } from "./known-arrivals.js";
import { capacityOf, fastestScales, isSteady, requestsOf, runEndOf } from "./scenario-run.js";

export interface GatheringOptions {
  /** Of the arrivals. */
  readonly seed: number;
  /** Requests that are looked at, about. Default 100,000. */
  readonly requests?: number;
  /** Part of each model's requests that may be bad. Default 0.01. */
  readonly badRateMax?: number;
}

const REQUESTS = 100_000;
/** From rate to rate on the way down, and within the last step. */
const STEP = 0.98;
const LOOKS = 4;

/**
 * Accelerators (each counted by its speed relative to the fastest) that any schedule keeps busy, on average over the run,
 * with at most `badRateMax` of each model bad. Clairvoyant or not, in whatever order, on however many accelerators.
 *
 * A request in a batch of b takes l(b) / b of an accelerator. Such a batch starts when its last member is there and ends by
 * the deadline of its first, so its members arrive within SLO - l(b) of each other (less the delays that every schedule
 * pays): whoever has few around is dear. What a model keeps of its requests takes at least the sum of its cheapest.
 *
 * Tighter than fluid, which gives every request the largest batch there is; blind, as that one, to when accelerators are
 * wanted. Models alike in profile, SLO and rate are looked at once.
 *
 * @returns more than there are where the rate cannot be served; Infinity when a model cannot be served at all.
 */
export function leastBusy(scenario: ExpandedScenario, options: GatheringOptions): number {
  return leastWork(scenario, options).all;
}

/** leastBusy; and the same of the requests that must have ended when arrivals end (see RunEnd). */
function leastWork(scenario: ExpandedScenario, options: GatheringOptions): { all: number; early: number } {
  const { seed, requests = REQUESTS, badRateMax = 0.01 } = options;
  const classes = classesOf(scenario);
  const ofEach = { ...scenario, models: classes.map(({ model }) => model) };
  const totalRps = totalRate(ofEach);
  const known = knownArrivals(ofEach, totalRps, seed, isSteady(scenario) ? requests : requestsOf(scenario, totalRps));
  const fastest = Math.min(...fastestScales(scenario));
  const end = runEndOf(scenario);
  const least = { all: 0, early: 0 };
  for (const [index, { model, count }] of classes.entries()) {
    const shares = inner(leastShares(known[index]!, fastest, scenario.network), known[index]!).sort();
    if (shares.length === 0) continue;
    const workOf = (part: number): number => {
      let us = 0;
      for (let request = 0; request < Math.ceil(shares.length * part); request++) us += shares[request]!;
      return (count * model.rateRps * us) / (shares.length * 1e6);
    };
    least.all += workOf(1 - badRateMax);
    least.early += workOf(1 - badRateMax - end.openPart(model.sloUs));
  }
  return least;
}

/** The same as a part of what there is: at most 1 where such a schedule exists. */
export function leastUtilization(scenario: ExpandedScenario, options: GatheringOptions): number {
  return leastBusy(scenario, options) / capacityOf(scenario);
}

/**
 * Gathering bound, requests per second: the lowest rate, going down from the fluid bound, at which the least work is no more
 * than accelerators can do (see RunEnd). 0 when a model cannot be served at all.
 *
 * @param fluidRps see fluidBoundRps.
 */
export function gatheringBoundRps(scenario: ExpandedScenario, fluidRps: number, options: GatheringOptions): number {
  if (!Number.isFinite(fluidRps) || fluidRps === 0) return fluidRps;
  const capacity = capacityOf(scenario);
  const { overrun } = runEndOf(scenario);
  const isAbove = (rateRps: number): boolean => {
    const { all, early } = leastWork(withRate(scenario, rateRps), options);
    return all > capacity * overrun || early > capacity;
  };
  let high = fluidRps;
  let low = high;
  while (low > fluidRps / 1000 && isAbove(low)) {
    high = low;
    low *= STEP;
  }
  for (let look = 0; look < LOOKS && low < high; look++) {
    const middle = (low + high) / 2;
    if (isAbove(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/**
 * Least time of the fastest accelerator that each request can take, µs: l(b) / b of the largest batch that it could be in
 * with those next to it. Infinity for one that is late even alone.
 */
export function leastShares(known: KnownArrivals, scale: number, network: NetworkDelays): Float64Array {
  const { arrivalAt, execUs, sloUs } = known;
  const count = arrivalAt.length;
  const shares = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
  for (let size = 1; size < execUs.length - 1 && size <= count; size++) {
    const us = Math.ceil(execUs[size]! * scale);
    const apartUs = sloUs - network.responseUs - network.controlUs - size * network.dataUsPerRequest - us;
    if (apartUs < 0) break;
    // Requests before this one have this batch's share already.
    let next = 0;
    for (let first = 0; first + size <= count; first++) {
      if (arrivalAt[first + size - 1]! - arrivalAt[first]! > apartUs) continue;
      for (let request = Math.max(first, next); request < first + size; request++)
        shares[request] = Math.min(shares[request]!, us / size);
      next = first + size;
    }
  }
  return shares;
}

/** Without the requests whose neighbours the sample cuts off, where it is long enough. */
function inner(shares: Float64Array, { arrivalAt, sloUs }: KnownArrivals): Float64Array {
  const fromUs = arrivalAt[0]! + sloUs;
  const toUs = arrivalAt.at(-1)! - sloUs;
  const whole = shares.filter((_, request) => arrivalAt[request]! >= fromUs && arrivalAt[request]! <= toUs);
  return whole.length > 0 ? whole : shares;
}

/** Models that differ in name alone, as one and their number. */
function classesOf({ models, arrivals }: ExpandedScenario): { readonly model: ExpandedModel; count: number }[] {
  const classes = new Map<string, { readonly model: ExpandedModel; count: number }>();
  for (const model of models) {
    if (model.rateRps === 0) continue;
    const { sloUs, rateRps, execUs } = model;
    const isLike = arrivals.kind !== "replay" && model.modulation === undefined;
    const key = isLike ? [sloUs, rateRps, ...execUs].join(" ") : model.name;
    const like = classes.get(key);
    if (like === undefined) classes.set(key, { model, count: 1 });
    else like.count++;
  }
  const found = [...classes.values()];
  invariant(found.length > 0, "a gathering bound needs at least 1 model with arrivals; has 0");
  return found;
}
