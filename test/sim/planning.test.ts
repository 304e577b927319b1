/** What policies are told of apps: times known beforehand, l(b) by a quantile of them, a queue for each app. */
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../src/config/config-error.js";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { type ExpandedScenario, loadScenarioFrom, parseScenario } from "../../src/config/scenario/scenario.js";
import { parseReplay } from "../../src/config/scenario/traces.js";
import { parseSource } from "../../src/config/source.js";
import { eager, type Policy, type QueueSpec } from "../../src/index.js";
import { conservation, type Report } from "../../src/measure/report.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";
import { TrueTimes } from "../../src/sim/true-times.js";

const TWO = "apps: [{ name: short, share: 3, time: { constant_ms: 5 } }, { name: long, time: { constant_ms: 20 } }]";
const text = (model: string, more = ""): string => `
accelerators: 2
models:
  - name: m
    profile: { alpha_ms: 2, beta_ms: 8 }
    slo_ms: 100
    batch_max: 8
    ${model}
arrivals: { process: poisson, rate_rps: 100 }
duration_s: 10
${more}`;
const scenarioOf = (model: string, more = ""): ExpandedScenario => expandScenario(parseScenario(text(model, more)));

/** The specifications of the queues of a run, in order. */
function specsOf(scenario: ExpandedScenario, seed = 1): QueueSpec[] {
  const specs: QueueSpec[] = [];
  const inner = eager();
  const policy: Policy = {
    name: "listens",
    createQueue: (key, spec, core) => {
      specs[key] = spec;
      return inner.createQueue(key, spec, core);
    },
    createArbiter: (core) => inner.createArbiter(core),
  };
  simulate(scenario, { policy, seed });
  return specs;
}
const toldMs = (scenario: ExpandedScenario): number[][] =>
  specsOf(scenario).map(({ latency }) => Array.from(latency.execUs.slice(1, 4), (us) => us / 1000));

type Ran = Extract<SimulatedEvent, { event: "ran" }>;
function run(scenario: ExpandedScenario, policy = "eager"): { report: Report; events: SimulatedEvent[]; ran: Ran[] } {
  const events: SimulatedEvent[] = [];
  const report = simulate(scenario, { policy, onEvent: (event) => void events.push(event) });
  return { report, events, ran: events.filter((event): event is Ran => event.event === "ran") };
}

describe("profiled", () => {
  const SPREAD =
    "apps: [{ name: a, time: { normal: { mean_ms: 10, sd_ms: 2 } } }, { name: b, share: 3, time: { constant_ms: 4 } }]";

  test("a sample of each app, ascending, by the seed", () => {
    const [spec] = specsOf(scenarioOf(`${SPREAD}\n    profiled: 2000`));
    const [a, b] = spec!.kinds!;
    expect([a!.name, b!.name]).toEqual(["a", "b"]);
    expect([a!.share, b!.share]).toEqual([0.25, 0.75]);
    expect(a!.aloneUs).toHaveLength(2000);
    expect([...a!.aloneUs]).toEqual([...a!.aloneUs].sort((one, other) => one - other));
    expect(a!.aloneUs[1000]! / 1000).toBeCloseTo(10, 0);
    expect(a!.aloneUs[1682]! / 1000).toBeCloseTo(12, 0);
    expect(new Set(b!.aloneUs)).toEqual(new Set([4000]));
    const sampleOf = (seed: number): Float64Array =>
      specsOf(scenarioOf(`${SPREAD}\n    profiled: 2000`), seed)[0]!.kinds![0]!.aloneUs;
    expect(sampleOf(1)).toEqual(a!.aloneUs);
    expect(sampleOf(2)).not.toEqual(a!.aloneUs);
  });

  test("apart from the requests that arrive, of which nothing changes", () => {
    const plain = run(scenarioOf(SPREAD), "deferred");
    const known = run(scenarioOf(`${SPREAD}\n    profiled: 2000`), "deferred");
    expect(known.events).toEqual(plain.events);
    const scenario = scenarioOf(`${SPREAD}\n    profiled: 2000`);
    const truth = TrueTimes.of(scenario, 1)!;
    const arriving = new Set(Array.from({ length: 2000 }, (_, number) => truth.aloneUs(0, 0, number, 0)));
    expect(specsOf(scenario)[0]!.kinds![0]!.aloneUs.filter((us) => arriving.has(us))).toHaveLength(0);
  });

  test("with it batch_time; 0 tells of apps and no times; without it nothing is told", () => {
    const told = (more: string): Partial<QueueSpec> => {
      const { kinds, batchTime } = specsOf(scenarioOf(`${TWO}\n    batch_time: { c0_ms: 3, c1: 0.5 }${more}`))[0]!;
      return { ...(kinds && { kinds }), ...(batchTime && { batchTime }) };
    };
    expect(told("")).toEqual({});
    expect(told("\n    profiled: 0")).toEqual({
      kinds: [
        { name: "short", share: 0.75, aloneUs: new Float64Array() },
        { name: "long", share: 0.25, aloneUs: new Float64Array() },
      ],
      batchTime: { c0Us: 3000, c1: 0.5 },
    });
    expect(told("\n    profiled: 1").kinds!.map(({ aloneUs }) => [...aloneUs])).toEqual([[5500], [13_000]]);
    expect("batchTime" in specsOf(scenarioOf(`${TWO}\n    profiled: 1`))[0]!).toBe(false);
  });
});

describe("planning", () => {
  // By the profile a batch of b takes (2 b + 8) / 10 of its longest member's time; three of four requests take 5 ms, the others 20.
  test.each<[string, number[]]>([
    ["{}", [8.75, 10.5, 12.25]],
    ["{ quantile: mean }", [8.75, 10.5, 12.25]],
    ["{ quantile: 0.7 }", [5, 6, 7]],
    ["{ quantile: 0.9 }", [20, 24, 28]],
  ])("%s: one queue is told l(b) of all apps by their shares", (planning, expected) => {
    expect(toldMs(scenarioOf(`${TWO}\n    planning: ${planning}`))).toEqual([expected]);
  });

  test("as batch_time has it, where it is given: c0 + c1 b l", () => {
    const scenario = scenarioOf(`${TWO}\n    batch_time: { c0_ms: 3, c1: 0.5 }\n    planning: { quantile: 0.9 }`);
    expect(toldMs(scenario)).toEqual([[13, 23, 33]]);
  });

  test("absent, it is the profile; where that is true, nothing changes", () => {
    expect(toldMs(scenarioOf(TWO))).toEqual([[10, 12, 14]]);
    const PROFILED = "apps: [{ name: a, time: { constant_ms: 10 } }]";
    const told = run(scenarioOf(`${PROFILED}\n    planning: { quantile: 0.5 }`), "deferred");
    expect(told.events).toEqual(run(scenarioOf(PROFILED), "deferred").events);
  });

  test("who is told the truth ends nothing late, who believes the profile does", () => {
    const SLOW = "apps: [{ name: a, time: { constant_ms: 30 } }]";
    expect(run(scenarioOf(SLOW), "deferred").report.late).toBeGreaterThan(100);
    expect(run(scenarioOf(`${SLOW}\n    planning: { quantile: 0.5 }`), "deferred").report.late).toBe(0);
  });
});

describe("sessions", () => {
  const SESSIONS = `${TWO}\n    planning: { sessions: true, quantile: 0.9 }`;

  test("each app has a queue of its own, told its own times", () => {
    expect(toldMs(scenarioOf(SESSIONS))).toEqual([
      [5, 6, 7],
      [20, 24, 28],
    ]);
    const specs = specsOf(scenarioOf(`${SESSIONS}\n    profiled: 2`));
    expect(specs.map(({ kinds }) => kinds!.map(({ name, share }) => [name, share]))).toEqual([
      [
        ["short", 1],
        ["long", 0],
      ],
      [
        ["short", 0],
        ["long", 1],
      ],
    ]);
  });

  test("no batch is of two apps, and reports are of the model and its apps as ever", () => {
    const { report, ran } = run(scenarioOf(SESSIONS));
    expect(ran.filter(({ members }) => members.length > 1).length).toBeGreaterThan(20);
    // A short one in a batch with a long one would run as long as that.
    const ranFor = (us: number): number =>
      ran
        .filter(({ start_us, end_us, members }) => end_us - start_us === (us * (2 * members.length + 8)) / 10)
        .reduce((sum, { members }) => sum + members.length, 0);
    const { "m/short": short, "m/long": long } = report.per_kind!;
    expect([ranFor(5000), ranFor(20_000)]).toEqual([short!.arrived - short!.dropped, long!.arrived - long!.dropped]);
    expect(Object.keys(report.per_model)).toEqual(["m"]);
    expect(Object.keys(report.per_kind!)).toEqual(["m/short", "m/long"]);
    expect(report.per_kind!["m/short"]!.arrived + report.per_kind!["m/long"]!.arrived).toBe(report.arrived);
    expect(conservation(report)).toEqual([]);
  });

  test("a request waits in the queue of its app: of the model that a replay names, in the group that serves it", () => {
    const replay = parseReplay("at_us,model,app\n0,m,long\n1000,m,short\n2000,m,short\n3000,m,long\n", "replay.csv");
    const written = `
groups: [{ name: first, accelerators: 1 }, { name: second, accelerators: 1 }]
models:
  - { name: n, profile: { alpha_ms: 2, beta_ms: 8 }, slo_ms: 100, group: first }
  - { name: m, profile: { alpha_ms: 2, beta_ms: 8 }, slo_ms: 200, group: second, ${TWO}, planning: { sessions: true } }
arrivals: { process: replay, replay: replay.csv }
`;
    const { ran, report } = run(expandScenario(parseScenario(written), { replay }), "eager");
    expect(ran.map(({ group, members }) => [group, members.map(({ request }) => request)])).toEqual([
      ["second", [0]],
      // The latest start of the long one is earlier.
      ["second", [3]],
      ["second", [1, 2]],
    ]);
    expect(report.per_kind!["m/long"]!.finished).toBe(2);
  });

  test("what waits fails with the last accelerator, whichever queue it waits in", () => {
    const faults = "faults: [{ at_s: 5, kind: fail, accelerator: 0 }, { at_s: 5, kind: fail, accelerator: 1 }]";
    const { report } = run(scenarioOf(SESSIONS, faults), "triton");
    for (const { failed } of Object.values(report.per_kind!)) expect(failed).toBeGreaterThan(50);
    expect(conservation(report)).toEqual([]);
  });
});

const MODULE = "pipelines: [{ name: p, slo_ms: 100, modules: [{ id: 0, name: m }] }]";
test.each<[string, string, string, string]>([
  ["profiled without apps", "profiled: 5", "", "models[0].profiled: goes only with apps; was 5"],
  ["planning without apps", "planning: {}", "", "models[0].planning: goes only with apps"],
  ["part of a request", `${TWO}\n    profiled: 1.5`, "", "models[0].profiled: must be a whole number; was 1.5"],
  ["too large a sample", `${TWO}\n    profiled: 100001`, "", "models[0].profiled: must be at most 100000; was 100001"],
  [
    "too many samples together",
    `${TWO}\n    profiled: 100000\n    count: 51`,
    "",
    "models[0].profiled: must leave at most 10000000 times over all apps of all models (these have 102); was 100000",
  ],
  [
    "too many sessions",
    `${TWO}\n    planning: { sessions: true }\n    count: 5001`,
    "",
    "models[0].planning.sessions: must leave at most 10000 sessions in all (these are 10002); was true",
  ],
  ["a quantile of all", `${TWO}\n    planning: { quantile: 1 }`, "", "planning.quantile: must be less than 1; was 1"],
  [
    "a quantile of none",
    `${TWO}\n    planning: { quantile: 0 }`,
    "",
    "planning.quantile: must be greater than 0; was 0",
  ],
  [
    "a word that is no quantile",
    `${TWO}\n    planning: { quantile: median }`,
    "",
    'planning.quantile: must be "mean" or a number; was "median"',
  ],
  [
    "planning of a module's model",
    `${TWO}\n    share: 1\n    planning: {}`,
    MODULE,
    "models[0].planning: does not go with pipelines",
  ],
  [
    "planning beside autoscale",
    `${TWO}\n    planning: {}`,
    "autoscale: {}",
    "models[0].planning: does not go with autoscale",
  ],
])("%s: refused", (_, model, more, says) => {
  const load = (): unknown => loadScenarioFrom(parseSource(text(model, more), "bad.yaml"));
  expect(load).toThrow(ConfigError);
  expect(load).toThrow(says);
});
