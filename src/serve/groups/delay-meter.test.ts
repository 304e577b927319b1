import { describe, expect, test } from "vitest";
import { DelayMeter } from "./delay-meter.js";

const START = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };

/** Deterministic "noise" in [0, 1). */
const noise = (index: number): number => (index * 0.618033988749895) % 1;

describe("delays measured for plans", () => {
  test("rests where 99 % of the delays lie below", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 5000; index++) meter.started(100 + 1000 * noise(index));
    expect(meter.look(0)).toBe(true);
    expect(meter.current.controlUs).toBeGreaterThan(100 + 950);
    expect(meter.current.controlUs).toBeLessThan(100 + 1060);
    expect(meter.current.responseUs).toBe(200);
  });

  test("says nothing while delays are much as planned", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 1000; index++) meter.started(285 * (0.9 + 0.1 * noise(index)));
    expect(meter.look(0)).toBe(false);
    expect(meter.current).toBe(START);
  });

  test("an allowance that was more than enough shrinks, one that was too small grows at once", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 4000; index++) {
      meter.started(meter.current.controlUs > 120 ? null : 120);
      meter.look(index * 1e6);
    }
    expect(meter.current.controlUs).toBeGreaterThanOrEqual(90);
    expect(meter.current.controlUs).toBeLessThan(200);
  });

  test("plans take it over four times a second at most", () => {
    const meter = new DelayMeter(START);
    expect(meter.look(0)).toBe(false);
    for (let index = 0; index < 500; index++) meter.started(5000);
    expect(meter.look(249_999)).toBe(false);
    expect(meter.look(250_000)).toBe(true);
  });

  test("a stall of the machine is bounded, and forgotten", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 500; index++) meter.answered(2_000_000);
    meter.look(0);
    expect(meter.current.responseUs).toBe(20_000);
    for (let index = 0; index < 2000; index++) meter.answered(100);
    meter.look(1e6);
    expect(meter.current.responseUs).toBeLessThan(200);
  });

  test("no delay takes more than a quarter of what the promise leaves", () => {
    const meter = new DelayMeter(START, 15_800);
    for (let index = 0; index < 500; index++) {
      meter.started(2_000_000);
      meter.answered(2_000_000);
    }
    meter.look(0);
    expect(meter.current.controlUs).toBe(3950);
    expect(meter.current.responseUs).toBe(3950);
  });

  test("delays that refuse everything are released after a second, then after doubling pauses", () => {
    const meter = new DelayMeter(START);
    const stall = (): void => {
      for (let index = 0; index < 500; index++) {
        meter.started(2_000_000);
        meter.answered(2_000_000);
      }
    };
    stall();
    meter.look(0);
    expect(meter.refused(1e6)).toBe(false);
    expect(meter.refused(2e6 - 1)).toBe(false);
    expect(meter.refused(2e6)).toBe(true);
    expect(meter.current).toEqual(START);
    // The start refuses too: half of it is tried, after two seconds more.
    expect(meter.refused(3e6)).toBe(false);
    expect(meter.refused(5e6 - 1)).toBe(false);
    expect(meter.refused(5e6)).toBe(true);
    expect(meter.current).toEqual({ controlUs: 150, dataUsPerRequest: 0, responseUs: 100 });
    // And one measurement takes that back.
    meter.started(10_000);
    meter.answered(10_000);
    meter.look(6e6);
    expect(meter.current.controlUs).toBeGreaterThanOrEqual(300);
    expect(meter.current.responseUs).toBeGreaterThanOrEqual(200);
  });

  test("who is measured between refusals is not released", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 500; index++) meter.answered(2_000_000);
    meter.look(0);
    for (let second = 1; second < 20; second++) {
      expect(meter.refused(second * 600_000)).toBe(false);
      meter.answered(2_000_000);
    }
    expect(meter.current.responseUs).toBe(20_000);
  });
});
