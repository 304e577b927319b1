/**
 * The estimate that a request was dropped by, and by how much it missed its deadline: worked by hand for every policy that
 * drops by one. l(b) = 10 b + 90 µs, times in µs; `x` holds the accelerator from 0 to 100.
 */
import { describe, expect, test } from "vitest";
import { HandDriven, type HandDrivenOptions } from "../../test/support/hand-driven.js";
import { FAIL_MODEL_ERROR, FAIL_WORKER_CRASHED } from "../core/outcome.js";
import type { Policy } from "../core/policy.js";
import { PLAIN } from "../core/tables/request-table.js";
import { createPolicy, POLICY_NAMES } from "./registry.js";

const STATIC = { plan: "static", static_batch: 4 };
const PLAIN_CLOCKWORK = { slo_margin_ms: 0, control_delay_ms: 0, schedule_ahead_ms: 0 };

const serve = (policy: Policy, options: Partial<HandDrivenOptions> = {}): HandDriven =>
  new HandDriven({ policy, ...options });
const behindX = (name: string, options: object, sizeMax = 8): HandDriven =>
  serve(createPolicy(name, options as never), { sizeMax }).arrive(0, "x", 0, 100);
const lateBy = (run: HandDriven, name = "a") => [run.ended.get(name), run.endedAt.get(name), run.lateByUs.get(name)];

describe("a request that cannot end in time, not even alone", () => {
  test.each([
    ["deferred", {}],
    ["deferred+", {}],
    ["eager", {}],
    ["timeout", { timeout_fraction: 0.1 }],
    ["fixed-size", { batch_size: 1 }],
    ["shepherd", {}],
    ["nexus", STATIC],
  ])("%s: would end a run after it came", (name, options) => {
    const run = behindX(name, options).arrive(10, "a", 0, 105).until(1000);
    expect(lateBy(run)).toEqual(["dropped infeasible", 10, 10 + 100 - 105]);
  });

  test.each([
    ["eager", { drop: "expired" }],
    ["clipper", {}],
    ["clockwork", PLAIN_CLOCKWORK],
  ])("%s %j: when its deadline has passed, a run after that", (name, options) => {
    const run = behindX(name, options).arrive(10, "a", 0, 50).until(1000);
    expect(lateBy(run)).toEqual(["dropped expired", 51, 51 + 100 - 50]);
  });

  test("delays before execution count, and the one after it", () => {
    const network = { controlUs: 5, dataUsPerRequest: 2, responseUs: 7 };
    const run = serve(createPolicy("eager", {}), { network }).arrive(0, "a", 0, 100).until(1000);
    expect(lateBy(run)).toEqual(["dropped infeasible", 0, 5 + 2 + 100 + 7 - 100]);
  });

  test("what was only to be reached by its queue: the deadline itself could have been held", () => {
    const run = serve(createPolicy("eager", {})).arrive(0, "x");
    run.scheduler.arrive(0, 0, 0, 200, 0, { ...PLAIN, dueBy: 50 });
    expect(run.lateByUs.get("x")).toBe(100 - 200);
  });
});

describe("a request that is given up for the batch behind it", () => {
  test.each([
    // Until 85 it could end in a batch of 4.
    ["deferred", { target: 4 }, 86, 86 + 130],
    ["eager", { target: 4, drop: "window" }, 86, 86 + 130],
    // Set aside until the accelerator is free: given up when the 4 leave.
    ["deferred+", { target: 4 }, 100, 100 + 130],
    ["nexus", STATIC, 100, 100 + 130],
    ["shepherd", { preemption: false, size_from: "latest" }, 100, 100 + 130],
    ["clockwork", { ...PLAIN_CLOCKWORK, batch_sizes: [1, 4] }, 100, 100 + 130],
  ])("%s: would end with that batch", (name, options, at, wouldEndAt) => {
    const run = behindX(name, options, 4).arrive(10, "a", 0, 215).arrive(10, "bcde").until(1000);
    expect(lateBy(run)).toEqual(["dropped predicted-late", at, wouldEndAt - 215]);
  });

  test("nexus: with as many as are left, each by its own estimate", () => {
    const run = behindX("nexus", STATIC).arrive(10, "ab", 0, 215).arrive(11, "c", 0, 216).arrive(12, "d").until(1000);
    expect([lateBy(run, "a")[2], lateBy(run, "b")[2]]).toEqual([230 - 215, 220 - 215]);
  });
});

describe("one that is to run alone after a failure, behind another", () => {
  test.each([
    ["deferred", {}],
    ["eager", {}],
    ["fixed-size", { batch_size: 2 }],
    ["shepherd", {}],
    ["nexus", STATIC],
  ])("%s: would end a run later", (name, options) => {
    const run = behindX(name, options, 2).arrive(10, "ab", 0, 300).until(100);
    expect(run.dispatches.at(-1)).toBe("100:ab");
    run.fail(150, 0, FAIL_MODEL_ERROR).until(1000);
    expect(lateBy(run, "b")).toEqual(["dropped infeasible", 201, 201 + 100 - 300]);
  });

  test.each([
    ["clipper", {}],
    ["clockwork", PLAIN_CLOCKWORK],
  ])("%s: when its deadline has passed, a run after that", (name, options) => {
    const run = behindX(name, options).arrive(10, "ab", 0, 254).until(100);
    run.fail(150, 0, FAIL_WORKER_CRASHED).join(155, 0).until(1000);
    expect(run.dispatches.slice(1)).toEqual(["100:ab", "155:a"]);
    expect(lateBy(run, "b")).toEqual(["dropped expired", 255, 255 + 100 - 254]);
  });
});

describe("no estimate decided", () => {
  test.each(POLICY_NAMES.map((name) => [name]))("%s: the queue is full, the client went away", (name) => {
    const policy = createPolicy(name, name === "timeout" ? ({ timeout_fraction: 0.1 } as never) : {});
    const run = serve(policy, { lengthMax: 1, depth: 64 })
      .arrive(0, "x")
      .arrive(1, "abc")
      .cancel(2, "a")
      .cancel(2, "x")
      .until(2);
    expect([...run.ended.values()]).toContain("dropped queue-full");
    expect([...run.ended.values()]).toContain("dropped cancelled");
    expect([...run.lateByUs]).toEqual([]);
  });

  test("triton: it has waited as long as it may", () => {
    const run = behindX("triton", { default_timeout_microseconds: 20 }).arrive(10, "a").until(1000);
    expect(lateBy(run)).toEqual(["dropped expired", 31, undefined]);
  });

  test("no accelerator is there: it fails", () => {
    const run = serve(createPolicy("eager", {})).leave(0, 0).arrive(10, "a", 0, 50).until(1000);
    expect(lateBy(run)).toEqual(["failed no-accelerator", 10, undefined]);
  });
});
