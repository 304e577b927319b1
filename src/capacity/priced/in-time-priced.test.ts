import { describe, expect, it } from "vitest";
import { stream } from "../../sim/random.js";
import { type KnownRequests, mostInTimeOf } from "../in-time/in-time.js";
import { mostInTimePriced } from "./in-time-priced.js";
import { PricedBatches } from "./priced-batches.js";

/** By trying every batch after every other. */
function mostByTrial({ arrivalAt, aloneUs, sloUs, c0Us, c1, sizeMax }: KnownRequests): number {
  const from = (left: readonly number[], freeAt: number): number => {
    let most = 0;
    for (let set = 1; set < 2 ** left.length; set++) {
      const members = left.filter((_, place) => (set >> place) & 1);
      if (members.length > sizeMax) continue;
      const startAt = Math.max(freeAt, ...members.map((request) => arrivalAt[request]!));
      const endAt = startAt + c0Us + c1 * members.length * Math.max(...members.map((request) => aloneUs[request]!));
      if (members.some((request) => arrivalAt[request]! + sloUs < endAt)) continue;
      const others = left.filter((request) => !members.includes(request));
      most = Math.max(most, members.length + from(others, endAt));
    }
    return most;
  };
  return from([...arrivalAt.keys()], 0);
}

const small = (seed: number): KnownRequests => {
  const random = stream(seed, "priced");
  const whole = (max: number) => Math.floor(random() * max);
  const arrivalAt = Float64Array.from({ length: 6 }, () => 1000 * whole(250)).sort();
  return {
    arrivalAt,
    aloneUs: Float64Array.from(arrivalAt, () => 1000 * (random() < 0.5 ? 10 + whole(5) : 60 + whole(40))),
    sloUs: 1000 * (60 + whole(140)),
    c0Us: 1000 * (20 + whole(40)),
    c1: 0.2,
    sizeMax: 3,
  };
};

describe("what ends in time in whole batches", () => {
  it("is no less than the best schedule has, on 60 small cases, and within one request of it in most", () => {
    let near = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const most = mostByTrial(small(seed));
      const bound = mostInTimePriced(small(seed));
      expect(bound, `seed ${seed}`).toBeGreaterThanOrEqual(most - 1e-9);
      if (bound < most + 1) near++;
    }
    expect(near).toBeGreaterThan(50);
  });

  it("is a bound at any prices", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = stream(seed, "priced/prices");
      const requests = small(seed);
      const prices = Float64Array.from(requests.arrivalAt, () => 1.2 * random());
      const bound = new PricedBatches(requests, 5000).bound(prices);
      expect(bound, `seed ${seed}`).toBeGreaterThanOrEqual(mostByTrial(requests) - 1e-9);
    }
  });

  it("is below what batches that can be interrupted end, under load", () => {
    const random = stream(1, "priced/load");
    let at = 0;
    const arrivalAt = Float64Array.from({ length: 150 }, () => (at += Math.ceil(-Math.log1p(-random()) * 14_000)));
    const requests: KnownRequests = {
      arrivalAt,
      aloneUs: Float64Array.from(arrivalAt, () => (random() < 0.5 ? 10_000 : 100_000)),
      sloUs: 200_000,
      c0Us: 44_000,
      c1: 0.2,
      sizeMax: 16,
    };
    expect(mostInTimePriced(requests)).toBeLessThan(0.95 * mostInTimeOf(requests));
  });

  it("of no requests is none", () => {
    const none = new Float64Array();
    expect(mostInTimePriced({ arrivalAt: none, aloneUs: none, sloUs: 1, c0Us: 1, c1: 1, sizeMax: 1 })).toBe(0);
  });
});
