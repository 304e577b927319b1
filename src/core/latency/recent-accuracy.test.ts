import { describe, expect, test } from "vitest";
import { Draws } from "../../sim/draws.js";
import { RecentAccuracy } from "./recent-accuracy.js";

/** Two tasks, three gammas. */
const PROFILE = [
  [0.6, 0.8, 0.9],
  [0.7, 0.85, 0.95],
];
const draws = new Draws(1, "confidence");
let drawn = 0;
/** A confidence whose mean is `accuracy`, as the simulator draws them. */
const sure = (accuracy: number): number => draws.uniform(drawn++) ** ((1 - accuracy) / accuracy);

const SECOND = 1_000_000;

/** So many answers a second of a task at each gamma that has a number, for so long. @returns the moment after. */
function feed(
  recent: RecentAccuracy,
  from: number,
  seconds: number,
  means: readonly (number | null)[],
  kind = 0,
): number {
  for (let at = from; at < from + seconds * SECOND; at += SECOND / 50)
    means.forEach((mean, index) => {
      if (mean !== null) recent.observed(kind, index, sure(mean), at);
    });
  return from + seconds * SECOND;
}
const row = (recent: RecentAccuracy, at: number, kind = 0): number[] =>
  Array.from(recent.estimates(PROFILE, at)[kind]!);

describe("the profile stays", () => {
  test("where nothing was seen, where little was, and where nothing changes", () => {
    const recent = new RecentAccuracy(3);
    expect(row(recent, 0)).toEqual(PROFILE[0]);
    recent.observed(0, 0, 0.01, 0);
    expect(row(recent, 0)).toEqual(PROFILE[0]);
    let at = 0;
    for (let minute = 0; minute < 5; minute++) {
      at = feed(recent, at, 60, PROFILE[0]!);
      expect(row(recent, at)).toEqual(PROFILE[0]);
    }
  });

  test("for a model that is always surer than it is right", () => {
    const recent = new RecentAccuracy(3);
    const at = feed(recent, 0, 60, [0.8, 0.9, 0.95]);
    expect(row(recent, at)).toEqual(PROFILE[0]);
  });

  test("after a change of one second among thirty", () => {
    const recent = new RecentAccuracy(3);
    let at = feed(recent, 0, 30, PROFILE[0]!);
    at = feed(recent, at, 0.1, [0.3, 0.5, 0.6]);
    expect(row(recent, at)).toEqual(PROFILE[0]);
  });
});

describe("a change", () => {
  test("at one gamma is that gamma's; the others of the task and other tasks stay", () => {
    const recent = new RecentAccuracy(3);
    feed(recent, 0, 30, PROFILE[1]!, 1);
    let at = feed(recent, 0, 30, PROFILE[0]!);
    feed(recent, at, 30, PROFILE[1]!, 1);
    at = feed(recent, at, 30, [0.3, 0.8, 0.9]);
    const [merged, plain, prompted] = row(recent, at);
    expect(merged).toBeGreaterThan(0.27);
    expect(merged).toBeLessThan(0.37);
    expect(plain).toBeGreaterThan(0.76);
    expect(prompted).toBeGreaterThan(0.86);
    expect(row(recent, at, 1)).toEqual(PROFILE[1]);
  });

  test("at those gammas that were seen is expected of the others, too", () => {
    const recent = new RecentAccuracy(3);
    let at = feed(recent, 0, 30, PROFILE[0]!);
    at = feed(recent, at, 30, [0.45, 0.6, null]);
    const [merged, plain, prompted] = row(recent, at);
    expect(merged).toBeCloseTo(0.45, 1);
    expect(plain).toBeCloseTo(0.6, 1);
    // Where it was seen before it was what it was then: a quarter less would be 0.675.
    expect(prompted).toBeLessThan(0.8);
    expect(prompted).toBeGreaterThan(0.65);
  });

  test("known of the others does not become the reference of a gamma that is seen first after it", () => {
    const recent = new RecentAccuracy(3);
    let at = feed(recent, 0, 30, [0.6, 0.8, null]);
    at = feed(recent, at, 20, [0.45, 0.6, null]);
    recent.estimates(PROFILE, at);
    at = feed(recent, at, 30, [0.45, 0.6, 0.675]);
    expect(row(recent, at)[2]).toBeLessThan(0.8);
  });

  test("is forgotten when a gamma is not seen for long, so that it is tried again", () => {
    const recent = new RecentAccuracy(3);
    let at = feed(recent, 0, 30, PROFILE[0]!);
    at = feed(recent, at, 30, [0.3, 0.8, 0.9]);
    at = feed(recent, at, 120, [null, 0.8, 0.9]);
    expect(row(recent, at)).toEqual(PROFILE[0]);
  });
});

test("another task of the same kind starts from its profile", () => {
  const recent = new RecentAccuracy(3);
  let at = feed(recent, 0, 30, PROFILE[0]!);
  at = feed(recent, at, 30, [0.3, 0.4, 0.45]);
  expect(row(recent, at)).not.toEqual(PROFILE[0]);
  recent.forget(0);
  expect(row(recent, at)).toEqual(PROFILE[0]);
});

test("estimates are numbers in [0, 1] whatever was seen, and the same array while nothing moves", () => {
  const recent = new RecentAccuracy(3);
  for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, -1, 2]) recent.observed(0, 0, wrong, 0);
  expect(row(recent, 0)).toEqual(PROFILE[0]);
  let at = feed(recent, 0, 30, [0.05, 0.5, 0.01]);
  for (let second = 0; second < 60 * 50; second++)
    for (const index of [0, 1, 2]) recent.observed(0, index, 1, at + second * 20_000);
  at += 60 * SECOND;
  for (const share of row(recent, at)) {
    expect(share).toBeGreaterThanOrEqual(0);
    expect(share).toBeLessThanOrEqual(1);
  }
  for (let second = 0; second < 60 * 50; second++)
    for (const index of [0, 1, 2]) recent.observed(0, index, 0, at + second * 20_000);
  at += 60 * SECOND;
  for (const share of row(recent, at)) expect(share).toBeGreaterThanOrEqual(0);
  const told = recent.estimates(PROFILE, at);
  expect(recent.estimates(PROFILE, at)).toBe(told);
  expect(recent.estimates([[], ...PROFILE], at)[0]).toEqual([]);
});
