import { expect, it } from "vitest";
import { loadScenario, withRate } from "../config/scenario/scenario.js";
import { durationUs } from "../core/time.js";
import { mean } from "../measure/statistics.js";
import type { SimulatedEvent } from "../sim/event-lines.js";
import { simulate } from "../sim/simulate.js";
import { PipelineRun } from "./pipeline-run.js";

const ran = (module: string, from: number, to: number, ...requests: number[]): SimulatedEvent => ({
  event: "ran",
  start_us: from,
  end_us: to,
  group: "g",
  accelerator: 0,
  model: module,
  lost: false,
  members: requests.map((request) => ({ request, module })),
});
const arrived = (request: number, at: number): SimulatedEvent => ({
  event: "arrived",
  at_us: at,
  request,
  of: "lv",
  deadline_us: at + 500_000,
});
const joined = (request: number, module: string, at: number): SimulatedEvent => ({
  event: "joined",
  at_us: at,
  request,
  module,
});
const ended = (request: number, at: number, outcome: string, module?: string): SimulatedEvent => ({
  event: "ended",
  at_us: at,
  request,
  of: "lv",
  outcome,
  ...(module === undefined ? {} : { module }),
});

const scenario = () => loadScenario("scenarios/pipelines/lv.yaml", {});

it("what a request's time is spent on: queueing until it enters a batch for the last time, the wait in it, execution (PARD Eq. 2)", () => {
  const { warmupUs, pipelines } = scenario();
  const [first, second] = pipelines![0]!.modules.map(({ name }) => name);
  const at = (us: number): number => warmupUs + us;
  const run = new PipelineRun(scenario());
  for (const event of [
    arrived(0, at(0)),
    joined(0, first!, at(2000)),
    arrived(1, at(3000)),
    joined(0, first!, at(5000)),
    ran(first!, at(9000), at(29_000), 0, 1),
    ended(0, at(29_000), "finished", first),
    ended(1, at(29_000), "late", first),
    ended(1, at(29_000), "late"),
    joined(0, second!, at(29_000)),
    ran(second!, at(30_000), at(31_000), 0),
    ended(0, at(31_000), "finished", second),
    ended(0, at(31_000), "finished"),
  ])
    run.tell(event);
  const { queue, wait, exec } = run.details(["spent"]).spent!;
  for (const [percentiles, ms] of [
    [queue, 5],
    [wait, 5],
    [exec, 21],
  ] as const)
    expect(percentiles).toEqual(Array.from({ length: 101 }, () => ms));
});

it("under pard all three are there, together within the SLO; elsewhere nobody waits in a batch", () => {
  const spentUnder = (policy: string) => {
    const own = withRate({ ...scenario(), durationUs: durationUs(6_000_000), warmupUs: durationUs(2_000_000) }, 800);
    const run = new PipelineRun(own);
    simulate(own, { policy, policyOptions: {}, seed: 1, onEvent: run.tell });
    return run.details(["spent"]).spent!;
  };
  const { queue, wait, exec } = spentUnder("pard");
  expect(Math.min(wait[50]!, exec[50]!, queue[99]!)).toBeGreaterThan(1);
  expect(mean(queue) + mean(wait) + mean(exec)).toBeLessThan(500);
  const eager = spentUnder("eager");
  expect([eager.wait[100], eager.queue[50]! > 1]).toEqual([0, true]);
});
