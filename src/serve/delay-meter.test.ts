import { describe, expect, test } from "vitest";
import { DelayMeter } from "./delay-meter.js";

const START = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };

/** Deterministic "noise" in [0, 1). */
const noise = (index: number): number => (index * 0.618033988749895) % 1;

describe("delays measured for plans", () => {
  test("rests where 99 % of the delays lie below", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 5000; index++) meter.started(100 + 1000 * noise(index));
    const delays = meter.changed()!;
    expect(delays.controlUs).toBeGreaterThan(100 + 950);
    expect(delays.controlUs).toBeLessThan(100 + 1060);
    expect(delays.responseUs).toBe(200);
  });

  test("says nothing while delays are much as planned", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 1000; index++) meter.started(285 * (0.9 + 0.1 * noise(index)));
    expect(meter.changed()).toBeNull();
  });

  test("an allowance that was more than enough shrinks, one that was too small grows at once", () => {
    const meter = new DelayMeter(START);
    let planned = 300;
    for (let index = 0; index < 4000; index++) {
      meter.started(planned > 120 ? null : 120);
      planned = meter.changed()?.controlUs ?? planned;
    }
    expect(planned).toBeGreaterThanOrEqual(90);
    expect(planned).toBeLessThan(200);
  });

  test("a stall of the machine is bounded, and forgotten", () => {
    const meter = new DelayMeter(START);
    for (let index = 0; index < 500; index++) meter.answered(2_000_000);
    expect(meter.changed()!.responseUs).toBe(20_000);
    for (let index = 0; index < 2000; index++) meter.answered(100);
    expect(meter.changed()!.responseUs).toBeLessThan(200);
  });
});
