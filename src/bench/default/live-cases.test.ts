import { expect, test } from "vitest";
import { emulatedSetting, emulatedSettings, LOADS, liveCases, mostInTime } from "./live-cases.js";

test("the grid: 72 emulated settings and 4 real models at five loads, each by a name of its own", () => {
  const cases = liveCases(1);
  const names = new Set(cases.map(({ setting }) => setting.name));
  expect([cases.length, names.size, emulatedSettings().length]).toEqual([380, 76, 72]);
  for (const name of names)
    expect(cases.filter(({ setting }) => setting.name === name).map(({ load }) => load)).toEqual([...LOADS]);
});

test("a part of the grid is of both kinds, and part of every larger part", () => {
  const key = ({ setting, load }: ReturnType<typeof liveCases>[number]) => `${setting.name} at ${load}`;
  const parts = [0.01, 0.1, 0.5, 1].map((size) => liveCases(size).map(key));
  expect(parts.map(({ length }) => length)).toEqual([5, 38, 190, 380]);
  for (const [index, part] of parts.slice(0, -1).entries())
    for (const each of part) expect(parts[index + 1]).toContain(each);
});

test("is as slow as a few hundred requests a second need, within bounds; the largest batch fits the SLO", () => {
  for (const setting of emulatedSettings()) {
    expect(setting.capacityRps, setting.name).toBeLessThanOrEqual(300);
    for (const { alphaMs, betaMs, sloMs, batchMax } of setting.models) {
      expect(alphaMs * batchMax + betaMs, setting.name).toBeLessThanOrEqual(sloMs);
      expect(alphaMs * (batchMax + 1) + betaMs, setting.name).toBeGreaterThan(sloMs);
      expect(betaMs / alphaMs).toBeCloseTo(setting.betaOverAlpha, 2);
    }
  }
  // One accelerator, l(1) = 20 ms, SLO twice that: batches of 1 in staggered execution.
  expect(emulatedSetting(1, [1], 0.5, 2).capacityRps).toBeCloseTo(50, 1);
});

test("no schedule has more in time than accelerators can do in the largest batches, cheapest models first", () => {
  const model = (name: string, alphaMs: number, betaMs: number) => ({
    name,
    alphaMs,
    betaMs,
    sloMs: 100,
    batchMax: 10,
  });
  const setting = { ...emulatedSetting(1, [1], 2, 2), accelerators: 2, models: [model("a", 1, 10)] };
  // 2 ms a request, 2 x (1000 + 100) ms.
  expect(mostInTime(setting, 2000, 1)).toBeCloseTo(1100, 9);
  expect(mostInTime(setting, 500, 1)).toBeCloseTo(500, 9);
  // 500 of the second at 1 ms, the rest of the time for the first.
  expect(mostInTime({ ...setting, models: [model("a", 1, 10), model("b", 0.5, 5)] }, 1000, 1)).toBeCloseTo(
    500 + 500,
    9,
  );
  expect(mostInTime({ ...setting, models: [model("a", 1, 10), model("b", 0.5, 5)] }, 4000, 1)).toBeCloseTo(
    2000 + 100,
    9,
  );
});
