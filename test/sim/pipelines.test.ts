/**
 * Pipelines in the simulator: what the report says of a request that crosses several modules, against a count of the event
 * log that knows nothing of the collector; and what every run must keep.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import {
  type ExpandedScenario,
  loadScenario,
  loadScenarioFrom,
  parseScenario,
  withRate,
} from "../../src/config/scenario/scenario.js";
import { parseReplay } from "../../src/config/scenario/traces.js";
import { parseSource, sourceOf } from "../../src/config/source.js";
import { conservation, type Report } from "../../src/measure/report.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";
import { BUDGET_RULES, type BudgetRule } from "../../src/system/budget/budget-spec.js";
import { fault } from "../support/recording.js";

type Event<K extends SimulatedEvent["event"]> = Extract<SimulatedEvent, { event: K }>;

function run(scenario: ExpandedScenario, policy?: string): { report: Report; events: SimulatedEvent[] } {
  const events: SimulatedEvent[] = [];
  const options = { onEvent: (event: SimulatedEvent) => void events.push(event) };
  const report = simulate(scenario, policy === undefined ? options : { ...options, policy });
  return { report, events };
}

const of = <K extends SimulatedEvent["event"]>(events: readonly SimulatedEvent[], kind: K): Event<K>[] =>
  events.filter((event): event is Event<K> => event.event === kind);

/** Who finished of a chain, by what ran: every module after the one before it, the last done by the deadline. */
function finishedOfChain(events: readonly SimulatedEvent[], chain: readonly string[]): Set<number> {
  const doneAt = new Map<string, number>();
  for (const { lost, members, start_us, end_us } of of(events, "ran")) {
    for (const { request, module } of members) {
      const step = chain.indexOf(module!);
      if (step > 0 && !((doneAt.get(`${request} ${chain[step - 1]}`) ?? Number.POSITIVE_INFINITY) <= start_us))
        throw new Error(`request ${request} began ${module} at ${start_us} before ${chain[step - 1]} was done`);
      if (lost) continue;
      if (doneAt.has(`${request} ${module}`)) throw new Error(`request ${request} ran twice in ${module}`);
      doneAt.set(`${request} ${module}`, end_us);
    }
  }
  const isInTime = ({ request, deadline_us }: Event<"arrived">): boolean =>
    (doneAt.get(`${request} ${chain.at(-1)}`) ?? Number.POSITIVE_INFINITY) <= deadline_us;
  return new Set(
    of(events, "arrived")
      .filter(isInTime)
      .map(({ request }) => request),
  );
}

/** Finish rate and invalid rate by the log: arrivals of the counted interval, and the time of batches within it, in equal parts. */
function count(
  events: readonly SimulatedEvent[],
  finished: ReadonlySet<number>,
  { warmupUs, durationUs }: ExpandedScenario,
) {
  const counted = of(events, "arrived").filter(({ at_us: at }) => at >= warmupUs && at < durationUs);
  let busyUs = 0;
  let invalidUs = 0;
  for (const { members, lost, start_us, end_us } of of(events, "ran")) {
    const us = Math.max(0, Math.min(end_us, durationUs) - Math.max(start_us, warmupUs));
    busyUs += us;
    const invalid = members.filter(({ request }) => lost || !finished.has(request));
    invalidUs += (us * invalid.length) / members.length;
  }
  return {
    arrived: counted.length,
    finished: counted.filter(({ request }) => finished.has(request)).length,
    invalidRate: invalidUs / busyUs,
    utilization: busyUs / (durationUs - warmupUs),
  };
}

function expectAsCounted(report: Report, counted: ReturnType<typeof count>, accelerators: number): void {
  expect(report.arrived).toBe(counted.arrived);
  expect(report.finished).toBe(counted.finished);
  expect(report.finish_rate).toBeCloseTo(counted.finished / counted.arrived, 12);
  expect(report.invalid_rate).toBeCloseTo(counted.invalidRate, 9);
  expect(report.utilization).toBeCloseTo(counted.utilization / accelerators, 9);
}

const CHAIN = ["detect", "orient", "recognise"];

function chain(
  rateRps: number,
  budget: BudgetRule,
  faults: ExpandedScenario["faults"] = [],
  durationS = 7,
): ExpandedScenario {
  const text = readFileSync("scenarios/pipelines/chain.yaml", "utf8").replace(
    "slo_ms: 150",
    `$&\n    budget: ${budget}`,
  );
  return { ...loadScenarioFrom(parseSource(text, "chain.yaml"), { rateRps, durationS }), faults };
}

describe("a chain of three emulated modules, counted apart from the log", () => {
  const OUTAGES = [
    fault(4000, "fail", 0),
    fault(5000, "recover", 0),
    fault(6000, "fail", 3),
    fault(7500, "recover", 3),
  ];
  for (const policy of ["deferred", "eager", undefined]) {
    test(`${policy ?? "the default"}: finish rate and invalid rate are those of an independent count`, () => {
      let wasted = 0;
      for (const budget of BUDGET_RULES) {
        for (const [rate, faults] of [
          [300, []],
          [600, []],
          [900, []],
          [600, OUTAGES],
        ] as const) {
          const scenario = chain(rate, budget, faults);
          const { report, events } = run(scenario, policy);
          const counted = count(events, finishedOfChain(events, CHAIN), scenario);
          expectAsCounted(report, counted, 6);
          expect(conservation(report)).toEqual([]);
          if (counted.invalidRate > 0.05) wasted++;
        }
      }
      expect(wasted).toBeGreaterThan(2);
    });
  }

  test("module by module, deferred said 0.66 finished and nothing in vain where the truth is 0.17 and 0.65", () => {
    const scenario = chain(500, "whole", [], 30);
    const { report, events } = run(scenario, "deferred");
    const ends = of(events, "ended").filter(({ module }) => module !== undefined);
    const byModule = ends.filter(({ outcome }) => outcome === "finished").length / ends.length;
    const late = ends.filter(({ outcome }) => outcome === "late").length;
    expect(byModule).toBeCloseTo(0.66, 1);
    expect(late).toBe(0);
    expect(report.finish_rate).toBeCloseTo(0.17, 1);
    expect(report.invalid_rate).toBeCloseTo(0.65, 1);
    // Told of its share of the time, the same policy keeps nearly all.
    expect(run(chain(500, "share"), "deferred").report.finish_rate).toBeGreaterThan(0.98);
  });
});

test("measured: where profiles say little of the times under load, shares go by what the modules say", () => {
  const text = readFileSync("scenarios/pipelines/chain.yaml", "utf8")
    .replace("orient, profile: { alpha_ms: 2, beta_ms: 8 }", "orient, profile: { alpha_ms: 3, beta_ms: 1 }")
    .replace("recognise, profile: { alpha_ms: 2, beta_ms: 8 }", "recognise, profile: { alpha_ms: 1, beta_ms: 20 }");
  const rate = (budget: BudgetRule): number =>
    simulate(
      loadScenarioFrom(parseSource(text.replace("slo_ms: 150", `$&\n    budget: ${budget}`), "skew.yaml"), {
        rateRps: 600,
        durationS: 10,
      }),
      { policy: "eager" },
    ).finish_rate;
  expect(rate("share")).toBeLessThan(0.85);
  expect(rate("measured")).toBeGreaterThan(0.88);
});

describe("pages: fan-out, branch, join and what may be missing", () => {
  const pages = (rateRps: number, faults: ExpandedScenario["faults"] = []): ExpandedScenario => ({
    ...loadScenario("scenarios/pipelines/pages.yaml", { rateRps, durationS: 5 }),
    faults,
  });
  const LOSSES = [0, 1, 4, 5].flatMap((id, index) => [
    fault(2500 + 100 * index, "fail", id),
    fault(3500, "recover", id),
  ]);

  test("each request ends once, and by its ends the time in vain is as reported, under every policy", () => {
    for (const policy of [
      "deferred",
      "deferred+",
      "eager",
      "timeout",
      "fixed-size",
      "clipper",
      "clipper++",
      "naive",
      "pard",
      "clockwork",
      "nexus",
      "shepherd",
      "tfserving",
      "triton",
    ]) {
      for (const [rate, faults] of [
        [150, LOSSES],
        [700, []],
      ] as const) {
        const scenario = pages(rate, faults);
        const { report, events } = run(scenario, policy);
        const ends = of(events, "ended").filter(({ module }) => module === undefined);
        const arrived = of(events, "arrived").map(({ request }) => request);
        expect(
          ends.map(({ request }) => request).sort((a, b) => a - b),
          policy,
        ).toEqual(arrived);
        const finished = new Set(ends.filter(({ outcome }) => outcome === "finished").map(({ request }) => request));
        expectAsCounted(report, count(events, finished, scenario), 6);
        expect(conservation(report), policy).toEqual([]);
      }
    }
  });

  test("a request's ways and parts are the same under every policy and at every load", () => {
    const waysOf = (scenario: ExpandedScenario, policy: string): Map<number, string> => {
      const { events } = run(scenario, policy);
      const finished = new Set(
        of(events, "ended").flatMap(({ request, module, outcome }) =>
          module === undefined && outcome === "finished" ? [request] : [],
        ),
      );
      const ways = new Map<number, string[]>();
      for (const { request, module } of of(events, "ran").flatMap(({ members }) => members))
        if (finished.has(request)) ways.set(request, [...(ways.get(request) ?? []), module!]);
      return new Map([...ways].map(([request, modules]) => [request, modules.sort().join(" ")]));
    };
    const eager = waysOf(pages(150), "eager");
    const deferred = waysOf(pages(150), "deferred");
    expect(eager.size).toBeGreaterThan(300);
    const both = [...eager].filter(([request]) => deferred.has(request));
    expect(both.length).toBeGreaterThan(300);
    for (const [request, ways] of both) expect(deferred.get(request)).toBe(ways);
    const all = [...eager.values()];
    const share = (some: (ways: string) => boolean): number => all.filter(some).length / all.length;
    expect(share((ways) => ways.includes("caption"))).toBeCloseTo(0.1, 1);
    // No lines: 1 of 15 of those that are no photographs.
    expect(share((ways) => ways === "detect layout merge route")).toBeCloseTo(0.9 / 15, 1);
  });

  test("soft: what is dropped there does not end its request", () => {
    const { report, events } = run(
      expandScenario(
        parseScenario(`
groups: [{ name: main, accelerators: 2 }, { name: side, accelerators: 1, policy: eager }]
models:
  - { name: first, group: main, profile: { alpha_ms: 0.1, beta_ms: 1 } }
  - { name: extra, group: side, profile: { alpha_ms: 0, beta_ms: 20 }, batch_max: 1 }
  - { name: last, group: main, profile: { alpha_ms: 0.1, beta_ms: 1 } }
pipelines:
  - name: p
    slo_ms: 100
    budget: rest
    modules:
      - { id: 0, name: first }
      - { id: 1, name: extra, pres: [0], soft: true }
      - { id: 2, name: last, pres: [0, 1] }
arrivals: { process: poisson, rate_rps: 100 }
duration_s: 4
`),
      ),
    );
    const without = of(events, "ended").filter(({ module, outcome }) => module === "extra" && outcome === "dropped");
    expect(without.length).toBeGreaterThan(100);
    const finished = new Set(
      of(events, "ended").flatMap(({ request, module, outcome }) =>
        module === undefined && outcome === "finished" ? [request] : [],
      ),
    );
    expect(without.filter(({ request }) => finished.has(request)).length).toBeGreaterThan(100);
    expect(report.finish_rate).toBeGreaterThan(0.9);
    expect(report.per_module["p/extra"]!.finish_rate).toBeLessThan(0.6);
  });
});

test("a part that runs on when its request is given up elsewhere: it ends with its batch, and its time was in vain", () => {
  const replay = parseReplay("at_us,model\n0,p\n0,p\n", "replay.csv");
  const scenario = expandScenario(
    parseScenario(`
groups: [{ name: a, accelerators: 1 }, { name: b, accelerators: 1 }, { name: c, accelerators: 1 }]
models:
  - { name: first, group: a, profile: { alpha_ms: 0, beta_ms: 1 } }
  - { name: long, group: b, profile: { alpha_ms: 0, beta_ms: 30 } }
  - { name: narrow, group: c, profile: { alpha_ms: 0, beta_ms: 40 }, batch_max: 1 }
pipelines:
  - name: p
    slo_ms: 60
    budget: whole
    modules: [{ id: 0, name: first }, { id: 1, name: long, pres: [0] }, { id: 2, name: narrow, pres: [0] }]
arrivals: { process: replay, replay: replay.csv }
duration_s: 1
policy: eager
`),
    { replay },
  );
  const { report, events } = run(scenario);
  const ends = of(events, "ended");
  const [given] = ends.filter(({ module, outcome }) => module === undefined && outcome === "dropped");
  const [long] = of(events, "ran").filter(
    ({ model, members }) => model === "long" && members.some(({ request }) => request === given!.request),
  );
  expect(given!.at_us).toBeLessThan(long!.end_us);
  const [part] = ends.filter(({ request, module }) => request === given!.request && module === "long");
  expect([part!.outcome, part!.at_us]).toEqual(["finished", long!.end_us]);
  const finished = new Set(
    ends.flatMap(({ request, module, outcome }) => (module === undefined && outcome === "finished" ? [request] : [])),
  );
  expect(finished.size).toBe(1);
  expectAsCounted(report, count(events, finished, scenario), 3);
  expect(report.invalid_rate).toBeGreaterThan(0.15);
});

describe("several groups", () => {
  const TWO = `
groups:
  - { name: fast, accelerators: 2 }
  - { name: slow, accelerators: [{ scale: 2 }], policy: eager }
models:
  - { name: a, group: fast, profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 40, rate_rps: 900 }
  - { name: b, group: slow, profile: { alpha_ms: 2, beta_ms: 5 }, slo_ms: 90, rate_rps: 60 }
arrivals: { process: poisson }
duration_s: 5
policy: deferred
`;

  test("share nothing: each model's numbers are those of its group alone", () => {
    const { report, events } = run(expandScenario(parseScenario(TWO)));
    const alone = (policy: string, accelerators: string, model: string): Report =>
      simulate(
        expandScenario(
          parseScenario(
            `accelerators: ${accelerators}\nmodels:\n  - ${model}\narrivals: { process: poisson }\nduration_s: 5\npolicy: ${policy}\n`,
          ),
        ),
      );
    const numbers = ({ utilization: _, ...rest }: Report["per_model"][string]) => rest;
    const a = alone("deferred", "2", "{ name: a, profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 40, rate_rps: 900 }");
    const b = alone(
      "eager",
      "[{ scale: 2 }]",
      "{ name: b, profile: { alpha_ms: 2, beta_ms: 5 }, slo_ms: 90, rate_rps: 60 }",
    );
    expect(numbers(report.per_model.a!)).toEqual(numbers(a.per_model.a!));
    expect(numbers(report.per_model.b!)).toEqual(numbers(b.per_model.b!));
    expect(report.policy).toBe("deferred, eager");
    expect(new Set(of(events, "ran").map(({ accelerator, model }) => `${model}${accelerator}`))).toEqual(
      new Set(["a0", "a1", "b2"]),
    );
  });

  test("a model that requests ask for and a module runs has one queue, and both are accounted", () => {
    const scenario = expandScenario(
      parseScenario(`
groups: [{ name: only, accelerators: 2 }]
models:
  - { name: first, profile: { alpha_ms: 1, beta_ms: 4 } }
  - { name: shared, profile: { alpha_ms: 1, beta_ms: 4 }, slo_ms: 60, rate_rps: 200 }
pipelines:
  - name: two
    slo_ms: 100
    rate_rps: 200
    modules: [{ id: 1, name: first }, { id: 2, name: shared, pres: [1] }]
arrivals: { process: poisson }
duration_s: 4
`),
    );
    const { report, events } = run(scenario);
    expect(Object.keys(report.per_model)).toEqual(["shared", "two"]);
    expect(Object.keys(report.per_module)).toEqual(["two/first", "two/shared"]);
    const mixed = of(events, "ran").filter(({ members }) => new Set(members.map(({ module }) => module)).size > 1);
    expect(mixed.length).toBeGreaterThan(10);
    const ends = of(events, "ended").filter(({ module }) => module === undefined);
    const finished = new Set(ends.filter(({ outcome }) => outcome === "finished").map(({ request }) => request));
    expectAsCounted(report, count(events, finished, scenario), 2);
    expect(conservation(report)).toEqual([]);
  });

  test("another total rate keeps the parts of models and pipelines", () => {
    const scenario = withRate(chain(600, "share"), 300);
    expect(scenario.pipelines![0]!.rateRps).toBe(300);
  });
});

describe("a page whose modules share two accelerators: a detection, then 0 to 20 lines that are read one by one", () => {
  test.each([
    { scenario: "ocr", capacityRps: 3.57, first: "detect" },
    { scenario: "ocr-steps", capacityRps: 2.41, first: "page" },
  ])(
    "$scenario: past capacity are dropped before their detection, in place of what is begun",
    ({ scenario, capacityRps, first }) => {
      const served = (load: number): Report =>
        simulate(
          loadScenario(`scenarios/pipelines/${scenario}.yaml`, { rateRps: load * capacityRps, durationS: 300 }),
          { seed: 1 },
        );
      const peak = Math.max(...[1, 1.25].map((load) => served(load).goodput_rps));
      for (const load of [1.5, 2]) {
        const { goodput_rps, invalid_rate, dropped, late, per_module } = served(load);
        expect(goodput_rps, `at ${load}`).toBeGreaterThan(0.95 * peak);
        expect(invalid_rate, `at ${load}`).toBeLessThan(0.05);
        // Of pages: one that is given up among its lines takes up to 20 parts with it.
        const before = per_module[`pages/${first}`]!.dropped;
        expect(before, `at ${load}`).toBeGreaterThan(0.8 * (dropped + late));
      }
    },
  );
});

test.each([1.2, 4.82])(
  "what models promise clients of their own keeps no accelerator from pages that are begun (%s pages/s)",
  (rateRps) => {
    const file = parse(readFileSync("scenarios/pipelines/ocr-steps.yaml", "utf8"));
    const promises: Readonly<Record<string, number>> = { detect: 435, direction: 145, read: 435 };
    const models = file.models.map((model: { name: string }) => ({ ...model, slo_ms: promises[model.name] }));
    const scenario = withRate(loadScenarioFrom(sourceOf({ ...file, models, duration_s: 120 }, "promises")), rateRps);
    const served = (isolation: boolean): Report =>
      simulate(scenario, { policy: "auto", policyOptions: { isolation }, seed: 1 });
    const [kept, free] = [served(true), served(false)];
    expect(kept.goodput_rps).toBeGreaterThan(0.97 * free.goodput_rps);
    expect(kept.invalid_rate).toBeLessThan(0.04);
  },
);

test("branches on the same accelerators: past capacity a request is refused before anything is spent on it, and not one of its branches", () => {
  const scenario = loadScenario("scenarios/pipelines/shared-branches.yaml", { durationS: 30 });
  const { bad_rate, invalid_rate } = simulate(scenario, { seed: 1 });
  const forecast = loadScenario("scenarios/pipelines/shared-branches.yaml", { durationS: 30, budget: "forecast" });
  expect(invalid_rate).toBeLessThan(0.05);
  expect(bad_rate).toBeLessThan(simulate(forecast, { seed: 1 }).bad_rate - 0.04);
});
