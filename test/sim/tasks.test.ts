/** Elastic models: times by gamma, tasks with deadlines and accuracy of their own, answers that are right or wrong. */
import { describe, expect, test } from "vitest";
import { renderReport } from "../../src/cli/report-view.js";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import {
  type ExpandedScenario,
  loadScenario,
  loadScenarioFrom,
  parseScenario,
} from "../../src/config/scenario/scenario.js";
import { parseReplay } from "../../src/config/scenario/traces.js";
import { parseSource } from "../../src/config/source.js";
import type { Policy } from "../../src/core/policy.js";
import { combineReports, conservation, type Report } from "../../src/measure/report.js";
import { eager } from "../../src/policies/registry.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate, simulateOutcomes } from "../../src/sim/simulate.js";
import { refusal } from "../support/refusal.js";

const BY_GAMMA = `
        - { gamma: -8, alpha_ms: 0.5, beta_ms: 2 }
        - { gamma: 0, alpha_ms: 1, beta_ms: 2 }
        - { gamma: 8, table_ms: [4, 6, 8, 10] }
        - { model: large, gamma: 0, load_ms: 40, alpha_ms: 3, beta_ms: 2 }`;
const TASKS = `
      - { name: easy, share: 3, utility: 0.5, slo_ms: 60, accuracy: [0.8, 0.9, 0.95, 1] }
      - { name: hard, utility: 2, accuracy: [0, 0.5, 0.6, 1] }`;
const text = (byGamma = BY_GAMMA, tasks = TASKS, more = ""): string => `
accelerators: 1
models:
  - name: m
    slo_ms: 100
    profile:
      by_gamma: ${byGamma}
    tasks: ${tasks}
${more}
arrivals: { process: poisson, rate_rps: 100 }
duration_s: 30`;
const scenario = (more?: string): ExpandedScenario => expandScenario(parseScenario(text(BY_GAMMA, TASKS, more)));

/** Eager, and every batch by one variant: of the n-th batch. */
function by(variantOf: (batch: number) => number): Policy {
  const policy = eager({});
  let batches = 0;
  return {
    ...policy,
    name: "by-variant",
    createQueue: (key, spec, core) => {
      const queue = policy.createQueue(key, spec, core);
      const take = queue.take.bind(queue);
      queue.take = (accelerator, at) => {
        const batch = take(accelerator, at);
        if (batch >= 0) core.batches.variant[batch] = variantOf(batches++);
        return batch;
      };
      return queue;
    },
  };
}
const always = (variant: number): Policy => by(() => variant);

type Ran = Extract<SimulatedEvent, { event: "ran" }>;
function run(policy: Policy, of = scenario()): { report: Report; ran: Ran[]; events: SimulatedEvent[] } {
  const events: SimulatedEvent[] = [];
  const report = simulate(of, { policy, onEvent: (event) => void events.push(event) });
  return { report, events, ran: events.filter((event): event is Ran => event.event === "ran") };
}

describe("times", () => {
  const times = [
    (size: number) => 500 * size + 2000,
    (size: number) => 1000 * size + 2000,
    (size: number) => 2000 * size + 2000,
  ];
  test.each([
    [0, 1, undefined],
    [1, 0, "-8"],
    [2, 1, "0"],
    [3, 2, "8"],
  ])("variant %i of a batch takes what the profile has for it", (variant, way, name) => {
    const { ran } = run(always(variant));
    expect(ran.length).toBeGreaterThan(500);
    for (const { start_us, end_us, members, variant: shown } of ran) {
      expect(end_us - start_us).toBe(times[way]!(members.length));
      expect(shown).toBe(name);
    }
  });

  test("another model of the family is loaded first, and back again", () => {
    const { ran } = run(by((batch) => (batch % 4 < 2 ? 4 : 2)));
    const large = (size: number): number => 3000 * size + 2000;
    ran.forEach(({ start_us, end_us, members: { length } }, batch) => {
      const expected = [large(length) + 40_000, large(length), times[1]!(length), times[1]!(length)][batch % 4];
      expect(end_us - start_us).toBe(expected);
    });
  });

  test("batches hold at most what every table has a time for", () => {
    expect(scenario().models[0]!.batchSizeMax).toBe(4);
  });
});

describe("answers", () => {
  test("a task has its share, its deadline, its utility and its accuracy", () => {
    const { report, events } = run(always(3));
    const { "m/easy": easy, "m/hard": hard } = report.per_kind!;
    expect(easy!.arrived / report.arrived).toBeCloseTo(0.75, 1);
    const deadlines = new Set(
      events.flatMap((event) => (event.event === "arrived" ? event.deadline_us - event.at_us : [])),
    );
    expect([...deadlines].sort()).toEqual([100_000, 60_000]);
    expect(easy!.answers!.accuracy).toBeCloseTo(0.95, 1);
    expect(hard!.answers!.accuracy).toBeCloseTo(0.6, 1);
    expect(easy!.utility!.offered).toBeCloseTo(0.5 * easy!.arrived, 6);
    expect(easy!.utility!.earned).toBeCloseTo(0.5 * easy!.answers!.right, 6);
    expect(hard!.utility!.earned).toBeCloseTo(2 * hard!.answers!.right, 6);
    expect(report.utility!.earned).toBeCloseTo(easy!.utility!.earned + hard!.utility!.earned, 6);
    expect(conservation(report)).toEqual([]);
  });

  test("the four types are all that arrived, and variants all that was executed", () => {
    const { report } = run(
      by((batch) => 1 + (batch % 3)),
      expandScenario(parseScenario(text().replace("rate_rps: 100", "rate_rps: 600"))),
    );
    const { right, wrong, late, evicted } = report.answers!;
    expect(evicted).toBeGreaterThan(100);
    expect(late).toBeGreaterThan(0);
    expect(right + wrong).toBe(report.finished);
    expect(late).toBe(report.late);
    expect(evicted).toBe(report.dropped + report.failed);
    const uses = Object.values(report.by_variant!);
    expect(Object.keys(report.by_variant!).sort()).toEqual(["-8", "0", "8"]);
    expect(uses.reduce((all, { requests }) => all + requests, 0)).toBe(report.finished + report.late);
    const batches = uses.map((use) => use.batches);
    expect(Math.max(...batches) - Math.min(...batches)).toBeLessThanOrEqual(1);
    const shown = renderReport("tasks", report);
    expect(shown).toContain("right in time");
    expect(shown).toContain("m/hard");
  });

  test("what is right at some accuracy is right at every higher one, under every policy and at any time", () => {
    const one = text(BY_GAMMA, "[{ name: t, accuracy: [0.2, 0.5, 0.7, 0.9] }]").replace(
      "rate_rps: 100",
      "rate_rps: 20",
    );
    const rightBy = [1, 2, 3, 4].map(
      (variant) => run(always(variant), expandScenario(parseScenario(one))).report.answers!,
    );
    const parts = rightBy.map(({ right, wrong }) => right / (right + wrong));
    [0.2, 0.5, 0.7, 0.9].forEach((accuracy, way) => {
      expect(Math.abs(parts[way]! - accuracy)).toBeLessThan(0.05);
    });
    const certain = text(BY_GAMMA, "[{ name: t, accuracy: [0, 1, 0, 1] }]");
    expect(run(always(1), expandScenario(parseScenario(certain))).report.answers!.right).toBe(0);
    expect(run(always(2), expandScenario(parseScenario(certain))).report.answers!.wrong).toBe(0);
  });

  test("a replay names tasks", () => {
    const replay = parseReplay("at_us,model,app\n0,m,hard\n200000,m,easy\n400000,m,hard\n", "replay.csv");
    const written = text().replace("{ process: poisson, rate_rps: 100 }", "{ process: replay, replay: replay.csv }");
    const { report } = run(always(4), expandScenario(parseScenario(written), { replay }));
    expect(report.per_kind!["m/hard"]!.arrived).toBe(2);
    expect(report.answers).toEqual({ right: 3, wrong: 0, late: 0, evicted: 0, accuracy: 1 });
  });

  test("the same seed gives the same report; seeds are joined", () => {
    const first = run(always(2)).report;
    expect(run(always(2)).report).toEqual(first);
    const second = simulate(scenario(), { policy: always(2), seed: 2 });
    const joined = combineReports([first, second]);
    expect(joined.answers!.right).toBe(first.answers!.right + second.answers!.right);
    expect(joined.by_variant!["0"]!.batches).toBe(first.by_variant!["0"]!.batches + second.by_variant!["0"]!.batches);
    const { outcomes } = simulateOutcomes(scenario(), { policy: always(2) });
    expect(outcomes.answers!.right[0]).toBe(first.answers!.right);
  });

  test("where no model is elastic reports say nothing of answers", () => {
    const plain =
      "accelerators: 1\nmodels: [{ name: a, profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 25 }]\narrivals: { process: poisson, rate_rps: 50 }\nduration_s: 5";
    const { report, outcomes } = simulateOutcomes(expandScenario(parseScenario(plain)), { policy: "eager" });
    expect(report).not.toHaveProperty("answers");
    expect(report).not.toHaveProperty("by_variant");
    expect(outcomes).not.toHaveProperty("answers");
  });
});

const PLAIN = "[{ gamma: 0, alpha_ms: 1, beta_ms: 2 }]";
const TASK = "[{ name: t, accuracy: [0.5] }]";
test.each([
  ["no gamma 0", "[{ gamma: 2, alpha_ms: 1, beta_ms: 2 }]", TASK, "profile.by_gamma: must have an entry with gamma 0"],
  [
    "gamma 0 of another model alone",
    "[{ gamma: 0, model: large, alpha_ms: 1, beta_ms: 2 }]",
    TASK,
    "must have an entry with gamma 0 and no model",
  ],
  [
    "a gamma twice",
    "[{ gamma: 0, alpha_ms: 1, beta_ms: 2 }, { gamma: 0, table_ms: [1] }]",
    "[{ name: t, accuracy: [1, 1] }]",
    "models[0].profile.by_gamma[1].gamma: must be unique in its model; was 0 twice",
  ],
  [
    "half a token",
    "[{ gamma: 0.5, alpha_ms: 1, beta_ms: 2 }]",
    TASK,
    "profile.by_gamma[0].gamma: must be a whole number; was 0.5",
  ],
  [
    "a gamma out of bounds",
    "[{ gamma: -10001, alpha_ms: 1, beta_ms: 2 }]",
    TASK,
    "gamma: must be at least -10000; was -10001",
  ],
  ["no gamma at all", "[]", TASK, "profile.by_gamma: must be at least 1 long"],
  ["a gamma without times", "[{ gamma: 0 }]", TASK, "models[0].profile.by_gamma[0]"],
  [
    "no time",
    "[{ gamma: 0, alpha_ms: 0, beta_ms: 0 }]",
    TASK,
    "models[0].profile.by_gamma[0]: alpha_ms + beta_ms must be greater than 0; was 0",
  ],
  [
    "a table that falls",
    "[{ gamma: 0, table_ms: [5, 4] }]",
    TASK,
    "models[0].profile.by_gamma[0].table_ms[1]: must be at least the entry before it (5); was 4",
  ],
  [
    "a load time below 0",
    "[{ gamma: 0, load_ms: -1, alpha_ms: 1, beta_ms: 2 }]",
    TASK,
    "load_ms: must be at least 0; was -1",
  ],
  ["memory below 0", "[{ gamma: 0, run_mb: -1, alpha_ms: 1, beta_ms: 2 }]", TASK, "run_mb: must be at least 0; was -1"],
  ["a misspelt key", "[{ gamma: 0, alfa_ms: 1, beta_ms: 2 }]", TASK, "alfa_ms: unknown key; did you mean alpha_ms?"],
  ["no tasks", PLAIN, "[]", "models[0].tasks: must be at least 1 long"],
  [
    "a task twice",
    PLAIN,
    "[{ name: t, accuracy: [1] }, { name: t, accuracy: [1] }]",
    'models[0].tasks[1].name: must be unique in the model; was "t" twice',
  ],
  ["a task without accuracy", PLAIN, "[{ name: t }]", "models[0].tasks[0].accuracy: is required"],
  [
    "accuracy of other gammas",
    PLAIN,
    "[{ name: t, accuracy: [0.5, 0.6] }]",
    "models[0].tasks[0].accuracy: must be 1 long, one for each entry of profile.by_gamma; was 2 long",
  ],
  [
    "accuracy in percent",
    PLAIN,
    "[{ name: t, accuracy: [93] }]",
    "models[0].tasks[0].accuracy[0]: must be at most 1; was 93",
  ],
  [
    "utility below 0",
    PLAIN,
    "[{ name: t, utility: -1, accuracy: [1] }]",
    "models[0].tasks[0].utility: must be at least 0; was -1",
  ],
  [
    "no share",
    PLAIN,
    "[{ name: t, share: 0, accuracy: [1] }]",
    "models[0].tasks[0].share: must be greater than 0; was 0",
  ],
  [
    "an SLO that nothing holds",
    PLAIN,
    "[{ name: t, slo_ms: 2, accuracy: [1] }]",
    "models[0].tasks[0].slo_ms: must be at least the 3 ms that one request alone takes at the fastest gamma, delays included; was 2",
  ],
])("%s: refused", (_, byGamma, tasks, says) => {
  expect(refusal(() => loadScenarioFrom(parseSource(text(byGamma, tasks), "bad.yaml")))).toContain(says);
});

test.each([
  [
    "by_gamma without tasks",
    text(PLAIN).replace(/ {4}tasks:[\s\S]*?\n\n/, ""),
    "models[0].tasks: is required with profile.by_gamma",
  ],
  [
    "tasks without by_gamma",
    text(PLAIN, TASK).replace(/by_gamma: .*/, "{ alpha_ms: 1, beta_ms: 2 }"),
    "models[0].tasks: goes only with profile.by_gamma",
  ],
  [
    "tasks beside apps",
    text(PLAIN, TASK, "    apps: [{ name: a, time: { constant_ms: 1 } }]"),
    "models[0].tasks: must not stand beside apps",
  ],
  [
    "batches beyond a table",
    text("[{ gamma: 0, table_ms: [1, 2] }]", TASK, "    batch_max: 3"),
    "models[0].batch_max: must be at most the length of table_ms (2); was 3",
  ],
  [
    "a module of a pipeline",
    `${text(PLAIN, TASK, "    share: 1")}\npipelines: [{ name: p, slo_ms: 100, share: 1, modules: [{ id: 0, name: m }] }]`,
    "models[0].tasks: does not go with pipelines",
  ],
])("%s: refused", (_, written, says) => {
  expect(refusal(() => loadScenarioFrom(parseSource(written, "bad.yaml")))).toContain(says);
});

test("a replay that names tasks that are none: refused", () => {
  const replay = parseReplay("at_us,model,app\n0,m,medium\n", "replay.csv");
  const written = text().replace("{ process: poisson, rate_rps: 100 }", "{ process: replay, replay: replay.csv }");
  expect(refusal(() => expandScenario(parseScenario(written), { replay }))).toContain(
    'must name apps of its models; was "medium" of m',
  );
});

describe("accuracy that changes", () => {
  const changing = (changes: string): string =>
    text(BY_GAMMA, `[{ name: t, accuracy: [0.2, 0.5, 0.7, 0.9], accuracy_changes: ${changes} }]`);

  test("holds for requests that arrive from then on", () => {
    const of = (more: string) =>
      expandScenario(parseScenario(`${changing("[{ at_s: 15, accuracy: [0, 0, 0, 1] }]")}\n${more}`));
    const { right, wrong } = run(always(1), of("warmup_s: 15")).report.answers!;
    expect([right, wrong > 1000]).toEqual([0, true]);
    const whole = run(always(1), of("")).report.answers!;
    expect(Math.abs(whole.right / (whole.right + whole.wrong) - 0.1)).toBeLessThan(0.03);
  });

  test.each([
    [
      "[{ at_s: 1, accuracy: [1] }]",
      "models[0].tasks[0].accuracy_changes[0].accuracy: must be 4 long, one for each entry of profile.by_gamma; was 1 long",
    ],
    [
      "[{ at_s: 2, accuracy: [1, 1, 1, 1] }, { at_s: 2, accuracy: [1, 1, 1, 1] }]",
      "models[0].tasks[0].accuracy_changes[1].at_s: must be greater than the change before (2); was 2",
    ],
    [
      "[{ at_s: 0, accuracy: [1, 1, 1, 1] }]",
      "models[0].tasks[0].accuracy_changes[0].at_s: must be greater than 0; was 0",
    ],
    [
      "[{ at_s: 1, accuracy: [1, 1, 1, 2] }]",
      "models[0].tasks[0].accuracy_changes[0].accuracy[3]: must be at most 1; was 2",
    ],
    ["[]", "models[0].tasks[0].accuracy_changes: must be at least 1 long; was []"],
  ])("%s is refused", (changes, message) => {
    expect(refusal(() => loadScenarioFrom(parseSource(changing(changes), "bad.yaml")))).toContain(message);
  });

  test("is noticed under `accuracy: recent`, which earns more from then on; told the truth it earns no less", () => {
    const of = loadScenario("scenarios/otas/drift.yaml");
    const earned = (accuracy: string, tellsTruth = false): number => {
      const { utility } = simulate(of, { policy: "otas+", policyOptions: { accuracy }, tellsTruth });
      return utility!.earned / utility!.offered;
    };
    const profiled = earned("profiled");
    const recent = earned("recent");
    expect(recent).toBeGreaterThan(profiled);
    expect(earned("recent", true)).toBeGreaterThan(recent - 0.01);
  }, 60_000);
});
