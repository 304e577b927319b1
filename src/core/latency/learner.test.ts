import { expect, test } from "vitest";
import { AcceleratorTable } from "../tables/accelerator-table.js";
import { linearTable, ProfiledLatency } from "./latency.js";
import { Learner } from "./learner.js";

const S = 1_000_000;

/** Two accelerators, of which noise made the second 1.4 times as slow as declared: below what is doubted, so that it has no trials. */
function slowed() {
  const accelerators = new AcceleratorTable(2);
  accelerators.join(0, 1, 0);
  accelerators.join(1, 1, 0);
  const spec = { latency: new ProfiledLatency(linearTable(1000, 19_000, 8)), sloUs: 25_000, lengthMax: 100 };
  const learner = new Learner(accelerators, [spec], "sizes");
  for (let batch = 0; batch < 40; batch++) accelerators.observe(1, 1.4, S);
  const chances = (at: number): number[] => {
    const found: number[] = [];
    learner.giveChances(
      at,
      (id) => found.push(id),
      () => {},
    );
    return found;
  };
  return { accelerators, learner, chances };
}

test("a slower accelerator that nothing ran on for a second while requests were given up is as declared again", () => {
  const { accelerators, learner, chances } = slowed();
  learner.gaveUp(0, 1.5 * S);
  expect(learner.lookAt).toBe(1.5 * S);
  // It was used half a second ago.
  expect(chances(1.5 * S)).toEqual([]);
  expect(accelerators.scale[1]).toBeCloseTo(1.4, 3);
  // Others run, so no model is released; and it is looked once a second.
  learner.measured(0, 0, 1, 20_000, 1.9 * S);
  learner.gaveUp(0, 2 * S);
  expect(learner.lookAt).toBeGreaterThan(2 * S);
  learner.measured(0, 0, 1, 20_000, 2.4 * S);
  learner.gaveUp(0, 2.5 * S);
  expect(learner.lookAt).toBe(2.5 * S);
  expect(chances(2.5 * S)).toEqual([1]);
  expect(accelerators.scale[1]).toBe(1);
});

test("not while it runs a batch, is hardly slower, or is doubted and has trials of its own", () => {
  const { accelerators } = slowed();
  const forgotten = (): number[] => {
    const found: number[] = [];
    accelerators.forgetUnused(10 * S, (id) => found.push(id));
    return found;
  };
  accelerators.running[1] = 7;
  expect(forgotten()).toEqual([]);
  accelerators.running[1] = -1;
  for (let batch = 0; batch < 40; batch++) accelerators.observe(0, 1.04, S);
  accelerators.observe(1, 5, S);
  expect(forgotten()).toEqual([]);
  for (let batch = 0; batch < 40; batch++) accelerators.observe(1, 1.3, S);
  expect(forgotten()).toEqual([1]);
});

test("an accelerator whose trial by a batch planned by its members was slow again is tried again", () => {
  const table = new AcceleratorTable(1);
  table.join(0, 1, 0);
  const learner = new Learner(table, [undefined], "sizes");
  const slowAt = (at: number): boolean => learner.measured(0, 0, 1, 5000, at, 1000);
  table.observe(0, 5, 0);
  table.trialSent(0);
  for (let round = 0, at = 1000; round < 3; round++) {
    slowAt(at);
    expect(learner.lookAt).toBeGreaterThan(at);
    expect(learner.lookAt).toBeLessThan(Number.POSITIVE_INFINITY);
    at = learner.lookAt;
    const tried: number[] = [];
    learner.giveChances(
      at,
      (id) => tried.push(id),
      () => {},
    );
    expect(tried).toEqual([0]);
    table.trialSent(0);
  }
});
