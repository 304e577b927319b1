/** `auto` asks what other ways of serving would have earned. `rubato bench default --simulated` measures what comes of it. */
import { describe, expect, it } from "vitest";
import { expandScenario, scenarioFrom } from "../../../config/scenario/scenario.js";
import { sourceOf } from "../../../config/source.js";
import { linearTable, ProfiledLatency } from "../../../core/latency/latency.js";
import type { QueueSpec } from "../../../core/policy.js";
import { NO_DELAYS, Scheduler } from "../../../core/scheduler.js";
import { PLAIN } from "../../../core/tables/request-table.js";
import { simulate } from "../../../sim/simulate.js";
import { createPolicy } from "../../registry.js";
import { RunSpread } from "./run-spread.js";
import { Stage } from "./stage.js";

const specOf = (alphaUs: number, betaUs: number, sloUs: number): QueueSpec => ({
  latency: new ProfiledLatency(linearTable(alphaUs, betaUs, 32)),
  sloUs,
  lengthMax: 1000,
});

function fleet(count: number) {
  const sink = { dispatch() {}, end() {}, batchEnded() {}, preempt() {} };
  const scheduler = new Scheduler(createPolicy("eager", {}), sink, {
    network: NO_DELAYS,
    acceleratorsMax: 4,
    requestsMax: 1000,
    retriesMax: 0,
    learn: false,
  });
  for (let id = 0; id < count; id++) scheduler.join(id, 1, 0);
  return scheduler;
}

describe("a stage", () => {
  const staged = (count: number, spread = new RunSpread()) => {
    const worth = Float64Array.of(3);
    const stage = new Stage(createPolicy("eager", { drop: "window" }), NO_DELAYS, 4, worth, spread);
    const key = stage.addQueue(specOf(1000, 9000, 30_000));
    const real = fleet(count);
    stage.follow(real.accelerators, [NO_DELAYS]);
    return { stage, key, real };
  };
  const arrive = (stage: Stage, key: number, at: number, counts = true, dueBy = Number.POSITIVE_INFINITY): void =>
    stage.arrive(key, at + 30_000, dueBy, at, counts);

  it("earns the worth of what ends in time, by the moment that it is asked", () => {
    const { stage, key } = staged(1);
    arrive(stage, key, 0);
    arrive(stage, key, 9_999);
    expect(stage.earned).toBe(0);
    arrive(stage, key, 10_000);
    expect(stage.earned).toBe(3);
  });

  it("batches take as much more than planned as real ones did", () => {
    const spread = new RunSpread();
    for (let batch = 0; batch < 16; batch++) spread.ran(1, 1000, batch % 2 === 0 ? 2000 : 4000);
    const { stage, key } = staged(1, spread);
    // 20 and 40 ms in place of 10, and who must end within 30 is late by the second.
    for (const at of [0, 100_000, 200_000]) arrive(stage, key, at);
    arrive(stage, key, 300_000, false);
    expect(stage.earned).toBe(6);
  });

  it("earns nothing by what does not count, or comes too late", () => {
    const { stage, key } = staged(1);
    arrive(stage, key, 0, false);
    // Behind the first it would end at 20 ms, and must by 19.
    stage.arrive(key, 19_000, Number.POSITIVE_INFINITY, 1000, true);
    arrive(stage, key, 100_000);
    expect(stage.earned).toBe(0);
  });

  it("follows accelerators that come, go and slow down", () => {
    const { stage, key, real } = staged(2);
    const servedBy = (at: number): number => {
      // Two that must start at once, or not at all: as many as idle.
      const before = stage.earned;
      for (let i = 0; i < 2; i++) stage.arrive(key, at + 10_000, Number.POSITIVE_INFINITY, at, true);
      arrive(stage, key, at + 500_000, false);
      return (stage.earned - before) / 3;
    };
    expect(servedBy(1_000_000)).toBe(2);
    real.leave(1, 0);
    stage.follow(real.accelerators, [NO_DELAYS]);
    expect(servedBy(2_000_000)).toBe(1);
    real.join(0, 2, 0);
    stage.follow(real.accelerators, [NO_DELAYS]);
    expect(servedBy(3_000_000)).toBe(0);
  });
});

describe("in a scheduler", () => {
  /** l(b) = b + 5 ms: one accelerator ends 32 in 37 ms. Strong batching, unlike models: eager serves batches too small. */
  const driven = (options: Readonly<Record<string, unknown>>, until: number) => {
    const commands: string[] = [];
    let inTime = 0;
    const ends: { batch: number; startAt: number; at: number }[] = [];
    const scheduler: Scheduler = new Scheduler(
      createPolicy("auto", options),
      {
        dispatch: (batch, accelerator, at) => {
          const { execAt, execUs, size, queue } = scheduler.batches;
          commands.push(`${queue[batch]} ${size[batch]} ${accelerator} ${at}`);
          const startAt = Math.max(execAt[batch]!, at, ends.at(-1)?.at ?? 0);
          ends.push({ batch, startAt, at: startAt + execUs[batch]! });
        },
        end: (_request, outcome) => {
          inTime += outcome === 0 ? 1 : 0;
        },
        batchEnded: () => {},
        preempt: () => {},
      },
      { network: NO_DELAYS, acceleratorsMax: 1, requestsMax: 10_000, retriesMax: 0, learn: false },
    );
    for (let model = 0; model < 4; model++) scheduler.addQueue(specOf(1000 + 300 * model, 20_000, 120_000));
    scheduler.join(0, 1, 0);
    let now = 0;
    for (let count = 0; now < until; count++) {
      const arrivalAt = now + 1500 + ((count * 7919) % 2500);
      for (;;) {
        const endAt = ends[0]?.at ?? Number.POSITIVE_INFINITY;
        const wakeAt = Math.max(now, scheduler.nextWakeAt);
        if (Math.min(endAt, wakeAt) > arrivalAt) break;
        now = Math.min(endAt, wakeAt);
        if (endAt <= wakeAt) {
          const { batch, startAt } = ends.shift()!;
          scheduler.finished(batch, startAt, now, now);
        } else scheduler.wake(now);
      }
      now = arrivalAt;
      scheduler.arrive(count % 4, count, now, now + 120_000, now, PLAIN);
    }
    return { commands, inTime };
  };

  it("what it does is a function of what it is told", () => {
    expect(driven({}, 10_000_000)).toEqual(driven({}, 10_000_000));
  });

  it("what it does differs from its own rules, once it has seen enough", () => {
    const [own, auto] = [driven({ rehearse: false }, 10_000_000), driven({}, 10_000_000)];
    expect(auto.commands).not.toEqual(own.commands);
  });

  it("begins anew when queues come and go, and forgets those that went", () => {
    const sink = { dispatch() {}, end() {}, batchEnded() {}, preempt() {} };
    const scheduler = new Scheduler(createPolicy("auto", {}), sink, {
      network: NO_DELAYS,
      acceleratorsMax: 1,
      requestsMax: 100_000,
      retriesMax: 0,
      learn: false,
    });
    const [a, b] = [scheduler.addQueue(specOf(1000, 5000, 20_000)), scheduler.addQueue(specOf(1000, 5000, 20_000))];
    let now = 0;
    const feed = (keys: readonly number[], count: number): void => {
      for (let i = 0; i < count; i++) {
        now += 1000;
        scheduler.wake(now);
        scheduler.arrive(keys[i % keys.length]!, i, now, now + 20_000, now);
      }
      now += 50_000;
      scheduler.wake(now);
    };
    // Nothing ever serves: all ends by its deadline, and the rehearsal must do without accelerators.
    feed([a, b], 500);
    scheduler.removeQueue(b);
    feed([a], 500);
    const c = scheduler.addQueue(specOf(2000, 5000, 40_000));
    feed([a, c], 500);
    expect(scheduler.queueLength(a) + scheduler.queueLength(c)).toBe(0);
  });
});

describe("in short simulations", () => {
  const inTime = (fields: Readonly<Record<string, unknown>>, policy: string, policyOptions = {}): number => {
    const whole = { name: "case", duration_s: 30, warmup_s: 4, ...fields };
    const scenario = expandScenario(scenarioFrom(sourceOf(whole, "case.yaml")));
    return 1 - simulate(scenario, { policy, policyOptions, seed: 1 }).bad_rate;
  };
  /** Where each of the ways is the best by far: few accelerators and unlike models; bursts over many models; slow accelerators. */
  const settings = {
    "one accelerator, unlike models": {
      accelerators: 1,
      models: [
        { name: "a", profile: { alpha_ms: 0.13, beta_ms: 18.5 }, slo_ms: 184 },
        { name: "b", profile: { alpha_ms: 1, beta_ms: 30 }, slo_ms: 120 },
        { name: "c", profile: { alpha_ms: 3, beta_ms: 10 }, slo_ms: 80 },
      ],
      arrivals: { process: "gamma", shape: 0.18, rate_rps: 300 },
    },
    "many models in bursts": {
      accelerators: 3,
      models: [{ name: "m", count: 37, profile: { alpha_ms: 0.57, beta_ms: 27.6 }, slo_ms: 240 }],
      arrivals: { process: "gamma", shape: 0.07, rate_rps: 1000 },
    },
    "an accelerator that serves few": {
      accelerators: [{ count: 1 }, { count: 1, scale: 3.2 }],
      models: [{ name: "m", profile: { alpha_ms: 0.185, beta_ms: 9.9 }, slo_ms: 30 }],
      arrivals: { process: "poisson", rate_rps: 1900 },
    },
  };

  it.each(Object.entries(settings))("%s: within 3 % of the best of the ways that it knows", (_name, fields) => {
    const own = inTime(fields, "auto", { rehearse: false });
    const others = [
      inTime(fields, "deferred"),
      inTime(fields, "eager", { drop: "window" }),
      inTime(fields, "timeout", { timeout_fraction: 0.1, drop: "window" }),
    ];
    expect(inTime(fields, "auto")).toBeGreaterThan(0.97 * Math.max(own, ...others));
  });

  it("earns where its own rules collapse", () => {
    const fields = settings["an accelerator that serves few"];
    expect(inTime(fields, "auto")).toBeGreaterThan(inTime(fields, "auto", { rehearse: false }) + 0.1);
  });
});
