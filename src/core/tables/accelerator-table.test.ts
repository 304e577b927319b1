import { describe, expect, test } from "vitest";
import { AcceleratorTable } from "./accelerator-table.js";

function tableOf(scales: readonly number[]): AcceleratorTable {
  const table = new AcceleratorTable(scales.length);
  scales.forEach((scale, id) => {
    table.join(id, scale, 0);
  });
  return table;
}
const nobody = () => {};

describe("accelerator table", () => {
  test("one bad measurement: a trial of one request at once, plans stay hopeful until it ends", () => {
    const table = tableOf([1]);
    table.observe(0, 40, 100);
    expect([table.isOnTrial(0), table.fastestScale]).toEqual([true, 1]);
    table.trialSent(0);
    expect([table.isOnTrial(0), table.fastestScale]).toEqual([false, 1]);
    table.observe(0, 1, 200);
    expect([table.scale[0], table.nextTrialAt]).toEqual([1, Number.POSITIVE_INFINITY]);
  });

  test("a second bad measurement is believed; trials follow after 0.25 s, doubling to 4 s", () => {
    const table = tableOf([1, 1]);
    let at = 0;
    table.observe(1, 5, at);
    table.trialSent(1);
    const pauses: number[] = [];
    for (let trial = 0; trial < 7; trial++) {
      table.observe(1, 5, at);
      expect([table.scale[1], table.isStraggler(1), table.isOnTrial(1)]).toEqual([5, true, false]);
      pauses.push(table.nextTrialAt - at);
      at = table.nextTrialAt;
      const started: number[] = [];
      table.startTrials(at, (id) => started.push(id));
      expect([started, table.isOnTrial(1), table.isStraggler(1)]).toEqual([[1], true, false]);
      table.trialSent(1);
      expect(table.isStraggler(1)).toBe(true);
    }
    expect(pauses).toEqual([250_000, 500_000, 1e6, 2e6, 4e6, 4e6, 4e6]);
  });

  test("when all are slow the slowest is still the plan, and a trial makes the plan hopeful", () => {
    const table = tableOf([1, 1]);
    for (const id of [0, 1]) {
      table.observe(id, 6 + id, 0);
      table.trialSent(id);
      table.observe(id, 6 + id, 10);
    }
    expect(table.fastestScale).toBe(6);
    expect(table.startTrials(table.nextTrialAt, nobody)).toBe(true);
    expect(table.fastestScale).toBe(1);
  });

  test("a trial whose batch fails is due again", () => {
    const table = tableOf([1]);
    table.observe(0, 9, 0);
    table.trialSent(0);
    table.observe(0, 9, 5);
    table.startTrials(table.nextTrialAt, nobody);
    table.trialSent(0);
    expect(table.nextTrialAt).toBe(Number.POSITIVE_INFINITY);
    table.unmeasured(0, 300_000);
    expect(table.nextTrialAt).toBe(800_000);
  });

  test("small differences are averaged; the fastest follows when it becomes slower or leaves", () => {
    const table = tableOf([1, 1.3]);
    table.observe(0, 1.2, 0);
    expect(table.scale[0]).toBeCloseTo(1.04, 10);
    expect(table.fastestScale).toBeCloseTo(1.04, 10);
    for (let n = 0; n < 60; n++) table.observe(0, 1.45, n);
    expect(table.fastestScale).toBe(1.3);
    table.leave(1);
    expect(table.fastestScale).toBeCloseTo(1.45, 3);
  });

  test("joins again while a batch of before still runs: it is free when that ends", () => {
    const table = tableOf([1]);
    table.running[0] = 3;
    table.freeAt[0] = 900;
    table.leave(0);
    table.join(0, 1, 500);
    expect([table.freeAt[0], table.inFlight(0), table.count]).toEqual([900, 1, 1]);
  });
});

test("the fastest is known through joins, rejoins and leaves in any order", () => {
  const table = new AcceleratorTable(4);
  const scales = [3, 2, 5, 4];
  for (const [id, scale] of scales.entries()) table.join(id, scale, 0);
  expect(table.fastestScale).toBe(2);
  table.join(1, 6, 1);
  expect(table.fastestScale).toBe(3);
  table.leave(0);
  expect(table.fastestScale).toBe(4);
  for (const id of [1, 2, 3]) table.leave(id);
  expect(table.fastestScale).toBe(1);
  table.join(2, 7, 2);
  expect(table.fastestScale).toBe(7);
});

test("a batch that was planned by its members measures an accelerator that is doubted, no other; what was learnt of others can be let go", () => {
  const table = new AcceleratorTable(2);
  for (const id of [0, 1]) table.join(id, 1, 0);
  table.observe(0, 5, 0);
  table.observe(1, 1.4, 0);
  expect([table.isDoubted(0), table.isDoubted(1)]).toEqual([true, false]);
  table.trialSent(0);
  table.measuredByPlan(0, 1.1, 1000);
  expect(table.isDoubted(0)).toBe(false);
  expect(table.scale[0]).toBeCloseTo(1.1, 6);
  expect(table.measuredByPlan(1, 3, 2000)).toBe(false);
  expect(table.scale[1]).toBeCloseTo(1.08, 6);
  expect(table.forgetAll()).toBe(true);
  expect([table.scale[0], table.scale[1]]).toEqual([1, 1]);
  table.observe(0, 5, 3000);
  table.forgetAll();
  expect(table.isDoubted(0)).toBe(true);
});
