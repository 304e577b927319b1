/** OTAS and what it is compared with, by hand: batches, the work that each gets, who is evicted. */
import { describe, expect, test } from "vitest";
import { HandDriven, type HandDrivenOptions } from "../../../test/support/hand-driven.js";
import type { ElasticProfile } from "../../core/latency/elastic.js";
import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import { ElasticTimes } from "../elastic/elastic-times.js";
import { limitsByProfile, limitsByTable } from "../elastic/planners/rate-limits.js";
import { WindowRate } from "../elastic/planners/window-rate.js";
import { infaasPolicy, petsPolicy, tomePolicy, vptPolicy } from "./baselines.js";
import { otasPolicy } from "./otas.js";
import { fixedGammaPolicy, queueGammaPolicy } from "./simple/simple-policies.js";

/** l(b) = alpha b + 100 µs. Accuracy rises with gamma. */
const way = (
  name: string,
  gamma: number,
  alphaUs: number,
  rest: { family?: number; loadUs?: number; runMb?: number } = {},
) => ({
  name,
  gamma,
  family: 0,
  execUs: linearTable(alphaUs, 100, 8),
  loadUs: 0,
  runMb: 0,
  ...rest,
});
/** Unsorted on purpose; kind 1 gains nothing by work. */
const ELASTIC: ElasticProfile = {
  variants: [way("0", 0, 100, { runMb: 10 }), way("8", 8, 200, { runMb: 20 }), way("-8", -8, 50, { runMb: 5 })],
  plain: 0,
  accuracy: [
    [0.8, 0.9, 0.6],
    [0.5, 0.5, 0.5],
  ],
};
const [PLAIN, MORE, LESS] = [1, 2, 3];
const drive = (policy: HandDrivenOptions["policy"], rest: Partial<HandDrivenOptions> = {}): HandDriven =>
  new HandDriven({ policy, elastic: ELASTIC, ...rest });

describe("batches (Algorithm 1)", () => {
  /** While one long batch runs, what waits forms batches; pets runs all alike. */
  const pool = (options: Parameters<typeof petsPolicy.create>[0]) =>
    drive(petsPolicy.create({ delta_ms: 0.1, eta_ms: 0.2, mu: 0.5, ...options })).arrive(0, "x");

  test("requests of like arrival, deadline and utility leave together", () => {
    const run = pool({}).arrive(10, "a", 0, 5000).arrive(50, "b", 0, 5200).arrive(60, "c", 0, 4900, 0, 1.5).until(2000);
    expect(run.dispatches).toEqual(["0:x", "200:cab"]);
  });

  test.each([
    ["delta: its first request has waited as long", 110, 5000, 1],
    ["eta: the deadlines differ by more", 20, 5201, 1],
    ["mu: the utilities differ by more", 20, 5000, 1.51],
  ])("%s: another batch, which runs after the one due before", (_, at, deadline, weight) => {
    const run = pool({}).arrive(10, "a", 0, 5000).arrive(at, "b", 0, deadline, 0, weight).until(2000);
    expect(run.dispatches).toEqual(["0:x", "200:a", "400:b"]);
  });

  test("epsilon: a batch is full", () => {
    const run = pool({ epsilon: 2 }).arrive(10, "abcde", 0, 5000).until(3000);
    expect(run.dispatches).toEqual(["0:x", "200:ab", "500:cd", "800:e"]);
  });

  test("a batch is due when its first member is, and batches run in that order", () => {
    const run = pool({}).arrive(10, "a", 0, 5000).arrive(20, "b", 0, 4000).arrive(30, "c", 0, 4150).until(3000);
    expect(run.dispatches).toEqual(["0:x", "200:bc", "500:a"]);
  });

  test("who goes away is missed by nobody", () => {
    const run = pool({}).arrive(10, "ab", 0, 5000).cancel(20, "a").cancel(30, "b").arrive(40, "c", 0, 5000).until(3000);
    expect(run.dispatches).toEqual(["0:x", "200:c"]);
    expect(run.ended.get("a")).toBe("dropped cancelled");
  });
});

describe("work", () => {
  const now = { initial_s: 0, kappa: 5 } as const;

  test("few batches: the rate of the last inference window decides (Algorithm 3)", () => {
    // At 0 nothing is known. Then 5 in 300 µs: 16,667/s, beyond what any way does (8 in 500 µs by the least work).
    const run = drive(otasPolicy.create(now)).arrive(0, "x").arrive(10, "abcde", 0, 1e6).until(600);
    expect(run.variants).toEqual([MORE, LESS]);
    // 1 in 10 ms.
    run.arrive(10_000, "y", 0, 1e6).until(11_000);
    expect(run.variants.at(-1)).toBe(MORE);
  });

  test("kappa: what is worth more gets the most work, while it would be in time by the rate's", () => {
    const critical = (deadline: number) =>
      drive(otasPolicy.create({ ...now, kappa: 2 }))
        .arrive(0, "x")
        .arrive(10, "abcd", 0, deadline, 0, 3)
        .until(2000);
    expect(critical(1e6).variants).toEqual([MORE, MORE]);
    // By the rate's, the least, it would end at 600: late, and runs by the least without who cannot be in time.
    expect(critical(550).variants).toEqual([MORE, LESS]);
  });

  test.each([
    ["token-adaptation", [MORE, LESS, MORE, PLAIN], "bd"],
    ["frontier", [MORE, LESS, PLAIN, LESS, PLAIN], "abcd"],
  ] as const)(
    "many batches: what %s finds to earn most; Algorithm 2 keeps one clock a state, and loses c",
    (allocator, variants, finished) => {
      const run = drive(otasPolicy.create({ ...now, beta: 0, eta_ms: 0, mu: 0, allocator })).arrive(0, "x");
      // Four batches of one. Due soon: there is time for 8 in two of them, for kind 1 the least work is enough.
      run
        .arrive(10, "a", 0, 1000, 1)
        .arrive(20, "b", 0, 1001, 0)
        .arrive(30, "c", 0, 1002, 1)
        .arrive(40, "d", 0, 1003, 0)
        .until(3000);
      expect(run.variants).toEqual(variants);
      for (const each of finished) expect(run.ended.get(each)).toBe("finished");
    },
  );

  test("in the initial stage the rate decides for many, too", () => {
    const run = drive(otasPolicy.create({ kappa: 5, beta: 0, eta_ms: 0, mu: 0 })).arrive(0, "x");
    run.arrive(10, "a", 0, 5000, 1).arrive(20, "b", 0, 5001, 1).until(3000);
    // 2 in 300 µs are 6,667/s: 0 does 8 in 900 µs.
    expect(run.variants).toEqual([MORE, PLAIN, MORE]);
  });

  test("what the plan passes over is skipped, or runs when there is time after all", () => {
    const options = { ...now, beta: 0, eta_ms: 0, mu: 0, gammas: [0] };
    // x until 200; a and b both by 500: there is time for one, and b earns more.
    const skipped = drive(otasPolicy.create(options))
      .arrive(0, "x")
      .arrive(10, "a", 0, 500, 0, 1)
      .arrive(20, "b", 0, 501, 0, 2)
      .until(3000);
    expect(skipped.dispatches).toEqual(["0:x", "200:b"]);
    expect(skipped.ended.get("a")).toBe("dropped skipped");
  });

  test("memory bounds the work, and the batch where nothing else is left", () => {
    const run = (memory_mb: number) =>
      drive(otasPolicy.create({ kappa: 5, memory_mb }))
        .arrive(0, "x")
        .arrive(10, "abcd", 0, 1e6)
        .arrive(10_000, "yz", 0, 1e6)
        .until(30_000);
    // 4 of 5 MB; 2 of 20.
    expect(run(39).variants).toEqual([MORE, LESS, MORE, MORE]);
    expect(run(39).dispatches.slice(2)).toEqual(["10000:y", "10300:z"]);
    expect(run(40).dispatches.slice(2)).toEqual(["10000:yz"]);
  });

  test("several accelerators take the batches in turn", () => {
    const run = drive(otasPolicy.create({ ...now, eta_ms: 0 }), { accelerators: 2 });
    run.arrive(0, "xy").arrive(10, "a", 0, 5000).arrive(20, "b", 0, 6000).arrive(30, "c", 0, 7000).until(3000);
    expect(run.dispatches.map((each) => each.split(":")[1])).toEqual(["xy", "a", "b", "c"]);
    expect(run.ended.size).toBe(5);
    expect(new Set(run.order)).toEqual(new Set([0, 1]));
  });

  test("a model that is not elastic has one way, and names no variant", () => {
    const run = new HandDriven({ policy: otasPolicy.create() }).arrive(0, "x").arrive(10, "ab", 0, 1e6).until(3000);
    expect(run.variants).toEqual([0, 0]);
    expect(run.executedUs).toEqual([100, 110]);
  });
});

describe("who is evicted", () => {
  test("late: who would end after the deadline, so that the others are in time", () => {
    const run = drive(petsPolicy.create()).arrive(0, "x").arrive(10, "a", 0, 480).arrive(20, "bc", 0, 550).until(2000);
    expect(run.dispatches).toEqual(["0:x", "200:bc"]);
    expect(run.ended.get("a")).toBe("dropped predicted-late");
    expect(run.lateByUs.get("a")).toBe(120);
  });

  test("expired: nobody who could begin", () => {
    const run = drive(petsPolicy.create({ evict: "expired" }))
      .arrive(0, "x")
      .arrive(10, "a", 0, 250)
      .arrive(20, "b", 0, 150)
      .until(2000);
    expect(run.dispatches).toEqual(["0:x", "200:a"]);
    expect(run.ended.get("a")).toBe("late");
    expect(run.ended.get("b")).toBe("dropped expired");
  });
});

describe("what OTAS is compared with", () => {
  test.each([
    ["pets", petsPolicy.create(), PLAIN],
    ["tome", tomePolicy.create({ r: 7 }), LESS],
    ["vpt", vptPolicy.create({ p: 100 }), MORE],
    ["fixed-gamma", fixedGammaPolicy.create({ gamma: -9, dispatch: "eager" }), LESS],
  ])("%s: the nearest gamma that there is, for all", (_, policy, variant) => {
    const run = drive(policy).arrive(0, "x").arrive(10, "abc", 0, 1e6).until(5000);
    expect(run.variants).toEqual([variant, variant]);
    expect(run.executedUs[0]).toBe(ELASTIC.variants[variant - 1]!.execUs[1]);
  });

  test("queue-gamma: less work the more wait, and more again", () => {
    const run = drive(queueGammaPolicy.create({ dispatch: "eager", wait_part: 1 })).arrive(0, "x");
    // SLO 1 ms. At its best 8 does 8 in 1700 µs, 0 8 in 900: 4 wait for the one, 8 for the other.
    run.arrive(10, "abcdef", 0, 1e6).until(5000).arrive(10_000, "y", 0, 1e6).until(20_000);
    expect(run.variants).toEqual([MORE, PLAIN, MORE]);
    const more = drive(queueGammaPolicy.create({ dispatch: "eager", wait_part: 1 }))
      .arrive(0, "x")
      .arrive(10, "abcdefghijkl", 0, 1e6)
      .until(5000);
    expect(more.variants.slice(0, 2)).toEqual([MORE, LESS]);
  });

  test("infaas: the most accurate model that keeps up, after two seconds that say so; loading it takes time", () => {
    const family: ElasticProfile = {
      variants: [
        way("0", 0, 100, { loadUs: 7000 }),
        way("small", 0, 20, { family: 1, loadUs: 3000 }),
        way("large", 0, 5000, { family: 2, loadUs: 9000 }),
        way("8", 8, 1),
      ],
      plain: 0,
      accuracy: [[0.8, 0.7, 0.9, 1]],
    };
    const run = drive(infaasPolicy.create(), { elastic: family });
    // One in a second: the large one keeps up (8 in 40.1 ms), once that was so for two seconds.
    for (let second = 0; second < 4; second++) run.arrive(second * 1e6 + 10, `${second}`, 0, 1e9);
    run.until(3.1e6);
    expect(run.variants).toEqual([1, 1, 3, 3]);
    expect(run.executedUs).toEqual([200, 200, 5100 + 9000, 5100]);
    // Nobody could wait for it, and yet it is loaded: whom it is loaded for ends late.
    const tight = drive(infaasPolicy.create({ evict: "late" }), { elastic: family });
    for (let second = 0; second < 4; second++) tight.arrive(second * 1e6 + 10, `${second}`, 0, second * 1e6 + 8000);
    tight.until(3.1e6);
    expect([...tight.ended.values()]).toEqual(["finished", "finished", "late", "finished"]);
  });
});

describe("times", () => {
  const spec = { latency: new ProfiledLatency(linearTable(100, 100, 8)), elastic: ELASTIC };

  test("ways ascend by gamma; the least time of any is what l(b) is", () => {
    const times = new ElasticTimes(spec);
    expect(times.ways.map((index) => ELASTIC.variants[index]!.gamma)).toEqual([-8, 0, 8]);
    expect([...times.execUs.subarray(0, 3)]).toEqual([0, 150, 200]);
    expect(new ElasticTimes(spec, { gammas: [0, 8, 99] }).count).toBe(2);
    expect(new ElasticTimes(spec, { gammas: [99] }).ways).toEqual([0]);
  });

  test("what one way took corrects all, and is forgotten on demand", () => {
    const times = new ElasticTimes(spec);
    const batches = { variant: [MORE], executedSize: [2] } as never;
    for (let batch = 0; batch < 200; batch++) times.measured({ batch: 0, batches, requests: null as never }, 1000);
    // 8 takes 500 for two: twice as long as profiled.
    expect(times.timeUs(0, 1)).toBeCloseTo(300, 0);
    expect(times.reset()).toBe(true);
    expect(times.timeUs(0, 1)).toBe(150);
    expect(times.reset()).toBe(false);
  });

  test("f(q) by the profile, and as printed in Table I", () => {
    const times = new ElasticTimes(spec);
    expect([...limitsByProfile(times, 8, 0.5)]).toEqual([Number.POSITIVE_INFINITY, 4e6 / 900, 4e6 / 1700]);
    const gammas = [-20, -15, -10, -8, -5, 0, 2, 4, 8, 16];
    const table = new ElasticTimes({
      latency: spec.latency,
      elastic: { ...ELASTIC, variants: gammas.map((gamma) => way(String(gamma), gamma, 100)), plain: 5 },
    });
    expect([...limitsByTable(table.gammas)]).toEqual([
      Number.POSITIVE_INFINITY,
      1000,
      520,
      450,
      450,
      380,
      350,
      320,
      280,
      280,
    ]);
  });

  test("the rate is that of the window that ends", () => {
    const rate = new WindowRate();
    expect(rate.perS(0)).toBe(0);
    for (let at = 0; at < 1000; at += 100) rate.observe(at);
    expect(rate.perS(1000)).toBe(10_000);
    rate.closed(1000);
    expect(rate.perS(1000)).toBe(10_000);
    expect(rate.perS(2000)).toBe(0);
  });
});
