import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyProblem } from "../../test/support/plans.js";
import { stream } from "../sim/random.js";
import { randomSearch } from "./comparison/random-search.js";
import { greedyPlan } from "./greedy.js";
import { descend, exchangePairs, kick, reroute, sharpen } from "./local-search.js";
import { measurePlan } from "./measure.js";
import { Placement } from "./placement.js";
import { planProblem, sum } from "./problem.js";

const anyPlacement = anyProblem({ models: 12, clusters: 4 }).chain((problem) =>
  fc.record({
    problem: fc.constant(problem),
    assignment: fc
      .array(fc.integer({ min: 0, max: problem.clusters - 1 }), {
        minLength: problem.names.length,
        maxLength: problem.names.length,
      })
      .map((list) => Int32Array.from(list)),
    seed: fc.nat(),
  }),
);

describe("placement", () => {
  it("after any moves carries what a fresh measure says, and foretold each energy", () => {
    fc.assert(
      fc.property(
        anyPlacement,
        fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 30 }),
        ({ problem, assignment }, moves) => {
          const placement = new Placement(problem, assignment);
          for (const [model, cluster] of moves) {
            const i = model % problem.names.length;
            const to = cluster % problem.clusters;
            const from = placement.of[i]!;
            if (from === to) continue;
            const foretold = [placement.energyWith(from, -1, i), placement.energyWith(to, i, -1)];
            const cost = placement.cost + placement.moveCost(i, to);
            placement.place(i, to);
            expect(placement.energy[from]).toBeCloseTo(foretold[0]!, 6);
            expect(placement.energy[to]).toBeCloseTo(foretold[1]!, 6);
            expect(placement.cost).toBeCloseTo(cost, 9);
          }
          const measure = measurePlan(problem, placement.of);
          expect([...placement.rate]).toEqual([...measure.rateRps]);
          expect([...placement.memory]).toEqual([...measure.memoryMb]);
          expect(placement.cost).toBeCloseTo(measure.cost, 9);
          const excess = placement.members.some((_, j) => placement.excessWith(j, -1, -1) > 0);
          expect(excess).toBe(measure.violations.some(({ constraint }) => constraint !== "disruption"));
        },
      ),
    );
  });
});

describe("local search", () => {
  const steps = {
    descend: (placement: Placement, seed: number) => descend(placement, stream(seed, "d")),
    reroute: (placement: Placement) => void reroute(placement),
    exchange: (placement: Placement, seed: number) => exchangePairs(placement, stream(seed, "e"), 5),
  };
  it.each(Object.entries(steps))("%s never raises the energy, nor a cost past its bound", (_, step) => {
    fc.assert(
      fc.property(anyPlacement, ({ problem, assignment, seed }) => {
        const placement = new Placement(problem, assignment);
        const [energy, cost] = [sum(placement.energy), placement.cost];
        step(placement, seed);
        expect(sum(placement.energy)).toBeLessThanOrEqual(energy * (1 + 1e-9) + 1e-9);
        expect(placement.cost).toBeLessThanOrEqual(Math.max(cost, problem.costMax) + 1e-9);
        expect(placement.members.flat().sort((a, b) => a - b)).toEqual(problem.names.map((__, i) => i));
      }),
      { numRuns: 60 },
    );
  });
  it("sharpen never raises the objective, and a placement within its bounds stays there", () => {
    fc.assert(
      fc.property(anyPlacement, ({ problem, assignment, seed }) => {
        const before = measurePlan(problem, assignment);
        const placement = new Placement(problem, assignment);
        sharpen(placement, stream(seed, "s"));
        const after = measurePlan(problem, placement.of);
        expect(after.objective).toBeLessThanOrEqual(before.objective + 1e-9);
        if (before.isFeasible) expect(after.violations).toEqual([]);
      }),
    );
  });
  it("a kick keeps the disruption bound", () => {
    fc.assert(
      fc.property(anyPlacement, ({ problem, assignment, seed }) => {
        const placement = new Placement(problem, assignment);
        const { cost } = placement;
        kick(placement, stream(seed, "k"));
        expect(placement.cost).toBeLessThanOrEqual(Math.max(cost, problem.costMax) + 1e-9);
      }),
    );
  });
  it("reroute takes back the move that used up the bound where another evens out more", () => {
    const problem = planProblem({
      clusters: 2,
      costMax: 1,
      models: [
        { name: "small", rateRps: 1, memoryMb: 0, current: 0 },
        { name: "large", rateRps: 10, memoryMb: 0, current: 0 },
        { name: "other", rateRps: 10, memoryMb: 0, current: 0 },
      ],
    });
    const placement = new Placement(problem, Int32Array.from([1, 0, 0]));
    expect(reroute(placement)).toBe(true);
    expect([...placement.of]).toEqual([0, 1, 0]);
  });
});

describe("greedy with swaps", () => {
  it("starts like longest processing time and ends in the optimum of 7, 6, 5, 4, 2 on two: 12 and 12", () => {
    const models = [7, 6, 5, 4, 2].map((rateRps, i) => ({ name: `m${i}`, rateRps, memoryMb: 0 }));
    const { of } = greedyPlan(planProblem({ models, clusters: 2 }), stream(1, "g"));
    const load = [0, 0];
    models.forEach(({ rateRps }, i) => {
      load[of[i]!]! += rateRps;
    });
    expect(load).toEqual([12, 12]);
  });
  it("leaves models where they are when nothing can be gained", () => {
    const models = [0, 1, 0, 1].map((current, i) => ({ name: `m${i}`, rateRps: 5, memoryMb: 5, current }));
    expect([...greedyPlan(planProblem({ models, clusters: 2 }), stream(1, "g")).of]).toEqual([0, 1, 0, 1]);
  });
});

describe("random search", () => {
  it("returns the best it drew, and null where nothing it drew keeps the bounds", () => {
    const models = [1, 2, 3, 4].map((rateRps, i) => ({ name: `m${i}`, rateRps, memoryMb: 1 }));
    const found = randomSearch(planProblem({ models, clusters: 2 }), stream(1, "r"), () => false, 500);
    expect(found).toMatchObject({ drawn: 500, best: { measure: { objective: 0 } } });
    const tight = planProblem({ models, clusters: 2, rateRpsMax: 4.9 });
    expect(randomSearch(tight, stream(1, "r"), () => false, 500)).toEqual({ best: null, drawn: 500 });
  });
});
