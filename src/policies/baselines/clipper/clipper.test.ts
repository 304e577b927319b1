/** Rules of Clipper, worked by hand: l(b) = 10 b + 90 µs, SLO 1000, times in µs; then in simulation. Source: its paper §4.3 and its code. */
import { describe, expect, test } from "vitest";
import { FakeServer, group, modelSpec } from "../../../../test/fakes/fake-server.js";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../../../../test/support/scenario.js";
import { durationUs } from "../../../core/time.js";
import type { SimulatedEvent } from "../../../sim/event-lines.js";
import { simulate } from "../../../sim/simulate.js";
import { clipper } from "../../registry.js";
import { RegressionCap } from "./regression-cap.js";
import { SeededNormal } from "./seeded-normal.js";

const serve = (
  options: Parameters<typeof clipper>[0] = {},
  more: { accelerators?: number; models?: number; sizeMax?: number } = {},
) => new HandDriven({ policy: clipper(options), ...more });
/** Sizes that were executed, copies included. */
const sizes = (run: HandDriven): number[] => run.executedUs.map((us) => (us - 90) / 10);

describe("clipper: who runs when", () => {
  test("a free accelerator takes what is there, however little, earliest deadline first", () => {
    const run = serve({ batch_size: 8 }).arrive(0, "x").arrive(10, "a", 0, 900).arrive(20, "b", 0, 500).until(1000);
    expect(run.dispatches).toEqual(["0:x", "100:ba"]);
  });

  test("models in order of their earliest deadlines", () => {
    const run = serve({}, { models: 2 }).arrive(0, "x", 0).arrive(10, "a", 0, 900).arrive(20, "b", 1, 500).until(1000);
    expect(run.dispatches).toEqual(["0:0/x", "100:1/b", "200:0/a"]);
  });

  test("who cannot end in time still runs; only whose deadline has passed is given up", () => {
    // x ends at 100. a may not wait that long; b may, and would have to end by then.
    const run = serve({ batch_size: 8 }).arrive(0, "x").arrive(10, "a", 0, 99).arrive(10, "b", 0, 100).until(1000);
    expect(["a", "b"].map((name) => [run.ended.get(name), run.endedAt.get(name)])).toEqual([
      ["dropped expired", 100],
      ["late", 200],
    ]);
  });

  test("batch_size: whatever is measured, at most the model's largest", () => {
    const three = serve({ batch_size: 3 }).arrive(0, "x").arrive(10, "abcd").until(1000);
    expect(three.dispatches).toEqual(["0:x", "100:abc", "220:d"]);
    const all = serve({ batch_size: 100 }, { sizeMax: 2 }).arrive(0, "abc").until(1000);
    expect(all.dispatches).toEqual(["0:ab", "110:c"]);
  });
});

describe("clipper: aimd", () => {
  test("from 1, one more after each full batch that held the SLO; one that is not full proves nothing", () => {
    const run = serve().arrive(0, "x").arrive(10, "abcdefgh").arrive(1000, "ijklm").until(2000);
    expect(run.dispatches).toEqual(["0:x", "100:ab", "210:cde", "330:fgh", "1000:ijkl", "1130:m"]);
  });

  test("back by a part after each batch that took longer than the SLO", () => {
    // 1 and 95 are 96, which take 1050; half of that hold it, and 95 more do not: 143, then 71.5.
    const run = serve({ additive_step: 95, back_off: 0.5 }, { sizeMax: 200 }).arrive(0, "x");
    for (let request = 0; request < 400; request++) run.arrive(10, request);
    expect(sizes(run.until(100_000))).toEqual([1, 96, 48, 143, 71, 42]);
  });

  test("each accelerator learns its own", () => {
    const run = serve({}, { accelerators: 2 }).arrive(0, "x").arrive(10, "abcd").arrive(1000, "efg").until(2000);
    // The first took x and then two; a went to the second at once.
    expect(run.dispatches).toEqual(["0:x", "10:a", "100:bc", "110:d", "1000:efg"]);
    expect(run.order).toEqual([0, 1, 0, 1, 0]);
  });
});

describe("clipper: regression", () => {
  const alone = (options: Parameters<typeof clipper>[0], count: number, sizeMax = 64): HandDriven => {
    const run = serve({ cap: "regression", ...options }, { sizeMax });
    for (let request = 0; request < count; request++) run.arrive(10_000 * request, request);
    return run.until(10_000 * count);
  };

  test("while there is time, sizes are tried from 2 on, five times each, filled up with copies", () => {
    const run = alone({}, 12);
    expect(sizes(run)).toEqual([2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4]);
    expect(run.dispatches.slice(0, 2)).toEqual(["0:0", "10000:1"]);
  });

  test("from 10 on larger by a random part of about a tenth, by the seed", () => {
    const of = (seed: number): number[] => sizes(alone({ seed }, 105)).slice(45);
    const tried = of(1);
    expect(tried[0]).toBeGreaterThanOrEqual(10);
    tried.forEach((size, index) => {
      const before = tried[index - 1] ?? 10;
      expect(size).toBeGreaterThanOrEqual(before);
      expect(size).toBeLessThanOrEqual(1.4 * before);
    });
    expect(tried.at(-1)).toBeGreaterThan(20);
    expect(of(1)).toEqual(tried);
    expect([2, 3, 4].map(of)).not.toContainEqual(tried);
  });

  test("never above the model's largest, which is tried on", () => {
    expect(sizes(alone({}, 40, 4)).slice(15)).toEqual(Array.from({ length: 25 }, () => 4));
  });

  test("with less time than the longest took, as many as the line through what was measured has at 0.92 of it", () => {
    // Five times each 2, 3 and 4: 110, 120, 130. 0.92 * 135 are 124.2: 3.42 requests.
    const run = alone({}, 15).arrive(200_000, "abcdefgh", 0, 200_135).until(200_000);
    expect(run.dispatches.at(-1)).toBe("200000:abc");
    expect(sizes(run).at(-1)).toBe(3);
    // 0.92 * 142 are more than 130: 5 are tried.
    const longer = alone({}, 15).arrive(200_000, "abc", 0, 200_142).until(200_000);
    expect([longer.dispatches.at(-1), sizes(longer).at(-1)]).toEqual(["200000:abc", 5]);
  });

  const cap = (...ended: [size: number, ms: number][]): RegressionCap => {
    const made = new RegressionCap(64, 1, new SeededNormal(1, 0));
    for (const [size, ms] of ended) made.ended(size, ms * 1000);
    return made;
  };

  test("three standard deviations, pooled over sizes with five samples, are added to each mean", () => {
    // Squares 8 and 0 over 4 and 4 degrees: 1 ms. So (103, 2) and (203, 12): a tenth of a request for each ms.
    const spread = [98, 100, 102, 100, 100].map((ms): [number, number] => [2, ms]);
    const even = Array.from({ length: 5 }, (): [number, number] => [12, 200]);
    const learnt = cap(...spread, ...even);
    expect([161, 164].map((ms) => learnt.next(ms * 1000))).toEqual([7, 8]);
    // Four samples have no say.
    expect([161, 164].map((ms) => cap(...spread.slice(1), ...even).next(ms * 1000))).toEqual([8, 8]);
  });

  test("one size is all that there is to go by; a line never says less than 1", () => {
    expect([10, 99].map((ms) => cap([6, 100]).next(ms * 1000))).toEqual([6, 6]);
    expect(cap([4, 100], [8, 200]).next(1000)).toBe(1);
  });

  test("normal numbers: mean and deviation", () => {
    const random = new SeededNormal(3, 5);
    const draws = Array.from({ length: 20_000 }, () => random.next(0.1, 0.05));
    const mean = draws.reduce((sum, each) => sum + each, 0) / draws.length;
    const variance = draws.reduce((sum, each) => sum + (each - mean) ** 2, 0) / draws.length;
    expect(mean).toBeCloseTo(0.1, 2);
    expect(Math.sqrt(variance)).toBeCloseTo(0.05, 2);
  });
});

test("clipper live: every batch that its workers end raises the cap", { retry: 2 }, async () => {
  const spec = modelSpec({
    batchSizeMax: 16,
    emulated: { alphaMs: 1, betaMs: 4, tableMs: null },
    sloUs: durationUs(2_000_000),
  });
  const fake = await new FakeServer([spec], [{ ...group(1), policy: { name: "clipper", options: {} } }]).start();
  const answers = await Promise.all(Array.from({ length: 10 }, () => fake.infer()));
  expect(answers.every(({ reply }) => reply !== null)).toBe(true);
  expect(fake.pool.runs.map(({ batch }) => batch.members.length)).toEqual([1, 2, 3, 4]);
  await fake.stop();
});

describe("clipper in simulation", () => {
  const at = (rateRps: number) =>
    scenarioOf({
      models: [linearModel("m", 1, 5, 100, rateRps)],
      accelerators: accelerators(1),
      durationUs: durationUs(10_000_000),
    });

  test("copies take their time on the accelerator", () => {
    const ran: SimulatedEvent[] = [];
    const scenario = { ...at(1), arrivals: arrivalsAt([0]) };
    const listen = (event: SimulatedEvent): void => void (event.event === "ran" && ran.push(event));
    simulate(scenario, { policy: "clipper", policyOptions: { cap: "regression" }, onEvent: listen });
    expect(ran).toMatchObject([{ start_us: 0, end_us: 7000, members: [{ request: 0 }] }]);
  });

  test.each(["aimd", "regression"])(
    "%s: below capacity all end in time; past it hardly any, since accelerators run who is too late already",
    (cap) => {
      const run = (rateRps: number, policy = "clipper", policyOptions: object = { cap }) =>
        simulate(at(rateRps), { policy, policyOptions: { ...policyOptions } });
      expect(run(300).bad_rate).toBeLessThan(0.01);
      const { arrived, finished, late } = run(1500);
      expect(late / arrived).toBeGreaterThan(0.1);
      expect(finished / arrived).toBeLessThan(0.1);
      expect(run(1500, "nexus", { plan: "static" }).finished / arrived).toBeGreaterThan(0.4);
    },
  );
});
