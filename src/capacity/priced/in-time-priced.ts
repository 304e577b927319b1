/** How many of the requests of one model on one accelerator any scheduler can finish in time, in whole batches: a bound by prices. */
import { type ExpandedScenario, withRate } from "../../config/scenario/scenario.js";
import { type KnownRequests, requestsOfRun } from "../in-time/in-time.js";
import { PricedBatches } from "./priced-batches.js";

/** Steps of the grid in the shortest batch: prices are found roughly, then better; the last is what counts. */
const ROUGH = 11;
const FINE = 22;
const FINER = 44;
const LAST = 440;

/** Prices before anything is known. */
const PRICE = 0.4;

/**
 * The most that end in time, whatever a scheduler knows of times and of the future: an upper bound, for any prices; these are found
 * by raising what is served more than once and lowering what is not, first by signs (each with a step of its own, which halves
 * where the sign changes: Riedmiller and Braun's RPROP), then along the subgradient with momentum.
 */
export function mostInTimePriced(requests: KnownRequests): number {
  const { arrivalAt, aloneUs, c0Us, c1 } = requests;
  if (arrivalAt.length === 0) return 0;
  const moved = { ...requests, arrivalAt: arrivalAt.map((at) => at - arrivalAt[0]!) };
  const shortestUs = c0Us + c1 * aloneUs.reduce((least, us) => Math.min(least, us));
  const onGrid = (parts: number): PricedBatches => new PricedBatches(moved, shortestUs / parts);
  let prices: Float64Array = new Float64Array(arrivalAt.length).fill(PRICE);
  prices = bySigns(onGrid(ROUGH), prices, 20);
  prices = bySubgradient(onGrid(FINE), prices, { rounds: 30, from: 0.02, to: 0.004 });
  prices = bySubgradient(onGrid(FINER), prices, { rounds: 15, from: 0.005, to: 0.001 });
  return Math.min(arrivalAt.length, onGrid(LAST).bound(prices));
}

/** Part of the requests that any scheduler can finish in time, at most. */
export function finishBoundPriced(scenario: ExpandedScenario, rateRps: number, seed: number): number {
  const requests = requestsOfRun(withRate(scenario, rateRps), seed);
  return mostInTimePriced(requests) / requests.arrivalAt.length;
}

const within = (price: number): number => Math.min(1, Math.max(0, price));

/** @returns the best prices of all rounds. */
function best(
  batches: PricedBatches,
  given: Float64Array,
  rounds: number,
  change: (prices: Float64Array, round: number) => void,
): Float64Array {
  const prices = given.slice();
  let [least, found] = [Number.POSITIVE_INFINITY, given];
  for (let round = 0; round < rounds; round++) {
    const bound = batches.bound(prices);
    if (bound < least) [least, found] = [bound, prices.slice()];
    change(prices, round);
  }
  return found;
}

function bySigns(batches: PricedBatches, given: Float64Array, rounds: number): Float64Array {
  const step = new Float64Array(given.length).fill(0.1);
  const last = new Int8Array(given.length);
  return best(batches, given, rounds, (prices) => {
    for (let request = 0; request < prices.length; request++) {
      const sign = Math.sign(batches.served[request]! - 1);
      if (sign === 0) continue;
      const isTurn = last[request] === -sign;
      if (isTurn) step[request] = Math.max(0.005, step[request]! * 0.55);
      else if (last[request] === sign) step[request] = Math.min(0.2, step[request]! * 1.1);
      last[request] = sign;
      prices[request] = within(prices[request]! + sign * step[request]!);
    }
  });
}

function bySubgradient(
  batches: PricedBatches,
  given: Float64Array,
  { rounds, from, to }: { readonly rounds: number; readonly from: number; readonly to: number },
): Float64Array {
  const motion = new Float64Array(given.length);
  return best(batches, given, rounds, (prices, round) => {
    const step = from * (to / from) ** (round / (rounds - 1));
    for (let request = 0; request < prices.length; request++) {
      motion[request] = batches.served[request]! - 1 + 0.6 * motion[request]!;
      prices[request] = within(prices[request]! + step * Math.min(2.5, Math.max(-1.5, motion[request]!)));
    }
  });
}
