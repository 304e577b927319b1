import { expect, test } from "vitest";
import { problemOf } from "../../../../test/support/allocation-problems.js";
import { randomQueue } from "../../../bench/otas/random-queue.js";
import { stream } from "../../../sim/random.js";
import { type AllocationProblem, NOT_EXECUTED, plannedUtility } from "./allocation.js";
import { Exhaustive } from "./exhaustive.js";
import { Frontier } from "./frontier.js";
import { TokenAdaptation } from "./token-adaptation.js";

const SEED = 20261129;
const ROOMS = [0.2, 0.4, 0.6, 0.8, 1, 1.3];

/** Each with its own name, for a failure to be told. */
function* queues(count: (each: number) => number, howMany: number): Generator<[string, AllocationProblem, number]> {
  for (let each = 0; each < howMany; each++) {
    const random = stream(SEED, `queue/${each}`);
    const now = each % 3 === 0 ? 20_000 : 0;
    yield [`seed ${SEED} queue ${each}`, randomQueue(random, count(each), ROOMS[each % ROOMS.length]!), now];
  }
}

/** @returns the plan's utility, checked against its batches. */
function utilityOf(frontier: Frontier, problem: AllocationProblem, now: number, name: string): number {
  const chosen = new Int32Array(problem.count).fill(99);
  const utility = frontier.allocate(problem, now, chosen);
  expect(plannedUtility(problem, now, chosen), name).toBeCloseTo(utility, 9);
  return utility;
}

test("frontier: earns what trying every plan earns, on 400 queues of 1 to 5 batches", () => {
  const frontier = new Frontier(5, 9, 100_000);
  const exhaustive = new Exhaustive();
  for (const [name, problem, now] of queues((each) => 1 + (each % 5), 400)) {
    const best = exhaustive.allocate(problem, now, new Int32Array(problem.count));
    expect(utilityOf(frontier, problem, now, name), name).toBeCloseTo(best, 9);
    expect(frontier.bound, name).toBeCloseTo(best, 9);
  }
});

test("frontier: however few its states, not below Algorithm 2, within its states, below its bound, which holds", () => {
  const otas = new TokenAdaptation(40, 9);
  const unlimited = new Frontier(40, 9, 1_000_000);
  let gaps = 0;
  for (const statesMax of [0, 50, 1000, 10_000]) {
    const frontier = new Frontier(40, 9, statesMax);
    for (const [name, problem, now] of queues((each) => 1 + each, 40)) {
      const utility = utilityOf(frontier, problem, now, `${name}, ${statesMax} states`);
      expect(utility).toBeGreaterThanOrEqual(otas.allocate(problem, now, new Int32Array(problem.count)));
      expect(frontier.states).toBeLessThanOrEqual(statesMax);
      expect(frontier.bound).toBeGreaterThanOrEqual(utility);
      const best = utilityOf(unlimited, problem, now, name);
      expect(frontier.bound * (1 + 1e-9), name).toBeGreaterThanOrEqual(best);
      if (frontier.bound > utility) gaps++;
    }
  }
  expect(gaps).toBeGreaterThan(40);
});

test("frontier: what Algorithm 2 has no clock for is found", () => {
  const problem = problemOf([
    [100, [10, 10], [45, 11]],
    [100, [10, 10], [45, 1]],
    [101, [80, 30], [81, 30]],
  ]);
  const chosen = new Int32Array(3);
  expect(new Frontier(3, 2, 1000).allocate(problem, 0, chosen)).toBe(50);
  expect([...chosen]).toEqual([0, 0, 0]);
});

test("frontier: gammas need not ascend in time or utility; what earns nothing or less is not executed", () => {
  const problem = problemOf([
    [100, [30, 5], [20, 6], [20, 4], [40, 6]],
    [100, [10, 0], [20, -1], [30, 0], [5, -2]],
    [100, [81, 9], [80, 8], [80, 9], [79, 2]],
  ]);
  const chosen = new Int32Array(3);
  expect(new Frontier(3, 4, 1000).allocate(problem, 0, chosen)).toBe(15);
  expect([...chosen]).toEqual([1, NOT_EXECUTED, 2]);
});

test("frontier: nothing waits, or nothing can be in time", () => {
  const frontier = new Frontier(3, 1, 1000);
  expect(frontier.allocate(problemOf([[9, [10, 1]]]), 0, new Int32Array(1))).toBe(0);
  expect([frontier.bound, frontier.states]).toEqual([0, 0]);
  const chosen = new Int32Array(3);
  const late = problemOf([
    [5, [1, 1]],
    [8, [1, 1]],
    [20, [1, 1]],
  ]);
  expect(frontier.allocate(late, 10, chosen)).toBe(1);
  expect([...chosen]).toEqual([NOT_EXECUTED, NOT_EXECUTED, 0]);
  const empty = { ...late, count: 0 };
  expect(frontier.allocate(empty, 0, chosen)).toBe(0);
});
