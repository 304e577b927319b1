import { expect, test } from "vitest";
import { hullCorners, hullSlope, hullTimeUs } from "./concave-hull.js";

function hullOf(points: readonly [number, number][]): [number, number, number][] {
  const timeUs = Float64Array.from(points, ([us]) => us);
  const utility = Float64Array.from(points, ([, each]) => each);
  const corners = new Int32Array(points.length);
  const count = hullCorners(timeUs, utility, 0, points.length, corners);
  return Array.from({ length: count }, (_, at) => [
    corners[at]!,
    hullTimeUs(timeUs, corners, at),
    hullSlope(timeUs, utility, corners, at),
  ]);
}

test("hull: corners with the time from one to the next and what it earns per µs", () => {
  const points: [number, number][] = [
    [10, 10],
    [20, 12],
    [30, 20],
    [50, 24],
  ];
  expect(hullOf(points)).toEqual([
    [0, 10, 1],
    [2, 20, 0.5],
    [3, 20, 0.2],
  ]);
});

test("hull: the first point is no corner where a later one earns more per µs; nothing is none", () => {
  const points: [number, number][] = [
    [10, 1],
    [20, 10],
    [20, 8],
    [30, 10],
  ];
  expect(hullOf(points)).toEqual([[1, 20, 0.5]]);
  expect(hullOf([[10, 0]])).toEqual([]);
});
