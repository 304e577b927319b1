import { describe, expect, it } from "vitest";
import { linearModel, scenarioOf } from "../../test/support/scenario.js";
import { durationUs } from "../core/time.js";
import { createArrivals } from "./arrivals.js";

const counts = (models: Parameters<typeof scenarioOf>[0]["models"]) => {
  const arrivals = createArrivals(scenarioOf({ models, accelerators: [], durationUs: durationUs(100e6) }), 1);
  const before = models.map(() => 0);
  const after = models.map(() => 0);
  for (; arrivals.at < Number.POSITIVE_INFINITY; arrivals.advance()) {
    (arrivals.at < 25e6 ? before : after)[arrivals.model]! += 1;
  }
  return { before, after };
};

describe("arrivals", () => {
  it("a model's own modulation changes its rate and nobody else's requests", () => {
    const plain = linearModel("a", 1, 5, 25, 200);
    const other = linearModel("b", 1, 5, 25, 100);
    const modulation = { atUs: Float64Array.of(0, 25e6), factor: Float64Array.of(0.4, 1.2) };
    const { before, after } = counts([{ ...plain, modulation }, other]);
    expect(Math.abs(before[0]! / (200 * 0.4 * 25) - 1)).toBeLessThan(0.1);
    expect(Math.abs(after[0]! / (200 * 1.2 * 75) - 1)).toBeLessThan(0.1);
    const unmodulated = counts([plain, other]);
    expect([before[1], after[1]]).toEqual([unmodulated.before[1], unmodulated.after[1]]);
  });
});
