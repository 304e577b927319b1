import { describe, expect, it } from "vitest";
import { TOY_BATCH, TOY_MOMENTS, toyPair, toyScore } from "./fig6.js";
import { compareOrder } from "./findings.js";
import { COMPARED, publishedRate, SLOS, TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5 } from "./published.js";

describe("the order of systems", () => {
  const paper = [0.1, 0.12, 0.5, 0.9];

  it("is the paper's where all pairs are apart that are apart there; a tie there says nothing", () => {
    expect(compareOrder(paper, [0.3, 0.2, 0.4, 0.8])).toEqual({ isSame: true, isContrary: false });
    expect(compareOrder([0.05, 0.02], [0, 1])).toEqual({ isSame: true, isContrary: false });
  });

  it("is not the paper's where a pair is as one, and contrary where it is turned round", () => {
    expect(compareOrder(paper, [0.3, 0.2, 0.78, 0.8])).toEqual({ isSame: false, isContrary: false });
    expect(compareOrder(paper, [0.3, 0.2, 0.84, 0.8])).toEqual({ isSame: false, isContrary: true });
  });
});

describe("published numbers", () => {
  it("are there for every case, SLO and system", () => {
    const cases = [TABLE_2, TABLE_3, TABLE_4, TABLE_5].flatMap((table) => Object.keys(table));
    expect(cases).toHaveLength(25);
    for (const caseId of cases)
      for (const slo of SLOS)
        for (const system of COMPARED) {
          const rate = publishedRate(caseId, slo, system);
          expect(rate, `${caseId} ${slo} ${system}`).toBeGreaterThanOrEqual(0);
          expect(rate, `${caseId} ${slo} ${system}`).toBeLessThanOrEqual(1);
        }
    expect(Object.keys(TABLE_1)).toEqual(Object.keys(TABLE_5));
  });

  it("of the paper's text: 51 to 80 % over the best baseline under tight SLOs are in the tables", () => {
    expect(publishedRate("std-2/0.5", 1.5, "ORLOJ")).toBe(0.75);
    expect(publishedRate("skipnet-imagenet", 5, "ORLOJ")).toBe(0.89);
    expect(publishedRate("std-1", 2.5, "ORLOJ")).toBeUndefined();
    expect(publishedRate("std-1", 2, "auto")).toBeUndefined();
  });
});

describe("toy example (Figure 6)", () => {
  it("r1 and r2 go, then r1 and r3, then r2 and r3, when r1 cannot be in time any more", () => {
    expect(TOY_MOMENTS.map(({ at }) => toyPair(at))).toEqual([
      [1, 2],
      [1, 3],
      [2, 3],
    ]);
    expect(toyScore(1, 27)).toBe(0);
  });

  it("a batch of both is early only if both are, late if either is", () => {
    const [early, middle, late] = [TOY_BATCH.cdf(6), TOY_BATCH.cdf(11) - TOY_BATCH.cdf(6), 1 - TOY_BATCH.cdf(11)];
    expect(early).toBeCloseTo(0.05, 12);
    expect(middle).toBeCloseTo(0.4, 12);
    expect(late).toBeCloseTo(0.55, 12);
  });
});
