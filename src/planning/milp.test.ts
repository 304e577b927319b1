import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyProblem } from "../../test/support/plans.js";
import { measurePlan } from "./measure.js";
import { buildMilp, type Milp, placesOf } from "./milp.js";
import { Placement } from "./placement.js";

const anyStart = anyProblem({ models: 10, clusters: 4 }).chain((problem) =>
  fc
    .array(fc.integer({ min: 0, max: problem.clusters - 1 }), {
      minLength: problem.names.length,
      maxLength: problem.names.length,
    })
    .map((list) => new Placement(problem, Int32Array.from(list))),
);

/** Rows and bounds that a point breaks. */
function broken(milp: Milp, x: Float64Array): number {
  let count = 0;
  for (let row = 0; row < milp.rows; row++) {
    let value = 0;
    for (let n = milp.starts[row]!; n < milp.starts[row + 1]!; n++) value += milp.values[n]! * x[milp.indices[n]!]!;
    if (value < milp.rowLower[row]! - 1e-9 || value > milp.rowUpper[row]! + 1e-9) count++;
  }
  x.forEach((value, n) => {
    if (value < milp.lower[n]! - 1e-9 || value > milp.upper[n]! + 1e-9) count++;
  });
  return count;
}

const costOf = (milp: Milp): number => milp.start.reduce((total, value, n) => total + value * milp.cost[n]!, 0);
const all = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

describe("the integer programme (Symphony Appendix A.1)", () => {
  it("of the whole: a placement is a point of it exactly when it keeps every bound, at its objective", () => {
    fc.assert(
      fc.property(anyStart, (placement) => {
        const { problem } = placement;
        const { milp } = buildMilp(placement, all(problem.clusters), all(problem.names.length));
        const measure = measurePlan(problem, placement.of);
        expect(broken(milp, milp.start) === 0).toBe(measure.isFeasible);
        expect(costOf(milp)).toBeCloseTo(measure.objective, 9);
      }),
      { numRuns: 300 },
    );
  });
  it("of some models of some sub-clusters: the same, with what stays as constants", () => {
    fc.assert(
      fc.property(anyStart, fc.nat(), fc.nat(), (placement, mask, kept) => {
        const { problem, of } = placement;
        const clusters = all(problem.clusters).filter((j) => ((mask >> j) & 1) === 1);
        const free = all(problem.names.length).filter((i) => clusters.includes(of[i]!) && ((kept >> i) & 1) === 0);
        const sub = buildMilp(placement, clusters, free);
        const measure = measurePlan(problem, of);
        if (measure.isFeasible) expect(broken(sub.milp, sub.milp.start)).toBe(0);
        expect(costOf(sub.milp)).toBeCloseTo(measure.objective, 9);
        expect(placesOf(sub, sub.milp.start)).toEqual(sub.free.map((i) => of[i]));
        expect([...sub.free].sort((a, b) => a - b)).toEqual(free);
      }),
      { numRuns: 300 },
    );
  });
  it("without a present placement numbers sub-clusters one way: of 3! numberings one is left", () => {
    const names = ["a", "b", "c"];
    const problem = {
      names,
      clusters: 3,
      rateRps: Float64Array.of(3, 2, 1),
      memoryMb: new Float64Array(3),
      dynamicMb: new Float64Array(3),
      rateRpsMax: Number.POSITIVE_INFINITY,
      memoryMbMax: Number.POSITIVE_INFINITY,
      memoryWeight: 1,
      costMax: Number.POSITIVE_INFINITY,
      current: null,
      loadCost: new Float64Array(3),
      rateRpsMean: 2,
      memoryMbMean: 0,
      rateRpsScale: 2,
      memoryMbScale: 1,
    };
    const { milp } = buildMilp(new Placement(problem, Int32Array.of(0, 1, 2)), all(3), all(3));
    let left = 0;
    for (const order of [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ]) {
      const x = Float64Array.from(milp.start).fill(0, 0, 9);
      order.forEach((j, i) => {
        x[i * 3 + j] = 1;
      });
      if (broken(milp, x) === 0) left++;
    }
    expect(left).toBe(1);
  });
});
