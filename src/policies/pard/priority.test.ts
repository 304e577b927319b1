import { describe, expect, test } from "vitest";
import { LoadFactor } from "./load-factor.js";
import { Priority, type PriorityRule } from "./priority.js";

const INTERVAL_US = 1000;

/** So many arrivals in each interval, and one of the next that closes the last. */
function feed(arrived: (at: number) => void, counts: readonly number[]): void {
  for (const [interval, count] of counts.entries())
    for (let each = 0; each < count; each++) arrived(interval * INTERVAL_US + Math.floor((each * INTERVAL_US) / count));
  arrived(counts.length * INTERVAL_US);
}

describe("load factor (PARD §4.3)", () => {
  test("T_in is the count of the last interval; epsilon = sum |T_in - T_s| / sum T_in, T_s the mean so far", () => {
    const load = new LoadFactor(INTERVAL_US);
    feed((at) => load.arrived(at), [10, 10, 40]);
    expect(load.inputRps).toBe(40_000);
    // T_s: 10, 10, 20; deviations 0, 0, 20 of 60.
    expect(load.epsilon).toBeCloseTo(20 / 60, 12);
  });

  test("a pause is intervals without arrivals, and a steady input has no epsilon", () => {
    const load = new LoadFactor(INTERVAL_US);
    feed((at) => load.arrived(at), [10]);
    load.arrived(1_000_000 * INTERVAL_US);
    expect([load.inputRps, load.epsilon]).toEqual([0, 0]);
    const steady = new LoadFactor(INTERVAL_US);
    feed((at) => steady.arrived(at), [10, 10, 10, 10, 10, 10]);
    expect(steady.epsilon).toBe(0);
  });
});

describe("priority with delayed transition (PARD §4.3)", () => {
  /** T_m: 10 an interval. @returns after each interval: high budget first? */
  const turns = (rule: PriorityRule, counts: readonly number[]): boolean[] => {
    const priority = new Priority(rule, INTERVAL_US, () => 10_000);
    const states: boolean[] = [];
    const at = (moment: number): void => {
      priority.arrived(moment);
      states[Math.floor(moment / INTERVAL_US)] = priority.isHighFirst;
    };
    feed(at, counts);
    return states.slice(1);
  };

  test("adaptive turns above 1 + epsilon and back below 1 - epsilon; between it stays", () => {
    const counts = [10, 10, 10, 10, 14, 11, 10, 9, 9, 9, 5];
    // 14: epsilon 3.2 / 54; 11: 3.2 / 55 and 1.1 > 1 + 0.058; 9 after 9 after 10: within.
    expect(turns("adaptive", counts)).toEqual([false, false, false, false, true, true, true, true, true, true, false]);
  });

  test("instant follows every change; fixed ones none", () => {
    expect(turns("instant", [11, 9, 11, 10, 9])).toEqual([true, false, true, true, false]);
    expect(turns("hbf", [1, 30, 1])).toEqual([true, true, true]);
    expect(turns("lbf", [1, 30, 1])).toEqual([false, false, false]);
  });

  test("in bursts epsilon grows, and it does not turn at each of them", () => {
    const bursts = [4, 13, 4, 13, 4, 13, 4, 13, 4, 13];
    const count = (states: boolean[]): number =>
      states.filter((state, index) => index > 0 && state !== states[index - 1]).length;
    expect(count(turns("adaptive", bursts))).toBeLessThan(count(turns("instant", bursts)));
  });
});
