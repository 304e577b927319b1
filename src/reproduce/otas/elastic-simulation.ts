import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import { createPolicy } from "../../policies/registry.js";
import { TrueAnswers } from "../../sim/elastic/true-answers.js";
import { Simulation } from "../../sim/simulation.js";
import type { Choice } from "../point.js";

/** A run of one elastic model that tells of its batches which part of each was answered right (Figure 11). */
export class ElasticSimulation extends Simulation {
  /** Batches by the part that was right: step k has those of [k / steps, (k + 1) / steps), the last one those with all right. */
  readonly batchesByRight: Float64Array;
  private readonly answersOf: TrueAnswers;
  private readonly steps: number;

  constructor(scenario: ExpandedScenario, { policy, options = {} }: Choice, seed: number, steps: number) {
    super(scenario, createPolicy(policy, options), seed);
    this.steps = steps;
    this.batchesByRight = new Float64Array(steps + 1);
    this.answersOf = TrueAnswers.of(scenario, seed)!;
  }

  override batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    const { batches, requests } = this.scheduler;
    let right = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      const [kind, tag, arrivalAt] = [requests.kind[member]!, requests.tag[member]!, requests.arrivalAt[member]!];
      if (this.answersOf.isRight(0, kind, tag, batches.variant[batch]!, arrivalAt)) right++;
    }
    this.batchesByRight[Math.floor((right * this.steps) / batches.size[batch]!)]!++;
    super.batchEnded(batch, startAt, endAt);
  }
}
