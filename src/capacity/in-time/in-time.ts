/** How many of the requests of one model on one accelerator any scheduler can finish in time, where their times differ. */
import { type ExpandedScenario, withRate } from "../../config/scenario/scenario.js";
import { invariant } from "../../core/invariant.js";
import { createArrivals } from "../../sim/arrivals.js";
import { TrueTimes } from "../../sim/true-times.js";

/** Times in µs. */
export interface KnownRequests {
  /** Ascending. */
  readonly arrivalAt: Float64Array;
  /** Times alone, by which a batch of k takes c0Us + c1 k max. */
  readonly aloneUs: Float64Array;
  /** Of all. */
  readonly sloUs: number;
  readonly c0Us: number;
  readonly c1: number;
  readonly sizeMax: number;
}

/** Kinds of requests by their times alone that are told apart, at most. */
const GROUPS_MAX = 8;
/** A simulated clock is of whole µs. */
const ROUNDING_US = 2;

/**
 * The most that end in time, whatever a scheduler knows: an upper bound.
 *
 * Each request is given a share of the accelerator that it takes at least, so that the shares of no feasible batch are more than
 * what it takes. What is left is one request at a time, from its arrival to its deadline, where the most can be counted (mostInTime).
 * Shares depend on which requests are taken to be alike; of several ways the one that bounds best.
 */
export function mostInTimeOf(requests: KnownRequests): number {
  const { arrivalAt, sloUs } = requests;
  let least = arrivalAt.length;
  for (let groups = 1; groups <= GROUPS_MAX; groups++) {
    const shares = leastShares(requests, widestGaps(requests.aloneUs, groups - 1));
    least = Math.min(least, mostInTime(arrivalAt, shares, sloUs + ROUNDING_US));
  }
  return least;
}

/**
 * What each request takes of the accelerator at least, in any batch in which it ends in time. Infinity: there is none.
 *
 * Groups are parted by times alone. With j of a request's own group in its batch, none longer than it by group, it takes c0 / j + c1 l:
 * the batch takes at least c0 + c1 l for each of them, and for each of a shorter group no less than c1 times the longest, which is the
 * most that a shorter one is given here wherever a longer group is near. j is at most what arrives so close together that the first
 * can wait for the last, and the batch for both.
 *
 * @param cuts ascending; a request is of the group of those between two of them.
 */
export function leastShares(
  { arrivalAt, aloneUs, sloUs, c0Us, c1, sizeMax }: KnownRequests,
  cuts: readonly number[],
): Float64Array {
  const shares = new Float64Array(arrivalAt.length);
  const groupOf = Int32Array.from(aloneUs, (us) => cuts.filter((cut) => us > cut).length);
  for (let group = 0; group <= cuts.length; group++) {
    const members = Array.from(groupOf.keys()).filter((request) => groupOf[request] === group);
    members.forEach((request, place) => {
      const l = aloneUs[request]!;
      let together = 0;
      for (let size = Math.min(sizeMax, members.length); size >= 1 && together === 0; size--) {
        const spareUs = sloUs + ROUNDING_US - c0Us - c1 * size * l;
        if (spareUs < 0) continue;
        for (let first = Math.max(0, place - size + 1); first <= place; first++) {
          const last = members[first + size - 1];
          if (last === undefined) break;
          if (arrivalAt[last]! - arrivalAt[members[first]!]! > spareUs) continue;
          together = size;
          break;
        }
      }
      shares[request] = together === 0 ? Number.POSITIVE_INFINITY : c0Us / together + c1 * l;
    });
  }
  if (cuts.length > 0) capByLonger(shares, groupOf, { arrivalAt, aloneUs, sloUs, c1 });
  return shares;
}

/** At most c1 times what the least of a longer group takes that could share a batch. */
function capByLonger(
  shares: Float64Array,
  groupOf: Int32Array,
  { arrivalAt, aloneUs, sloUs, c1 }: Pick<KnownRequests, "arrivalAt" | "aloneUs" | "sloUs" | "c1">,
): void {
  let from = 0;
  for (let request = 0; request < shares.length; request++) {
    while (arrivalAt[from]! < arrivalAt[request]! - sloUs - ROUNDING_US) from++;
    for (let other = from; other < shares.length; other++) {
      if (arrivalAt[other]! > arrivalAt[request]! + sloUs + ROUNDING_US) break;
      if (groupOf[other]! > groupOf[request]! && shares[request]! < Number.POSITIVE_INFINITY)
        shares[request] = Math.min(shares[request]!, c1 * aloneUs[other]!);
    }
  }
}

/** Where neighbours are furthest apart; ascending. */
function widestGaps(aloneUs: Float64Array, count: number): number[] {
  const ascending = aloneUs.toSorted();
  return Array.from(ascending.keys())
    .slice(1)
    .sort((a, b) => ascending[b]! - ascending[b - 1]! - (ascending[a]! - ascending[a - 1]!))
    .slice(0, count)
    .map((index) => (ascending[index]! + ascending[index - 1]!) / 2)
    .sort((a, b) => a - b);
}

/**
 * The most jobs that one machine ends in time, each of some length, from its release on and at most `sloUs` after it. As deadlines
 * are in the order of releases, that order is best and nothing is won by interruption; whenever one is late, the job without
 * which the rest ends first is given up (Kise, Ibaraki and Mine 1978). O(n²).
 */
export function mostInTime(releaseAt: Float64Array, lengths: Float64Array, sloUs: number): number {
  const kept: number[] = [];
  const startAt: number[] = [];
  for (let job = 0; job < releaseAt.length; job++) {
    if (lengths[job]! > sloUs) continue;
    const last = kept.length - 1;
    const freeAt = last < 0 ? Number.NEGATIVE_INFINITY : startAt[last]! + lengths[kept[last]!]!;
    kept.push(job);
    startAt.push(Math.max(freeAt, releaseAt[job]!));
    if (startAt[last + 1]! + lengths[job]! <= releaseAt[job]! + sloUs) continue;
    giveUpOne(kept, startAt, releaseAt, lengths);
  }
  return kept.length;
}

function giveUpOne(kept: number[], startAt: number[], releaseAt: Float64Array, lengths: Float64Array): void {
  // From the last back: by how much all after a job could start earlier, until one of them could not.
  let spare = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  let chosen = kept.length - 1;
  for (let index = kept.length - 1; index >= 0 && spare > most; index--) {
    const gained = Math.min(spare, lengths[kept[index]!]!);
    if (gained > most) {
      most = gained;
      chosen = index;
    }
    spare = Math.min(spare, startAt[index]! - releaseAt[kept[index]!]!);
  }
  kept.splice(chosen, 1);
  startAt.splice(chosen, 1);
  for (let index = chosen; index < kept.length; index++) {
    const freeAt = index === 0 ? Number.NEGATIVE_INFINITY : startAt[index - 1]! + lengths[kept[index - 1]!]!;
    startAt[index] = Math.max(freeAt, releaseAt[kept[index]!]!);
  }
}

/** The counted requests of a simulation of this scenario and seed: one model with apps and a batch time, on one accelerator without delays. */
export function requestsOfRun(scenario: ExpandedScenario, seed: number): KnownRequests {
  const all = allRequestsOf(scenario, seed);
  const first = all.arrivalAt.findIndex((at) => at >= scenario.warmupUs);
  const from = first < 0 ? all.arrivalAt.length : first;
  return { ...all, arrivalAt: all.arrivalAt.slice(from), aloneUs: all.aloneUs.slice(from) };
}

/** The same with those that arrive while it warms up. */
export function allRequestsOf(scenario: ExpandedScenario, seed: number): KnownRequests {
  const { models, accelerators, network, durationUs } = scenario;
  const [model] = models;
  const batchTime = model?.batchTime;
  invariant(
    models.length === 1 && batchTime !== undefined && accelerators.length === 1 && accelerators[0]!.scale === 1,
    "one model with apps and batch_time on one accelerator of scale 1",
  );
  invariant(network.controlUs + network.dataUsPerRequest + network.responseUs === 0, "no network delays");
  const truth = TrueTimes.of(scenario, seed)!;
  const arrivalAt: number[] = [];
  const aloneUs: number[] = [];
  let number = 0;
  for (const arrivals = createArrivals(scenario, seed); arrivals.at < durationUs; arrivals.advance()) {
    arrivalAt.push(arrivals.at);
    const app = arrivals.app >= 0 ? arrivals.app : truth.appOf(0, number, 0);
    aloneUs.push(truth.aloneUs(0, app, number, 0));
    number++;
  }
  return {
    arrivalAt: Float64Array.from(arrivalAt),
    aloneUs: Float64Array.from(aloneUs),
    sloUs: model!.sloUs,
    ...batchTime!,
    sizeMax: model!.execUs.length - 2,
  };
}

/** Part of the requests that any scheduler can finish in time, at most. */
export function finishBound(scenario: ExpandedScenario, rateRps: number, seed: number): number {
  const requests = requestsOfRun(withRate(scenario, rateRps), seed);
  return mostInTimeOf(requests) / requests.arrivalAt.length;
}
