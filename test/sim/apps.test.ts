/** Apps: what batches truly take, apart from what planners believe, and the accounts by app. */
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../src/config/config-error.js";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { type ExpandedScenario, loadScenarioFrom, parseScenario } from "../../src/config/scenario/scenario.js";
import { parseReplay } from "../../src/config/scenario/traces.js";
import { parseSource } from "../../src/config/source.js";
import { conservation, type Report } from "../../src/measure/report.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";
import { TrueTimes } from "../../src/sim/true-times.js";

const text = (apps: string, more = ""): string => `
accelerators: 2
models:
  - name: m
    profile: { alpha_ms: 2, beta_ms: 8 }
    slo_ms: 100
    ${apps}
arrivals: { process: poisson, rate_rps: 100 }
duration_s: 10
${more}`;
const scenarioOf = (apps: string, more = ""): ExpandedScenario => expandScenario(parseScenario(text(apps, more)));

type Ran = Extract<SimulatedEvent, { event: "ran" }>;
function run(scenario: ExpandedScenario, policy = "eager"): { report: Report; events: SimulatedEvent[]; ran: Ran[] } {
  const events: SimulatedEvent[] = [];
  const report = simulate(scenario, { policy, onEvent: (event) => void events.push(event) });
  return { report, events, ran: events.filter((event): event is Ran => event.event === "ran") };
}

const TWO = "apps: [{ name: short, share: 3, time: { constant_ms: 5 } }, { name: long, time: { constant_ms: 20 } }]";

describe("true times", () => {
  test("by default a batch takes its longest member times what the profile has for its size over what it has for one", () => {
    const { ran } = run(scenarioOf(TWO));
    const ratio = (size: number): number => (2 * size + 8) / 10;
    for (const { start_us, end_us, members } of ran)
      expect([5000, 20_000].map((us) => Math.ceil(us * ratio(members.length)))).toContain(end_us - start_us);
    const alone = ran.filter(({ members }) => members.length === 1);
    const long = alone.filter(({ start_us, end_us }) => end_us - start_us === 20_000);
    expect(alone.length).toBeGreaterThan(300);
    expect(long.length / alone.length).toBeCloseTo(0.25, 1);
    expect(ran.some(({ members }) => members.length > 1)).toBe(true);
  });

  test("the longest member, wherever it stands in its batch", () => {
    for (const [first, second] of [
      ["long", "short"],
      ["short", "long"],
    ]) {
      const rows = `0,m,short\n0,m,short\n1000,m,${first}\n2000,m,${second}\n`;
      const replay = parseReplay(`at_us,model,app\n${rows}`, "replay.csv");
      const written = text(TWO)
        .replace("{ process: poisson, rate_rps: 100 }", "{ process: replay, replay: replay.csv }")
        .replace("accelerators: 2", "accelerators: 1");
      const { ran } = run(expandScenario(parseScenario(written), { replay }));
      const last = ran.at(-1)!;
      expect(last.members.length).toBeGreaterThan(1);
      expect(last.end_us - last.start_us).toBe((20_000 * (2 * last.members.length + 8)) / 10);
    }
  });

  test("batch_time: c0 + c1 k l (ORLOJ Eq. 3)", () => {
    const { ran } = run(scenarioOf(`${TWO}\n    batch_time: { c0_ms: 3, c1: 0.5 }`));
    for (const { start_us, end_us, members } of ran)
      expect([5000, 20_000].map((us) => 3000 + 0.5 * members.length * us)).toContain(end_us - start_us);
  });

  test("a request's time is the same under every policy, and arrivals are those of the scenario without apps", () => {
    const timesOf = (policy: string): Map<number, number> =>
      new Map(
        run(
          scenarioOf(`apps: [{ name: a, time: { lognormal: { mean_ms: 6, sd_ms: 4 } } }]\n    batch_max: 1`),
          policy,
        ).ran.map(({ members, start_us, end_us }) => [members[0]!.request, end_us - start_us]),
      );
    const eager = timesOf("eager");
    const deferred = timesOf("deferred");
    expect(deferred.size).toBeGreaterThan(500);
    for (const [request, us] of deferred) if (eager.has(request)) expect(us).toBe(eager.get(request));
    expect(new Set(eager.values()).size).toBeGreaterThan(500);
    const arrivals = (apps: string): SimulatedEvent[] =>
      run(scenarioOf(apps)).events.filter(({ event }) => event === "arrived");
    expect(arrivals(TWO)).toEqual(arrivals("batch_max: 50"));
  });

  test("planners believe the profile: what is slower than it ends late", () => {
    const slow = run(scenarioOf("apps: [{ name: a, time: { constant_ms: 30 } }]"), "deferred").report;
    expect(slow.late).toBeGreaterThan(100);
    expect(run(scenarioOf("apps: [{ name: a, time: { constant_ms: 10 } }]"), "deferred").report.late).toBe(0);
  });

  test.each<[string, string, number, number]>([
    ["constant", "{ constant_ms: 7 }", 7, 0],
    ["normal", "{ normal: { mean_ms: 50, sd_ms: 10 } }", 50, 10],
    ["lognormal", "{ lognormal: { mean_ms: 50, sd_ms: 20 } }", 50, 20],
    // Mean 0.75 * 10 + 0.25 * 50; variance of the two means 0.75 * 0.25 * 40².
    ["modes", "{ modes: [{ weight: 3, mean_ms: 10, sd_ms: 0 }, { mean_ms: 50, sd_ms: 0 }] }", 20, Math.sqrt(300)],
    // Two bins of width 10, a quarter and three quarters: means 5 and 15.
    [
      "histogram",
      "{ histogram: { edges_ms: [0, 10, 20], weights: [1, 3] } }",
      12.5,
      Math.sqrt(100 / 12 + 0.75 * 0.25 * 100),
    ],
    ["values", "{ values_ms: [1, 2, 9] }", 4, Math.sqrt(38 / 3)],
  ])("%s: mean and standard deviation are those that are written", (_, time, mean, sd) => {
    const times = TrueTimes.of(scenarioOf(`apps: [{ name: a, time: ${time} }]`), 1)!;
    const draws = Array.from({ length: 40_000 }, (_, number) => times.aloneUs(0, 0, number, 0) / 1000);
    const found = draws.reduce((sum, each) => sum + each, 0) / draws.length;
    const variance = draws.reduce((sum, each) => sum + (each - found) ** 2, 0) / draws.length;
    expect(Math.abs(found - mean)).toBeLessThanOrEqual(0.02 * mean);
    expect(Math.abs(Math.sqrt(variance) - sd)).toBeLessThanOrEqual(0.03 * sd + 1e-9);
  });

  test("parts of a pipeline's request have apps and times of their own", () => {
    const { ran } = run(
      expandScenario(
        parseScenario(`
accelerators: 4
models:
  - { name: a, profile: { alpha_ms: 2, beta_ms: 8 } }
  - { name: b, profile: { alpha_ms: 2, beta_ms: 8 }, batch_max: 1, ${TWO} }
pipelines:
  - { name: p, slo_ms: 300, modules: [{ id: 0, name: a }, { id: 1, name: b, pres: [0], fan_out: 4 }] }
arrivals: { process: poisson, rate_rps: 20 }
duration_s: 10
`),
      ),
    );
    const parts = ran.filter(({ model }) => model === "b");
    const byRequest = new Map<number, Set<number>>();
    for (const { members, start_us, end_us } of parts) {
      const [{ request }] = members as [Ran["members"][number]];
      byRequest.set(request, (byRequest.get(request) ?? new Set()).add(end_us - start_us));
    }
    expect(parts.filter(({ start_us, end_us }) => end_us - start_us === 20_000).length / parts.length).toBeCloseTo(
      0.25,
      1,
    );
    expect([...byRequest.values()].filter((times) => times.size === 2).length).toBeGreaterThan(50);
  });
});

describe("accounts by app", () => {
  test("add up to those of the model; utility is what those are worth that finished", () => {
    const apps =
      "apps: [{ name: cheap, share: 3, utility: 0.5, time: { constant_ms: 10 } }, { name: dear, utility: 4, time: { constant_ms: 45 } }]";
    const { report } = run(scenarioOf(apps), "deferred");
    const { cheap, dear } = { cheap: report.per_kind!["m/cheap"]!, dear: report.per_kind!["m/dear"]! };
    for (const field of ["arrived", "finished", "late", "dropped"] as const)
      expect(cheap[field] + dear[field], field).toBe(report[field]);
    expect(report.late).toBeGreaterThan(0);
    expect(report.utility).toEqual({
      offered: report.utility!.offered,
      earned: 0.5 * cheap.finished + 4 * dear.finished,
    });
    expect(report.utility!.offered).toBe(0.5 * cheap.arrived + 4 * dear.arrived);
    expect(cheap.utility).toEqual({ offered: 0.5 * cheap.arrived, earned: 0.5 * cheap.finished });
    expect(cheap.utilization + dear.utilization).toBeCloseTo(report.utilization, 9);
    expect(cheap.invalid_rate * cheap.utilization + dear.invalid_rate * dear.utilization).toBeCloseTo(
      report.invalid_rate * report.utilization,
      9,
    );
    expect(conservation(report)).toEqual([]);
  });

  test("what has no apps is worth 1 a request", () => {
    const { report } = run(
      expandScenario(
        parseScenario(`
accelerators: 4
models:
  - { name: m, profile: { alpha_ms: 2, beta_ms: 8 }, slo_ms: 100, apps: [{ name: a, utility: 3, time: { constant_ms: 5 } }] }
  - { name: n, profile: { alpha_ms: 2, beta_ms: 8 }, slo_ms: 100 }
  - { name: k, profile: { alpha_ms: 2, beta_ms: 8 } }
pipelines: [{ name: p, slo_ms: 100, modules: [{ id: 0, name: k }] }]
arrivals: { process: poisson, rate_rps: 90 }
duration_s: 3
`),
      ),
    );
    const { m, n, p } = report.per_model;
    expect([m!.utility, n!.utility, p!.utility].map((utility) => utility!.earned)).toEqual([
      3 * m!.finished,
      n!.finished,
      p!.finished,
    ]);
    expect(report.utility!.earned).toBe(3 * m!.finished + n!.finished + p!.finished);
  });

  test("without apps there is neither", () => {
    const { report } = run(scenarioOf("batch_max: 50"));
    expect("per_kind" in report).toBe(false);
    expect("utility" in report).toBe(false);
    expect("utility" in run(scenarioOf(TWO)).report).toBe(false);
  });

  test("a replay names the app of each request", () => {
    const replay = parseReplay("at_us,model,app\n0,m,long\n200000,m,short\n400000,m,long\n", "replay.csv");
    const written = text(TWO).replace("{ process: poisson, rate_rps: 100 }", "{ process: replay, replay: replay.csv }");
    const { ran, report } = run(expandScenario(parseScenario(written), { replay }));
    expect(ran.map(({ start_us, end_us }) => end_us - start_us)).toEqual([20_000, 5000, 20_000]);
    expect([report.per_kind!["m/short"]!.arrived, report.per_kind!["m/long"]!.arrived]).toEqual([1, 2]);
    const other = parseReplay("at_us,model,app\n0,m,huge\n", "replay.csv");
    expect(() => expandScenario(parseScenario(written), { replay: other })).toThrow(
      'must name apps of its models; was "huge" of m',
    );
  });
});

test.each<[string, string, string]>([
  [
    "two apps of a name",
    "apps: [{ name: a, time: { constant_ms: 1 } }, { name: a, time: { constant_ms: 2 } }]",
    'models[0].apps[1].name: must be unique in the model; was "a" twice',
  ],
  [
    "edges that do not ascend",
    "apps: [{ name: a, time: { histogram: { edges_ms: [0, 5, 5], weights: [1, 1] } } }]",
    "models[0].apps[0].time.histogram.edges_ms[2]: must be greater than the edge before (5); was 5",
  ],
  [
    "as many weights as edges",
    "apps: [{ name: a, time: { histogram: { edges_ms: [0, 5], weights: [1, 1] } } }]",
    "histogram.weights: must be one fewer than edges_ms (2); were 2",
  ],
  [
    "weights of nothing",
    "apps: [{ name: a, time: { histogram: { edges_ms: [0, 5], weights: [0] } } }]",
    "histogram.weights: must have one above 0",
  ],
  [
    "a time that is none",
    "apps: [{ name: a, time: { constant_ms: 0 } }]",
    "models[0].apps[0].time.constant_ms: must be greater than 0; was 0",
  ],
  [
    "steps that go back",
    "apps: [{ name: a, time: { constant_ms: 1 }, steps: [{ at_s: 9, factor: 2 }, { at_s: 9, factor: 3 }] }]",
    "models[0].apps[0].steps[1].at_s: must be greater than the step before (9); was 9",
  ],
  ["batch_time without apps", "batch_time: { c0_ms: 1, c1: 1 }", "models[0].batch_time: goes only with apps"],
  ["a file that is not there", "apps: [{ name: a, time: { file: none.csv } }]", "none.csv"],
])("%s: refused", (_, apps, says) => {
  const load = (): unknown => loadScenarioFrom(parseSource(text(apps), "bad.yaml"));
  expect(load).toThrow(ConfigError);
  expect(load).toThrow(says);
});
