import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyProblem, bruteForce } from "../../test/support/plans.js";
import { stream } from "../sim/random.js";
import { zooConfiguration } from "./comparison/zoo-configuration.js";
import { greedyPlan } from "./greedy.js";
import { measurePlan, objectiveFloor } from "./measure.js";
import { partition } from "./partition.js";
import { type PlanInput, type PlanModel, planProblem } from "./problem.js";

/** Rounds and nodes end these searches, not time, so that they end alike on every machine. */
const BY_ROUNDS = { timeLimitMs: 600_000, roundsMax: 2, nodesMax: 50 };
const plan = (input: PlanInput, seed = 1) =>
  partition(planProblem(input), { random: stream(seed, "plan"), ...BY_ROUNDS });

describe("partition", () => {
  it("places every model once, keeps every bound, and is no worse than greedy with swaps", async () => {
    await fc.assert(
      fc.asyncProperty(anyProblem({ models: 30, clusters: 5 }), fc.nat(), async (problem, seed) => {
        const result = await partition(problem, { random: stream(seed, "plan"), ...BY_ROUNDS });
        if (result.kind !== "planned") return;
        // Throws unless every model is in exactly one sub-cluster.
        const measure = measurePlan(problem, result.assignment);
        expect(measure.violations).toEqual([]);
        expect(measure.cost).toBeLessThanOrEqual(problem.costMax);
        expect(measure.objective).toBe(result.measure.objective);
        const greedy = measurePlan(problem, greedyPlan(problem, stream(seed, "plan")).of);
        if (greedy.isFeasible) expect(measure.objective).toBeLessThanOrEqual(greedy.objective);
        expect(result.bound).toBeLessThanOrEqual(measure.objective);
        expect(objectiveFloor(problem)).toBeLessThanOrEqual(measure.objective + 1e-9);
      }),
      { numRuns: 15 },
    );
  });
  it("of a few models finds the optimum of all partitions, or that there is none", async () => {
    await fc.assert(
      fc.asyncProperty(anyProblem({ models: 6, clusters: 3 }), async (problem) => {
        const best = bruteForce(problem);
        const result = await partition(problem, { random: stream(1, "plan"), timeLimitMs: 600_000 });
        if (best === null) {
          expect(result.kind).toBe("infeasible");
          return;
        }
        expect(result.kind).toBe("planned");
        if (result.kind !== "planned") return;
        expect(result.isOptimal).toBe(true);
        expect(result.measure.objective).toBeLessThanOrEqual(best.objective + 2e-6);
        expect(result.bound).toBeLessThanOrEqual(best.objective + 1e-9);
      }),
      { numRuns: 25 },
    );
  });
  it("the same seed gives the same plan", async () => {
    const input = zooConfiguration({ random: stream(3, "c"), models: 30, clusters: 3 });
    const [first, second] = [await plan(input, 9), await plan(input, 9)];
    expect(first.kind === "planned" && second.kind === "planned").toBe(true);
    if (first.kind !== "planned" || second.kind !== "planned") return;
    expect([...first.assignment]).toEqual([...second.assignment]);
  });
  it("without time returns greedy with swaps", async () => {
    const problem = planProblem(zooConfiguration({ random: stream(3, "c"), models: 60, clusters: 4 }));
    const result = await partition(problem, { random: stream(1, "plan"), timeLimitMs: 0 });
    expect(result).toMatchObject({ kind: "planned", rounds: 0 });
    if (result.kind === "planned") expect(result.measure).toEqual(result.greedy);
  });
  it("a move counts once: C_max 2 of cost 1 each allows two moves, not one", async () => {
    const models = Array.from({ length: 4 }, (_, i) => ({ name: `m${i}`, rateRps: 1, memoryMb: 1, current: 0 }));
    const result = await plan({ models, clusters: 2, costMax: 2 });
    expect(result).toMatchObject({ kind: "planned", measure: { moves: 2, cost: 2, objective: 0 } });
    expect(await plan({ models, clusters: 2, costMax: 1 })).toMatchObject({
      kind: "planned",
      isOptimal: true,
      measure: { moves: 1 },
    });
  });
  it("finds the only placement of a packing that greedy does not", async () => {
    // 2 x (5 + 3 + 2) within 10 MB: largest first fails once it has put 5 and 5, or 3 and 3, together.
    const sizes = [5, 5, 3, 3, 2, 2];
    const models = sizes.map((memoryMb, i) => ({ name: `m${i}`, rateRps: i % 2 === 0 ? 9 : 1, memoryMb }));
    const result = await plan({ models, clusters: 2, memoryMbMax: 10, memoryWeight: 0 });
    expect(result).toMatchObject({ kind: "planned", measure: { violations: [] } });
  });
});

describe("infeasible input says which bound, with numbers", () => {
  const model = (name: string, rateRps: number, memoryMb: number, more: Partial<PlanModel> = {}): PlanModel => ({
    name,
    rateRps,
    memoryMb,
    ...more,
  });
  const cases: readonly (readonly [string, PlanInput, string, readonly string[]])[] = [
    [
      "one model busier than R_max",
      { models: [model("a", 120, 1), model("b", 1, 1)], clusters: 2, rateRpsMax: 100 },
      "rate",
      ["100 requests/s (R_max)", "a needs 120"],
    ],
    [
      "one model larger than S_max, its dynamic memory included",
      { models: [model("a", 1, 80, { dynamicMb: 30 }), model("b", 1, 1)], clusters: 2, memoryMbMax: 100 },
      "memory",
      ["100 MB (S_max)", "a needs 110 MB (80 static + 30 dynamic)"],
    ],
    [
      "total rate",
      { models: [model("a", 90, 1), model("b", 90, 1), model("c", 90, 1)], clusters: 2, rateRpsMax: 100 },
      "rate",
      ["270 requests/s", "2 sub-clusters of at most 100 (R_max) take 200"],
    ],
    [
      "total memory, with the largest dynamic memory",
      { models: [model("a", 1, 60), model("b", 1, 60, { dynamicMb: 30 })], clusters: 1, memoryMbMax: 140 },
      "memory",
      ["120 MB static and at least 30 MB dynamic", "1 sub-clusters of 140 MB (S_max) hold 140 MB"],
    ],
    [
      "more models past half than sub-clusters",
      { models: ["a", "b", "c"].map((name) => model(name, 1, 60)), clusters: 2, memoryMbMax: 100 },
      "memory",
      ["180 MB static", "hold 200 MB"],
    ],
    [
      "loads of new models past C_max",
      { models: [model("a", 1, 1, { current: 0 }), model("b", 1, 1), model("c", 1, 1)], clusters: 2, costMax: 1 },
      "disruption",
      ["loading the 2 models that have no place yet costs at least 2", "(C_max) is 1: b, c"],
    ],
    [
      "more to move out of a full sub-cluster than C_max",
      {
        models: Array.from({ length: 4 }, (_, i) => model(`m${i}`, 1, 50, { current: 0 })),
        clusters: 2,
        memoryMbMax: 100,
        costMax: 1,
      },
      "disruption",
      ["exceed a bound now (0)", "at least 2", "(C_max) is 1"],
    ],
    [
      "bounds that only together cannot be kept",
      // By memory 6+4 | 6+4 alone fits; by rate that pairs 9 with 9 or 9 with 2 in no way of at most 11... but 1.
      {
        models: [model("a", 9, 6), model("b", 9, 4), model("c", 2, 6), model("d", 2, 4)].map((each, i) => ({
          ...each,
          current: i % 2,
        })),
        clusters: 2,
        memoryMbMax: 10,
        rateRpsMax: 11,
        costMax: 1,
      },
      "disruption",
      ["cannot be kept together with the other bounds (proved)", "(C_max) of 1", "the one found needs 2"],
    ],
  ];
  it.each(cases)("%s", async (name, input, constraint, says) => {
    const halves = name.startsWith("more models");
    const result = await plan(halves ? { ...input, memoryMbMax: 90, clusters: 2 } : input);
    expect(result.kind).toBe("infeasible");
    if (result.kind !== "infeasible") return;
    const found = result.conflicts.find((conflict) => conflict.constraint === constraint);
    expect(found).toBeDefined();
    if (halves) expect(found!.message).toContain("no two fit the 90 MB");
    else for (const part of says) expect(found!.message).toContain(part);
  });
});

describe("planProblem refuses what no caller may pass", () => {
  const good: PlanModel = { name: "a", rateRps: 1, memoryMb: 1 };
  it.each<[string, PlanInput, string]>([
    ["no models", { models: [], clusters: 1 }, "models must be at least 1 long; was 0"],
    ["no sub-clusters", { models: [good], clusters: 0 }, "clusters must be a whole number of at least 1; was 0"],
    ["half a sub-cluster", { models: [good], clusters: 1.5 }, "was 1.5"],
    ["a negative rate", { models: [{ ...good, rateRps: -1 }], clusters: 1 }, "rateRps of a must be >= 0; was -1"],
    ["a rate that is no number", { models: [{ ...good, rateRps: Number.NaN }], clusters: 1 }, "was NaN"],
    ["endless memory", { models: [{ ...good, memoryMb: Number.POSITIVE_INFINITY }], clusters: 1 }, "was Infinity"],
    ["a place beyond", { models: [{ ...good, current: 2 }], clusters: 2 }, "current of a was 2 of 2"],
    ["costs for other sub-clusters", { models: [{ ...good, loadCost: [1] }], clusters: 2 }, "must be 2 long; was 1"],
    ["a negative bound", { models: [good], clusters: 1, memoryMbMax: -1 }, "memoryMbMax must be at least 0; was -1"],
  ])("%s", (_, input, says) => {
    expect(() => planProblem(input)).toThrow(says);
  });
});

describe("the zoo configurations (Appendix A.2)", () => {
  it("have 800 models of distinct names and sizes, and the same seed gives the same", () => {
    const make = () => zooConfiguration({ random: stream(1, "c") });
    const input = make();
    expect(input.models).toHaveLength(800);
    expect(new Set(input.models.map(({ name }) => name)).size).toBe(800);
    expect(input.models.every(({ memoryMb, dynamicMb }) => memoryMb >= 10 && dynamicMb! < memoryMb)).toBe(true);
    expect(make()).toEqual(input);
  });
});
