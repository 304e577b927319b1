import { describe, expect, it } from "vitest";
import { expandScenario, scenarioFrom } from "../../config/scenario/scenario.js";
import { sourceOf } from "../../config/source.js";
import { stream } from "../../sim/random.js";
import { simulate } from "../../sim/simulate.js";
import { finishBound, type KnownRequests, leastShares, mostInTime, mostInTimeOf } from "./in-time.js";

const subsetsOf = (count: number): number[][] =>
  Array.from({ length: 2 ** count }, (_, set) =>
    Array.from({ length: count }, (_, at) => at).filter((at) => (set >> at) & 1),
  );

describe("most jobs in time", () => {
  it("is what the best set of jobs has, on 300 small cases", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = stream(seed, "in-time");
      const whole = (max: number) => Math.floor(random() * max);
      const releaseAt = Float64Array.from({ length: 2 + whole(8) }, () => whole(40)).sort();
      const lengths = Float64Array.from(releaseAt, () => 1 + whole(20));
      const sloUs = 10 + whole(25);
      const fits = (jobs: readonly number[]): boolean => {
        let at = 0;
        return jobs.every((job) => {
          at = Math.max(at, releaseAt[job]!) + lengths[job]!;
          return at <= releaseAt[job]! + sloUs;
        });
      };
      const best = Math.max(...subsetsOf(releaseAt.length).map((jobs) => (fits(jobs) ? jobs.length : 0)));
      expect(mostInTime(releaseAt, lengths, sloUs), `seed ${seed}`).toBe(best);
    }
  });
});

describe("least shares", () => {
  it("are together no more than any batch takes that ends in time for all of its members", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = stream(seed, "in-time/shares");
      const whole = (max: number) => Math.floor(random() * max);
      const arrivalAt = Float64Array.from({ length: 8 }, () => whole(200)).sort();
      const requests: KnownRequests = {
        arrivalAt,
        aloneUs: Float64Array.from(arrivalAt, () => (random() < 0.5 ? 10 + whole(10) : 60 + whole(40))),
        sloUs: 100 + whole(400),
        c0Us: whole(50),
        c1: 0.1 + random() / 2,
        sizeMax: 5,
      };
      for (const cuts of [[], [40], [15, 40, 80]]) {
        const shares = leastShares(requests, cuts);
        for (const members of subsetsOf(8)) {
          if (members.length === 0 || members.length > requests.sizeMax) continue;
          const longest = Math.max(...members.map((member) => requests.aloneUs[member]!));
          const batchUs = requests.c0Us + requests.c1 * members.length * longest;
          if (arrivalAt[members.at(-1)!]! + batchUs > arrivalAt[members[0]!]! + requests.sloUs) continue;
          const total = members.reduce((sum, member) => sum + shares[member]!, 0);
          expect(total, `seed ${seed}, ${members}`).toBeLessThanOrEqual(batchUs + 1e-9);
        }
      }
    }
  });

  it("of two modes are those of batches of their own, where enough come together", () => {
    const aloneUs = Float64Array.from({ length: 8 }, (_, at) => (at % 2 === 0 ? 10 : 100));
    const requests = { arrivalAt: new Float64Array(8), aloneUs, sloUs: 1000, c0Us: 40, c1: 0.5, sizeMax: 4 };
    expect([...leastShares(requests, [50])]).toEqual([15, 60, 15, 60, 15, 60, 15, 60]);
    // Where only two come together, a long one's part of what a batch costs is half.
    expect(leastShares({ ...requests, aloneUs: aloneUs.map((us, at) => (at < 3 ? us : 10)) }, [50])[1]).toBe(90);
  });
});

describe("the bound", () => {
  const scenarioOf = (policy: string, rateRps: number, sloMs: number, learn: boolean) =>
    expandScenario(
      scenarioFrom(
        sourceOf(
          {
            name: "b",
            policy,
            duration_s: 8,
            warmup_s: 1,
            accelerators: 1,
            learn,
            models: [
              {
                name: "m",
                profile: { table_ms: Array.from({ length: 16 }, (_, at) => 44 + 11 * (at + 1)) },
                slo_ms: sloMs,
                batch_max: 16,
                profiled: 500,
                apps: [
                  { name: "short", share: 1, time: { histogram: { edges_ms: [8, 20], weights: [1] } } },
                  { name: "long", share: 1, time: { histogram: { edges_ms: [80, 110], weights: [1] } } },
                ],
                batch_time: { c0_ms: 44, c1: 0.2 },
              },
            ],
            arrivals: { process: "poisson", rate_rps: rateRps },
          },
          "b.yaml",
        ),
      ),
    );

  it("is above what every policy does, at any load", () => {
    for (const policy of ["distribution", "distribution+", "deferred", "eager", "nexus", "clockwork", "auto"])
      for (const rateRps of [20, 50, 80, 160])
        for (const sloMs of [160, 300, 600]) {
          const scenario = scenarioOf(policy, rateRps, sloMs, policy.startsWith("distribution"));
          const { finish_rate: finished } = simulate(scenario, { policy, seed: 3 });
          expect(finishBound(scenario, rateRps, 3), `${policy} ${rateRps} ${sloMs}`).toBeGreaterThanOrEqual(
            finished - 1e-12,
          );
        }
  });

  it("falls with the load, to the part that is short", () => {
    const at = [20, 80, 160, 640].map((rateRps) => finishBound(scenarioOf("eager", rateRps, 300, false), rateRps, 3));
    expect(at).toEqual(at.toSorted((a, b) => b - a));
    expect(at[0]).toBeGreaterThan(0.99);
    expect(at.at(-1)).toBeLessThan(0.5);
  });

  it("is 0 where nobody can be in time, and counts nobody twice", () => {
    const none = {
      arrivalAt: Float64Array.of(0, 1),
      aloneUs: Float64Array.of(50, 60),
      sloUs: 40,
      c0Us: 10,
      c1: 1,
      sizeMax: 4,
    };
    expect(mostInTimeOf(none)).toBe(0);
    expect(mostInTimeOf({ ...none, sloUs: 1000 })).toBe(2);
  });
});
