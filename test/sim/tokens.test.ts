/** Groups that generate text: iterations by hand, and what every run must keep under every policy. */
import { describe, expect, test } from "vitest";
import {
  type ExpandedScenario,
  expandScenario,
  loadScenario,
  parseScenario,
} from "../../src/config/scenario/scenario.js";
import { conservation, type Report } from "../../src/measure/report.js";
import { POLICY_NAMES } from "../../src/policies/registry.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";

type Event<K extends SimulatedEvent["event"]> = Extract<SimulatedEvent, { event: K }>;

function run(scenario: ExpandedScenario, policy: string): { report: Report; events: SimulatedEvent[] } {
  const events: SimulatedEvent[] = [];
  const report = simulate(scenario, { policy, seed: 1, onEvent: (event) => void events.push(event) });
  return { report, events };
}
const of = <K extends SimulatedEvent["event"]>(events: readonly SimulatedEvent[], kind: K): Event<K>[] =>
  events.filter((event): event is Event<K> => event.event === kind);

/** Requests 100 ms apart, the first at 0. */
const byHand = (llm: string, model: string, more = ""): ExpandedScenario =>
  expandScenario(
    parseScenario(`
duration_s: 1
groups: [{ name: g, accelerators: 1, llm: { iteration_ms: 10, sequence_ms: 1, prefill_ms: 0.5, ${llm} } }]
models: [{ name: m, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 10 }, ${model} }]
arrivals: { process: uniform, rate_rps: 10${more} }
`),
  );
const ranMs = (events: readonly SimulatedEvent[]): [number, number][] =>
  of(events, "ran").map(({ start_us: startAt, end_us: endAt }) => [startAt / 1000, endAt / 1000]);

describe("by hand", () => {
  test("a request alone: its prompt in one iteration, then a token in each", () => {
    const scenario = byHand(
      "sequences_max: 4, tokens_max: 64, kv_tokens: 100",
      "slo_ms: 90, tokens: { input: 20, output: 4 }",
    );
    const { report, events } = run(scenario, "clipper++");
    // 10 + 20 * 0.5, then 3 times 10 + 1.
    expect(ranMs(events).slice(0, 2)).toEqual([
      [0, 53],
      [100, 153],
    ]);
    expect(report).toMatchObject({ arrived: 10, finished: 10, utilization: 0.53, invalid_rate: 0 });
  });

  test("who comes within an iteration is admitted when it ends, and shares the next ones", () => {
    const scenario = byHand(
      "sequences_max: 4, tokens_max: 64, kv_tokens: 200",
      "slo_ms: 1000, tokens: { input: 20, output: 11 }",
    );
    // The first gives tokens at 20, 31, ..., 108, when the second, of 100, is admitted: an iteration of 10 + 1 + 20 * 0.5 until 129, one of 12 until 141. Then the second
    // gives its third to eighth token at 152, ..., 207, when the third, of 200, is admitted: 228, 240, 252.
    expect(ranMs(run(scenario, "clipper++").events).slice(0, 2)).toEqual([
      [0, 141],
      [108, 252],
    ]);
  });

  test("a slot is taken until the last token, also where the first ends the request", () => {
    const scenario = byHand(
      "sequences_max: 1, tokens_max: 64, kv_tokens: 100",
      "slo_ms: 400, tokens: { input: 20, output: 15, ends: first }",
    );
    const { report, events } = run(scenario, "clipper++");
    // First tokens after 20 ms of the prompt; 14 * 11 more until the slot is free.
    expect(ranMs(events).slice(0, 3)).toEqual([
      [0, 20],
      [174, 194],
      [348, 368],
    ]);
    // What is generated after a request has ended in time is not in vain.
    expect(report.invalid_rate).toBe(0);
    expect(report.utilization).toBe(1);
  });

  test("nothing more is generated for whose first token is late, and that much is in vain", () => {
    const scenario = byHand(
      "sequences_max: 1, tokens_max: 64, kv_tokens: 100",
      "slo_ms: 19, tokens: { input: 20, output: 15, ends: first }",
    );
    const { report, events } = run(scenario, "clipper++");
    expect(ranMs(events)).toHaveLength(10);
    expect(report).toMatchObject({ late: 10, utilization: 0.2, invalid_rate: 1 });
  });

  test("who waits for a slot is the queue's: it is given up there, and never begins", () => {
    const scenario = byHand(
      "sequences_max: 1, tokens_max: 64, kv_tokens: 100",
      "slo_ms: 60, tokens: { input: 20, output: 15, ends: first }",
    );
    const { report, events } = run(scenario, "pard");
    // The slot is taken until 174: the second has gone then; the third came at 200.
    expect(ranMs(events)).toEqual([
      [0, 20],
      [200, 220],
      [400, 420],
      [600, 620],
      [800, 820],
    ]);
    expect(report).toMatchObject({ finished: 5, dropped: 5, failed: 0, invalid_rate: 0 });
  });
});

describe("under every policy", () => {
  const scenario = expandScenario(
    parseScenario(`
duration_s: 12
warmup_s: 2
groups: [{ name: g, accelerators: 2, llm: { iteration_ms: 10, sequence_ms: 0.1, prefill_ms: 0.1, sequences_max: 8, tokens_max: 512, kv_tokens: 4000 } }]
models:
  - { name: a, slo_ms: 1500, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 10 }, tokens: { input: { quantiles: [10, 800] }, output: { quantiles: [1, 100] }, ends: first } }
  - { name: b, slo_ms: 3000, batch_max: 1, profile: { alpha_ms: 0, beta_ms: 10 }, tokens: { input: 100, output: { quantiles: [1, 100] } } }
arrivals: { process: poisson, rate_rps: 40 }
`),
  );

  test.each(POLICY_NAMES)(
    "%s: every request ends once, in at most as many slots as there are, and the accelerators' time is all accounted for",
    (policy) => {
      const { report, events } = run(scenario, policy);
      expect(conservation(report)).toEqual([]);
      expect(report.failed).toBe(0);
      const ends = of(events, "ended").map(({ request }) => request);
      expect(new Set(ends).size).toBe(ends.length);
      expect(new Set(ends)).toEqual(new Set(of(events, "arrived").map(({ request }) => request)));
      const ran = of(events, "ran");
      const changes = ran
        .filter(({ accelerator }) => accelerator === 0)
        .flatMap(({ start_us: startAt, end_us: endAt }) => [
          { at: startAt, by: 1 },
          { at: endAt, by: -1 },
        ])
        .sort((one, other) => one.at - other.at || one.by - other.by);
      let running = 0;
      let most = 0;
      for (const { by } of changes) {
        running += by;
        most = Math.max(most, running);
      }
      expect(new Set(ran.map(({ accelerator }) => accelerator))).toEqual(new Set([0, 1]));
      expect(most).toBeGreaterThan(1);
      expect(most).toBeLessThanOrEqual(8);
      // Past capacity both are busy nearly all the time, and never more.
      expect(report.utilization).toBeGreaterThan(0.9);
      expect(report.utilization).toBeLessThanOrEqual(1 + 1e-9);
    },
  );

  test("the same seed gives the same report; lengths are the requests' own, whatever the policy", () => {
    expect(run(scenario, "pard").report).toEqual(run(scenario, "pard").report);
    const firstAlone = (policy: string): number => {
      const [first] = of(run(scenario, policy).events, "ran");
      return first!.end_us - first!.start_us;
    };
    expect(firstAlone("pard")).toBe(firstAlone("clipper++"));
  });
});

describe("scenarios/pipelines/rag.yaml", () => {
  const load = (budget: Parameters<typeof loadScenario>[1]): ExpandedScenario =>
    loadScenario("scenarios/pipelines/rag.yaml", { durationS: 110, ...budget });
  const reactive = run(load({ budget: "whole" }), "pard");
  const proactive = run(load({}), "pard");

  test.each([
    ["whole", reactive],
    ["forecast, recent", proactive],
  ])("%s: every request ends once, by the first token", (_, { report, events }) => {
    expect(conservation(report)).toEqual([]);
    const whole = of(events, "ended").filter(({ module }) => module === undefined);
    expect(new Set(whole.map(({ request }) => request)).size).toBe(whole.length);
    expect(whole).toHaveLength(of(events, "arrived").length);
    const endAt = new Map(whole.map(({ request, at_us: at }) => [request, at]));
    const generated = of(events, "ran").filter(({ model }) => model === "generate");
    expect(generated.length).toBeGreaterThan(100);
    for (const { end_us: at, members } of generated) expect(endAt.get(members[0]!.request)).toBe(at);
  });

  test("what is known of later modules and of the own is looked at: fewer first tokens are late, more is given up before", () => {
    const [late, early] = [reactive, proactive].map(({ report: { per_module: modules } }) => ({
      late: modules["rag/generate"]!.late,
      dropped: modules["rag/rewrite"]!.dropped + modules["rag/search"]!.dropped,
    }));
    expect(early!.late).toBeLessThan(late!.late / 2);
    expect(early!.dropped).toBeGreaterThan(late!.dropped);
    expect(proactive.report.invalid_rate).toBeLessThan(reactive.report.invalid_rate);
  });
});
