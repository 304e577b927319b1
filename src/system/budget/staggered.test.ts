import { describe, expect, it } from "vitest";
import { staggeredUs } from "../../core/latency/planned-batch.js";
import { DROPPED, FINISHED } from "../../core/outcome.js";
import { Flow, type FlowDriver, type Part } from "../flow.js";
import { ModuleStates, STATE_INTERVAL_US } from "../module-states.js";
import { Pipeline } from "../pipeline.js";
import { Budgets } from "./budget.js";
import type { ModuleTimes } from "./module-times.js";
import { togetherUs } from "./part-work.js";

const CHAIN = new Pipeline([
  { id: 0, name: "a", pres: [], subs: [1] },
  { id: 1, name: "b", pres: [0], subs: [2] },
  { id: 2, name: "c", pres: [1], subs: [] },
]);
const SLO_US = 300_000;
/** l(1) = 10 ms each; in turn 20, 40, 60 ms. */
const TIMES: ModuleTimes = { leastUs: () => 10_000, staggeredUs: (module) => 20_000 * (module + 1) };

/** Runs nothing; fan-outs make one part. */
const IDLE: FlowDriver = {
  submit: () => {},
  callOff: () => {},
  partsOf: () => 1,
  branchOf: () => 0,
  requestEntered: () => {},
  requestEnded: () => {},
};

describe("staggered execution", () => {
  /** l(b) = 5 + 5 b ms. */
  const execUs = Float64Array.from({ length: 10 }, (_, size) => 5000 + 5000 * size);

  it("is of the largest batch that accelerators sustain in turn, and half of a turn's wait for one, or a third of a batch", () => {
    // 4: l(b) * 1.25 <= 50 ms is l(7) = 40, and 0.35 of it. 1: l(b) * 2 <= 50 is l(4) = 25, and half of it.
    expect(staggeredUs(execUs, 8, 50_000, 4)).toBe(54_000);
    expect(staggeredUs(execUs, 8, 50_000, 1)).toBe(37_500);
  });

  it("is of the largest batch that there is, one request at the least, and as much longer as accelerators are slower", () => {
    expect(staggeredUs(execUs, 3, 1e9, 4)).toBe(27_000);
    expect(staggeredUs(execUs, 8, 0, 4)).toBe(13_500);
    expect(staggeredUs(execUs, 3, 1e9, 4, 2)).toBe(54_000);
  });
});

describe("budget: staggered", () => {
  const budgets = new Budgets(CHAIN, "staggered", TIMES, SLO_US);
  const dueBy = (module: number, at: number): number => budgets.dueBy(module, at, SLO_US, 0);

  it("a module has all but what later modules take when they are full", () => {
    expect(dueBy(0, 0)).toBe(200_000);
    expect(dueBy(1, 60_000)).toBe(240_000);
    expect(dueBy(2, 240_000)).toBe(SLO_US);
  });

  it("but its share where that is more: who is late is not refused for it", () => {
    // 90 ms are left for three modules that take 10 ms each alone.
    expect(dueBy(0, 210_000)).toBe(240_000);
    expect(dueBy(1, 250_000)).toBe(275_000);
  });

  it("tells what is planned for where the model promises nothing: the module's share of the promise", () => {
    const told: number[] = [];
    new Budgets(CHAIN, "staggered", { ...TIMES, staggeredUs: (_, sloUs) => told.push(sloUs) }, SLO_US);
    expect(told).toEqual([100_000, 100_000, 100_000]);
  });

  it("follows times that change, and knows no more than l(1) where nothing else is said", () => {
    const other = new Budgets(CHAIN, "staggered", { leastUs: () => 10_000 }, SLO_US);
    expect(other.dueBy(0, 0, SLO_US, 0)).toBe(280_000);
    other.retimed(TIMES);
    expect(other.dueBy(0, 0, SLO_US, 0)).toBe(200_000);
  });

  it("keeps nothing for a soft module, whose answer is of use until those after it must begin, and a twentieth of the time before", () => {
    const soft = new Pipeline([
      { id: 0, name: "a", pres: [], subs: [1] },
      { id: 1, name: "b", pres: [0], subs: [2], isSoft: true },
      { id: 2, name: "c", pres: [1], subs: [] },
    ]);
    for (const rule of ["staggered", "share", "rest", "durations", "forecast", "split"] as const) {
      const [with100, with1] = [100_000, 1000].map((softUs) => {
        const times = (of: number[]) => (module: number) => of[module]!;
        return new Budgets(
          soft,
          rule,
          { leastUs: times([10_000, softUs, 10_000]), staggeredUs: times([20_000, softUs, 60_000]) },
          SLO_US,
        );
      });
      expect(with100!.dueBy(0, 0, SLO_US, 0), rule).toBe(with1!.dueBy(0, 0, SLO_US, 0));
      expect(with100!.leastUs).toBe(20_000);
    }
    const budgets = new Budgets(soft, "staggered", TIMES, SLO_US);
    const flow = new Flow(soft, IDLE, 4);
    const request = flow.enter(0, 0, SLO_US, 0);
    const due = { dueBy: 0, deadline: 0, headStartUs: 0 };
    budgets.tell(due, flow.partOf(request, 1), flow, 0);
    expect(due.dueBy).toBe(240_000);
    expect(due.deadline).toBe(300_000 - 10_000 - 15_000);
    budgets.tell(due, flow.partOf(request, 2), flow, 0);
    expect(due.deadline).toBe(300_000);
  });

  it("in a fan-out reserves what all parts that come together take, for modules without batches, too", () => {
    const parted = new Pipeline([
      { id: 0, name: "a", pres: [], subs: [1], fansOut: true },
      { id: 1, name: "b", pres: [0], subs: [2] },
      { id: 2, name: "c", pres: [1], subs: [], joins: true },
    ]);
    const frames = { aroundOf: () => 0, classOf: () => 0, togetherOf: () => 8 };
    const together = { ...TIMES, togetherUs: (_: number, count: number) => 2_000 * count };
    const due = (times: ModuleTimes): number =>
      new Budgets(parted, "staggered", times, 900_000).dueBy(1, 0, 900_000, 0, 1, frames);
    // c is one again: 60 ms in turn.
    expect(due(together)).toBe(900_000 - 60_000);
    expect(due({ ...together, isSingle: () => true })).toBe(900_000 - 10_000);
  });
});

describe("budget: staggered, modules on the same accelerators", () => {
  const on = (groups: readonly number[]): number[] => {
    const budgets = new Budgets(CHAIN, "staggered", { ...TIMES, groupOf: (module) => groups[module]! }, SLO_US);
    return groups.map((_, module) => budgets.headStartUs(module));
  };

  it("rank later ones before by all that the first of them kept for itself and for what follows", () => {
    expect(on([0, 0, 0])).toEqual([0, 120_000, 120_000]);
    expect(on([0, 1, 0])).toEqual([0, 0, 120_000]);
    expect(on([0, 1, 1])).toEqual([0, 0, 100_000]);
    expect(on([0, 1, 2])).toEqual([0, 0, 0]);
  });

  it("keep a run of an earlier one for when a request comes back from elsewhere: they began another one's meanwhile", () => {
    const due = (groups: readonly number[]): number => {
      const times = { ...TIMES, groupOf: (module: number) => groups[module]!, togetherUs: () => 30_000 };
      return SLO_US - new Budgets(CHAIN, "staggered", times, SLO_US).dueBy(0, 0, SLO_US, 0);
    };
    expect(due([0, 0, 0])).toBe(30_000 + 30_000);
    expect(due([0, 1, 0])).toBe(40_000 + 10_000 + 30_000);
    expect(due([0, 1, 1])).toBe(40_000 + 30_000);
  });

  it("under other rules they do not", () => {
    const budgets = new Budgets(CHAIN, "share", { ...TIMES, groupOf: () => 0 }, SLO_US);
    expect([0, 1, 2].map((module) => budgets.headStartUs(module))).toEqual([0, 0, 0]);
  });

  it("let a request in only if it ends behind those that are begun, and tell it so by a moment that nobody reaches", () => {
    const ends: number[] = [];
    const driver: FlowDriver = { ...IDLE, requestEnded: (request) => ends.push(request) };
    const flow = new Flow(CHAIN, driver, 64);
    const times: ModuleTimes = { ...TIMES, groupOf: () => 0, acceleratorsOf: () => 2 };
    const budgets = new Budgets(CHAIN, "staggered", times, SLO_US);
    const comes = (): { part: number; dueBy: number } => {
      const request = flow.enter(0, 0, SLO_US, 0);
      flow.settle(0);
      const part = flow.partOf(request, 0);
      const due = { dueBy: 0, deadline: 0, headStartUs: 0 };
      budgets.tell(due, part, flow, 0);
      return { part, dueBy: due.dueBy };
    };
    const all = Array.from({ length: 30 }, comes);
    // Each takes 30 ms of two accelerators; of 300 ms the last that is let in needs 10 and what its path takes of its own.
    const isIn = all.map(({ dueBy }) => dueBy > 0);
    const count = isIn.lastIndexOf(true) + 1;
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThan(20);
    expect(isIn).toEqual(all.map((_, index) => index < count));
    expect(new Set(all.slice(0, count).map(({ dueBy }) => dueBy))).toEqual(new Set([SLO_US - 100_000]));
    for (const { part } of all.slice(0, 3)) {
      budgets.left(part, flow, 10_000, 0);
      flow.ended(part, DROPPED, 0, 0);
      budgets.ended(flow.requestOf(part), false);
    }
    expect(ends).toHaveLength(3);
    expect([comes(), comes(), comes(), comes()].map(({ dueBy }) => dueBy > 0)).toEqual([true, true, true, false]);
  });

  it("let in no more than they can do, side by side, too; modules that have theirs to themselves, and steps, let all in", () => {
    const diamond = new Pipeline([
      { id: 0, name: "a", pres: [], subs: [1, 2] },
      { id: 1, name: "b", pres: [0], subs: [3] },
      { id: 2, name: "c", pres: [0], subs: [3] },
      { id: 3, name: "d", pres: [1, 2], subs: [] },
    ]);
    const letIn = (groups: readonly number[]): number => {
      const flow = new Flow(diamond, IDLE, 64);
      const times: ModuleTimes = {
        leastUs: () => 10_000,
        groupOf: (module) => groups[module]!,
        acceleratorsOf: () => 1,
      };
      const budgets = new Budgets(diamond, "staggered", times, SLO_US);
      const dues = Array.from({ length: 40 }, () => {
        const request = flow.enter(0, 0, SLO_US, 0);
        flow.settle(0);
        const due = { dueBy: 0, deadline: 0, headStartUs: 0 };
        budgets.tell(due, flow.partOf(request, 0), flow, 0);
        return due.dueBy;
      });
      return dues.filter((dueBy) => dueBy > 0).length;
    };
    // Of 300 ms the last takes 30, and each before it 20 of the accelerator that two of its modules share.
    expect(letIn([0, 1, 1, 2])).toBe(1 + Math.floor(270 / 20));
    expect(letIn([0, 1, 2, 3])).toBe(40);
    expect(letIn([0, -1, -1, 1])).toBe(40);
  });

  it("have all parts of a request done by one moment, so that requests end in the order of their deadlines, each whole", () => {
    const parted = new Pipeline([
      { id: 0, name: "find", pres: [], subs: [1] },
      { id: 1, name: "read", pres: [0], subs: [2], fansOut: true },
      { id: 2, name: "page", pres: [1], subs: [], joins: true },
    ]);
    const read: Part[] = [];
    const driver: FlowDriver = {
      ...IDLE,
      submit: (part) => void (flow.moduleOf(part) === 1 && read.push(part)),
      partsOf: () => (read.length === 0 ? 6 : 2),
    };
    const flow = new Flow(parted, driver, 64);
    const times: ModuleTimes = {
      leastUs: () => 10_000,
      groupOf: () => 0,
      acceleratorsOf: () => 2,
      togetherUs: (_, count) => togetherUs(count, 2, 1, () => 10_000),
    };
    const budgets = new Budgets(parted, "staggered", times, SLO_US);
    const told = (part: Part): { dueBy: number; headStartUs: number } => {
      const due = { dueBy: 0, deadline: 0, headStartUs: 0 };
      budgets.tell(due, part, flow, 0);
      return due;
    };
    for (const deadline of [SLO_US, SLO_US + 5_000]) {
      const find = flow.partOf(flow.enter(0, 0, deadline, 0), 0);
      flow.settle(0);
      told(find);
      flow.ended(find, FINISHED, 0, 0);
      flow.settle(0);
    }
    const dues = read.map(told);
    // The page after them takes 10 ms. The second's two do not go before the last of the first's six.
    const last = SLO_US - 10_000;
    expect(dues.map(({ dueBy }) => dueBy - last)).toEqual([0, 0, 0, 0, 0, 0, 5_000, 5_000]);
    expect(new Set(dues.map(({ headStartUs }) => headStartUs))).toEqual(new Set([budgets.headStartUs(1)]));
  });

  it("before a fan-out keep the work of as many parts as came in the mean of late, and of those that others beside have begun", () => {
    const parted = new Pipeline([
      { id: 0, name: "find", pres: [], subs: [1], fansOut: true },
      { id: 1, name: "read", pres: [0], subs: [2] },
      { id: 2, name: "page", pres: [1], subs: [], joins: true },
    ]);
    const two: ModuleTimes = {
      leastUs: () => 1000,
      groupOf: (module) => (module === 2 ? 1 : 0),
      togetherUs: (_, count, beside, eachUs) => togetherUs(count, 2, 4, (size) => 1000 * size, beside, eachUs),
    };
    const budgets = new Budgets(parted, "staggered", two, 900_000);
    const due = (): number => 900_000 - budgets.dueBy(0, 0, 900_000, 0);
    expect(due()).toBe(1000 + 1000);
    const states = new ModuleStates(3);
    for (let request = 0; request < 100; request++) {
      states.made(0, 1 + (request % 10));
      for (const module of [0, 1]) {
        states.came(module, 0);
        states.ran(module, 2, 900_000);
        states.ended(module, FINISHED, 896_000, 896_000, 900_000);
      }
    }
    states.look(STATE_INTERVAL_US);
    budgets.published(states.board, STATE_INTERVAL_US);
    // 6 parts in the mean and 5 or 6 beside, on two accelerators; then one page.
    expect(due()).toBeGreaterThanOrEqual(1000 + 5_000);
    expect(due()).toBeLessThanOrEqual(1000 + 6_000);
  });
});
