/**
 * A placement under change: what each sub-cluster carries, and what a move or a swap would make of it, in O(1).
 *
 * The search minimises an energy that, unlike the objective, every sub-cluster takes part in: squared relative deviations
 * plus a penalty for what exceeds a bound. Sums are made anew for the sub-clusters that a change touches, so rounding
 * does not build up.
 */
import { violated } from "../core/invariant.js";
import { type Assignment, exceeds, type PlanProblem, placeCost } from "./problem.js";

/** Relative excess over a bound against squared relative deviation: any excess outweighs any evenness. */
const PENALTY = 1e6;

export class Placement {
  readonly problem: PlanProblem;
  readonly of: Assignment;
  readonly members: number[][];
  readonly rate: Float64Array;
  readonly memory: Float64Array;
  /** Energy of each sub-cluster as it is. */
  readonly energy: Float64Array;
  /** Counts changes of each sub-cluster. */
  readonly version: Int32Array;
  cost = 0;
  /** What `probe` found last. */
  private probedRate = 0;
  private probedMemory = 0;
  private probedDynamic = 0;
  private readonly position: Int32Array;
  private readonly dynamicFirst: Float64Array;
  private readonly dynamicSecond: Float64Array;

  /** @param assignment -1 for a model that is yet to be placed. Copied. */
  constructor(problem: PlanProblem, assignment: Assignment) {
    const { clusters } = problem;
    this.problem = problem;
    this.of = Int32Array.from(assignment);
    this.members = Array.from({ length: clusters }, () => []);
    this.rate = new Float64Array(clusters);
    this.memory = new Float64Array(clusters);
    this.energy = new Float64Array(clusters);
    this.version = new Int32Array(clusters);
    this.position = new Int32Array(assignment.length);
    this.dynamicFirst = new Float64Array(clusters);
    this.dynamicSecond = new Float64Array(clusters);
    this.assign(assignment);
  }

  /** Becomes another assignment. */
  assign(assignment: Assignment): void {
    for (const list of this.members) list.length = 0;
    this.of.set(assignment);
    this.cost = 0;
    for (let i = 0; i < this.of.length; i++) {
      const j = this.of[i]!;
      if (j < 0) continue;
      this.position[i] = this.members[j]!.push(i) - 1;
      this.cost += placeCost(this.problem, i, j);
    }
    for (let j = 0; j < this.members.length; j++) this.refresh(j);
  }

  /** Energy of sub-cluster `j` with `added` in and `removed` out of it; -1 for none. */
  energyWith(j: number, added: number, removed: number): number {
    this.probe(j, added, removed);
    return this.energyOf(this.probedRate, this.probedMemory, this.probedDynamic);
  }

  /** How far sub-cluster `j` would exceed its bounds, relative to the means; 0: it keeps them. */
  excessWith(j: number, added: number, removed: number): number {
    this.probe(j, added, removed);
    return this.excessOf(this.probedRate, this.probedMemory, this.probedDynamic);
  }

  private probe(j: number, added: number, removed: number): void {
    const { rateRps, memoryMb, dynamicMb } = this.problem;
    let rate = this.rate[j]!;
    let memory = this.memory[j]!;
    let dynamic = this.dynamicFirst[j]!;
    if (removed >= 0) {
      rate -= rateRps[removed]!;
      memory -= memoryMb[removed]!;
      if (dynamicMb[removed]! === dynamic) dynamic = this.dynamicSecond[j]!;
    }
    if (added >= 0) {
      rate += rateRps[added]!;
      memory += memoryMb[added]!;
      if (dynamicMb[added]! > dynamic) dynamic = dynamicMb[added]!;
    }
    this.probedRate = rate;
    this.probedMemory = memory;
    this.probedDynamic = dynamic;
  }

  /** What moving model `i` from where it is to `to` adds to the cost. */
  moveCost(i: number, to: number): number {
    const { problem } = this;
    return problem.current === null ? 0 : placeCost(problem, i, to) - placeCost(problem, i, this.of[i]!);
  }

  /** True if `added` more cost stays within the bound, or does not make an exceeded one worse. */
  affords(added: number): boolean {
    return added <= 0 || !exceeds(this.cost + added, this.problem.costMax);
  }

  place(i: number, to: number): void {
    const from = this.of[i]!;
    if (from === to) violated(`model ${i} is in sub-cluster ${to} already`);
    if (from >= 0) {
      const list = this.members[from]!;
      const last = list.pop()!;
      if (last !== i) {
        list[this.position[i]!] = last;
        this.position[last] = this.position[i]!;
      }
      this.cost -= placeCost(this.problem, i, from);
    }
    this.of[i] = to;
    this.position[i] = this.members[to]!.push(i) - 1;
    this.cost += placeCost(this.problem, i, to);
    if (from >= 0) this.refresh(from);
    this.refresh(to);
  }

  private refresh(j: number): void {
    const { rateRps, memoryMb, dynamicMb } = this.problem;
    let rate = 0;
    let memory = 0;
    let first = 0;
    let second = 0;
    for (const i of this.members[j]!) {
      rate += rateRps[i]!;
      memory += memoryMb[i]!;
      const dynamic = dynamicMb[i]!;
      if (dynamic > first) {
        second = first;
        first = dynamic;
      } else if (dynamic > second) second = dynamic;
    }
    this.rate[j] = rate;
    this.memory[j] = memory;
    this.dynamicFirst[j] = first;
    this.dynamicSecond[j] = second;
    this.energy[j] = this.energyOf(rate, memory, first);
    this.version[j]!++;
  }

  private energyOf(rate: number, memory: number, dynamic: number): number {
    const { rateRpsMean, memoryMbMean, rateRpsScale, memoryMbScale, memoryWeight } = this.problem;
    const r = (rate - rateRpsMean) / rateRpsScale;
    const s = (memory - memoryMbMean) / memoryMbScale;
    return r * r + memoryWeight * s * s + PENALTY * this.excessOf(rate, memory, dynamic);
  }

  private excessOf(rate: number, memory: number, dynamic: number): number {
    const { rateRpsScale, memoryMbScale, rateRpsMax, memoryMbMax } = this.problem;
    let excess = 0;
    if (exceeds(rate, rateRpsMax)) excess += (rate - rateRpsMax) / rateRpsScale;
    if (exceeds(memory + dynamic, memoryMbMax)) excess += (memory + dynamic - memoryMbMax) / memoryMbScale;
    return excess;
  }
}
