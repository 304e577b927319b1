import { expect, it } from "vitest";
import { FINISHED } from "../../core/outcome.js";
import { ModuleStates } from "../module-states.js";
import { Pipeline } from "../pipeline.js";
import { Budgets } from "./budget.js";
import type { RequestFrames } from "./forecast.js";
import type { ModuleTimes } from "./module-times.js";
import { togetherUs } from "./part-work.js";

/** 0 fans out, 1 follows in its parts, 2 fans those out again, 3 joins the inner ones, 4 the outer ones. */
const NESTED = new Pipeline([
  { id: 0, name: "pages", pres: [], subs: [1], fansOut: true },
  { id: 1, name: "find", pres: [0], subs: [2] },
  { id: 2, name: "read", pres: [1], subs: [3], fansOut: true },
  { id: 3, name: "page", pres: [2], subs: [4], joins: true },
  { id: 4, name: "all", pres: [3], subs: [], joins: true },
]);
/** Frames 1 and 2: a part of 10, and a part of 20 in it. */
const FRAMES: RequestFrames = {
  classOf: () => 0,
  aroundOf: (frame) => frame - 1,
  togetherOf: (frame) => [1, 10, 200, 3][frame]!,
};
const times: ModuleTimes = {
  leastUs: () => 100,
  togetherUs: (_, count) => togetherUs(count, 2, 4, (size) => 80 + 20 * size),
};
/** l(1) = 100, l(4) = 160; 10 parts are 5 on each of 2: l(4) + l(1); 200: 25 l(4). */
const [TEN, TWO_HUNDRED] = [260, 4000];

const share = (ownUs: number, afterUs: number): number => Math.floor((1_000_000 * ownUs) / (ownUs + afterUs));

it("a share is by the work of all parts that come together, a fan-out that is still ahead being one part of each", () => {
  const budgets = new Budgets(NESTED, "share", times);
  const dueBy = (module: number, frame: number): number => budgets.dueBy(module, 0, 1_000_000, 0, frame, FRAMES);
  expect(dueBy(0, 1)).toBe(share(TEN, 3 * TEN + 100));
  expect(dueBy(1, 1)).toBe(share(TEN, 2 * TEN + 100));
  expect(dueBy(2, 2)).toBe(share(TWO_HUNDRED, TEN + 100));
  expect(dueBy(3, 1)).toBe(share(TEN, 100));
  expect(dueBy(4, 0)).toBe(1_000_000);
  // Another number of parts, and other times, are other shares; a part that is alone has that of one.
  expect(budgets.dueBy(1, 0, 1_000_000, 0, 1, { ...FRAMES, aroundOf: () => 0, togetherOf: () => 200 })).toBe(
    share(TWO_HUNDRED, 2 * TWO_HUNDRED + 100),
  );
  expect(budgets.dueBy(1, 0, 1_000_000, 0, 1, { ...FRAMES, aroundOf: () => 0, togetherOf: () => 1 })).toBe(
    share(100, 300),
  );
  expect(dueBy(1, 1)).toBe(share(TEN, 2 * TEN + 100));
  budgets.retimed({ leastUs: () => 500 });
  expect(dueBy(1, 1)).toBe(share(500, 1500));
});

it("parts that a module runs one by one may use all that need not follow, where time is divided by what is left", () => {
  const single = { ...times, isSingle: (module: number) => module === 1 };
  const dueBy = (rule: "share" | "measured" | "whole"): number =>
    new Budgets(NESTED, rule, single).dueBy(1, 0, 1_000_000, 0, 1, FRAMES);
  expect(dueBy("share")).toBe(1_000_000 - 300);
  expect(dueBy("measured")).toBe(1_000_000 - 300);
  expect(dueBy("whole")).toBe(1_000_000);
});

it("every rule that divides time counts siblings: before anything is measured, and where parts are measured to take less than all of them", () => {
  const dueBy = (budgets: Budgets, module: number, frame: number): number =>
    budgets.dueBy(module, 0, 1_000_000, 0, frame, FRAMES);
  for (const rule of ["split", "worst"] as const) {
    const budgets = new Budgets(NESTED, rule, times);
    expect(dueBy(budgets, 1, 1), rule).toBe(share(TEN, 3 * TEN + 100));
    expect(dueBy(budgets, 2, 2), rule).toBe(share(TWO_HUNDRED, 3 * TEN + 100));
    // No other comes with it any more.
    expect(dueBy(budgets, 4, 0), rule).toBe(share(100, 400));
  }
  const measured = new Budgets(NESTED, "measured", times);
  expect(dueBy(measured, 1, 1)).toBe(share(TEN, 2 * TEN + 100));
  const states = new ModuleStates(NESTED.modules.length);
  states.came(1, 0);
  states.ran(1, 1, 500);
  // In the mean parts take less than the last of ten; now and then more.
  states.ended(1, FINISHED, 0, 50, 200);
  states.look(1_000_000);
  measured.published(states.board, 1_000_000);
  expect(dueBy(measured, 1, 1)).toBe(share(TEN, 2 * TEN + 100));
  states.ran(1, 1, 1_000_500);
  states.ended(1, FINISHED, 1_000_000, 1_000_400, 1_001_000);
  states.look(2_000_000);
  measured.published(states.board, 2_000_000);
  expect(dueBy(measured, 1, 1)).toBe(share(1000, 2 * TEN + 100));
});

it.each([
  [1, 1, 8, 100],
  [3, 4, 8, 100],
  [4, 1, 4, 160],
  [17, 2, 4, 2 * 160 + 100],
  [5, 1, 1, 500],
])("%d requests on %d accelerators in batches of at most %d take %d", (count, accelerators, sizeMax, us) => {
  expect(togetherUs(count, accelerators, sizeMax, (size) => 80 + 20 * size)).toBe(us);
});
