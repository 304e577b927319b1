/** The gammas of each batch that can be in time and worth it: ascending in time and in utility, which is above 0. */
import type { AllocationProblem } from "./allocation.js";

export class BatchOptions {
  /** Those of batch b are [start[b], start[b + 1]). */
  readonly start: Int32Array;
  readonly timeUs: Float64Array;
  readonly utility: Float64Array;
  readonly gamma: Int32Array;

  constructor(batchesMax: number, gammasMax: number) {
    this.start = new Int32Array(batchesMax + 1);
    this.timeUs = new Float64Array(batchesMax * gammasMax);
    this.utility = new Float64Array(batchesMax * gammasMax);
    this.gamma = new Int32Array(batchesMax * gammasMax);
  }

  /** @param now when the accelerator is free, µs. */
  read(problem: AllocationProblem, now: number): void {
    let end = 0;
    for (let batch = 0; batch < problem.count; batch++) {
      this.start[batch] = end;
      for (let gamma = 0; gamma < problem.gammas; gamma++) this.insert(problem, batch, gamma, end + gamma);
      end = this.compact(end, end + problem.gammas, problem.dueAt[batch]! - now);
    }
    this.start[problem.count] = end;
  }

  /** By time, then the larger utility first. Times ascend with gamma up to the noise of a profile: mostly an append. */
  private insert(problem: AllocationProblem, batch: number, gamma: number, end: number): void {
    const timeUs = problem.timeUs[batch * problem.gammas + gamma]!;
    const utility = problem.utility[batch * problem.gammas + gamma]!;
    let at = end;
    for (; at > this.start[batch]!; at--) {
      const other = this.timeUs[at - 1]!;
      if (other < timeUs || (other === timeUs && this.utility[at - 1]! >= utility)) break;
      this.copy(at - 1, at);
    }
    this.timeUs[at] = timeUs;
    this.utility[at] = utility;
    this.gamma[at] = gamma;
  }

  /** Leaves those that earn more than all that take less time. @returns where they end. */
  private compact(first: number, end: number, roomUs: number): number {
    let most = 0;
    let to = first;
    for (let at = first; at < end && this.timeUs[at]! <= roomUs; at++) {
      if (!(this.utility[at]! > most)) continue;
      most = this.utility[at]!;
      this.copy(at, to++);
    }
    return to;
  }

  private copy(from: number, to: number): void {
    this.timeUs[to] = this.timeUs[from]!;
    this.utility[to] = this.utility[from]!;
    this.gamma[to] = this.gamma[from]!;
  }
}
