import { describe, expect, it } from "vitest";
import { APPLICATIONS, DA, DA_DYNAMIC, LV, TM } from "./applications.js";
import { provision } from "./provisioning.js";
import { cvOf, GENERATED, peakOver } from "./traces/rates.js";
import { worstOver } from "./windows.js";

describe("rates as those of PARD's traces", () => {
  it.each(GENERATED.map((trace) => [trace.name, trace] as const))(
    "%s: the paper's deviation, mean 1, the same every time",
    (_, trace) => {
      for (const seconds of [60, 300]) {
        const factors = trace.factors(seconds);
        expect(factors).toHaveLength(seconds);
        expect(factors).toEqual(trace.factors(seconds));
        expect(factors.reduce((sum, factor) => sum + factor, 0) / seconds).toBeCloseTo(1, 9);
        expect(cvOf(factors)).toBeCloseTo(trace.cv, 2);
        expect(Math.min(...factors)).toBeGreaterThan(0);
      }
    },
  );

  it("the highest mean over a width, by hand", () => {
    expect(peakOver(2, [1, 4, 3, 0])).toBe(3.5);
    expect(peakOver(9, [1, 3])).toBe(2);
  });
});

describe("what is provided before anything is dropped", () => {
  const longestMs = (path: readonly number[], each: ReturnType<typeof provision>): number =>
    path.reduce((sum, module) => sum + each.modules[module]!.execMs, 0);

  it("two batches of every module on the longest way fit the SLO, and one more request in any does not", () => {
    for (const [app, path] of [
      [TM, [0, 1, 2]],
      [LV, [0, 1, 2, 3, 4]],
    ] as const) {
      const each = provision(app, 64);
      const ms = longestMs(path, each);
      expect(2 * ms, app.name).toBeLessThanOrEqual(app.sloMs);
      for (const { alphaMs } of app.modules) expect(2 * (ms + alphaMs), app.name).toBeGreaterThan(app.sloMs);
    }
    const graph = provision(DA, 64);
    expect(2 * Math.max(longestMs([0, 1, 3, 4], graph), longestMs([0, 2, 3, 4], graph))).toBeLessThanOrEqual(DA.sloMs);
  });

  it("all workers are given out, and no module could give one away without being the least", () => {
    for (const app of APPLICATIONS) {
      const { modules, capacityRps } = provision(app, 64);
      expect(modules.reduce((sum, { workers }) => sum + workers, 0)).toBe(64);
      for (const { workers, batch, execMs } of modules) {
        expect((1000 * workers * batch) / execMs).toBeGreaterThanOrEqual(capacityRps * (1 - 1e-9));
        expect((1000 * (workers - 1) * batch) / execMs).toBeLessThanOrEqual(capacityRps * (1 + 1e-9));
      }
    }
  });

  it("a module that half of the requests go through has half of the workers; one that is short keeps its own", () => {
    const [both, one] = [provision(DA, 64), provision(DA_DYNAMIC, 64)];
    expect(one.modules[1]!.workers / one.modules[0]!.workers).toBeCloseTo(
      both.modules[1]!.workers / both.modules[0]!.workers / 2,
      1,
    );
    const tight = provision(LV, 64, 3);
    const even = provision(LV, 64);
    for (const [index, { workers }] of tight.modules.entries())
      expect(workers).toBe(index === 3 ? even.modules[3]!.workers : Math.ceil(1.2 * even.modules[index]!.workers));
  });
});

it("the worst window, by hand", () => {
  const seconds = { offered: [10, 10, 0, 10], good: [10, 5, 0, 8] };
  expect(worstOver(1, seconds)).toBe(0.5);
  expect(worstOver(2, seconds)).toBe(0.5);
  expect(worstOver(4, seconds)).toBeCloseTo(1 - 23 / 30, 12);
});
