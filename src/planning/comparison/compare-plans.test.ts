import { describe, expect, it } from "vitest";
import { stream } from "../../sim/random.js";
import { comparePlans } from "./compare-plans.js";

describe("comparing plans", () => {
  it("on one configuration of Figure 16: no worse than greedy, more even than random search", async () => {
    const { plan, greedy, random, digest } = await comparePlans(1, 500, stream);
    expect(plan.violations).toEqual([]);
    expect(plan.objective).toBeLessThanOrEqual(greedy.objective);
    expect(random).not.toBeNull();
    expect(plan.loadImbalance).toBeLessThan(random!.loadImbalance);
    expect(plan.memoryImbalance).toBeLessThan(random!.memoryImbalance);
    // Greedy does not depend on time; another digest is another placement.
    expect(digest).toMatch(/^[0-9a-f]{12}$/);
  });
});
