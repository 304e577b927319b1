/**
 * Partitions models over sub-clusters: greedy with swaps first, then what HiGHS and further swaps find in the time left.
 *
 * The incumbent is there after milliseconds and is only ever replaced by a placement that keeps every bound and has a
 * smaller objective. Small problems go to HiGHS whole, which may prove the optimum. Larger ones are improved piece by
 * piece: a round lets some models of the sub-clusters that stand out, and perhaps of another, move freely, and lets HiGHS
 * place these best (large-neighbourhood search); exchanges of two models for two follow.
 *
 * The same seed gives the same plan as long as rounds, not time, end the search.
 */
import { type Conflict, provenConflicts, show } from "./conflict.js";
import { greedyPlan } from "./greedy.js";
import { descend, exchangePairs, extremes, kick, reroute, sharpen } from "./local-search.js";
import { measurePlan, objectiveFloor, type PlanMeasure, type Violation } from "./measure.js";
import { buildMilp, placesOf, type SubProblem } from "./milp.js";
import { Placement } from "./placement.js";
import { type Assignment, type PlanProblem, sum, type Uniform } from "./problem.js";
import { Solver } from "./solver.js";

export interface PartitionOptions {
  /** Seeded stream of the caller. */
  readonly random: Uniform;
  /** Milliseconds for everything; 0: greedy with swaps alone. Default 10 s, as the paper's. */
  readonly timeLimitMs?: number;
  /** Rounds of sub-problems. Default: as many as the time allows. */
  readonly roundsMax?: number;
  /** Nodes of its search tree that HiGHS may visit on the whole problem. Default 200,000: time ends it before. */
  readonly nodesMax?: number;
  readonly onProgress?: (progress: PlanProgress) => void;
  /** Milliseconds from any start. */
  readonly clock?: () => number;
}

export interface PlanProgress {
  readonly stage: "greedy" | "whole" | "rounds";
  readonly round: number;
  readonly objective: number;
  readonly elapsedMs: number;
}

export type PlanResult =
  | {
      readonly kind: "planned";
      readonly assignment: Assignment;
      readonly measure: PlanMeasure;
      /** Greedy with swaps: what this started from; null if that kept not every bound. */
      readonly greedy: PlanMeasure | null;
      /** The best there is, proved. */
      readonly isOptimal: boolean;
      /** No placement has a smaller objective. */
      readonly bound: number;
      readonly rounds: number;
      /** Rounds in which HiGHS, and in which exchanges found something better. */
      readonly improvedBy: { readonly highs: number; readonly swaps: number };
      readonly elapsedMs: number;
    }
  | { readonly kind: "infeasible"; readonly conflicts: readonly Conflict[] }
  | {
      readonly kind: "not-found";
      /** What the nearest placement found exceeds. */
      readonly violations: readonly Violation[];
      readonly elapsedMs: number;
    };

/** Programmes up to this many binaries go to HiGHS whole. */
const WHOLE_BINARIES_MAX = 1500;
/** When greedy keeps not every bound, larger ones do, too: a slow answer is better than none. */
const FEASIBILITY_BINARIES_MAX = 40_000;
/** Models that one round lets move. */
const FREE_MODELS = 16;
const ROUND_NODES_MAX = 200;
const ROUND_LIMIT_S = 1;
const WHOLE_NODES_MAX = 200_000;
/** Pairs of sub-clusters between which each round draws exchanges. */
const EXCHANGES_PER_ROUND = 40;
/** Rounds of exchanges before HiGHS: what they find in milliseconds it need not look for. */
const OPENING_ROUNDS = 5;
/** HiGHS takes a second where a round of exchanges takes 50 ms: one round in so many has a programme. */
const ROUNDS_PER_PROGRAMME = 10;
/** Rounds in a row without a gain after which the plan is as good as it gets. */
const PATIENCE = 300;
/** An objective this near to its lower bound is the optimum for all purposes. */
const CLOSE_ENOUGH = 1e-6;

export async function partition(problem: PlanProblem, options: PartitionOptions): Promise<PlanResult> {
  const conflicts = provenConflicts(problem);
  if (conflicts.length > 0) return { kind: "infeasible", conflicts };
  const search = new Search(problem, options);
  try {
    return await search.run();
  } finally {
    await search.close();
  }
}

class Search {
  private readonly problem: PlanProblem;
  private readonly random: Uniform;
  private readonly solver = new Solver();
  private readonly startMs: number;
  private readonly clock: () => number;
  private readonly limitMs: number;
  private readonly roundsMax: number;
  private readonly nodesMax: number;
  private readonly onProgress: ((progress: PlanProgress) => void) | undefined;
  private bound: number;
  private isOptimal = false;
  private rounds = 0;
  private improvedBy = { highs: 0, swaps: 0 };

  constructor(problem: PlanProblem, options: PartitionOptions) {
    this.problem = problem;
    this.random = options.random;
    this.clock = options.clock ?? (() => performance.now());
    this.startMs = this.clock();
    this.limitMs = options.timeLimitMs ?? 10_000;
    this.roundsMax = options.roundsMax ?? Number.POSITIVE_INFINITY;
    this.nodesMax = options.nodesMax ?? WHOLE_NODES_MAX;
    this.onProgress = options.onProgress;
    this.bound = objectiveFloor(problem);
  }

  close(): Promise<void> {
    return this.solver.close();
  }

  async run(): Promise<PlanResult> {
    const { problem } = this;
    // Greedy is what is always there, so the first descent is not cut off by the clock.
    const placement = greedyPlan(problem, this.random);
    let best = measurePlan(problem, placement.of);
    const greedy = best.isFeasible ? best : null;
    if (!best.isFeasible) {
      const found = await this.findFeasible(placement);
      if (found.kind !== "found") return found.result;
      best = measurePlan(problem, placement.of);
    }
    this.report("greedy", best);
    if (this.isShort(best)) this.solver.prepare();
    const walker = new Placement(problem, placement.of);
    for (let n = 0; n < OPENING_ROUNDS && this.isShort(best); n++) best = this.walk(placement, walker, best);
    if (this.isShort(best)) best = await this.solveWhole(placement, walker, best);
    let idle = 0;
    while (this.isShort(best) && this.rounds < this.roundsMax && idle < PATIENCE) {
      const before = best.objective;
      best = await this.improve(placement, walker, best);
      this.rounds++;
      idle = best.objective < before ? 0 : idle + 1;
      this.report("rounds", best);
    }
    return {
      kind: "planned",
      assignment: placement.of,
      measure: best,
      greedy,
      isOptimal: this.isOptimal || best.objective <= this.bound + CLOSE_ENOUGH,
      bound: Math.min(this.bound, best.objective),
      rounds: this.rounds,
      improvedBy: this.improvedBy,
      elapsedMs: this.elapsedMs,
    };
  }

  /** True while there is something to gain and time to gain it in. */
  private isShort(best: PlanMeasure): boolean {
    return (
      !this.isOptimal && this.leftMs > 0 && best.objective > this.bound + CLOSE_ENOUGH && this.problem.clusters > 1
    );
  }

  private get elapsedMs(): number {
    return this.clock() - this.startMs;
  }

  private get leftMs(): number {
    return this.limitMs - this.elapsedMs;
  }

  private readonly isOver = (): boolean => this.leftMs <= 0;

  private report(stage: PlanProgress["stage"], { objective }: PlanMeasure): void {
    this.onProgress?.({ stage, round: this.rounds, objective, elapsedMs: this.elapsedMs });
  }

  private async solveWhole(placement: Placement, walker: Placement, best: PlanMeasure): Promise<PlanMeasure> {
    const { names, clusters } = this.problem;
    if (names.length * clusters > WHOLE_BINARIES_MAX) return best;
    const sub = buildMilp(placement, everything(clusters), everything(names.length));
    const answer = await this.solver.solve(sub.milp, {
      timeLimitS: this.leftMs / 2000,
      nodesMax: this.nodesMax,
      seed: 0,
      hasStart: true,
    });
    const after = this.adopt(placement, sub, answer.values, best);
    if (after !== best) {
      this.improvedBy.highs++;
      walker.assign(placement.of);
    }
    if (answer.status === "optimal") this.isOptimal = true;
    this.bound = Math.max(this.bound, Math.min(answer.bound, after.objective));
    this.report("whole", after);
    return after;
  }

  /**
   * @param placement The best so far, where HiGHS tries.
   * @param walker Exchanges lower its energy all the time, and its objective now and then: then it is the best.
   */
  private async improve(placement: Placement, walker: Placement, best: PlanMeasure): Promise<PlanMeasure> {
    let now = best;
    if (this.rounds % ROUNDS_PER_PROGRAMME === 0) {
      const sub = this.pickSubProblem(placement);
      const answer = await this.solver.solve(sub.milp, {
        timeLimitS: Math.min(ROUND_LIMIT_S, this.leftMs / 1000),
        nodesMax: ROUND_NODES_MAX,
        seed: this.rounds,
        hasStart: true,
      });
      now = this.adopt(placement, sub, answer.values, now);
      if (now !== best) {
        this.improvedBy.highs++;
        walker.assign(placement.of);
      }
    } else await nextTurn();
    return this.walk(placement, walker, now);
  }

  /** A round of exchanges; from where these find nothing, a kick away from the best and a descent. */
  private walk(placement: Placement, walker: Placement, best: PlanMeasure): PlanMeasure {
    const before = sum(walker.energy);
    exchangePairs(walker, this.random, EXCHANGES_PER_ROUND, this.isOver);
    sharpen(walker, this.random, this.isOver);
    // An exchange that was unmade leaves its rounding.
    if (sum(walker.energy) >= before * (1 - 1e-9)) {
      walker.assign(placement.of);
      kick(walker, this.random);
      descend(walker, this.random, this.isOver);
      reroute(walker, this.isOver);
      sharpen(walker, this.random, this.isOver);
    }
    const exchanged = measurePlan(this.problem, walker.of);
    if (!exchanged.isFeasible || exchanged.objective >= best.objective) return best;
    this.improvedBy.swaps++;
    placement.assign(walker.of);
    return exchanged;
  }

  /**
   * Some models of the sub-clusters that stand out (the objective falls only as far as the worst of those left out), or
   * of one of them and another.
   */
  private pickSubProblem(placement: Placement): SubProblem {
    const { clusters } = this.problem;
    const outstanding = extremes(placement);
    const turn = this.rounds / ROUNDS_PER_PROGRAMME;
    const isAll = turn % 2 === 0 && outstanding.length > 1;
    const chosen = new Set(isAll ? outstanding : [outstanding[turn % outstanding.length]!]);
    while (chosen.size < 2) chosen.add(Math.floor(this.random() * clusters));
    const models = [...chosen].flatMap((j) => placement.members[j]!);
    for (let n = models.length - 1; n > 0; n--) {
      const other = Math.floor(this.random() * (n + 1));
      [models[n], models[other]] = [models[other]!, models[n]!];
    }
    return buildMilp(placement, [...chosen], models.slice(0, FREE_MODELS));
  }

  /** Takes a solution if it keeps every bound, looked at afresh, and is better; swaps then polish it. */
  private adopt(placement: Placement, sub: SubProblem, values: Float64Array | null, best: PlanMeasure): PlanMeasure {
    if (values === null) return best;
    const kept = Int32Array.from(placement.of);
    const next = Int32Array.from(kept);
    placesOf(sub, values).forEach((j, row) => {
      next[sub.free[row]!] = j;
    });
    const measure = measurePlan(this.problem, next);
    if (!measure.isFeasible || measure.objective >= best.objective) return best;
    placement.assign(next);
    sharpen(placement, this.random, this.isOver);
    const polished = measurePlan(this.problem, placement.of);
    if (polished.isFeasible && polished.objective <= measure.objective) return polished;
    placement.assign(next);
    return measure;
  }

  /** Greedy exceeds a bound: look further, or find out which bound is in the way. */
  private async findFeasible(
    placement: Placement,
  ): Promise<{ readonly kind: "found" } | { readonly kind: "none"; readonly result: PlanResult }> {
    const { problem } = this;
    if (await this.seek(placement)) return { kind: "found" };
    const nearest = measurePlan(problem, placement.of);
    const notFound = (): PlanResult => ({
      kind: "not-found",
      violations: nearest.violations,
      elapsedMs: this.elapsedMs,
    });
    const proof = await this.solveFeasibility(problem, placement);
    if (proof.assignment !== null) {
      placement.assign(proof.assignment);
      sharpen(placement, this.random, this.isOver);
      return { kind: "found" };
    }
    if (!proof.isInfeasible) return { kind: "none", result: notFound() };
    return { kind: "none", result: { kind: "infeasible", conflicts: await this.blame(placement) } };
  }

  /** Kicks and descents from the nearest placement so far, and descents from nothing where a move costs nothing. */
  private async seek(placement: Placement): Promise<boolean> {
    const { problem } = this;
    let leastExcess = excessOf(measurePlan(problem, placement.of));
    for (let n = 0; n < SEEK_KICKS_MAX && this.elapsedMs < this.limitMs / 4; n++) {
      const kept = Int32Array.from(placement.of);
      kick(placement, this.random);
      descend(placement, this.random, this.isOver);
      const measure = measurePlan(problem, placement.of);
      if (measure.isFeasible) return true;
      const excess = excessOf(measure);
      if (excess <= leastExcess) leastExcess = excess;
      else placement.assign(kept);
    }
    return false;
  }

  private async solveFeasibility(
    problem: PlanProblem,
    near: Placement,
  ): Promise<{ readonly assignment: Assignment | null; readonly isInfeasible: boolean }> {
    const { names, clusters } = problem;
    if (names.length * clusters > FEASIBILITY_BINARIES_MAX) return { assignment: null, isInfeasible: false };
    const placement = new Placement(problem, near.of);
    const sub = buildMilp(placement, everything(clusters), everything(names.length), false);
    const answer = await this.solver.solve(sub.milp, {
      timeLimitS: this.leftMs / 2000,
      nodesMax: this.nodesMax,
      seed: 0,
      hasStart: false,
    });
    if (answer.values === null) return { assignment: null, isInfeasible: answer.status === "infeasible" };
    const assignment = new Int32Array(names.length);
    placesOf(sub, answer.values).forEach((j, row) => {
      assignment[sub.free[row]!] = j;
    });
    return { assignment: measurePlan(problem, assignment).isFeasible ? assignment : null, isInfeasible: false };
  }

  /** No placement keeps all bounds together: which one, left out, would let one exist? */
  private async blame(near: Placement): Promise<Conflict[]> {
    const { problem } = this;
    const unbounded = Number.POSITIVE_INFINITY;
    const relaxations: readonly (readonly [Conflict["constraint"], number, Partial<PlanProblem>])[] = [
      ["memory", problem.memoryMbMax, { memoryMbMax: unbounded }],
      ["rate", problem.rateRpsMax, { rateRpsMax: unbounded }],
      ["disruption", problem.costMax, { costMax: unbounded }],
    ];
    const bounds = relaxations.filter(([, bound]) => bound < unbounded);
    const conflicts: Conflict[] = [];
    for (const [constraint, bound, change] of bounds) {
      const relaxed = { ...problem, ...change };
      const greedy = greedyPlan(relaxed, this.random, this.isOver);
      let assignment: Assignment | null = greedy.of;
      if (!measurePlan(relaxed, assignment).isFeasible) {
        assignment = (await this.solveFeasibility(relaxed, near)).assignment;
      }
      if (assignment === null) continue;
      const broken = measurePlan(problem, assignment).violations.filter((each) => each.constraint === constraint);
      const found = broken.reduce((max, { value }) => Math.max(max, value), 0);
      const [unit, symbol] = UNITS[constraint];
      conflicts.push({
        constraint,
        reach: "total",
        message:
          `${symbol} of ${show(bound)}${unit} cannot be kept together with the other bounds (proved); without it there is ` +
          `a placement, the one found needs ${show(found)}${unit}`,
      });
    }
    if (conflicts.length > 0) return conflicts;
    return bounds.map(([constraint, bound]) => ({
      constraint,
      reach: "total",
      message: `${UNITS[constraint][1]} of ${show(bound)}${UNITS[constraint][0]} cannot be kept together with the other bounds (proved)`,
    }));
  }
}

const SEEK_KICKS_MAX = 400;

const UNITS: Readonly<Record<Conflict["constraint"], readonly [unit: string, symbol: string]>> = {
  memory: [" MB", "the memory of an accelerator (S_max)"],
  rate: [" requests/s", "the rate of a sub-cluster (R_max)"],
  disruption: ["", "the disruption bound (C_max)"],
};

/** Relative excess over all bounds: what is left to mend. */
function excessOf({ violations }: PlanMeasure): number {
  let excess = 0;
  for (const { value, bound } of violations) excess += (value - bound) / Math.max(bound, 1);
  return excess;
}

function everything(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Lets whoever else lives in this thread have a turn. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
