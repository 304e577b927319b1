import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DeadlineTimers } from "./deadline-timers.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** The clock of the timers, µs: virtual. */
const now = (): number => performance.now() * 1000;

function create() {
  const told: [slot: number, lateUs: number][] = [];
  const deadlines = new Map<number, number>();
  const timers = new DeadlineTimers(8, now, (slot) => told.push([slot, now() - deadlines.get(slot)!]));
  const set = (slot: number, inUs: number): void => {
    deadlines.set(slot, now() + inUs);
    timers.set(slot, now() + inUs);
  };
  return { timers, told, set };
}

test("each deadline is told once, in order, never early and less than a step of the timer late", () => {
  const { timers, told, set } = create();
  set(0, 20_000);
  set(1, 5300);
  set(2, 20_000);
  vi.advanceTimersByTime(5);
  expect(told).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(told.map(([slot]) => slot)).toEqual([1, 0, 2]);
  for (const [, lateUs] of told) expect(lateUs >= 0 && lateUs < 1000, String(lateUs)).toBe(true);
  expect(timers.size).toBe(0);
});

test("a deadline that was cleared is not told, and those behind it still are", () => {
  const { timers, told, set } = create();
  set(0, 3000);
  set(1, 6000);
  timers.clear(0);
  vi.advanceTimersByTime(10);
  expect(told.map(([slot]) => slot)).toEqual([1]);
  set(2, 1000);
  timers.stop();
  vi.advanceTimersByTime(10);
  expect(told).toHaveLength(1);
});
