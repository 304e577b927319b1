/** Partitioning problems drawn by fast-check, and the optimum by looking at every partition. */
import fc from "fast-check";
import { measurePlan, type PlanMeasure } from "../../src/planning/measure.js";
import { type Assignment, type PlanInput, type PlanProblem, planProblem } from "../../src/planning/problem.js";

export interface ProblemSizes {
  readonly models: number;
  readonly clusters: number;
}

/** Whole numbers keep sums exact; bounds are drawn around the means, so that some problems are infeasible. */
export function anyProblem({ models, clusters }: ProblemSizes): fc.Arbitrary<PlanProblem> {
  return fc.integer({ min: 1, max: clusters }).chain((l) => {
    const model = fc.record({
      rateRps: fc.integer({ min: 0, max: 100 }),
      memoryMb: fc.integer({ min: 0, max: 50 }),
      dynamicMb: fc.integer({ min: 0, max: 20 }),
      loadCost: fc.oneof(
        fc.integer({ min: 0, max: 5 }),
        fc.array(fc.integer({ min: 0, max: 5 }), { minLength: l, maxLength: l }),
      ),
      current: fc.option(fc.integer({ min: 0, max: l - 1 }), { freq: 4 }),
    });
    const slack = fc.option(fc.integer({ min: 100, max: 200 }), { freq: 2 });
    return fc
      .record({
        models: fc.array(model, { minLength: 1, maxLength: models }),
        rateSlack: slack,
        memorySlack: slack,
        weight: fc.constantFrom(0, 0.5, 1, 2),
        isRunning: fc.boolean(),
        costMax: fc.option(fc.integer({ min: 0, max: 20 })),
      })
      .map(({ models: list, rateSlack, memorySlack, weight, isRunning, costMax }) => {
        const meanOf = (value: (each: (typeof list)[number]) => number) =>
          list.reduce((total, each) => total + value(each), 0) / l;
        const input: PlanInput = {
          models: list.map((each, i) => ({ ...each, name: `m${i}` })),
          clusters: l,
          memoryWeight: weight,
          isRunning,
          ...(rateSlack === null ? {} : { rateRpsMax: Math.floor((meanOf((m) => m.rateRps) * rateSlack) / 100) }),
          ...(memorySlack === null
            ? {}
            : { memoryMbMax: Math.floor((meanOf((m) => m.memoryMb) * memorySlack) / 100) + 10 }),
          ...(costMax === null ? {} : { costMax }),
        };
        return planProblem(input);
      });
  });
}

/** The best partition within the bounds of all there are; null if none is. */
export function bruteForce(problem: PlanProblem): PlanMeasure | null {
  const assignment: Assignment = new Int32Array(problem.names.length);
  let best: PlanMeasure | null = null;
  for (;;) {
    const measure = measurePlan(problem, assignment);
    if (measure.isFeasible && (best === null || measure.objective < best.objective)) best = measure;
    let i = 0;
    while (i < assignment.length && assignment[i] === problem.clusters - 1) assignment[i++] = 0;
    if (i === assignment.length) return best;
    assignment[i]!++;
  }
}
