import type { AllocationProblem, Allocator } from "../allocation/allocation.js";
import { allocateByRate, gammaForRate } from "../allocation/rate-rule.js";
import { WindowRate } from "./window-rate.js";
import type { BatchLine, WorkPlanner } from "./work-planner.js";

export interface OtasWorkOptions {
  /** beta: so few batches, and fewer, get their gamma by the rate. */
  readonly few: number;
  /** kappa: batches of a larger mean utility get the last gamma, where the rate decides. */
  readonly critical: number;
  /** The rate decides for so long after the first request, µs. */
  readonly initialUs: number;
  /** f(q): by way, the rate (requests/s) below which it is chosen. */
  readonly rateMax: Float64Array;
}

/** OTAS §III-D: gamma by the rate for few batches and in the first seconds (Algorithm 3), by an allocator otherwise (Algorithm 2). */
export class OtasWork implements WorkPlanner {
  private readonly rate = new WindowRate();
  private readonly meanUtility: Float64Array;
  private beganAt = Number.NaN;
  private readonly allocator: Allocator;
  private readonly options: OtasWorkOptions;

  constructor(allocator: Allocator, batchesMax: number, options: OtasWorkOptions) {
    this.allocator = allocator;
    this.options = options;
    this.meanUtility = new Float64Array(batchesMax);
  }

  arrived(at: number): void {
    if (Number.isNaN(this.beganAt)) this.beganAt = at;
    this.rate.observe(at);
  }

  sent(at: number): void {
    this.rate.closed(at);
  }

  plan(line: BatchLine, chosen: Int32Array, at: number): void {
    const { few, critical, initialUs, rateMax } = this.options;
    const { count, dueAt, timeUs, utility, startAt } = line;
    const problem: AllocationProblem = { count, gammas: rateMax.length, dueAt, timeUs, utility };
    if (count > few && at - this.beganAt >= initialUs) this.allocator.allocate(problem, startAt, chosen);
    else {
      for (let index = 0; index < count; index++) {
        const { members, weight } = line.batches[index]!;
        this.meanUtility[index] = weight / members.length;
      }
      const gamma = gammaForRate(rateMax, this.rate.perS(at) / line.accelerators);
      allocateByRate(problem, this.meanUtility, startAt, { gamma, criticalUtility: critical }, chosen);
    }
  }
}
