/**
 * What a model with a short SLO keeps beside one whose batches are long (policies/deferred/reserve), in simulated time:
 * 62 frames a second of 1 ms with an SLO of 16 ms, and a model with an SLO of 250 ms, on two accelerators.
 */
import { describe, expect, test } from "vitest";
import { FINISHED } from "../../src/core/outcome.js";
import { durationUs } from "../../src/core/time.js";
import { Recording } from "../support/recording.js";
import { accelerators, linearModel, scenarioOf } from "../support/scenario.js";

const FRAMES = 0;
const LONG = 1;

/** Shares of the requests of each model that finish in time. */
function shares(policy: string, alphaMs: number, betaMs: number, rate: number, isolation: boolean): number[] {
  return sharesOf(policy, isolation, [
    linearModel("frames", 0.05, 0.95, 16, 62, 32),
    linearModel("long", alphaMs, betaMs, 250, rate, 32),
  ]);
}

function sharesOf(policy: string, isolation: boolean, models: ReturnType<typeof linearModel>[]): number[] {
  const scenario = scenarioOf({
    models,
    accelerators: accelerators(2),
    durationUs: durationUs(8e6),
  });
  const options = { idle_dispatch: true, rate_window_s: 1, isolation };
  const { requests } = Recording.run(scenario, policy, options, 1);
  return [FRAMES, LONG].map((model) => {
    const own = requests.filter((request) => request.model === model);
    return own.filter(({ outcome }) => outcome === FINISHED).length / own.length;
  });
}

describe("isolation: a short SLO beside long batches", () => {
  // At 120/s: batching gains little (a CPU) at 0.6 of capacity; or nearly all of the time is the same for any batch.
  for (const [alpha, beta] of [
    [10, 1],
    [1, 35],
  ] as const)
    for (const policy of ["deferred", "deferred+"])
      test(`${policy}: keeps 95 % beside 120/s of ${alpha} b + ${beta} ms, which keep theirs`, () => {
        const [without] = shares(policy, alpha, beta, 120, false);
        const [frames, long] = shares(policy, alpha, beta, 120, true);
        expect(without).toBeLessThan(0.97);
        expect(frames).toBeGreaterThan(0.98);
        expect(long).toBeGreaterThan(0.95);
      });

  test("keeps 90 % beside more than twice what fits, which keeps at least half of what it has alone", () => {
    const [, alone] = shares("deferred", 5, 5, 600, false);
    const [frames, long] = shares("deferred", 5, 5, 600, true);
    expect(frames).toBeGreaterThan(0.95);
    expect(long).toBeGreaterThan(0.5 * alone!);
    const [split] = shares("deferred", 10, 1, 600, true);
    expect(split).toBeGreaterThan(0.9);
  });

  test("one that is not light asks for an accelerator while it can still wait for one: 20/s that take a fifth of one, beside full batches of 72 ms", () => {
    for (const policy of ["deferred", "deferred+", "auto"])
      for (const [sloMs, rate] of [
        [60, 20],
        [60, 50],
        [120, 20],
      ] as const) {
        const models = [linearModel("own", 2, 8, sloMs, rate, 32), linearModel("long", 2, 8, 2000, 1000, 32)];
        const [own, long] = sharesOf(policy, true, models);
        expect(own, `${policy}, ${sloMs} ms, ${rate}/s`).toBeGreaterThan(0.95);
        expect(long).toBeGreaterThan(0.5);
      }
  });
});
