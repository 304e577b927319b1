/** The machine, the queries and the rates of OTAS's evaluation. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { refusal } from "../../../test/support/refusal.js";
import { loadScenario } from "../../config/scenario/scenario.js";
import { scenarioOf as expanded } from "../run-point.js";
import { ceilingPart } from "./query-types.js";
import { MAF_FILE, sourcesOf } from "./rates.js";
import { scenarioOf } from "./scenario.js";
import { FIGURE_4B, TABLE_I, tableMs } from "./vision-transformer.js";

describe("the machine", () => {
  it("meets the anchors of Figure 4b, and between them what Figure 7 and Table I have", () => {
    expect([-25, 0, 32].map((gamma) => Math.round(FIGURE_4B.perS(gamma)))).toEqual([1500, 580, 220]);
    const perS = (size: number): number => (size * 1000) / tableMs(FIGURE_4B.perS(-15))[size - 1]!;
    expect(perS(1)).toBeCloseTo(100, 0);
    expect(perS(20) / perS(64)).toBeGreaterThan(0.95);
    expect(Math.abs(perS(64) - 1000)).toBeLessThan(20);
  });

  it("is slower the more tokens there are, at every size, on both", () => {
    for (const { perS } of [FIGURE_4B, TABLE_I]) {
      const tables = [-20, -15, -10, -5, 0, 2, 4, 8].map((gamma) => tableMs(perS(gamma)));
      for (let way = 1; way < tables.length; way++)
        for (const [index, ms] of tables[way]!.entries()) expect(ms).toBeGreaterThanOrEqual(tables[way - 1]![index]!);
    }
  });
});

describe("rates", () => {
  it("are between 200 and 700, and mostly below 300 with bursts above 600", () => {
    const [synthetic, maf] = sourcesOf(undefined);
    const even = synthetic.rates(1800);
    expect(Math.min(...even)).toBeGreaterThanOrEqual(200);
    expect(Math.max(...even)).toBeLessThanOrEqual(700);
    const bursty = maf.rates(1800);
    expect(bursty.filter((rate) => rate < 300).length / 1800).toBeGreaterThan(0.6);
    expect(bursty.filter((rate) => rate > 600).length).toBeGreaterThan(50);
  });

  it("of a file: the rows that are most like all; too few are refused", () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-otas-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(path.join(folder, MAF_FILE), "# origin\nsecond,requests_per_second\n0,5\n1,5\n2,9\n3,5\n");
    const [, maf] = sourcesOf(folder);
    // 6 a second in the mean.
    expect(maf.rates(2)).toEqual([5, 5]);
    expect(maf.rates(3)).toEqual([5, 5, 9]);
    expect(maf.rates(1)).toEqual([5]);
    writeFileSync(path.join(folder, MAF_FILE), "second,requests_per_second\n0,1\n1,5\n2,9\n3,9\n");
    expect(sourcesOf(folder)[1].rates(2)).toEqual([5, 9]);
    expect(refusal(() => maf.rates(60))).toContain("second: must have at least 60 rows, one a second; had");
  });
});

it("the ready scenarios are runs of the evaluation", () => {
  for (const [index, seconds] of [
    [0, 60],
    [1, 120],
  ] as const) {
    const source = sourcesOf(undefined)[index]!;
    const { models, arrivals, accelerators } = expanded(scenarioOf(source.name, source.rates(seconds)));
    const ready = loadScenario(`scenarios/otas/${source.name}.yaml`);
    expect(ready.models).toEqual(models);
    expect(ready.arrivals).toEqual(arrivals);
    expect(ready.accelerators).toEqual(accelerators);
  }
});

it("no system earns more than the ceiling, which is below what is offered", () => {
  expect(ceilingPart()).toBeGreaterThan(0.9);
  expect(ceilingPart()).toBeLessThan(0.95);
});
