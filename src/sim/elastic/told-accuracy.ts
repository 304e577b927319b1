/** What elastic queues are told of how often answers are right of late, a second after the other: the simulated driver of RecentAccuracy. */
import { type ElasticProfile, variantOf } from "../../core/latency/elastic.js";
import { RecentAccuracy } from "../../core/latency/recent-accuracy.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { SimulatedGroup } from "../simulated-group.js";
import type { TrueAnswers } from "./true-answers.js";

const EVERY_US = 1_000_000;

/** A queue that wants to be told. */
interface Told {
  readonly group: SimulatedGroup;
  readonly key: number;
  readonly model: number;
  readonly elastic: ElasticProfile;
  readonly recent: RecentAccuracy;
  rows: readonly ArrayLike<number>[];
}

export class ToldAccuracy {
  private readonly queues: Told[] = [];
  private readonly answers: TrueAnswers;
  private readonly isTruth: boolean;
  private dueAt = EVERY_US;

  /** @param isTruth they are told what is true in place of what is estimated: a bound on what estimating may earn. */
  constructor(answers: TrueAnswers, isTruth = false) {
    this.answers = answers;
    this.isTruth = isTruth;
  }

  /** Of a queue that goes by the profile nothing is kept. */
  add(group: SimulatedGroup, key: number, model: number, elastic: ElasticProfile): void {
    if (!group.scheduler.takesAccuracy(key)) return;
    const recent = new RecentAccuracy(elastic.variants.length);
    this.queues.push({ group, key, model, elastic, recent, rows: elastic.accuracy });
  }

  batchEnded(batch: BatchId, endAt: number, group: SimulatedGroup): void {
    const { batches, requests } = group.scheduler;
    const told = this.queues.find((queue) => queue.group === group && queue.key === batches.queue[batch]!);
    if (told === undefined) return;
    const variant = batches.variant[batch]!;
    const index = variantOf(told.elastic, variant);
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      const [kind, tag] = [requests.kind[member]!, requests.tag[member]!];
      const confidence = this.answers.confidence(told.model, kind, tag, variant, requests.arrivalAt[member]!);
      told.recent.observed(kind, index, confidence, endAt);
    }
  }

  /** Between two events. */
  tell(at: number): void {
    if (at < this.dueAt) return;
    this.dueAt = at + EVERY_US;
    for (const told of this.queues) {
      const { group, key, model, elastic, recent } = told;
      const rows = this.isTruth ? this.answers.accuracies(model, at) : recent.estimates(elastic.accuracy, at);
      if (rows === told.rows) continue;
      told.rows = rows;
      group.scheduler.accuracyChanged(key, rows, at);
    }
  }
}
