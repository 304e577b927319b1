import { expect, test } from "vitest";
import { VirtualClock } from "../../../test/support/virtual-clock.js";
import { DeadlineTimers } from "./deadline-timers.js";

function create() {
  const clock = new VirtualClock({ lateUs: () => 700 });
  const told: [slot: number, lateUs: number][] = [];
  const deadlines = new Map<number, number>();
  const timers = new DeadlineTimers(8, clock, (slot) => told.push([slot, clock.now() - deadlines.get(slot)!]));
  const set = (slot: number, inUs: number): void => {
    deadlines.set(slot, clock.now() + inUs);
    timers.set(slot, clock.now() + inUs);
  };
  return { clock, timers, told, set };
}

test("each deadline is told once, in order, never early and less than a step of the timer late", () => {
  const { clock, timers, told, set } = create();
  set(0, 20_000);
  set(1, 5300);
  set(2, 20_000);
  clock.advance(5000);
  expect(told).toEqual([]);
  clock.advance(100_000);
  expect(told.map(([slot]) => slot)).toEqual([1, 0, 2]);
  for (const [, lateUs] of told) expect(lateUs >= 0 && lateUs < 1000, String(lateUs)).toBe(true);
  expect(timers.size).toBe(0);
});

test("a deadline that was cleared is not told, and those behind it still are", () => {
  const { clock, timers, told, set } = create();
  set(0, 3000);
  set(1, 6000);
  timers.clear(0);
  clock.advance(10_000);
  expect(told.map(([slot]) => slot)).toEqual([1]);
  set(2, 1000);
  timers.stop();
  clock.advance(10_000);
  expect(told).toHaveLength(1);
});
