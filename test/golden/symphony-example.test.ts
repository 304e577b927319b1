/**
 * Symphony §3.3 and Figures 4 and 5: three accelerators, l(b) = b + 5, SLO 12, Ri arrives at 0.75 (i - 1), 48 requests,
 * head dropping off. One time unit is a millisecond here. Worked by hand from the paper's text.
 */
import { describe, expect, test } from "vitest";
import { DROPPED, LATE } from "../../src/core/outcome.js";
import type { Policy } from "../../src/core/policy.js";
import type { AcceleratorId } from "../../src/core/tables/accelerator-table.js";
import type { BatchId } from "../../src/core/tables/batch-table.js";
import type { RequestHandle } from "../../src/core/tables/request-table.js";
import { RankArbiter } from "../../src/policies/deferred/rank-arbiter.js";
import { WindowQueue, type WindowQueueOptions } from "../../src/policies/deferred/window-queue.js";
import { deferred } from "../../src/policies/registry.js";
import { Simulation } from "../../src/sim/simulation.js";
import { accelerators, arrivalsAt, linearModel, scenarioOf } from "../support/scenario.js";

/** Writes down `t:b` of every dispatch, the accelerators used, and which requests were dropped or late. */
class Trace extends Simulation {
  readonly dispatches: string[] = [];
  readonly order: number[] = [];
  readonly lost: string[] = [];
  override dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    this.dispatches.push(`${at / 1000}:${this.scheduler.batches.size[batch]}`);
    this.order.push(accelerator + 1);
    super.dispatch(batch, accelerator, at);
  }
  override end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const number = Math.round(this.scheduler.requests.arrivalAt[request]! / 750) + 1;
    if (outcome === DROPPED || outcome === LATE) this.lost.push(`R${number}`);
    super.end(request, outcome, reason, execStartAt, at);
  }
}

const MISSING = [13, 14, 15];

function run(policy: Policy | ((trace: () => Trace) => Policy), missing: readonly number[]): Trace {
  const numbers = Array.from({ length: 48 }, (_, index) => index + 1).filter((number) => !missing.includes(number));
  const scenario = scenarioOf({
    models: [linearModel("m", 1, 5, 12, 0, 7)],
    accelerators: accelerators(3),
    arrivals: arrivalsAt(numbers.map((number) => 0.75 * (number - 1))),
  });
  const trace: Trace = new Trace(scenario, typeof policy === "function" ? policy(() => trace) : policy, 1);
  trace.run();
  return trace;
}

const everyThreeMs = (from: number, to: number): string[] =>
  Array.from({ length: Math.round((to - from) / 3) + 1 }, (_, index) => `${from + 3 * index}:4`);

describe("Symphony §3.3 example, to the microsecond", () => {
  test("deferred: staggered execution, R1-R4 at 2.25, then four every 3 (Figure 4)", () => {
    const trace = run(deferred({ head_drop: false }), []);
    expect(trace.dispatches).toEqual(everyThreeMs(2.25, 35.25));
    expect(trace.order).toEqual(Array.from({ length: 12 }, (_, index) => (index % 3) + 1));
    expect(trace.lost).toEqual([]);
  });

  test("deferred without R13-R15: idles shortly and regains the stagger (Figure 5b)", () => {
    const trace = run(deferred({ head_drop: false }), MISSING);
    expect(trace.dispatches).toEqual([
      "2.25:4",
      "5.25:4",
      "8.25:4",
      "13.5:4",
      "16.5:4",
      "19.5:4",
      "22.5:4",
      "25.5:4",
      "28.5:4",
      "31.5:4",
      "34.5:4",
      "40.25:1",
    ]);
    expect(trace.lost).toEqual([]);
  });

  test("eager from R16 on: batches shrink and requests are lost (Figure 5a)", () => {
    const eagerFromR16 = (trace: () => Trace): Policy => {
      const options: WindowQueueOptions = {
        get opens() {
          return trace().dispatches.length < 3 ? ("frontrun" as const) : ("eager" as const);
        },
        timeoutUs: 0,
        drop: "infeasible",
        target: null,
        rateWindowUs: 5e6,
        slackUs: 0,
        idleDispatch: false,
      };
      return {
        name: "eager-from-R16",
        createQueue: (key, spec, core) => new WindowQueue(key, spec, core, options),
        createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
      };
    };
    const trace = run(eagerFromR16, MISSING);
    expect(trace.dispatches).toEqual([
      "2.25:4",
      "5.25:4",
      "8.25:4",
      "11.25:1",
      "14.25:4",
      "17.25:4",
      "18:1",
      "23.25:2",
      "24:3",
      "26.25:3",
      "30.25:1",
      "32:1",
      "34.25:1",
      "36.25:1",
      // R44 and R47: needed for the 45 requests to add up (36 dispatched and the 9 dropped below).
      "38:1",
      "40.25:1",
    ]);
    expect(trace.lost).toEqual(["R35", "R37", "R38", "R40", "R41", "R43", "R45", "R46", "R48"]);
  });
});
