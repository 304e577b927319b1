/** What `auto` does for requests that go on to later modules of a pipeline, each part alone, in short simulations. */
import { describe, expect, it, test } from "vitest";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { loadScenarioFrom } from "../../../config/scenario/scenario.js";
import { sourceOf } from "../../../config/source.js";
import type { Report } from "../../../measure/report.js";
import { simulate } from "../../../sim/simulate.js";
import { auto } from "../../registry.js";

const fields = {
  duration_s: 8,
  warmup_s: 1,
  groups: [
    { name: "a", accelerators: 4 },
    { name: "b", accelerators: 2 },
  ],
  models: [
    { name: "a", group: "a", profile: { alpha_ms: 5, beta_ms: 20 }, slo_ms: 200, batch_max: 16 },
    { name: "b", group: "b", profile: { alpha_ms: 2, beta_ms: 6 }, slo_ms: 80, batch_max: 16 },
  ],
  pipelines: [
    {
      name: "p",
      slo_ms: 280,
      modules: [
        { id: 0, name: "a", pres: [], subs: [1] },
        { id: 1, name: "b", pres: [0], subs: [] },
      ],
    },
  ],
};
const CALM = { arrivals: { process: "poisson", rate_rps: 300 } };
/** A second at half as much again as a's 640 requests/s, after a quiet one. */
const BURSTS = {
  arrivals: {
    process: "poisson",
    steps: [0, 1, 2, 3, 4, 5, 6, 7].map((at) => ({ at_s: at, rate_rps: at % 2 === 0 ? 150 : 960 })),
  },
};

function run(arrivals: object, policyOptions: Readonly<Record<string, unknown>>): Report {
  const scenario = loadScenarioFrom(sourceOf({ ...fields, ...arrivals }, "parts"));
  return simulate(scenario, { policy: "auto", policyOptions, seed: 1 });
}

const medianMs = (report: Report): number => report.latency_ms.p50!;

describe("requests that go on to later modules", () => {
  it("wait for no larger batch beside idle accelerators, and are not rehearsed", () => {
    const own = { hand_on: false, rehearse: false, backlog_target: false };
    const handed = run(CALM, { backlog_target: false });
    expect(medianMs(handed)).toBeLessThan(0.8 * medianMs(run(CALM, own)));
    // What its stages would say is no matter for a: with and without them it does the same.
    expect(handed.per_module["p/a"]).toEqual(run(CALM, { backlog_target: false, rehearse: false }).per_module["p/a"]);
  });

  it("in a burst make no small batches for who came first", () => {
    const lost = (backlog: boolean): number => 1 - run(BURSTS, { backlog_target: backlog }).finish_rate;
    expect(lost(true)).toBeLessThan(lost(false) - 0.01);
  });

  it("share an accelerator as ever: nothing is handed on at the cost of another model", () => {
    const shared = { groups: undefined, accelerators: 6, models: fields.models.map(({ group: _, ...model }) => model) };
    const off = { hand_on: false, backlog_target: false };
    const rate = { arrivals: { process: "poisson", rate_rps: 700 } };
    // Before others came each thinks itself alone.
    const [handed, own] = [run({ ...shared, ...rate }, {}), run({ ...shared, ...rate }, off)];
    expect(Math.abs(handed.finish_rate - own.finish_rate)).toBeLessThan(0.005);
  });

  it("no pipeline: nothing of it changes anything", () => {
    const alone = {
      groups: undefined,
      pipelines: undefined,
      accelerators: 4,
      models: [{ name: "a", profile: { alpha_ms: 5, beta_ms: 20 }, slo_ms: 200 }],
      ...BURSTS,
    };
    expect(run(alone, {})).toEqual(run(alone, { hand_on: false, backlog_target: false }));
  });
});

describe("parts of a begun request that take unlike times, all as long as the longest of their batch", () => {
  const timesOf = (us: number) => Float64Array.of(us, us);
  const drive = (byKind: boolean): string[] => {
    const driven = new HandDriven({
      policy: auto({}),
      kinds: [
        { name: "short", share: 0.5, aloneUs: timesOf(100) },
        { name: "long", share: 0.5, aloneUs: timesOf(400) },
      ],
    });
    driven.arriveBegun(0, "0");
    for (const [index, letter] of [..."abLcd"].entries())
      driven.arriveBegun(1 + index, letter, 0, 1e9, byKind && letter === "L" ? 1 : 0);
    driven.until(5000);
    return driven.dispatches.map((each) => each.split(":")[1]!);
  };

  it("go together until one would cost the batch more than it takes alone", () => {
    // Two of 100 take 110, with the one of 400 a batch of three takes 1,020.
    expect(drive(true)).toEqual(["0", "ab", "L", "cd"]);
    expect(drive(false)).toEqual(["0", "abLcd"]);
  });
});

test("what isolation keeps an accelerator for: a client by the SLO, a part by its budget, nothing for what is begun; as for the last while nobody waits", () => {
  const driven = new HandDriven({ policy: auto({ isolation: true }), accelerators: 1, models: 2 });
  const { slackUs } = driven.scheduler.offers;
  driven.arrive(0, "x", 1, 1e9);
  // 1,000 less a run alone of 100.
  driven.arrive(1, "a", 0, 5000).until(1000);
  expect(slackUs[0]).toBe(900);
  driven.arrivePart(1000, "p", 0, 4000).until(2000);
  expect(slackUs[0]).toBe(2900);
  driven.arriveBegun(2000, "b", 0, 4000).until(3000);
  expect(slackUs[0]).toBe(Number.POSITIVE_INFINITY);
  driven.arrive(3000, "c", 0, 9000);
  expect(slackUs[0]).toBe(900);
});
