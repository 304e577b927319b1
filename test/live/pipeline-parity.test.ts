/**
 * One state machine, two drivers: the same pipeline, arrivals and times of batches in the simulator and in the live server
 * (in virtual time, over accelerators that take what their profiles say). Every request must end alike.
 */
import { expect, test } from "vitest";
import { expandScenario, groupsOf } from "../../src/config/scenario/expand-scenario.js";
import { type ExpandedScenario, parseScenario } from "../../src/config/scenario/scenario.js";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { durationUs, timeUs } from "../../src/core/time.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { silentLog } from "../../src/serve/observation/log.js";
import { Server } from "../../src/serve/server.js";
import type { SimulatedEvent } from "../../src/sim/event-lines.js";
import { simulate } from "../../src/sim/simulate.js";
import { BUDGET_RULES } from "../../src/system/budget.js";
import { fp32, group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPool } from "../fakes/virtual-pool.js";
import { VirtualClock } from "../support/virtual-clock.js";

const MODELS = [
  "{ name: a, group: left, profile: { alpha_ms: 2.013, beta_ms: 8.107 }, batch_max: 12 }",
  "{ name: b, group: right, profile: { alpha_ms: 1.031, beta_ms: 5.003 }, batch_max: 12 }",
  "{ name: c, group: right, profile: { alpha_ms: 3.047, beta_ms: 2.211 }, batch_max: 12 }",
  "{ name: d, group: left, profile: { alpha_ms: 0.519, beta_ms: 3.059 }, batch_max: 12 }",
];
const CHAIN = ["{ id: 0, name: first, model: a }", "{ id: 1, name: second, model: b, pres: [0], INPUT }"];
const DIAMOND = [
  "{ id: 0, name: split, model: a }",
  "{ id: 1, name: up, model: b, pres: [0], INPUT }",
  "{ id: 2, name: down, model: c, pres: [0], INPUT }",
  "{ id: 3, name: merge, model: d, pres: [1, 2], INPUT }",
];
/** Of a live pipeline; the request's own goes to all. */
const INPUT = "inputs: { x: { tensor: x } }";

interface End {
  readonly outcome: string;
  readonly reason: string;
  /** Since the arrival, µs; of a late one -1: the live client is told at its deadline. */
  readonly afterUs: number;
}
const endOf = (outcome: string, reason: string, afterUs: number): End => ({
  outcome,
  reason,
  afterUs: outcome === "late" ? -1 : afterUs,
});

function scenarioOf(modules: readonly string[], budget: string, policy: string, rateRps: number): ExpandedScenario {
  const written = modules.map((module) => `      - ${module.replace(", INPUT", "")}`).join("\n");
  const models = MODELS.slice(0, modules.length)
    .map((model) => `  - ${model}`)
    .join("\n");
  return expandScenario(
    parseScenario(`
groups: [{ name: left, accelerators: 2 }, { name: right, accelerators: 2 }]
models:
${models}
pipelines:
  - name: p
    slo_ms: 120
    budget: ${budget}
    modules:
${written}
arrivals: { process: poisson, rate_rps: ${rateRps} }
duration_s: 6
network: { control_us: 0, data_us_per_request: 0, response_us: 0 }
policy: ${policy}
policy_options: ${policy === "deferred" ? "{ idle_dispatch: false }" : "{}"}
`),
  );
}

function simulated(scenario: ExpandedScenario): { arrivals: number[]; ends: End[] } {
  const arrivals: number[] = [];
  const ends: End[] = [];
  const onEvent = (event: SimulatedEvent): void => {
    if (event.event === "arrived") arrivals[event.request] = event.at_us;
    else if (event.event === "ended" && event.module === undefined)
      ends[event.request] = endOf(event.outcome, event.reason ?? "", event.at_us - arrivals[event.request]!);
  };
  simulate(scenario, { onEvent });
  return { arrivals, ends };
}

async function live(
  scenario: ExpandedScenario,
  modules: readonly string[],
  budget: string,
  policy: string,
  arrivals: readonly number[],
): Promise<End[]> {
  // A deadline's alarm comes after what happens at its moment, as in the simulator.
  const clock = new VirtualClock({ lateUs: () => 1 });
  const groups = groupsOf(scenario).map(({ name, count }) =>
    group(count, { name, ...(policy === "pard" ? { policy: { name: policy, options: {} } } : {}) }),
  );
  const times = new Map<string, ModelTimes>();
  const specs = scenario.models.map(({ name, group: index = 0, sloUs, batchSizeMax, execUs }) => {
    const spec = modelSpec({
      name,
      group: groups[index]!.name,
      batchSizeMax,
      sloUs,
      // A group's own policy is that of all its models.
      policy: policy === "pard" ? "eager" : policy,
      policyOptions: policy === "deferred" ? { idle_dispatch: false } : {},
      emulated: { alphaMs: 0, betaMs: 0, tableMs: [...execUs.slice(1, batchSizeMax + 1)].map((us) => us / 1000) },
    });
    times.set(name, new ModelTimes(spec, profileOfEmulated(spec)));
    return spec;
  });
  const exec = (name: string, size: number): number =>
    scenario.models.find((model) => model.name === name)!.execUs[size]!;
  const file = `slo_ms: 120\nbudget: ${budget}\nmodules:\n${modules.map((each) => `  - ${each.replace("INPUT", INPUT)}`).join("\n")}\n`;
  let broken: unknown = null;
  const server = new Server({
    clock,
    pool: new VirtualPool(clock, groups, exec),
    log: silentLog(),
    tracer: null,
    slots: 1 << 15,
    retriesMax: 1,
    eventLog: null,
    modelControl: "none",
    network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
    policyDefaults: { idle_dispatch: false, rate_window_s: 5, timer_slack_us: 0, isolation: false },
    onBroken: (error) => {
      broken = error;
    },
    models: {
      names: () => specs.map(({ name }) => name),
      read: (name) => [specs.find((spec) => spec.name === name)!],
      times: async ({ name }) => times.get(name)!,
    },
    pipelines: {
      pipelines: () => ["p"],
      isPipeline: (name) => name === "p",
      readPipeline: () => ({ folder: "", read: parsePipelineFile(file, "p/pipeline.yaml") }),
    },
  });
  const started = server.start();
  await clock.run(clock.now() + 1000);
  await started;
  const startAt = clock.now() + 1000;
  const ends: End[] = [];
  const input = fp32("x", 1, 7);
  for (const [request, at] of arrivals.entries())
    clock.in(startAt + at - clock.now(), () => {
      const receivedAt = clock.now();
      expect(receivedAt).toBe(startAt + at);
      const over = (outcome: string, reason: string): void => {
        expect(ends[request]).toBeUndefined();
        ends[request] = endOf(outcome, reason, clock.now() - receivedAt);
      };
      server.infer(
        {
          model: "p",
          version: "",
          id: "",
          inputs: [input],
          outputs: [],
          receivedAt: timeUs(receivedAt),
          timeoutUs: null,
          transportDeadlineAt: null,
          parameters: {},
          traceparent: null,
          byteLength: 4,
        },
        {
          onReply: ({ outputs }) => {
            expect(outputs[0]!.data).toBe(input.data);
            over("finished", "");
          },
          onError: ({ details }) => {
            expect(details.module).toBeDefined();
            expect(details.deadlineUs).toBe(durationUs(120_000));
            if (details.reason === "late") over("late", "");
            else over("dropped", details.reason!);
          },
        },
      );
    });
  await clock.run(startAt + 20_000_000);
  expect(broken).toBeNull();
  expect(server.pipelines.live).toBe(0);
  expect(server.driver.requests.count).toBe(0);
  return ends;
}

const SHAPES = [
  { shape: "chain", modules: CHAIN, ratesRps: [150, 450, 900] },
  { shape: "split and merge", modules: DIAMOND, ratesRps: [150, 450] },
];
/**
 * A part that is dropped as it comes calls its sibling off at that moment in the simulator; in the server a turn later, when the
 * sibling may have made a batch full. That is rare but where a queue is given more than its share under `deferred`, far past capacity,
 * and where parts are refused at the door.
 */
const isTied = (shape: string, budget: string, policy: string): boolean =>
  shape !== "chain" &&
  (budget === "overload" || (policy === "deferred" && !["share", "measured", "worst"].includes(budget)));
const CASES = SHAPES.flatMap((shape) =>
  BUDGET_RULES.flatMap((budget) =>
    ["deferred", "eager", "pard"].flatMap((policy) =>
      isTied(shape.shape, budget, policy) ? [] : [{ ...shape, budget, policy }],
    ),
  ),
);

test.each(CASES)(
  "$shape, $budget, $policy: every request ends in the server as in the simulator",
  async ({ modules, ratesRps, budget, policy }) => {
    let others = 0;
    for (const rateRps of ratesRps) {
      const scenario = scenarioOf(modules, budget, policy, rateRps);
      const { arrivals, ends } = simulated(scenario);
      expect(ends.length).toBeGreaterThan(500);
      expect(await live(scenario, modules, budget, policy, arrivals)).toEqual(ends);
      others += ends.filter(({ outcome }) => outcome !== "finished").length;
    }
    expect(others).toBeGreaterThan(10);
  },
);
