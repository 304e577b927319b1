/**
 * What users demand of a server (tails, stalls, no delay to tune, no lock-out), in simulated time: exact and seeded.
 * Each test states its setting; the scheduler learns speeds from measured batches and is told nothing of the faults.
 */
import { describe, expect, test } from "vitest";
import type { ExpandedScenario } from "../../src/config/scenario/scenario.js";
import { FINISHED } from "../../src/core/outcome.js";
import { durationUs } from "../../src/core/time.js";
import { fault, Recording } from "../support/recording.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../support/scenario.js";

const seconds = (s: number) => durationUs(s * 1e6);
const SEEDS = [1, 2, 3];
const POLICIES = [{}, { idle_dispatch: true }];

describe("recovery after a stall is immediate (2 s at full load, deadline 300 ms)", () => {
  const STALL_MS = 5000;
  // l(b) = 5b + 25 ms: with a batch of 23 in turn on 4 accelerators, about 600 r/s.
  const cases = [
    { count: 1, rateRps: 130 },
    { count: 4, rateRps: 600 },
  ];
  for (const options of POLICIES) {
    for (const { count, rateRps } of cases) {
      const setting = `${count} accelerators, ${JSON.stringify(options)}`;
      const scenarioWith = (faults: ExpandedScenario["faults"]) =>
        scenarioOf({
          models: [linearModel("m", 5, 25, 300, rateRps, 50)],
          accelerators: accelerators(count),
          durationUs: seconds(12),
          learn: true,
          faults,
        });
      const ids = Array.from({ length: count }, (_, id) => id);

      const judge = (run: Recording, seed: number, stallEndAt: number) => {
        const successes = run.requests.filter(({ outcome, endAt }) => outcome === FINISHED && endAt > stallEndAt);
        const first = Math.min(...successes.map(({ endAt }) => endAt)) - stallEndAt;
        expect(first).toBeLessThanOrEqual(300_000);
        // The same arrivals, from half a second after the stall on, as in a run without the stall.
        const unharmed = Recording.run(scenarioWith([]), "deferred", options, seed);
        const rate = (of: Recording) => of.finishRate(stallEndAt + 500_000, stallEndAt + 2_500_000);
        expect(rate(run)).toBeGreaterThanOrEqual(0.95 * rate(unharmed));
      };

      test(`all fail and come back (${setting})`, () => {
        for (const seed of SEEDS) {
          const faults = [
            ...ids.map((id) => fault(STALL_MS, "fail", id)),
            ...ids.map((id) => fault(STALL_MS + 2000, "recover", id)),
          ];
          judge(Recording.run(scenarioWith(faults), "deferred", options, seed), seed, (STALL_MS + 2000) * 1000);
        }
      });

      test(`batches under way hang for seconds (${setting})`, () => {
        for (const seed of SEEDS) {
          const faults = [
            ...ids.map((id) => fault(STALL_MS, "slow", id, 20)),
            ...ids.map((id) => fault(STALL_MS + 200, "slow", id, 1)),
          ];
          const run = Recording.run(scenarioWith(faults), "deferred", options, seed);
          const hung = run.batches.filter(({ startAt, endAt }) => endAt - startAt >= 600_000);
          expect(hung.length).toBeGreaterThanOrEqual(count / 2);
          judge(run, seed, Math.max(...hung.map(({ endAt }) => endAt)));
        }
      });
    }
  }
});

describe("tails stay flat: 4 accelerators, one 5 times slower", () => {
  // l(b) = 2b + 10 ms, SLO 60 ms. Load as a share of four healthy accelerators at a batch of 12.
  const capacityRps = (4 * 1000) / (2 + 10 / 12);
  for (const load of [0.3, 0.5, 0.6]) {
    test(`p99 within 1.5 times that of four healthy ones, at ${load} of their capacity`, () => {
      for (const seed of SEEDS) {
        const runWith = (factor: number) =>
          Recording.run(
            scenarioOf({
              models: [linearModel("m", 2, 10, 60, load * capacityRps, 25)],
              accelerators: accelerators(4),
              durationUs: seconds(30),
              learn: true,
              faults: [fault(0, "slow", 1, factor)],
            }),
            "deferred",
            { idle_dispatch: true },
            seed,
          );
        const healthy = runWith(1);
        const limping = runWith(5);
        expect(limping.latencyMs(0.99)).toBeLessThanOrEqual(1.5 * healthy.latencyMs(0.99));
        expect(limping.finishRate(0, 30e6)).toBeGreaterThan(0.99);
        // Noticed within a batch: from then on it only gets trials of one request, ever rarer.
        const onSlow = limping.batches.filter(({ accelerator }) => accelerator === 1);
        const large = onSlow.filter(({ size }) => size > 1);
        expect(large.length).toBeLessThanOrEqual(1);
        expect(onSlow.length).toBeLessThan(20);
      }
    });
  }
});

describe("nobody tunes a batch delay", () => {
  test("rate flips 10/s and 300/s every 2 s, SLO 100 ms: < 5 ms added at 10/s, batches >= 80 % of the best at 300/s", () => {
    // Strong batching: l(b) = b + 44 ms on 2 accelerators. The best batch at 300/s is the largest that staggered
    // execution holds, l(b)(1 + 1/n) <= SLO with n = r l(b) / b accelerators needed: b = 12, n = 1.4 of the 2 there are.
    const [alphaMs, betaMs, sloMs, highPerMs] = [1, 44, 100, 0.3];
    const timeMs = (b: number) => alphaMs * b + betaMs;
    let best = 1;
    for (let b = 1; b < 100; b++) if (timeMs(b) * (1 + b / (highPerMs * timeMs(b))) <= sloMs) best = b;
    expect(best).toBe(12);
    const phases = 20;
    const meanRps = 155;
    for (const gaps of ["equal", "gamma"] as const) {
      const run = Recording.run(
        scenarioOf({
          models: [linearModel("m", alphaMs, betaMs, sloMs, meanRps, 56)],
          accelerators: accelerators(2),
          durationUs: seconds(2 * phases),
          arrivals: {
            kind: "renewal",
            gaps,
            shape: 1,
            modulation: {
              atUs: Float64Array.from({ length: phases }, (_, phase) => phase * 2e6),
              factor: Float64Array.from({ length: phases }, (_, phase) => (phase % 2 === 0 ? 10 : 300) / meanRps),
            },
            missing: [],
          },
        }),
        "deferred",
        { idle_dispatch: true },
        1,
      );
      const isHigh = (at: number) => Math.floor(at / 2e6) % 2 === 1;
      const low = run.requests.filter(({ arrivalAt, execStartAt }) => !isHigh(arrivalAt) && execStartAt >= 0);
      const addedMs = low.reduce((sum, each) => sum + (each.execStartAt - each.arrivalAt) / 1000, 0) / low.length;
      expect(addedMs, gaps).toBeLessThan(5);
      const high = run.batches.filter(({ startAt }) => isHigh(startAt));
      const meanBatch = high.reduce((sum, { size }) => sum + size, 0) / high.length;
      expect(meanBatch, gaps).toBeGreaterThanOrEqual(0.8 * best);
      expect(run.finishRate(0, 2e6 * phases), gaps).toBeGreaterThan(0.99);
    }
  });

  test("where batching gains nothing, nobody waits for it and nobody is dropped for it: as eager", () => {
    const measure = (policy: string, options: Readonly<Record<string, unknown>>, rateRps: number) => {
      const run = Recording.run(
        scenarioOf({
          models: [linearModel("m", 10, 0.3, 100, rateRps, 32)],
          accelerators: accelerators(2),
          durationUs: seconds(60),
        }),
        policy,
        options,
        1,
      );
      const waitMs = run.requests
        .filter(({ execStartAt }) => execStartAt >= 0)
        .map(({ arrivalAt, execStartAt }) => (execStartAt - arrivalAt) / 1000);
      return { finished: run.finishRate(0, 60e6), waitMs: waitMs.reduce((a, b) => a + b, 0) / waitMs.length };
    };
    // 0.7, 0.9 and 1.1 of what two accelerators do.
    for (const rateRps of [140, 180, 220]) {
      const own = measure("deferred", { idle_dispatch: true }, rateRps);
      const eager = measure("eager", {}, rateRps);
      expect(own.finished, `${rateRps} r/s`).toBeGreaterThanOrEqual(0.99 * eager.finished);
      expect(own.waitMs, `${rateRps} r/s`).toBeLessThanOrEqual(1.1 * eager.waitMs + 0.1);
    }
  });

  test("5 requests at once, the first runs alone: the second execution has batch 4", () => {
    const run = Recording.run(
      scenarioOf({
        models: [linearModel("m", 1, 20, 100, 1, 16)],
        accelerators: accelerators(1),
        arrivals: arrivalsAt([0, 0.001, 0.001, 0.001, 0.001]),
      }),
      "deferred",
      { idle_dispatch: true },
      1,
    );
    expect(run.batches.map(({ size }) => size)).toEqual([1, 4]);
  });
});

describe("an estimate that is never measured again locks nobody out", () => {
  for (const options of POLICIES) {
    for (const factor of [3, 10, 40]) {
      test(`workers ${factor}x slow for 60 s, then normal: finish rate >= 99 % within 5 s (${JSON.stringify(options)})`, () => {
        for (const count of [1, 3]) {
          const m = linearModel("m", 1, 5, 50, 200 * count, 45);
          // Two models that both wait to the last moment collide on a single accelerator even when nothing is wrong.
          const models = count === 1 ? [m] : [m, linearModel("n", 2, 3, 40, 20 * count, 18)];
          const ids = Array.from({ length: count }, (_, id) => id);
          const run = Recording.run(
            scenarioOf({
              models,
              accelerators: accelerators(count),
              durationUs: seconds(80),
              learn: true,
              faults: [
                ...ids.map((id) => fault(5000, "slow", id, factor)),
                ...ids.map((id) => fault(65_000, "slow", id, 1)),
              ],
            }),
            "deferred",
            options,
            1,
          );
          expect(run.finishRate(0, 5e6)).toBeGreaterThanOrEqual(0.99);
          expect(run.finishRate(70e6, 80e6)).toBeGreaterThanOrEqual(0.99);
          // Meanwhile it is not taken for healthy: nearly all are refused, not run in vain.
          if (factor < 10) continue;
          const slow = run.requests.filter(({ arrivalAt }) => arrivalAt >= 10e6 && arrivalAt < 64e6);
          expect(slow.filter(({ execStartAt }) => execStartAt >= 0).length / slow.length).toBeLessThan(0.02);
        }
      });
    }
  }
});
