import { expect, test } from "vitest";
import { classesWith, WAY_NUMBERS, WayCounts, waysTold } from "./way-counts.js";

const WINDOW = 2;
/** What is said of module 1 after the interval. */
function told(counts: WayCounts, slot: number): (ways: number, kind: number) => number[] | null {
  const numbers = new Float64Array(WAY_NUMBERS + 2);
  counts.tell(1, slot, numbers, 2);
  return (ways, kind) => {
    const sums = waysTold((place) => numbers[2 + place]!, ways, kind);
    return sums === null ? null : [...sums];
  };
}
const take = (counts: WayCounts, slot: number, kind: number, ways: readonly number[]): void => {
  for (const [way, times] of ways.entries()) for (let each = 0; each < times; each++) counts.took(slot, 1, kind, way);
};

test("a class goes as its requests went, drawn to what all do as if by five more requests", () => {
  const counts = new WayCounts([0, 2], WINDOW);
  expect(told(counts, 0)(2, 0)).toBeNull();
  take(counts, 0, 0, [10, 30]);
  take(counts, 0, 3, [15, 5]);
  const of = told(counts, 0);
  // Of all 60 requests 25 went the first way.
  expect(of(2, 0)).toEqual([expect.closeTo((10 + (5 * 25) / 60) / 45, 9), 1]);
  expect(of(2, 3)).toEqual([expect.closeTo((15 + (5 * 25) / 60) / 25, 9), 1]);
  expect(of(2, 5)).toEqual([expect.closeTo(25 / 60, 9), 1]);
});

test("the newest interval counts twice the one before, and after the window nothing is known any more", () => {
  const counts = new WayCounts([0, 2], WINDOW);
  take(counts, 0, 0, [30, 0]);
  take(counts, 1, 0, [0, 30]);
  expect(told(counts, 1)(2, 0)).toEqual([expect.closeTo(30 / 90, 9), 1]);
  counts.clear(0);
  expect(told(counts, 0)(2, 0)).toEqual([0, 1]);
  counts.clear(1);
  expect(told(counts, 1)(2, 0)).toBeNull();
});

test("few numbers: with two ways seven classes, with four two, with nine none; who has no place is of the default class", () => {
  expect([0, 1, 2, 3, 4, 5, 8, 9].map(classesWith)).toEqual([0, 0, 7, 3, 2, 1, 1, 0]);
  const counts = new WayCounts([0, 4], WINDOW);
  take(counts, 0, 5, [0, 0, 8, 0]);
  const of = told(counts, 0);
  for (const kind of [0, 5]) expect(of(4, kind)).toEqual([0, 0, 1, 1]);
  const many = new WayCounts([0, 9], WINDOW);
  many.took(0, 1, 0, 8);
  expect(told(many, 0)(9, 0)).toBeNull();
});
