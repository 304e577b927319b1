import { describe, expect, it } from "vitest";
import { ZOO, ZOO_NAMES } from "./zoo.js";

describe("zoo (Symphony Appendix C)", () => {
  it("has the 35 and 37 models of Tables 3 and 4, each once", () => {
    expect(ZOO["1080ti"]).toHaveLength(35);
    expect(ZOO.a100).toHaveLength(37);
    for (const name of ZOO_NAMES) expect(new Set(ZOO[name].map((model) => model.name)).size).toBe(ZOO[name].length);
  });
  it("each SLO is twice the time of a batch of 4, at least 20 ms, as the appendix says: a typing error would show", () => {
    for (const name of ZOO_NAMES) {
      for (const { alphaMs, betaMs, sloMs } of ZOO[name]) {
        expect(Math.abs(sloMs - Math.max(20, 2 * (4 * alphaMs + betaMs)))).toBeLessThanOrEqual(1);
      }
    }
  });
});
