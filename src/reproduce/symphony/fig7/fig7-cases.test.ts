import { describe, expect, it } from "vitest";
import { allCases, KINDS, MIXED, nameOf, sampleCases } from "./fig7-cases.js";

describe("Table 1's workloads", () => {
  it("are 7,770: 7,560 of equal models and 210 mixed, all different", () => {
    const cases = allCases();
    expect(cases).toHaveLength(7770);
    expect(cases.filter(({ kind }) => kind === MIXED)).toHaveLength(210);
    expect(new Set(cases.map(nameOf)).size).toBe(7770);
  });

  it("a sample of 300 has every model and SLO, no case twice, and stands for all", () => {
    const sample = sampleCases(9, 6);
    expect(sample).toHaveLength(300);
    expect(new Set(sample.map(nameOf)).size).toBe(300);
    expect(new Set(sample.map(({ kind, sloMs }) => `${kind} ${sloMs}`)).size).toBe(KINDS.length * 5);
    expect(sample.reduce((all, { weight }) => all + weight, 0)).toBeCloseTo(7770, 6);
  });

  it("is the same sample every time, another with another seed", () => {
    expect(sampleCases(9, 6)).toEqual(sampleCases(9, 6));
    expect(sampleCases(9, 6, 2)).not.toEqual(sampleCases(9, 6));
  });
});
