/** A queue of `auto` learns of apps, and then may serve by who goes together. Figures on more settings: docs/decisions/006 and 008. */
import { describe, expect, it } from "vitest";
import { expandScenario, scenarioFrom } from "../../../config/scenario/scenario.js";
import { sourceOf } from "../../../config/source.js";
import { linearTable, ProfiledLatency } from "../../../core/latency/latency.js";
import { FAIL_WORKER_CRASHED } from "../../../core/outcome.js";
import type { KindTimes, QueueSpec } from "../../../core/policy.js";
import { NO_DELAYS, Scheduler } from "../../../core/scheduler.js";
import { PLAIN } from "../../../core/tables/request-table.js";
import { simulate } from "../../../sim/simulate.js";
import { createPolicy } from "../../registry.js";
import type { WindowRules } from "../window-queue.js";
import { AdaptiveQueue } from "./adaptive-queue.js";

const app = (name: string, mean_ms: number) => ({ name, time: { normal: { mean_ms, sd_ms: 2 } } });
const scenarioOf = (model: Record<string, unknown>, others: Record<string, unknown>) => ({
  name: "apps",
  duration_s: 65,
  warmup_s: 5,
  accelerators: 1,
  models: [
    {
      name: "dynamic",
      slo_ms: 195,
      batch_max: 16,
      profile: { alpha_ms: 11, beta_ms: 27.5 },
      batch_time: { c0_ms: 27.5, c1: 0.2 },
      ...model,
    },
  ],
  arrivals: { process: "poisson", rate_rps: 77 },
  ...others,
});
const unlike = { apps: [app("short", 15), app("middle", 55), app("long", 95)] };
const inTime = (fields: Record<string, unknown>, policy: string, policyOptions = {}): number => {
  const scenario = expandScenario(scenarioFrom(sourceOf(fields, "case.yaml")));
  return 1 - simulate(scenario, { policy, policyOptions, seed: 1 }).bad_rate;
};

describe("auto with apps", () => {
  it("whose times are known beforehand: as distribution+, with and without the rehearsal", () => {
    const fields = scenarioOf({ ...unlike, profiled: 1000 }, {});
    const best = inTime(fields, "distribution+");
    expect(inTime(fields, "auto")).toBeGreaterThan(best - 0.005);
    expect(inTime(fields, "auto", { rehearse: false })).toBeGreaterThan(best - 0.005);
    expect(inTime(fields, "auto", { by_app: false })).toBeLessThan(best - 0.3);
  });

  it("whose times are learnt: better than without", () => {
    const fields = scenarioOf(unlike, { learn: true });
    expect(inTime(fields, "auto")).toBeGreaterThan(inTime(fields, "auto", { by_app: false }) + 0.15);
  });

  it("far from the profile: accelerators that were doubted while sizes said all are believed again; beside a model without apps", () => {
    const spread = {
      slo_ms: 150,
      profile: { alpha_ms: 2, beta_ms: 8 },
      batch_max: undefined,
      batch_time: undefined,
      rate_rps: 150,
      apps: [
        { name: "phrase", share: 3, time: { lognormal: { mean_ms: 10, sd_ms: 4 } } },
        {
          name: "page",
          share: 1,
          time: {
            modes: [
              { weight: 3, mean_ms: 20, sd_ms: 3 },
              { weight: 1, mean_ms: 50, sd_ms: 5 },
            ],
          },
        },
      ],
    };
    const fields = scenarioOf(spread, {
      duration_s: 30,
      learn: true,
      accelerators: 3,
      arrivals: { process: "poisson" },
    });
    expect(inTime(fields, "auto")).toBeGreaterThan(0.99);
    expect(inTime(fields, "auto", { rehearse: false })).toBeGreaterThan(0.99);
    const plain = { name: "plain", profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 40, rate_rps: 300 };
    expect(inTime({ ...fields, models: [...fields.models, plain] }, "auto")).toBeGreaterThan(0.96);
  });

  it("of which nothing is known, and nothing learnt: as without", () => {
    const fields = scenarioOf(unlike, {});
    expect(inTime(fields, "auto")).toBe(inTime(fields, "auto", { by_app: false }));
  });

  it("one app on 16 accelerators: windows allow for the longest of a batch", () => {
    const fields = scenarioOf(
      { apps: [app("only", 55)], profiled: 1000 },
      { duration_s: 15, warmup_s: 3, accelerators: 16, arrivals: { process: "poisson", rate_rps: 1250 } },
    );
    expect(inTime(fields, "auto")).toBeGreaterThan(inTime(fields, "auto", { by_app: false }) + 0.2);
  });
});

describe("AdaptiveQueue", () => {
  const kinds: KindTimes[] = [10_000, 50_000].map((us, kind) => ({
    name: `k${kind}`,
    share: 0.5,
    aloneUs: Float64Array.of(us, us + 1000),
  }));
  const spec: QueueSpec = {
    latency: new ProfiledLatency(linearTable(5000, 20_000, 8)),
    sloUs: 300_000,
    lengthMax: 100,
    kinds,
  };

  it("whoever waits moves with the way of serving, ends once, and those that came back stay first", () => {
    const ended: number[] = [];
    const sent: { size: number; batch: number }[] = [];
    let queue: AdaptiveQueue | null = null;
    const policy = createPolicy("auto", { rehearse: false });
    const scheduler: Scheduler = new Scheduler(
      {
        ...policy,
        createQueue: (key, of, core) => {
          queue = policy.createQueue(key, of, core) as AdaptiveQueue;
          return queue;
        },
      },
      {
        dispatch: (batch) => sent.push({ size: scheduler.batches.size[batch]!, batch }),
        end: (request) => ended.push(scheduler.requests.tag[request]!),
        batchEnded: () => {},
        preempt: () => {},
      },
      { network: NO_DELAYS, acceleratorsMax: 1, requestsMax: 100, retriesMax: 1, learn: false },
    );
    const key = scheduler.addQueue(spec);
    expect(queue).toBeInstanceOf(AdaptiveQueue);
    const rules = (groups: boolean): WindowRules => ({
      opens: "frontrun",
      timeoutUs: 0,
      drop: "window",
      target: null,
      rateWindowUs: 1_000_000,
      slackUs: 0,
      idleDispatch: false,
      plus: null,
      groups,
    });
    const arrive = (tag: number, at: number) =>
      scheduler.arrive(key, tag, at, at + 300_000, at, { ...PLAIN, kind: tag % 2 });
    for (let tag = 0; tag < 10; tag++) arrive(tag, tag);
    for (const groups of [false, true, false, true, false]) {
      queue!.serveBy(rules(groups), 10);
      expect([queue!.length, ended]).toEqual([10, []]);
    }
    queue!.serveBy(rules(true), 10);
    scheduler.join(0, 1, 20);
    scheduler.wake(20);
    // All of one kind: a short one beside long ones would cost as much as they do.
    const first = sent.shift()!;
    const kindsOfFirst = new Set(membersOf(scheduler, first.batch).map((tag) => tag % 2));
    expect([first.size > 1, kindsOfFirst.size]).toEqual([true, 1]);
    // The model is down: its members come back alone, and move, too.
    scheduler.failed(first.batch, FAIL_WORKER_CRASHED, 30, true);
    expect(queue!.length).toBe(10);
    queue!.serveBy(rules(false), 30);
    expect(queue!.length).toBe(10);
    scheduler.wake(30);
    expect(sent[0]!.size).toBe(1);
    for (let at = 40; ended.length < 10 && at < 1_000_000; at += 10_000) {
      for (const { batch } of sent.splice(0)) scheduler.finished(batch, at, at + 1, at + 1);
      scheduler.wake(at + 1);
    }
    expect([...ended].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

function membersOf({ batches, requests }: Scheduler, batch: number): number[] {
  const tags: number[] = [];
  for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!)
    tags.push(requests.tag[handle]!);
  return tags;
}
